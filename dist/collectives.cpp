// Collectives: arguments checked, tensors made dense, and the calls of the transport that each is made of.
#include "mezzo/dist/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/detail/tree_sum.h"
#include "mezzo/ops/ops.h"

namespace mezzo::dist {

namespace {

void require_tensor(std::string_view op, const Tensor& tensor) {
  if (!tensor.defined()) throw ValueError(op, "a tensor", "an undefined one", "pass one with values");
}

void require_writable(std::string_view op, const Tensor& tensor) {
  require_tensor(op, tensor);
  if (tensor.requires_grad() && grad_enabled()) {
    throw AutogradError(op, "a tensor without history", "one that requires grad",
                        "use detach(), or call it under NoGrad");
  }
}

void require_reducible(std::string_view op, const Tensor& tensor, ReduceOp reduce) {
  const DType dtype = tensor.dtype();
  require_compute_dtype(op, dtype);
  const bool is_taken =
      is_floating(dtype) || dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u8;
  if (!is_taken) {
    throw DTypeError(op, "f16, bf16, f32, f64, i32, i64 or u8", mezzo::to_string(dtype),
                     "convert it with to(DType::u8)");
  }
  if (reduce == ReduceOp::mean && !is_floating(dtype))
    throw DTypeError(op, "a floating dtype for mean", mezzo::to_string(dtype), "use sum");
}

/// Input and output of a collective that has both. `in`, `out`: how many parts each is of.
void require_pair(std::string_view op, const Tensor& output, const Tensor& input, int in, int out) {
  require_writable(op, output);
  require_tensor(op, input);
  if (!(output.device() == input.device())) {
    throw DeviceError(op, "an output on " + mezzo::to_string(input.device()),
                      mezzo::to_string(output.device()), "make it there");
  }
  if (output.dtype() != input.dtype()) {
    throw DTypeError(op, "an output of " + mezzo::to_string(input.dtype()), mezzo::to_string(output.dtype()),
                     "make it of the input's dtype");
  }
  const Shape& from = input.shape();
  Shape expected = from;
  bool fits = !from.empty() && from[0] % in == 0;
  if (fits) {
    expected[0] = from[0] / in * out;
    fits = output.shape() == expected;
  }
  if (!fits) {
    throw ShapeError(op,
                     "an input of " + std::to_string(in) + " parts and an output of " + std::to_string(out) +
                         " parts along dim 0",
                     mezzo::to_string(input.shape()) + " and " + mezzo::to_string(output.shape()),
                     "make the output fit, or pad the input");
  }
}

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel() * size_of(tensor.dtype()));
}

/// A collective of a group of one process: a copy.
Work copy_alone(const Tensor& output, const Tensor& input) {
  const NoGrad no_grad;
  output.copy_(input);
  return {};
}

/// A result is written into `target` by `write(transport, dense)`, where dense is the target itself or, if it
/// has gaps, a copy.
template <class F>
Work write_into(const Tensor& target, std::vector<Tensor> keep, const CollectiveOptions& options, F write) {
  if (options.group.size() == 1) return {};
  const NoGrad no_grad;
  const Tensor to = target.detach();
  const bool is_dense = to.is_contiguous();
  const Tensor dense = is_dense ? to : to.contiguous();
  to.impl().storage->bump_version();
  keep.push_back(to);
  keep.push_back(dense);
  Work work = options.group.state().start(
      to.device(), std::move(keep), [to, dense, is_dense, write = std::move(write)](Transport& transport) {
        const NoGrad off;
        write(transport, dense);
        if (!is_dense) to.copy_(dense);
      });
  if (!options.async) work.wait();
  return work;
}

/// The bytes that each of p processes sends in a ring when they share out so many bytes.
std::uint64_t ring_bytes(std::size_t bytes, int size) {
  return static_cast<std::uint64_t>(bytes) * static_cast<std::uint64_t>(size - 1) /
         static_cast<std::uint64_t>(size);
}

/// In place. 16-bit values are added in f32 and rounded once.
void reduce_16bit(Transport& transport, const Tensor& dense, ReduceOp op) {
  if (op == ReduceOp::min || op == ReduceOp::max) {
    const Tensor wide = dense.to(DType::f32);
    transport.all_reduce(wide.impl().data(), wide.numel(), DType::f32, op);
    dense.copy_(wide);
    return;
  }
  const std::int64_t p = transport.size();
  const std::int64_t n = (dense.numel() + p - 1) / p;
  const Tensor flat = zeros({p * n}, {.dtype = dense.dtype(), .device = dense.device()});
  flat.narrow(0, 0, dense.numel()).copy_(dense.view({-1}));
  Tensor sum = tree_reduce_scatter(transport, flat);
  if (op == ReduceOp::mean) sum = mul(sum, 1.0 / static_cast<double>(p));
  const Tensor part = sum.to(dense.dtype());
  transport.all_gather(part.impl().data(), flat.impl().data(), bytes_of(part));
  dense.view({-1}).copy_(flat.narrow(0, 0, dense.numel()));
}

void reduce_dense(Transport& transport, const Tensor& dense, ReduceOp op) {
  if (dense.numel() == 0) return;
  if (is_16bit(dense.dtype())) {
    reduce_16bit(transport, dense, op);
    return;
  }
  transport.all_reduce(dense.impl().data(), dense.numel(), dense.dtype(),
                       op == ReduceOp::mean ? ReduceOp::sum : op);
  if (op == ReduceOp::mean) dense.mul_(1.0 / transport.size());
}

}  // namespace

std::string_view to_string(ReduceOp op) {
  constexpr std::string_view names[] = {"sum", "mean", "min", "max"};
  return names[static_cast<std::size_t>(op)];
}

