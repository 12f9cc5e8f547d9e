// The arguments and results of a recurrent cell's functor: the numbers that belong to one element of a state.
#pragma once

#include <cstddef>

namespace mezzo::kernels {

/// One number of each of N arrays.
template <class T, std::size_t N>
struct Numbers {
  T at[N];
};

}  // namespace mezzo::kernels
