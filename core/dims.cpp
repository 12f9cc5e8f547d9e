// The one error of Dims, out of line because it is rare.
#include "mezzo/core/dims.h"

namespace mezzo {

void detail::refuse_dim() {
  throw ShapeError("shape", "at most 8 dimensions", "more", "flatten some of them");
}

}  // namespace mezzo