Work broadcast(const Tensor& tensor, int root, const CollectiveOptions& options) {
  require_writable("broadcast", tensor);
  const Group& group = options.group;
  if (root < 0 || root >= group.size()) {
    throw ValueError("broadcast", "a root in [0, " + std::to_string(group.size()) + ")", std::to_string(root),
                     "name a rank of the group");
  }
  if (group.rank() == root) group.state().count(group.size() > 1 ? bytes_of(tensor) : 0);
  return write_into(tensor, {}, options, [root](Transport& transport, const Tensor& dense) {
    transport.broadcast(dense.impl().data(), bytes_of(dense), root);
  });
}

Work all_reduce(const Tensor& tensor, ReduceOp op, const CollectiveOptions& options) {
  require_writable("all_reduce", tensor);
  require_reducible("all_reduce", tensor, op);
  options.group.state().count(2 * ring_bytes(bytes_of(tensor), options.group.size()));
  return write_into(tensor, {}, options,
                    [op](Transport& transport, const Tensor& dense) { reduce_dense(transport, dense, op); });
}

Work reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                    const CollectiveOptions& options) {
  const int size = options.group.size();
  require_pair("reduce_scatter", output, input, size, 1);
  require_reducible("reduce_scatter", input, op);
  options.group.state().count(ring_bytes(bytes_of(input), size));
  if (size == 1) return copy_alone(output, input);
  const Tensor from = input.detach();
  return write_into(output, {from}, options, [from, op](Transport& transport, const Tensor& dense) {
    if (dense.numel() == 0) return;
    const bool is_sum = op == ReduceOp::sum || op == ReduceOp::mean;
    Tensor result;
    if (is_16bit(from.dtype()) && is_sum) {
      result = tree_reduce_scatter(transport, from.contiguous().view({-1}));
    } else {
      const Tensor whole = is_16bit(from.dtype()) ? from.to(DType::f32).contiguous() : from.clone();
      result = empty({dense.numel()}, {.dtype = whole.dtype(), .device = whole.device()});
      transport.reduce_scatter(whole.impl().data(), result.impl().data(), result.numel(), whole.dtype(),
                               is_sum ? ReduceOp::sum : op);
    }
    if (op == ReduceOp::mean) result = mul(result, 1.0 / transport.size());
    dense.view({-1}).copy_(result);
  });
}

Work all_gather(const Tensor& output, const Tensor& input, const CollectiveOptions& options) {
  const int size = options.group.size();
  require_pair("all_gather", output, input, 1, size);
  options.group.state().count(static_cast<std::uint64_t>(size - 1) * bytes_of(input));
  if (size == 1) return copy_alone(output, input);
  const Tensor from = input.detach();
  return write_into(output, {from}, options, [from](Transport& transport, const Tensor& dense) {
    const Tensor part = from.contiguous();
    transport.all_gather(part.impl().data(), dense.impl().data(), bytes_of(part));
  });
}

Work all_to_all(const Tensor& output, const Tensor& input, const CollectiveOptions& options) {
  const int size = options.group.size();
  require_pair("all_to_all", output, input, size, size);
  options.group.state().count(ring_bytes(bytes_of(input), size));
  if (size == 1) return copy_alone(output, input);
  const Tensor from = input.detach();
  return write_into(output, {from}, options, [from](Transport& transport, const Tensor& dense) {
    const Tensor parts =
        from.impl().storage.get() == dense.impl().storage.get() ? from.clone() : from.contiguous();
    transport.all_to_all(parts.impl().data(), dense.impl().data(),
                         bytes_of(parts) / static_cast<std::size_t>(transport.size()));
  });
}

void barrier(const Group& group) {
  group.state().count(0);
  if (group.size() == 1) return;
  const Device device = group.state().device();
  group.state().start(device, {}, [](Transport& transport) { transport.barrier(); }).wait();
  if (!device.is_cpu()) cuda::current_stream(device).synchronize();
}

std::vector<std::string> all_gather_text(const std::string& text, const Group& group) {
  if (group.size() == 1) return {text};
  const Device device = group.state().device();
  const CollectiveOptions options{.group = group};
  const Tensor size = full({1}, static_cast<double>(text.size()), {.dtype = DType::i64}).to(device);
  Tensor sizes = empty({group.size()}, {.dtype = DType::i64, .device = device});
  all_gather(sizes, size, options);
  sizes = sizes.to(Device::cpu());
  const auto* const counts = static_cast<const std::int64_t*>(sizes.impl().data());
  const std::int64_t longest = *std::max_element(counts, counts + group.size());
  if (longest == 0) return std::vector<std::string>(static_cast<std::size_t>(group.size()));
  const Tensor bytes = zeros({longest}, {.dtype = DType::u8});
  std::memcpy(bytes.impl().data(), text.data(), text.size());
  Tensor all = empty({group.size() * longest}, {.dtype = DType::u8, .device = device});
  all_gather(all, bytes.to(device), options);
  all = all.to(Device::cpu());
  std::vector<std::string> texts;
  for (int r = 0; r < group.size(); ++r) {
    const auto* const begin = static_cast<const char*>(all.impl().data()) + r * longest;
    texts.emplace_back(begin, static_cast<std::size_t>(counts[r]));
  }
  return texts;
}

std::string broadcast_text(const std::string& text, int root, const Group& group) {
  return all_gather_text(group.rank() == root ? text : std::string(), group)[static_cast<std::size_t>(root)];
}

Traffic traffic(const Group& group) { return {group.state().calls(), group.state().bytes()}; }

}  // namespace mezzo::dist
