// A sample's values, drawn by Philox from a hash of its label and so the same on every machine; forward
// and backward of a case; copies of tensors with other strides.
#include "sweep/case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/random/philox.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"

namespace mezzo::sweep {

namespace {

/// FNV-1a: stable over runs and machines, unlike std::hash.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return value;
}

/// Uniform in [0, 1).
double unit(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  const PhiloxBlock block = Philox{}(philox_counter(index, stream), philox_key(key));
  return uniform_f64(block[0], block[1]);
}

/// 0 .. n-1 in a random order.
std::vector<std::size_t> order(std::size_t n, std::uint64_t key, std::uint64_t stream) {
  std::vector<std::size_t> result(n);
  std::iota(result.begin(), result.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i)
    std::swap(result[i - 1], result[static_cast<std::size_t>(unit(key, stream, i) * static_cast<double>(i))]);
  return result;
}

double real_value(const SampleInput& input, double u) {
  const double x = input.low + (input.high - input.low) * u;
  const double distance = x - input.kink;
  if (std::abs(distance) >= input.margin) return x;
  return input.kink + (distance < 0 ? -1 : 1) * (input.margin + std::abs(distance));
}

std::vector<double> real_values(const SampleInput& input, std::size_t count, std::uint64_t key,
                                std::uint64_t stream) {
  std::vector<double> values(count);
  if (input.kind == SampleKind::distinct) {
    // Steps of 0.1, shaken by less than a quarter of it each way.
    const std::vector<std::size_t> ranks = order(count, key, stream);
    for (std::size_t i = 0; i < count; ++i) {
      const double rank = static_cast<double>(ranks[i]) - static_cast<double>(count) / 2;
      values[i] = 0.1 * rank + 0.05 * (unit(key, stream + 1000, i) - 0.5);
    }
    return values;
  }
  for (std::size_t i = 0; i < count; ++i) values[i] = real_value(input, unit(key, stream, i));
  return values;
}

/// Small integers within the range; beyond [-3, 3] products would leave the exact range of the 8-bit type.
std::vector<double> integer_values(const SampleInput& input, std::size_t count, std::uint64_t key,
                                   std::uint64_t stream, DType dtype) {
  const bool is_signed = dtype != DType::u8 && dtype != DType::boolean;
  double low = std::max(std::ceil(input.low), is_signed ? -3.0 : 0.0);
  double high = std::min(std::floor(input.high), dtype == DType::boolean ? 1.0 : 3.0);
  if (low > high) low = high = std::max(0.0, std::min(high, low));
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = low + std::floor(unit(key, stream, i) * (high - low + 1));
  return values;
}

Tensor make_input(const Case& one, std::size_t i, DType dtype) {
  const SampleInput& input = one.inputs[i];
  const auto count = static_cast<std::size_t>(layout::numel(input.shape));
  const std::uint64_t stream = i;
  if (input.kind == SampleKind::absent) return {};
  if (is_real(input)) {
    const auto values = is_floating(dtype) ? real_values(input, count, one.key, stream)
                                           : integer_values(input, count, one.key, stream, dtype);
    return tensor(values, input.shape, {.dtype = dtype});
  }
  if (input.kind == SampleKind::codes || input.kind == SampleKind::f32) {
    const bool codes = input.kind == SampleKind::codes;
    return tensor(real_values(input, count, one.key, stream), input.shape,
                  {.dtype = codes ? DType::f8_e4m3 : DType::f32});
  }
  std::vector<double> values(count);
  const double limit = input.kind == SampleKind::mask ? 2 : input.high;
  for (std::size_t j = 0; j < count; ++j) values[j] = std::floor(unit(one.key, stream, j) * limit);
  return tensor(values, input.shape, {.dtype = input.kind == SampleKind::mask ? DType::boolean : DType::i64});
}

/// New leaves with the same memory; those whose gradient is checked ask for it.
Tensors leaves_of(const Case& one, const Tensors& inputs) {
  Tensors leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor leaf = inputs[i].defined() ? inputs[i].detach() : Tensor();
    if (leaf.defined() && one.inputs[i].grad && is_floating(leaf.dtype())) leaf.requires_grad_();
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

}  // namespace

bool is_real(const SampleInput& input) {
  return input.kind == SampleKind::real || input.kind == SampleKind::distinct;
}

std::vector<Case> cases_of(const RegistryEntry& op) {
  std::vector<Case> cases;
  const std::string name(op.info().name.value);
  for (SampleCall& sample : op.samples()) {
    const std::string label = name + " sample " + std::to_string(cases.size());
    const std::uint64_t key = hash(label);
    cases.push_back({&op, label, std::move(sample.inputs), std::move(sample.attrs), key});
  }
  return cases;
}

Tensors make_inputs(const Case& one, DType dtype) {
  Tensors inputs;
  for (std::size_t i = 0; i < one.inputs.size(); ++i) inputs.push_back(make_input(one, i, dtype));
  return inputs;
}

Tensors converted(const Case& one, const Tensors& inputs, const std::vector<DType>& dtypes) {
  Tensors result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool convert = inputs[i].defined() && is_real(one.inputs[i]);
    result.push_back(convert ? to(inputs[i], dtypes[i]) : inputs[i]);
  }
  return result;
}

