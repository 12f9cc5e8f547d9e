// Calls of Tensor's members with arguments drawn.
#pragma once

#include "misuse/misuse.h"

namespace mezzo::misuse {

/// A member of Tensor, called on a tensor drawn with arguments drawn.
template <class R, class... A>
Function member(const char* name, R (Tensor::*function)(A...) const) {
  return {name, [function](Draw& draw) {
            const Tensor self = draw_tensor(draw);
            const auto call = [&](auto&... arguments) { static_cast<void>((self.*function)(arguments...)); };
            WithArguments<A...>{call, kept<A>(draw)...};
          }};
}
template <class R>
Function member(const char* name, R (Tensor::*function)() const) {
  return {name, [function](Draw& draw) { static_cast<void>((draw_tensor(draw).*function)()); }};
}

using T = const Tensor&;

}  // namespace mezzo::misuse
