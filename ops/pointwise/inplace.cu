// The in-place members of Tensor. Not ops themselves: each runs a kernel straight into the tensor's memory
// and, where gradients are to follow, records the op it stands for and moves that history onto the tensor.
#include <algorithm>
#include <numeric>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/detail/inplace.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- what copy_ and fill_ record. As functions they return a new tensor and leave x alone.

Outputs copy_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &x = args.in(0), &source = args.in(1);
  Tensor out = empty_like(x);
  const kernels::View from = expanded_view("copy", source, x.shape());
  // In the source's compute type, which holds its values exactly: one rounding, to x's dtype.
  kernels::pointwise(out.device(), IdentityFn{}, view_of(out), std::array{from},
                     compute_dtype(source.dtype()));
  return out;
}
Gradients copy_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = args.grad();
  return {args.needs(0) ? zeros_like(grad) : Tensor(), args.needs(1) ? grad : Tensor()};
}
std::vector<Sample<NoAttrs>> copy_samples() { return {{{op_samples::real({3, 4}), op_samples::real({4})}}}; }
constexpr Op<NoAttrs> copy_op = moving_op("copy", copy_samples, copy_forward, copy_vjp);

struct FillAttrs {
  Scalar value = 0;
  MEZZO_FIELDS(FillAttrs, value)
};
/// Ignores the element it replaces.
struct FillFn {
  Number value;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T /*old*/) const {
    return value.as<T>();
  }
};
FillFn fill_functor(const Scalar& value, DType dtype) {
  if (dtype == DType::boolean) return {Scalar(value.real() != 0)};  // 0.5 is true, not 0
  return {as_element(value, dtype)};
}
Outputs fill_forward(const ForwardArgs<FillAttrs>& args) {
  const Tensor& x = args.in(0);
  return map_one(fill_functor(args.attrs.value, x.dtype()), x, compute_dtype(x.dtype()), x.dtype());
}
Gradients fill_vjp(const VjpArgs<FillAttrs>& args) {
  const Tensor grad = args.grad();
  return {zeros_like(grad)};
}
std::vector<Sample<FillAttrs>> fill_samples() { return {{{op_samples::real({3, 4})}, {1}}}; }
constexpr Op<FillAttrs> fill_op = elementwise_op<FillAttrs>("fill", Category::passthrough, fill_samples,
                                                            fill_forward, fill_vjp, kSaveNothing);

// --- checks

/// Whether two indices can name one element. Sufficient for views made by the library's ops.
bool overlaps_itself(const Tensor& x) {
  if (x.is_contiguous()) return false;
  const Shape& shape = x.shape();
  SmallVector<std::size_t, kMaxDims> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return x.strides()[a] < x.strides()[b]; });
  std::int64_t reach = 0;  // largest offset within the dims seen so far
  for (const std::size_t d : order) {
    if (shape[d] <= 1) continue;
    if (x.strides()[d] <= reach) return true;
    reach += (shape[d] - 1) * x.strides()[d];
  }
  return false;
}

