// One function per ONNX op, as the list of ops says what it does: https://onnx.ai/onnx/operators.
#include "onnx/evaluate.h"

#include <limits>
#include <variant>

#include "onnx/node_call.h"

namespace mezzo::onnx::testing {

namespace {

Op unary(Tensor (*f)(const Tensor&)) {
  return [f](At& at) -> Results { return {f(at[0])}; };
}
/// ONNX has no promotion.
Op binary(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](At& at) -> Results {
    Tensor result = at[0];
    for (std::size_t i = 1; i < at.all().size(); ++i) {
      if (at[i].dtype() != result.dtype()) fail("operands of two dtypes");
      result = f(result, at[i]);
    }
    return {result};
  };
}
Tensor added(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor subtracted(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor quotient(const Tensor& a, const Tensor& b) {
  return is_floating(a.dtype()) ? div(a, b) : div(a, b, RoundingMode::trunc);
}
Tensor power(const Tensor& a, const Tensor& b) { return pow(a, b); }

Op reduction(const std::function<Tensor(const Tensor&, const Dims&, bool)>& f) {
  return [f](At& at) -> Results {
    const Integers axes = at.has(1) ? integers_of(at[1]) : at.list("axes");
    return {f(at[0], dims_of(axes), at.integer("keepdims", 1) == 1)};
  };
}

Ops pointwise_ops() {
  return {
      {"Identity", [](At& at) -> Results { return {at[0]}; }},
      {"Abs", unary(mezzo::abs)},
      {"Neg", unary(mezzo::neg)},
      {"Sign", unary(mezzo::sign)},
      {"Exp", unary(mezzo::exp)},
      {"Log", unary(mezzo::log)},
      {"Sqrt", unary(mezzo::sqrt)},
      {"Reciprocal", unary(mezzo::reciprocal)},
      {"Erf", unary(mezzo::erf)},
      {"Ceil", unary(mezzo::ceil)},
      {"Floor", unary(mezzo::floor)},
      {"Sin", unary(mezzo::sin)},
      {"Cos", unary(mezzo::cos)},
      {"Tan", unary(mezzo::tan)},
      {"Asin", unary(mezzo::asin)},
      {"Acos", unary(mezzo::acos)},
      {"Atan", unary(mezzo::atan)},
      {"Sinh", unary(mezzo::sinh)},
      {"Cosh", unary(mezzo::cosh)},
      {"Round", [](At& at) -> Results { return {round(at[0])}; }},
      {"Relu", unary(mezzo::relu)},
      {"Sigmoid", unary(mezzo::sigmoid)},
      {"Tanh", unary(mezzo::tanh)},
      {"Softsign", unary(mezzo::softsign)},
      {"Selu", unary(mezzo::selu)},
      {"HardSwish", unary(mezzo::hardswish)},
      {"Softplus", [](At& at) -> Results { return {logaddexp(at[0], zeros_like(at[0]))}; }},
      {"Not", unary(mezzo::logical_not)},
      {"IsNaN", unary(mezzo::isnan)},
      {"IsInf", unary(mezzo::isinf)},
  };
}
Ops activation_ops() {
  return {
      {"Elu", [](At& at) -> Results { return {elu(at[0], at.real("alpha", 1))}; }},
      {"LeakyRelu", [](At& at) -> Results { return {leaky_relu(at[0], at.real("alpha", 0.01F))}; }},
      {"HardSigmoid",
       [](At& at) -> Results {
         return {clamp(at[0] * at.real("alpha", 0.2F) + at.real("beta", 0.5F), 0, 1)};
       }},
      {"Shrink",
       [](At& at) -> Results {
         const double lambd = at.real("lambd", 0.5F), bias = at.real("bias", 0);
         return {where(lt(at[0], -lambd), at[0] + bias,
                       where(gt(at[0], lambd), at[0] - bias, zeros_like(at[0])))};
       }},
      {"PRelu", [](At& at) -> Results { return {where(ge(at[0], 0), at[0], at[0] * at[1])}; }},
      {"Clip",
       [](At& at) -> Results {
         Tensor x = at[0];
         if (at.has(1)) x = maximum(x, at[1]);
         return {at.has(2) ? minimum(x, at[2]) : x};
       }},
  };
}
Ops binary_ops() {
  return {
      {"Add", binary(added)},
      {"Sub", binary(subtracted)},
      {"Mul", binary(mezzo::mul)},
      {"Div", binary(quotient)},
      {"Pow", binary(power)},
      {"Max", binary(mezzo::maximum)},
      {"Min", binary(mezzo::minimum)},
      {"Mod",
       [](At& at) -> Results {
         const bool is_fmod = at.integer("fmod", 0) == 1;
         if (!is_fmod && is_floating(at[0].dtype())) fail("Mod of reals without fmod");
         return {is_fmod ? fmod(at[0], at[1]) : remainder(at[0], at[1])};
       }},
      {"Equal", binary(mezzo::eq)},
      {"Less", binary(mezzo::lt)},
      {"LessOrEqual", binary(mezzo::le)},
      {"Greater", binary(mezzo::gt)},
      {"GreaterOrEqual", binary(mezzo::ge)},
      {"And", binary(mezzo::logical_and)},
      {"Or", binary(mezzo::logical_or)},
      {"Where",
       [](At& at) -> Results {
         if (at[1].dtype() != at[2].dtype()) fail("Where of two dtypes");
         return {where(at[0], at[1], at[2])};
       }},
      {"Softmax", [](At& at) -> Results { return {softmax(at[0], at.integer("axis", -1))}; }},
      {"LogSoftmax", [](At& at) -> Results { return {log_softmax(at[0], at.integer("axis", -1))}; }},
      {"Cast",
       [](At& at) -> Results {
         for (const DType dtype : kAllDTypes) {
           if (data_type(dtype) == at.integer("to", 0)) return {at[0].to(dtype)};
         }
         fail("a dtype to cast to");
       }},
  };
}

Tensor sliced(const Tensor& x, std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step) {
  if (step > 0) return slice(x, dim, begin, end, step);
  if (step != -1 || begin != -1 || end != std::numeric_limits<std::int64_t>::min()) fail("a slice backwards");
  return flip(x, {dim});
}

Tensor padded(At& at) {
  const Integers pads = integers_of(at[1]);
  const std::size_t dims = pads.size() / 2;
  Integers pairs;  // of the last dim first
  for (std::size_t d = dims; d-- > 0;) {
    pairs.push_back(pads[d]);
    pairs.push_back(pads[dims + d]);
  }
  while (pairs.size() > 2 && pairs.back() == 0 && pairs[pairs.size() - 2] == 0)
    pairs.resize(pairs.size() - 2);
  const std::string mode = at.text("mode", "constant");
  const IntList list(pairs);
  if (mode == "constant") return pad(at[0], list, PadMode::constant, at.has(2) ? at[2].item() : 0.0);
  return pad(at[0], list, mode == "edge" ? PadMode::replicate : PadMode::reflect);
}

Tensor reshaped(At& at) {
  Integers sizes = integers_of(at[1]);
  const bool keeps_zero = at.integer("allowzero", 0) == 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0 && !keeps_zero) sizes[d] = at[0].size(static_cast<std::int64_t>(d));
  }
  return reshape(at[0], shape_of(sizes));
}

Tensor gathered(At& at) {
  const std::int64_t axis = at.integer("axis", 0);
  const Tensor index = at[1].to(DType::i64);
  if (index.dim() == 0) return select(at[0], axis, index.item<std::int64_t>());
  Integers shape(at[0].shape().begin(), at[0].shape().end());
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, index.shape().begin(), index.shape().end());
  const Tensor places = where(lt(index, 0), index + at[0].size(axis), index);
  return reshape(index_select(at[0], axis, flatten(places)), shape_of(shape));
}

