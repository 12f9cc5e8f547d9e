// Calls of ops by name. The bytes choose an op, one of its samples, and what is changed of it: shapes,
// dtypes, layouts, values, attributes, the number of inputs. A call succeeds or throws an Error; what it
// returned can be read, and its backward run.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

/// The bytes as choices; zeros, which change nothing, when there are no more.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  std::size_t byte() { return at_ == end_ ? 0 : *at_++; }
  std::size_t below(std::size_t count) { return byte() % count; }
  bool one_in(std::size_t count) { return byte() % count == count - 1; }
  [[nodiscard]] bool is_empty() const { return at_ == end_; }

 private:
  const std::uint8_t *at_, *end_;
};

constexpr std::array<std::int64_t, 24> kIntegers{0,
                                                 1,
                                                 2,
                                                 3,
                                                 4,
                                                 5,
                                                 7,
                                                 8,
                                                 -1,
                                                 -2,
                                                 -3,
                                                 -5,
                                                 9,
                                                 16,
                                                 17,
                                                 33,
                                                 64,
                                                 100,
                                                 -100,
                                                 std::numeric_limits<std::int32_t>::max(),
                                                 std::int64_t{1} << 32,
                                                 std::int64_t{1} << 40,
                                                 std::numeric_limits<std::int64_t>::max(),
                                                 std::numeric_limits<std::int64_t>::min()};
constexpr std::array<double, 16> kReals{0,
                                        1,
                                        -1,
                                        0.5,
                                        -0.5,
                                        2,
                                        3,
                                        1e-8,
                                        1e8,
                                        -1e30,
                                        1e300,
                                        5e-324,
                                        0.999,
                                        1e-3,
                                        std::numeric_limits<double>::infinity(),
                                        std::numeric_limits<double>::quiet_NaN()};
constexpr std::array<std::string_view, 20> kWords{
    "",         "mean",     "sum",     "none", "f16",       "bf16",         "f32",
    "f64",      "i64",      "i8",      "bool", "reflect",   "replicate",    "circular",
    "constant", "bilinear", "nearest", "tanh", "ij,jk->ik", "i...,...j->->"};
constexpr std::string_view kEinsum = "ijk,.->  ab";

Value integer_or_real(Choices& choices) {
  if (choices.one_in(8)) return kReals[choices.below(kReals.size())];
  return kIntegers[choices.below(kIntegers.size())];
}

std::string word(Choices& choices) {
  if (!choices.one_in(4)) return std::string(kWords[choices.below(kWords.size())]);
  std::string text;
  for (std::size_t n = choices.below(12); n > 0; --n) text += kEinsum[choices.below(kEinsum.size())];
  return text;
}

/// Another value, mostly of the kind of `value`.
Value changed(Choices& choices, const Value& value) {
  if (choices.one_in(24)) return {};
  if (choices.one_in(24)) return word(choices);
  if (value.is_bool()) return choices.below(2) == 1;
  if (value.is_string()) return word(choices);
  if (value.is_double())
    return choices.one_in(8) ? integer_or_real(choices) : kReals[choices.below(kReals.size())];
  if (value.is_int()) return integer_or_real(choices);
  if (value.is_list() || choices.one_in(2)) {
    Value list = value.is_list() ? value : Value(Value::List{});
    if (choices.one_in(2)) list = Value::List{};
    Value::List elements = list.as_list();
    const std::size_t count =
        choices.one_in(3) ? choices.below(10) : std::max<std::size_t>(elements.size(), 1);
    elements.resize(count, Value(1));
    for (Value& element : elements) {
      if (choices.one_in(2)) element = integer_or_real(choices);
    }
    return elements;
  }
  return integer_or_real(choices);
}

Value changed_attrs(Choices& choices, const Value& attrs) {
  Value result = attrs;
  if (!attrs.is_map() || attrs.size() == 0) return result;
  for (std::size_t changes = choices.below(4); changes > 0; --changes) {
    const auto& [key, value] = attrs.as_map()[choices.below(attrs.size())];
    result.set(key, changed(choices, value));
  }
  if (choices.one_in(64)) result.set(word(choices), 1);
  return result;
}

constexpr std::int64_t kMaxElements = 1024;

Shape changed_shape(Choices& choices, Shape shape) {
  constexpr std::array<std::int64_t, 8> kSizes{1, 0, 2, 3, 4, 5, 8, 17};
  for (std::size_t changes = choices.below(4); changes > 0; --changes) {
    const std::size_t at = shape.empty() ? 0 : choices.below(shape.size());
    switch (choices.below(4)) {
      case 0:
        if (!shape.empty()) shape[at] = kSizes[choices.below(kSizes.size())];
        break;
      case 1:
        if (shape.size() < static_cast<std::size_t>(kMaxDims))
          shape.push_back(kSizes[choices.below(kSizes.size())]);
        break;
      case 2:
        if (!shape.empty()) shape.pop_back();
        break;
      default:
        if (!shape.empty()) std::swap(shape[at], shape[shape.size() - 1]);
    }
  }
  while (!shape.empty() && layout::numel(shape) > kMaxElements) shape.pop_back();
  return shape;
}