/// A write into `self`: checks that it may happen before anything does.
class Write {
 public:
  Write(std::string_view op, const Tensor& self, bool takes_float8 = false)
      : op_(op), self_(self), takes_float8_(takes_float8) {
    require_defined(op, self);
    if (!takes_float8) require_compute_dtype(op, self.dtype());
    require_own_memory(op, self);
  }
  /// `other` must broadcast to self and be on its device, or a number on the CPU. Returns it, or a copy if it
  /// is elsewhere or shows self's memory in another order.
  [[nodiscard]] Tensor operand(const Tensor& other) {
    require_defined(op_, other);
    if (!takes_float8_) require_compute_dtype(op_, other.dtype());
    if (layout::broadcast(op_, self_.shape(), other.shape()) != self_.shape()) {
      throw ShapeError(op_, "an operand that broadcasts to " + to_string(self_.shape()),
                       to_string(other.shape()), "use the op that returns a new tensor");
    }
    other_requires_grad_ = other.requires_grad();
    if (!(other.device() == self_.device())) {
      if (other.device().is_cpu() && other.dim() == 0) return mezzo::to(other, self_.device());
      throw DeviceError(op_, to_string(self_.device()), to_string(other.device()), "move it with to(device)");
    }
    const TensorImpl &mine = self_.impl(), &its = other.impl();
    const bool same_order =
        mine.offset == its.offset && mine.strides == its.strides && mine.shape == its.shape;
    return mine.storage == its.storage && !same_order ? clone(other) : other;
  }
  /// A result of this dtype must be of self's kind to be stored in it.
  void result(DType dtype) const {
    if (info(dtype).kind <= info(self_.dtype()).kind) return;
    throw DTypeError(op_, "a result that " + to_string(self_.dtype()) + " can hold", to_string(dtype),
                     "use the op that returns a new tensor");
  }
  /// Whether the write is part of the graph. Refuses what could not be.
  [[nodiscard]] bool records() const {
    const bool wanted = self_.requires_grad() || other_requires_grad_;
    if (!wanted || !grad_enabled() || !is_floating(self_.dtype())) return false;
    require_recordable_write(op_, self_);
    return true;
  }
  /// self as it is now: its values (not a copy) and its history. A node that holds it does not own self, so
  /// self can own the node.
  [[nodiscard]] Tensor before() const {
    Tensor old = self_.detach();
    old.impl().grad_fn = self_.impl().grad_fn;
    old.impl().output_index = self_.impl().output_index;
    return old;
  }
  /// before() with a copy of the values: for a gradient that needs values which the write overwrites.
  [[nodiscard]] Tensor copy_before() const {
    const NoGrad no_grad;
    Tensor old = clone(self_);
    old.impl().grad_fn = self_.impl().grad_fn;
    old.impl().output_index = self_.impl().output_index;
    return old;
  }
  /// Records `op` as what makes self, before the write: saved inputs then carry the version they had, and one
  /// that is overwritten is noticed in backward. The history is on the result until `adopt`.
  template <class A>
  [[nodiscard]] Tensor recorded(const Op<A>& op, Inputs inputs, const A& attrs) const {
    Outputs made(self_.detach());
    record(op, inputs, attrs, made);
    return made[0];
  }
  /// self = f(in...).
  template <class F, std::size_t N>
  void store(F f, const std::array<kernels::View, N>& in, DType compute) const {
    kernels::pointwise(self_.device(), f, view_of(self_), in, compute);
    self_.impl().storage->bump_version();
  }
  /// Gives self the history of `made`; none was recorded when that is undefined.
  void adopt(const Tensor& made) const {
    if (!made.defined()) return;
    self_.impl().grad_fn = made.impl().grad_fn;
    self_.impl().output_index = made.impl().output_index;
    // Hooks belong to the tensor as it was, and its node keeps them.
    if (autograd::AutogradMeta* const meta = autograd::meta_of(self_)) meta->hooks.reset();
  }

 private:
  std::string_view op_;
  const Tensor& self_;
  bool takes_float8_;
  bool other_requires_grad_ = false;
};

/// self += alpha * other.
void add_in_place(std::string_view op, const Tensor& self, const Tensor& other, Scalar alpha) {
  Write write(op, self);
  const Tensor operand = write.operand(other);
  const DType result = result_type({&self, &operand});
  check_alpha(op, alpha, result);
  write.result(result);
  if (result == DType::boolean) alpha = Scalar(alpha.integer() != 0 ? 1 : 0);
  Tensor made;
  if (write.records()) {
    const Tensor old = write.before();
    made = write.recorded(add_descriptor(), {old, operand.is_same(self) ? old : operand}, {alpha});
  }
  const std::array in{view_of(self), expanded_view(op, operand, self.shape())};
  if (alpha.real() == 1.0)
    write.store(AddFn{}, in, compute_dtype(result));
  else
    write.store(AddScaledFn{alpha}, in, compute_dtype(result));
  write.adopt(made);
}

void add_in_place(std::string_view op, const Tensor& self, Scalar other) {
  const Write write(op, self);
  const DType result = result_with(self, other);
  write.result(result);
  Tensor made;
  if (write.records()) made = write.recorded(add_scalar_descriptor(), {write.before()}, {other});
  write.store(WithRight<AddFn>{other}, std::array{view_of(self)}, compute_dtype(result));
  write.adopt(made);
}

/// -s of the same kind. Throws DTypeError for a bool, as sub does.
Scalar negative(const Scalar& s) {
  if (s.kind() == DTypeKind::floating) return -s.real();
  if (s.kind() == DTypeKind::integer)
    return static_cast<std::int64_t>(-static_cast<std::uint64_t>(s.integer()));
  throw DTypeError("sub_", "a number", "a bool", "use logical_and and logical_not");
}
/// Bools have no difference.
void require_number(const Tensor& x) {
  if (x.defined() && x.dtype() == DType::boolean)
    throw DTypeError("sub_", "a tensor of numbers", "bool", "use logical_and and logical_not");
}