/// [.., k] indices of the first k dims.
Tensor gathered_nd(const Tensor& x, const Tensor& index) {
  Tensors list;
  for (std::int64_t i = 0; i < index.size(-1); ++i) list.push_back(select(index, -1, i));
  return mezzo::index(x, list);
}

Ops shape_ops() {
  return {
      {"Reshape", [](At& at) -> Results { return {reshaped(at)}; }},
      {"Transpose", [](At& at) -> Results { return {permute(at[0], dims_of(at.list("perm")))}; }},
      {"Expand",
       [](At& at) -> Results {
         const Tensor one = ones(shape_of(integers_of(at[1])), {.dtype = DType::boolean});
         return {where(one, at[0], at[0])};
       }},
      {"Squeeze", [](At& at) -> Results { return {squeeze(at[0], dims_of(integers_of(at[1])))}; }},
      {"Unsqueeze",
       [](At& at) -> Results {
         Tensor x = at[0];
         for (const std::int64_t dim : integers_of(at[1])) x = unsqueeze(x, dim);
         return {x};
       }},
  };
}
Ops piece_ops() {
  return {
      {"Slice",
       [](At& at) -> Results {
         Tensor x = at[0];
         const Integers begins = integers_of(at[1]), ends = integers_of(at[2]), axes = integers_of(at[3]),
                        steps = integers_of(at[4]);
         for (std::size_t i = 0; i < axes.size(); ++i) x = sliced(x, axes[i], begins[i], ends[i], steps[i]);
         return {x};
       }},
      {"Concat",
       [](At& at) -> Results {
         for (const Tensor& part : at.all()) {
           if (part.dtype() != at[0].dtype()) fail("Concat of two dtypes");
         }
         return {cat(Tensors(at.all().begin(), at.all().end()), at.integer("axis", 0))};
       }},
      {"Split",
       [](At& at) -> Results {
         const Integers sizes = integers_of(at[1]);
         const Tensors parts = split(at[0], IntList(sizes.begin(), sizes.end()), at.integer("axis", 0));
         return {parts.begin(), parts.end()};
       }},
      {"Tile", [](At& at) -> Results { return {at[0].repeat(shape_of(integers_of(at[1])))}; }},
      {"Pad", [](At& at) -> Results { return {padded(at)}; }},
      {"Trilu",
       [](At& at) -> Results {
         const std::int64_t k = at.has(1) ? at[1].item<std::int64_t>() : 0;
         return {at.integer("upper", 1) == 1 ? triu(at[0], k) : tril(at[0], k)};
       }},
      {"Shape",
       [](At& at) -> Results {
         return {tensor(Integers(at[0].shape().begin(), at[0].shape().end()), {.dtype = DType::i64})};
       }},
      {"ConstantOfShape",
       [](At& at) -> Results {
         const Tensor value = at.get<Tensor>("value", zeros({1}));
         return {full(shape_of(integers_of(at[0])), value.item(), {.dtype = value.dtype()})};
       }},
      {"Range",
       [](At& at) -> Results {
         return {arange(at[0].item<std::int64_t>(), at[1].item<std::int64_t>(), at[2].item<std::int64_t>())};
       }},
  };
}
Ops index_ops() {
  return {
      {"Gather", [](At& at) -> Results { return {gathered(at)}; }},
      {"GatherElements", [](At& at) -> Results { return {gather(at[0], at.integer("axis", 0), at[1])}; }},
      {"GatherND", [](At& at) -> Results { return {gathered_nd(at[0], at[1])}; }},
      {"ScatterElements",
       [](At& at) -> Results {
         const std::int64_t axis = at.integer("axis", 0);
         const std::string reduction = at.text("reduction", "none");
         if (reduction == "none") return {scatter(at[0], axis, at[1], at[2])};
         const std::map<std::string, ScatterReduction> kinds{{"add", ScatterReduction::sum},
                                                             {"mul", ScatterReduction::prod},
                                                             {"max", ScatterReduction::amax},
                                                             {"min", ScatterReduction::amin}};
         return {scatter_reduce(at[0], axis, at[1], at[2], kinds.at(reduction))};
       }},
      {"ReduceProd", reduction([](auto& x, auto& dims, bool keep) {
         return dims.size() == 1 ? prod(x, dims[0], keep) : prod(x);
       })},
      {"OneHot", [](At& at) -> Results { return {one_hot(at[0], at[1].item<std::int64_t>())}; }},
  };
}
Ops reduction_ops() {
  return {
      {"ReduceSum", reduction([](auto& x, auto& dims, bool keep) { return sum(x, dims, keep, x.dtype()); })},
      {"ReduceMean", reduction([](auto& x, auto& dims, bool keep) { return mean(x, dims, keep); })},
      {"ReduceMax", reduction([](auto& x, auto& dims, bool keep) { return amax(x, dims, keep); })},
      {"ReduceMin", reduction([](auto& x, auto& dims, bool keep) { return amin(x, dims, keep); })},
      {"ReduceL1", reduction([](auto& x, auto& dims, bool keep) { return norm(x, 1, dims, keep); })},
      {"ReduceL2", reduction([](auto& x, auto& dims, bool keep) { return norm(x, 2, dims, keep); })},
      {"ReduceLogSumExp", reduction([](auto& x, auto& dims, bool keep) { return logsumexp(x, dims, keep); })},
      {"ArgMax",
       [](At& at) -> Results {
         return {argmax(at[0], at.integer("axis", 0), at.integer("keepdims", 1) == 1)};
       }},
      {"ArgMin",
       [](At& at) -> Results {
         return {argmin(at[0], at.integer("axis", 0), at.integer("keepdims", 1) == 1)};
       }},
      {"TopK",
       [](At& at) -> Results {
         const ValuesIndices result = topk(at[0], at[1].item<std::int64_t>(), at.integer("axis", -1),
                                           at.integer("largest", 1) == 1, at.integer("sorted", 1) == 1);
         return {result.values, result.indices};
       }},
      {"CumSum", [](At& at) -> Results { return {cumsum(at[0], at[1].item<std::int64_t>())}; }},
      {"MatMul", binary([](const Tensor& a, const Tensor& b) { return matmul(a, b); })},
      {"Gemm",
       [](At& at) -> Results {
         if (at.integer("transB", 0) != 1 || at[0].dim() != 2) fail("a Gemm that is not written");
         return {linear(at[0], at[1], at.has(2) ? at[2] : Tensor())};
       }},
      {"Einsum",
       [](At& at) -> Results {
         return {einsum(at.text("equation", ""), Tensors(at.all().begin(), at.all().end()))};
       }},
  };
}