Tensors converted(const Case& one, const Tensors& inputs, DType dtype) {
  return converted(one, inputs, std::vector<DType>(inputs.size(), dtype));
}

Tensors moved(const Tensors& tensors, Device device) {
  Tensors result;
  for (const Tensor& x : tensors) result.push_back(x.defined() ? x.to(device) : x);
  return result;
}

std::vector<Device> devices() {
  std::vector<Device> list{Device::cpu()};
  if (const Device best = Device::best(); best.is_cuda()) list.push_back(best);
  return list;
}

Tensor direction(const Shape& shape, DType dtype, std::uint64_t stream) {
  std::vector<double> values(static_cast<std::size_t>(layout::numel(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * unit(0xd12ec710, stream, i) - 1;
  return tensor(values, shape, {.dtype = dtype});
}

Function forward_of(const Case& one) {
  return [&one](Inputs inputs) { return one.op->call(inputs, one.attrs); };
}
Function reference_of(const Case& one) {
  return [&one](Inputs inputs) { return one.op->call_reference(inputs, one.attrs); };
}

Outputs call(const Function& function, const Tensors& inputs) {
  const SmallVector<TensorRef, 8> refs(inputs.begin(), inputs.end());
  return function(Inputs(refs));
}

Result run(const Case& one, const Function& function, const Tensors& inputs, std::optional<Stride> stride) {
  const Tensors leaves = leaves_of(one, inputs);
  Result result{.outputs = Tensors(call(function, leaves)), .gradients = Tensors(leaves.size())};
  Tensors roots, upstream, wanted;
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const Tensor& output = result.outputs[i];
    if (!output.defined() || !output.requires_grad()) continue;
    const Tensor gradient = direction(output.shape(), output.dtype(), i).to(output.device());
    roots.push_back(output);
    upstream.push_back(stride ? strided_copy(gradient, *stride) : gradient);
  }
  for (const Tensor& leaf : leaves) {
    if (leaf.requires_grad()) wanted.push_back(leaf);
  }
  if (roots.empty() || wanted.empty()) return result;
  const Tensors found = grad(roots, wanted, upstream, {.allow_unused = true});
  std::size_t next = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].requires_grad()) result.gradients[i] = found[next++];
  }
  for (Tensor& output : result.outputs) {
    if (output.defined()) output = output.detach();
  }
  return result;
}

Tensor strided_copy(const Tensor& x, Stride stride) {
  const std::size_t rank = x.shape().size();
  if (stride == Stride::channels_last) {
    const bool fits = rank >= 3 && rank <= 5;
    return clone(x.detach(), fits ? MemoryFormat::channels_last : MemoryFormat::contiguous);
  }
  Dims strides(rank, 1);
  std::int64_t offset = 0, extent = 1;
  // The last dim outermost, or the usual order with a gap after every element.
  for (std::size_t n = 0; n < rank; ++n) {
    const std::size_t i = stride == Stride::reversed ? n : rank - 1 - n;
    const std::int64_t step = stride == Stride::reversed ? 1 : 2;
    strides[i] = extent * step;
    extent = extent * step * std::max<std::int64_t>(x.shape()[i], 1) + (stride == Stride::spread ? 1 : 0);
  }
  if (stride == Stride::spread) offset = 1;
  const NoGrad no_grad;
  const Tensor base = to(full({extent + offset}, 1, {.device = x.device()}), x.dtype());  // float8 too
  const Tensor view = alias(base, x.shape(), strides, offset, true);
  view.copy_(x);
  return view;
}

Tensors strided_copies(const Tensors& inputs, Stride stride) {
  Tensors result;
  for (const Tensor& x : inputs) result.push_back(x.defined() ? strided_copy(x, stride) : Tensor());
  return result;
}

}  // namespace mezzo::sweep
