// A second descriptor object for to_dtype.
#include "mezzo/autograd/leaf_cast.h"

#include "mezzo/ops/cast.h"

namespace mezzo::autograd {

const Op<ToDTypeAttrs>& leaf_cast_op() {
  static const Op<ToDTypeAttrs> op = to_dtype_descriptor();
  return op;
}

bool is_leaf_cast(const OpInfo& info) { return &info == &leaf_cast_op().info; }

}  // namespace mezzo::autograd