const Registered inplace_registered{copy_op, fill_op};

}  // namespace

void ops::require_own_memory(std::string_view op, const Tensor& x) {
  if (!overlaps_itself(x)) return;
  throw ShapeError(op, "a tensor with memory of its own for each element",
                   "strides " + to_string(x.strides()), "write to a clone()");
}

void ops::require_recordable_write(std::string_view op, const Tensor& x) {
  const std::string of_shape = " of shape " + to_string(x.shape());
  if (x.is_leaf() && x.requires_grad()) {
    throw AutogradError(op, "no recorded write into a leaf that requires grad", "a leaf" + of_shape,
                        "write under NoGrad, or use the op that returns a new tensor");
  }
  if (x.is_inference()) {
    throw AutogradError(op, "no recorded write into an inference tensor", "one" + of_shape,
                        "clone() it outside of InferenceMode");
  }
  const char* const problem = x.impl().is_view                     ? "a view"
                              : x.impl().storage->live_views() > 0 ? "a tensor with living views"
                                                                   : nullptr;
  if (problem == nullptr) return;
  throw AutogradError(op, "a tensor that is no view and has none when the write is recorded",
                      problem + of_shape, "write under NoGrad, or use the op that returns a new tensor");
}

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  add_in_place("add_", *this, other, alpha);
  return *this;
}
const Tensor& Tensor::add_(Scalar other) const {
  add_in_place("add_", *this, other);
  return *this;
}
const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  require_number(*this);
  require_number(other);
  add_in_place("sub_", *this, other, negative(alpha));
  return *this;
}
const Tensor& Tensor::sub_(Scalar other) const {
  require_number(*this);
  add_in_place("sub_", *this, negative(other));
  return *this;
}

const Tensor& Tensor::mul_(const Tensor& other) const {
  Write write("mul_", *this);
  const Tensor operand = write.operand(other);
  const DType result = result_type({this, &operand});
  write.result(result);
  Tensor made;
  if (write.records()) {
    // The gradient of `other` is grad times the values that are about to go.
    const Tensor old = operand.requires_grad() ? write.copy_before() : write.before();
    made = write.recorded(mul_descriptor(), {old, operand.is_same(*this) ? old : operand}, {});
  }
  write.store(MulFn{}, std::array{view_of(*this), expanded_view("mul_", operand, shape())},
              compute_dtype(result));
  write.adopt(made);
  return *this;
}

const Tensor& Tensor::mul_(Scalar other) const {
  const Write write("mul_", *this);
  const DType result = result_with(*this, other);
  write.result(result);
  Tensor made;
  if (write.records()) made = write.recorded(mul_scalar_descriptor(), {write.before()}, {other});
  write.store(WithRight<MulFn>{other}, std::array{view_of(*this)}, compute_dtype(result));
  write.adopt(made);
  return *this;
}

void ops::scale_into(const Tensor& out, const Tensor& x, double factor) {
  const DType compute = compute_dtype(promote(out.dtype(), x.dtype()));
  kernels::pointwise(out.device(), WithRight<MulFn>{Scalar(factor)}, view_of(out), std::array{view_of(x)},
                     compute);
  out.impl().storage->bump_version();
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  require_defined("copy_", source);
  if (source.is_same(*this)) return *this;
  Write write("copy_", *this, true);
  const Tensor operand = write.operand(mezzo::to(source, device()));
  Tensor made;
  if (write.records()) made = write.recorded(copy_op, {write.before(), operand}, {});
  write.store(IdentityFn{}, std::array{expanded_view("copy_", operand, shape())},
              compute_dtype(operand.dtype()));
  write.adopt(made);
  return *this;
}

const Tensor& Tensor::fill_(Scalar value) const {
  const Write write("fill_", *this);
  Tensor made;
  if (write.records()) made = write.recorded(fill_op, {write.before()}, {value});
  write.store(fill_functor(value, dtype()), std::array{view_of(*this)}, compute_dtype(dtype()));
  write.adopt(made);
  return *this;
}

const Tensor& Tensor::zero_() const { return fill_(0); }

}  // namespace mezzo