/// The same values, which lie otherwise.
Tensor laid_out(Choices& choices, const Tensor& x) {
  switch (choices.below(6)) {
    case 3:
      return x.dim() >= 2 ? transpose(transpose(x, 0, -1).contiguous(), 0, -1) : x;
    case 4:
      return x.dim() >= 1 ? expand(narrow(x, 0, 0, std::min<std::int64_t>(x.shape()[0], 1)), x.shape()) : x;
    case 5:
      return reshape(narrow(stack({x, x}, -1), -1, 1, 1), x.shape());
    default:
      return x;
  }
}

Tensor made_input(Choices& choices, const SampleInput& sample) {
  if (sample.kind == SampleKind::absent ? !choices.one_in(8) : choices.one_in(64)) return {};
  const Shape shape = changed_shape(choices, sample.shape);
  const bool is_index = sample.kind == SampleKind::index, is_mask = sample.kind == SampleKind::mask;
  DType dtype = is_index ? DType::i64 : is_mask ? DType::boolean : DType::f32;
  if (choices.one_in(3)) dtype = kComputeDTypes[choices.below(kComputeDTypes.size())];
  const std::size_t seed = choices.byte(), wild = choices.below(8);
  std::vector<double> values(static_cast<std::size_t>(layout::numel(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t mixed = (i * 2654435761U + seed * 40503U) >> 4U;
    values[i] = is_index ? static_cast<double>(mixed % static_cast<std::size_t>(std::max(sample.high, 1.0)))
                         : static_cast<double>(mixed % 33) / 8 - 2;
    if (wild == 7 && mixed % 5 == 0) {
      values[i] = is_index || !is_floating(dtype)
                      ? static_cast<double>(static_cast<std::int64_t>(mixed % 201) - 100)
                      : kReals[mixed % kReals.size()];
    }
    if (dtype == DType::u8 || dtype == DType::boolean) values[i] = std::abs(std::trunc(values[i]));
    if (!is_floating(dtype)) values[i] = std::trunc(values[i]);
    if (dtype == DType::boolean) values[i] = values[i] != 0 ? 1 : 0;
  }
  Tensor x = tensor(values, shape, {.dtype = dtype});
  if (sample.kind == SampleKind::codes && !choices.one_in(4))
    x = x.to(choices.one_in(2) ? DType::f8_e4m3 : DType::f8_e5m2);
  try {
    x = laid_out(choices, x);
  } catch (const Error&) {
  }
  x = x.detach();
  if (is_floating(dtype) && choices.below(2) == 0) x.requires_grad_();
  return x;
}

/// Reads each byte of the result, so that the address sanitizer sees where it lies.
void read_all(const Tensor& x) {
  if (!x.defined()) return;
  const Tensor copy = x.detach().contiguous();
  const auto bytes = static_cast<std::size_t>(copy.numel() * size_of(copy.dtype()));
  const auto* const first = static_cast<const std::uint8_t*>(copy.impl().data());
  volatile std::uint8_t all = 0;
  for (std::size_t i = 0; i < bytes; ++i) all = static_cast<std::uint8_t>(all ^ first[i]);
}

void run_backward(const Outputs& outputs) {
  for (const Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad()) continue;
    sum(output.to(DType::f32)).backward(BackwardOptions{.retain_graph = true});
  }
}

void call_one(Choices& choices) {
  static const std::vector<const RegistryEntry*> ops = all_ops();
  const RegistryEntry& op = *ops[(choices.byte() * 256 + choices.byte()) % ops.size()];
  const std::vector<SampleCall> samples = op.samples();
  if (samples.empty()) return;
  const SampleCall& sample = samples[choices.below(samples.size())];
  const Value attrs = changed_attrs(choices, sample.attrs);
  Tensors made;
  for (const SampleInput& input : sample.inputs) made.push_back(made_input(choices, input));
  if (choices.one_in(32) && !made.empty()) made.pop_back();
  if (choices.one_in(32) && !made.empty()) made.push_back(made[0]);
  std::vector<TensorRef> inputs(made.begin(), made.end());
  const bool autocast = choices.one_in(8);
  try {
    const amp::Autocast region(Device::cpu(), choices.below(2) == 0 ? DType::bf16 : DType::f16,
                               {.enabled = autocast});
    const Outputs outputs = op.call(Inputs(inputs), attrs);
    for (const Tensor& output : outputs) read_all(output);
    run_backward(outputs);
    for (const Tensor& input : made) {
      if (input.defined() && input.requires_grad()) read_all(input.grad());
    }
  } catch (const Error& error) {
    require(std::string(error.what()).size() < 4000, "a message is short");
  } catch (const std::bad_alloc&) {  // more memory asked for than there is
  }
}

}  // namespace

int fuzz_op(const std::uint8_t* data, std::size_t size) {
  manual_seed(0);
  Choices choices(data, size);
  for (int calls = 0; calls < 3 && !choices.is_empty(); ++calls) call_one(choices);
  empty_cache(Device::cpu());
  return 0;
}

}  // namespace mezzo::fuzz