/// The size that an output says, for the sizes that names have got so far.
void require_as_said(const ValueInfo& said, const Tensor& got, std::map<std::string, std::int64_t>& named) {
  if (got.dtype() != said.dtype || got.shape().size() != said.shape.size())
    fail(said.name + " is another than said");
  for (std::size_t d = 0; d < said.shape.size(); ++d) {
    const std::int64_t size = got.shape()[d];
    const auto* number = std::get_if<std::int64_t>(&said.shape[d]);
    const std::int64_t wanted =
        number != nullptr ? *number : named.emplace(std::get<std::string>(said.shape[d]), size).first->second;
    if (size != wanted) fail("a size of " + said.name + " is another than said");
  }
}

const Ops& all() {
  static const Ops kAll = [] {
    Ops ops;
    for (const auto family : {pointwise_ops, activation_ops, binary_ops, shape_ops, piece_ops, index_ops,
                              reduction_ops, layer_ops})
      ops.merge(family());
    return ops;
  }();
  return kAll;
}

}  // namespace

std::vector<Tensor> evaluate(const Model& model, const std::vector<Tensor>& inputs) {
  const NoGrad no_grad;
  std::map<std::string, Tensor> values{{"", Tensor()}};
  std::map<std::string, std::int64_t> named;
  if (inputs.size() != model.inputs.size()) fail("another number of inputs");
  for (const Initializer& one : model.initializers) {
    if (!values.emplace(one.name, one.value).second) fail(one.name + " twice");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_as_said(model.inputs[i], inputs[i], named);
    if (!values.emplace(model.inputs[i].name, inputs[i]).second) fail(model.inputs[i].name + " twice");
  }
  for (const Node& node : model.nodes) {
    Results arguments;
    for (const std::string& input : node.inputs) {
      if (!values.contains(input)) fail(input + " before it is made");
      arguments.push_back(values.at(input));
    }
    const auto op = all().find(node.op);
    if (op == all().end()) fail("no " + node.op);
    At at(node, arguments);
    const Results results = op->second(at);
    at.require_all_read();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty() && !values.emplace(node.outputs[i], results.at(i)).second)
        fail(node.outputs[i] + " twice");
    }
  }
  std::vector<Tensor> outputs;
  for (const ValueInfo& output : model.outputs) {
    outputs.push_back(values.at(output.name));
    require_as_said(output, outputs.back(), named);
  }
  return outputs;
}

}  // namespace mezzo::onnx::testing
