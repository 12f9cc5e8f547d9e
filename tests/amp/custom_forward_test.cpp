// User-defined ops under autocast: what torch.amp.custom_fwd and custom_bwd do for Python functions (A-90 to
//
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/ops/ops.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();

// What forward and backward saw of the region.
struct Seen {
  bool enabled = false;
  DType dtype = DType::f64;
};
thread_local Seen in_forward, in_backward;
thread_local DType input_dtype = DType::f64;

Seen look() { return {is_autocast_enabled(DeviceType::cpu), matmul(ones({1, 1}), ones({1, 1})).dtype()}; }

Outputs looking_forward(const ForwardArgs<NoAttrs>& args) {
  in_forward = look();
  input_dtype = args.in(0).dtype();
  return args.in(0) * 1.0;
}
Gradients looking_vjp(const VjpArgs<NoAttrs>& args) {
  in_backward = look();
  return {args.grad()};
}
std::vector<Sample<NoAttrs>> no_samples() { return {}; }

constexpr Op<NoAttrs> plain_op{.info = {.name = "test_looks", .category = Category::passthrough},
                               .samples = no_samples,
                               .forward = looking_forward,
                               .vjp = looking_vjp,
                               .saves = kSaveNothing};
constexpr Op<NoAttrs> ambient_op{
    .info = {.name = "test_looks_ambient", .category = Category::passthrough, .runs_under_autocast = true},
    .samples = no_samples,
    .forward = looking_forward,
    .vjp = looking_vjp,
    .saves = kSaveNothing};
constexpr Op<NoAttrs> casting_op{
    .info = {.name = "test_looks_casting", .category = Category::passthrough, .cast_inputs = DType::f32},
    .samples = no_samples,
    .forward = looking_forward,
    .vjp = looking_vjp,
    .saves = kSaveNothing};
const Registered casting_registered{casting_op};  // so that an override finds it by name

Tensor half_leaf() { return ones({2}, {.dtype = DType::f16, .requires_grad = true}); }

TEST(CustomForward, AnOpOfTheLibraryRunsWithAutocastOff) {
  const Autocast region(kCpu, DType::bf16);
  static_cast<void>(bind(plain_op, {half_leaf()}));
  EXPECT_FALSE(in_forward.enabled);
  EXPECT_EQ(in_forward.dtype, DType::f32);
}

TEST(CustomForward, MayRunUnderTheRegionOfItsCallAndSoDoesItsBackward) {
  Tensor y;
  {
    const Autocast region(kCpu, DType::bf16);
    y = bind(ambient_op, {half_leaf()});
  }
  EXPECT_TRUE(in_forward.enabled);
  EXPECT_EQ(in_forward.dtype, DType::bf16);
  const Autocast other(kCpu, DType::f16);
  sum(y).backward();
  EXPECT_TRUE(in_backward.enabled);
  EXPECT_EQ(in_backward.dtype, DType::bf16) << "the dtype of forward's region, not of backward's";
}

TEST(CustomForward, CalledOutsideARegionItsBackwardRunsOutsideToo) {
  const Tensor y = bind(ambient_op, {half_leaf()});
  const Autocast region(kCpu, DType::f16);
  sum(y).backward();
  EXPECT_FALSE(in_backward.enabled);
  EXPECT_EQ(in_backward.dtype, DType::f32);
}

TEST(CustomForward, CastInputsCastsInsideARegionOnlyAndRunsWithAutocastOff) {
  const Tensor x = half_leaf();
  static_cast<void>(bind(casting_op, {x}));
  EXPECT_EQ(input_dtype, DType::f16);
  Tensor y;
  {
    const Autocast region(kCpu, DType::bf16);
    y = bind(casting_op, {x});
  }
  EXPECT_EQ(input_dtype, DType::f32);
  EXPECT_FALSE(in_forward.enabled);
  sum(y).backward();
  EXPECT_EQ(x.grad().dtype(), DType::f16);
}

TEST(CustomForward, AnOverrideTakesThePlaceOfCastInputs) {
  const Autocast region(kCpu, DType::bf16);
  {
    const PolicyOverride low("test_looks_casting", Category::lower_precision);
    static_cast<void>(bind(casting_op, {ones({2})}));
    EXPECT_EQ(input_dtype, DType::bf16);
  }
  static_cast<void>(bind(casting_op, {half_leaf()}));
  EXPECT_EQ(input_dtype, DType::f32);
}

TEST(CustomForward, CastInputsLeavesF64AndIntegersAlone) {
  const Autocast region(kCpu, DType::bf16);
  static_cast<void>(bind(casting_op, {ones({2}, {.dtype = DType::f64})}));
  EXPECT_EQ(input_dtype, DType::f64);
}

}  // namespace
}  // namespace mezzo::amp
