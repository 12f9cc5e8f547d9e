// Counts the random blocks that are drawn from each generator during capture. Before every replay it reserves
// as many again and uploads the position where they begin.
#include "mezzo/core/cuda/graph_draws.h"

#include <algorithm>

#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/core/cuda/staging.h"
#include "mezzo/core/current_op.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {

RandomRange GraphDraws::record(const Ref<mezzo::detail::Sequence>& sequence, std::uint64_t blocks,
                               Device device) {
  if (!(device == device_)) {
    const std::string_view op = mezzo::detail::current_op;
    throw StateError(op.empty() ? std::string_view("Generator::draw") : op,
                     "random numbers on " + to_string(device_) + ", whose work is recorded",
                     to_string(device),
                     "draw there, or before the captured step: replays would see the same numbers again");
  }
  auto source = std::find_if(sources_.begin(), sources_.end(),
                             [&](const Source& drawn) { return drawn.sequence == sequence; });
  if (source == sources_.end()) {
    const OrdinaryMemoryScope outside;  // other work of the graph must not use the place
    source = sources_.insert(source, {sequence, make_ref<Storage>(sizeof(GeneratorState), device_), 0});
  }
  const RandomRange range{{0, source->blocks}, static_cast<const GeneratorState*>(source->base->data())};
  source->blocks += blocks;
  return range;
}

void GraphDraws::set_state(mezzo::detail::Sequence& /*sequence*/, const GeneratorState& /*state*/) {
  throw StateError("Generator::set_state", "no step to be recorded on this thread", "one that is",
                   "replays would not seed again: do it before or between calls of the captured step");
}

void GraphDraws::before_replay(const Stream& stream) {
  if (sources_.empty()) return;
  refuse_in_capture(stream, "replaying a step that draws random numbers");
  replayed_.wait(stream);
  for (const Source& source : sources_) {
    const GeneratorState base = source.sequence->advance(source.blocks);
    staging(device_.index).upload(source.base->data(), &base, sizeof(base), stream);
  }
}

void GraphDraws::after_replay(const Stream& stream) {
  if (!sources_.empty()) replayed_.record(stream);
}

}  // namespace mezzo::cuda
