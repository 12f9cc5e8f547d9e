// Casts, device copies and clones.
#include "mezzo/ops/cast.h"

#include "mezzo/core/backend.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

/// A dense copy of x in `dtype` and `format`.
Tensor copied(const Tensor& x, DType dtype, MemoryFormat format = MemoryFormat::preserve) {
  if (format == MemoryFormat::preserve) format = x.suggest_memory_format();
  Tensor out = empty(x.shape(), {.dtype = dtype, .device = x.device(), .memory_format = format});
  copy_into(out, x);
  return out;
}

Outputs to_dtype_forward(const ForwardArgs<ToDTypeAttrs>& args) {
  return copied(args.in(0), args.attrs.dtype);
}
Gradients to_dtype_vjp(const VjpArgs<ToDTypeAttrs>& args) {
  // The gradient may have arrived in the wanted dtype already; then this is the same handle.
  return {to(args.grad(), args.wanted(0))};
}
std::vector<Sample<ToDTypeAttrs>> to_dtype_samples() {
  return {{{op_samples::real({3, 4})}, {DType::f64}}, {{op_samples::real({2, 5})}, {DType::f64}}};
}
constexpr Op<ToDTypeAttrs> to_dtype_op =
    moving_op<ToDTypeAttrs>("to_dtype", to_dtype_samples, to_dtype_forward, to_dtype_vjp);

struct CloneAttrs {
  MemoryFormat memory_format = MemoryFormat::preserve;
  MEZZO_FIELDS(CloneAttrs, memory_format)
};
Outputs clone_forward(const ForwardArgs<CloneAttrs>& args) {
  return copied(args.in(0), args.in(0).dtype(), args.attrs.memory_format);
}
Gradients clone_vjp(const VjpArgs<CloneAttrs>& args) { return {args.grad()}; }
std::vector<Sample<CloneAttrs>> clone_samples() {
  return {{{op_samples::real({3, 4})}},
          {{op_samples::real({2, 3, 2, 2})}, {MemoryFormat::channels_last}},
          {{op_samples::real({2, 3, 4})}, {MemoryFormat::contiguous}}};
}
constexpr Op<CloneAttrs> clone_op = moving_op<CloneAttrs>("clone", clone_samples, clone_forward, clone_vjp);

struct ToDeviceAttrs {
  std::string device = "cpu";
  MEZZO_FIELDS(ToDeviceAttrs, device)
};

Outputs to_device_forward(const ForwardArgs<ToDeviceAttrs>& args) {
  const Device target = Device::parse(args.attrs.device);
  const MemoryFormat format = args.in(0).suggest_memory_format();
  const Tensor source =
      args.in(0).is_contiguous(format) ? args.in(0) : copied(args.in(0), args.in(0).dtype(), format);
  Tensor out = empty(source.shape(), {.dtype = source.dtype(), .device = target, .memory_format = format});
  const auto bytes = static_cast<std::size_t>(source.numel() * size_of(source.dtype()));
  Storage& to_storage = *out.impl().storage;
  if (source.device().is_cpu()) {
    backend(target).copy_from_host(to_storage.data(), source.impl().data(), bytes, target.index);
  } else if (target.is_cpu()) {
    const HostRead read("to");
    backend(source.device())
        .copy_to_host(to_storage.data(), source.impl().data(), bytes, source.device().index);
  } else {
    backend(target).copy_within(to_storage.data(), source.impl().data(), bytes, target.index);
  }
  return out;
}
Gradients to_device_vjp(const VjpArgs<ToDeviceAttrs>& args) { return {to(args.grad(), args.in_device(0))}; }
std::vector<Sample<ToDeviceAttrs>> to_device_samples() { return {{{op_samples::real({3, 4})}}}; }
constexpr Op<ToDeviceAttrs> to_device_op =
    moving_op<ToDeviceAttrs>("to_device", to_device_samples, to_device_forward, to_device_vjp);

const Registered cast_registered{to_dtype_op, clone_op, to_device_op};

}  // namespace

Tensor to(const Tensor& x, DType dtype) {
  require_defined("to", x);
  if (x.dtype() == dtype) return x;
  return bind(to_dtype_op, {x}, ToDTypeAttrs{dtype});
}

const Op<ToDTypeAttrs>& to_dtype_descriptor() { return to_dtype_op; }

Tensor to(const Tensor& x, Device device) {
  require_defined("to", x);
  if (x.device() == device) return x;
  const Phase phase(device.is_cpu() ? "copy to host" : "copy to device");
  return bind(to_device_op, {x}, ToDeviceAttrs{to_string(device)});
}

Tensor clone(const Tensor& x, MemoryFormat format) { return bind(clone_op, {x}, CloneAttrs{format}); }

}  // namespace mezzo
