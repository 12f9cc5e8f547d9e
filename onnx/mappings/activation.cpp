// Activations. Those that ONNX lacks are written as their formulas.
#include <cmath>
#include <numbers>

#include "mezzo/onnx/mappings/common.h"

namespace mezzo::onnx {

namespace {

float attribute_of(double value) { return static_cast<float>(value); }

/// A node with one attribute, taken from the op's.
template <Literal kOp, Literal kFrom, Literal kTo = "alpha">
void with_attribute(Call& c) {
  c.set(c.node(kOp.text, {operand(c, 0)}, {{kTo.text, attribute_of(c.real(kFrom.text))}}));
}

/// x / 2 (1 + erf(x / sqrt 2)), or its approximation by tanh.
void gelu(Call& c) {
  const std::string x = operand(c, 0), half = c.node("Mul", {x, number(c, 0.5)});
  std::string inner;
  if (c.text("approximate") == "none") {
    inner = c.node("Erf", {c.node("Mul", {x, number(c, std::numbers::sqrt2 / 2)})});
  } else {
    const std::string cube = c.node("Mul", {x, c.node("Mul", {x, x})});
    const std::string sum = c.node("Add", {x, c.node("Mul", {cube, number(c, 0.044715)})});
    inner = c.node("Tanh", {c.node("Mul", {sum, number(c, std::sqrt(2 / std::numbers::pi))})});
  }
  c.set(c.node("Mul", {half, c.node("Add", {inner, number(c, 1)})}));
}
void silu(Call& c) {
  const std::string x = operand(c, 0);
  c.set(c.node("Mul", {x, c.node("Sigmoid", {x})}));
}
void mish(Call& c) {
  const std::string x = operand(c, 0);
  c.set(c.node("Mul", {x, c.node("Tanh", {c.node("Softplus", {x})})}));
}
/// log(1 + exp(beta x)) / beta, and x where beta x is above the threshold.
void softplus(Call& c) {
  const std::string x = operand(c, 0), beta = number(c, c.real("beta"));
  const std::string scaled = c.node("Mul", {x, beta});
  const std::string soft = c.node("Div", {c.node("Softplus", {scaled}), beta});
  const std::string is_above = c.node("Greater", {scaled, number(c, c.real("threshold"))});
  c.set(c.node("Where", {is_above, x, soft}));
}
void logsigmoid(Call& c) { c.set(c.node("Neg", {c.node("Softplus", {c.node("Neg", {operand(c, 0)})})})); }
void tanhshrink(Call& c) {
  const std::string x = operand(c, 0);
  c.set(c.node("Sub", {x, c.node("Tanh", {x})}));
}
/// x moved towards 0 by `bias` times lambd, 0 within lambd.
template <int kBias>
void shrink(Call& c) {
  const double lambd = c.real("lambd");
  c.set(c.node("Shrink", {operand(c, 0)},
               {{"lambd", attribute_of(lambd)}, {"bias", attribute_of(kBias * lambd)}}));
}
void hardtanh(Call& c) {
  c.set(c.node("Clip", {operand(c, 0), number(c, c.real("min_val")), number(c, c.real("max_val"))}));
}
void relu6(Call& c) { c.set(c.node("Clip", {operand(c, 0), number(c, 0), number(c, 6)})); }
void hardsigmoid(Call& c) {
  c.set(c.node("HardSigmoid", {operand(c, 0)}, {{"alpha", attribute_of(1.0 / 6)}, {"beta", 0.5F}}));
}
void threshold(Call& c) {
  const std::string x = operand(c, 0);
  const std::string is_above = c.node("Greater", {x, number(c, c.real("threshold"))});
  c.set(c.node("Where", {is_above, x, number(c, c.real("value"))}));
}
/// max(0, x) + min(0, alpha (exp(x / alpha) - 1)): ONNX's Celu is for f32 alone.
void celu(Call& c) {
  const std::string x = operand(c, 0), zero = number(c, 0), alpha = number(c, c.real("alpha"));
  const std::string low = c.node("Exp", {c.node("Div", {c.node("Min", {x, zero}), alpha})});
  const std::string scaled = c.node("Mul", {c.node("Sub", {low, number(c, 1)}), alpha});
  c.set(c.node("Add", {c.node("Max", {x, zero}), scaled}));
}
/// The slope's one dim is dim 1 of x.
void prelu(Call& c) {
  std::string slope = operand(c, 1);
  if (c.in(0).dim() > 2 && c.in(1).numel() > 1) {
    Sizes sizes(static_cast<std::size_t>(c.in(0).dim() - 1), Size{1, 1});
    sizes[0] = c.in_sizes(1)[0];
    slope = c.reshaped(slope, sizes);
  }
  c.set(c.node("PRelu", {operand(c, 0), slope}));
}
void glu(Call& c) {
  const std::int64_t dim = c.dim("dim"), half = c.out().size(dim);
  const auto parts = c.nodes("Split", {operand(c, 0), c.list(std::vector{half, half})}, {{"axis", dim}}, 2);
  c.set(c.node("Mul", {parts[0], c.node("Sigmoid", {parts[1]})}));
}
template <Literal kOp>
void along_dim(Call& c) {
  if (c.in(0).dim() == 0) {  // of one number
    const std::string one = c.reshaped(operand(c, 0), {{1, 1}});
    return c.set(c.reshaped(c.node(kOp.text, {one}), {}));
  }
  c.set(c.node(kOp.text, {operand(c, 0)}, {{"axis", c.dim("dim")}}));
}
void softmin(Call& c) {
  c.set(c.node("Softmax", {c.node("Neg", {operand(c, 0)})}, {{"axis", c.dim("dim")}}));
}

constexpr Mapping kMappings[]{
    {"relu", same<"Relu">},
    {"sigmoid", same<"Sigmoid">},
    {"tanh", same<"Tanh">},
    {"softsign", same<"Softsign">},
    {"selu", same<"Selu">},
    {"hardswish", same<"HardSwish">},
    {"elu", with_attribute<"Elu", "alpha">},
    {"leaky_relu", with_attribute<"LeakyRelu", "negative_slope">},
    {"celu", celu},
    {"gelu", gelu},
    {"silu", silu},
    {"mish", mish},
    {"softplus", softplus},
    {"logsigmoid", logsigmoid},
    {"tanhshrink", tanhshrink},
    {"softshrink", shrink<1>},
    {"hardshrink", shrink<0>},
    {"hardtanh", hardtanh},
    {"relu6", relu6},
    {"hardsigmoid", hardsigmoid},
    {"threshold", threshold},
    {"prelu", prelu},
    {"glu", glu},
    {"softmax", along_dim<"Softmax">},
    {"log_softmax", along_dim<"LogSoftmax">},
    {"softmin", softmin},
};

}  // namespace

std::span<const Mapping> activation_mappings() { return kMappings; }

}  // namespace mezzo::onnx
