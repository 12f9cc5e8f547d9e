// What the functor of a recurrent cell takes and gives: the numbers that belong to one element of a state.
#pragma once

#include <cstddef>

namespace mezzo::kernels {

/// One number of each of N arrays.
template <class T, std::size_t N>
struct Numbers {
  T at[N];
};

}  // namespace mezzo::kernels
