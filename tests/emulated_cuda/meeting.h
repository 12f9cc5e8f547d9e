// Work of several streams at once, and threads of the program that wait for each other in it.
#pragma once

#include "streams.h"

namespace emulated_cuda {

/// Runs the meeting that is the first entry of `stream`, once all its streams have come to it. False: that
/// needs patience.
bool run_meeting(CUstream_st& stream, Meeting& meeting, Patience patience);
/// For threads that wait: a meeting has one more stream, or was run or cancelled.
void announce_progress();

}  // namespace emulated_cuda
