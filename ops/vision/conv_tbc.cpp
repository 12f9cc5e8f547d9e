// conv_tbc: conv1d of tensors with time first, and channels last.
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

constexpr std::string_view kConvTbc = "conv_tbc";

struct ConvTbcAttrs {
  std::int64_t pad = 0;
  MEZZO_FIELDS(ConvTbcAttrs, pad)
};

Outputs conv_tbc_forward(const ForwardArgs<ConvTbcAttrs>& args) {
  const Tensor &x = args.in(0), &weight = args.in(1), &bias = args.in(2);
  if (x.dim() != 3)
    throw ShapeError(kConvTbc, "x of shape [T, N, C]", to_string(x.shape()), "put time first, channels last");
  if (weight.dim() != 3 || weight.size(1) != x.size(2)) {
    throw ShapeError(kConvTbc, "a weight of shape [K, " + std::to_string(x.size(2)) + ", O]",
                     to_string(weight.shape()), "one number per place, input and output channel");
  }
  if (bias.shape() != Shape{weight.size(2)}) {
    throw ShapeError(kConvTbc, "a bias of shape " + to_string(Shape{weight.size(2)}), to_string(bias.shape()),
                     "one number per output channel");
  }
  if (args.attrs.pad < 0)
    throw ValueError(kConvTbc, "a pad of at least 0", std::to_string(args.attrs.pad), "narrow x instead");
  const Tensor y =
      conv1d(permute(x, {1, 2, 0}), permute(weight, {2, 1, 0}), bias, {.padding = args.attrs.pad});
  return permute(y, {2, 0, 1}).contiguous();
}

std::vector<Sample<ConvTbcAttrs>> conv_tbc_samples() {
  using op_samples::real;
  return {{{real({5, 2, 3}), real({2, 3, 4}), real({4})}, {}},
          {{real({4, 1, 2}), real({3, 2, 2}), real({2})}, {.pad = 2}}};
}
constexpr Op<ConvTbcAttrs> conv_tbc_op = plain_op<ConvTbcAttrs>(
    kConvTbc, Category::lower_precision, conv_tbc_samples, conv_tbc_forward, kDecomposed, {~0U, 0});
const Registered conv_tbc_registered{conv_tbc_op};

}  // namespace

Tensor conv_tbc(const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t pad) {
  return bind(conv_tbc_op, {x, weight, bias}, {pad});
}

}  // namespace mezzo
