// The sweep must speak up: each broken op here has one defect and must be reported by the check that is there
// for it, and a sound twin by none. The ops are not registered, so nothing else sees them.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/ops/ops.h"
#include "sweep/checks.h"

namespace mezzo::sweep {
namespace {

using Args = ForwardArgs<NoAttrs>;
using Vjps = VjpArgs<NoAttrs>;

std::vector<Sample<NoAttrs>> one_input() { return {{{op_samples::real({3, 4}, 0.2, 2)}}}; }
std::vector<Sample<NoAttrs>> two_inputs() {
  return {{{op_samples::real({3, 4}, 0.2, 2), op_samples::real({3, 4}, 0.2, 2)}}};
}

// x^3 as an op, and the ways in which it can be wrong.
Outputs cube(const Args& args) { return mul(mul(args.in(0), args.in(0)), args.in(0)); }
Outputs cube_in_f32(const Args& args) {
  const Tensor& x = args.in(0);
  if (!is_16bit(x.dtype())) return cube(args);
  const Tensor wide = to(x, DType::f32);
  return to(mul(mul(wide, wide), wide), args.run_dtype.value_or(x.dtype()));
}
Gradients cube_vjp(const Vjps& args) {
  const Tensor x = args.in(0), wide = is_16bit(x.dtype()) ? to(x, DType::f32) : x;
  return {mul(args.grad(), mul(mul(wide, wide), 3.0))};
}
Gradients doubled_vjp(const Vjps& args) { return {mul(cube_vjp(args)[0], 2.0)}; }
Gradients detached_vjp(const Vjps& args) {
  const Tensor x = args.in(0).detach();
  return {mul(args.grad(), mul(mul(x, x), 3.0))};
}
Gradients reading_vjp(const Vjps& args) {
  static_cast<void>(sum(args.grad()).item());
  return cube_vjp(args);
}
Gradients writing_vjp(const Vjps& args) {
  Gradients result = cube_vjp(args);
  const NoGrad no_grad;
  args.in(0).mul_(2.0);
  return result;
}

Outputs row_major_cube(const Args& args) { return Tensor(cube_in_f32(args)[0]).contiguous(); }

/// Takes any memory for row-major.
Outputs blind_copy(const Args& args) {
  const Tensor& x = args.in(0);
  return clone(alias(x, x.shape(), layout::contiguous_strides(x.shape()), x.impl().offset, false));
}
Gradients pass_on(const Vjps& args) { return {args.grad()}; }

/// Fails for shapes that differ.
Outputs picky_product(const Args& args) {
  if (args.in(0).shape() != args.in(1).shape()) throw ShapeError("picky", "one shape", "two", "");
  return mul(args.in(0), args.in(1));
}
Outputs product(const Args& args) { return mul(args.in(0), args.in(1)); }
Gradients product_vjp(const Vjps& args) {
  return {mul(args.grad(), args.in(1)), mul(args.grad(), args.in(0))};
}
/// Right in f64, but integers come out halved.
Outputs half_for_integers(const Args& args) {
  const Tensor result = product(args);
  return is_floating(result.dtype()) ? result : div(result, 2, RoundingMode::floor);
}
Outputs square_of(const Args& args) { return mul(args.in(0), args.in(0)); }

constexpr Op<NoAttrs> op_of(std::string_view name, Category category, Op<NoAttrs>::Forward forward,
                            Vjp<NoAttrs> vjp) {
  return {.info = {.name = name, .category = category}, .samples = one_input, .forward = forward, .vjp = vjp};
}

Findings sweep_of(const Op<NoAttrs>& op) { return sweep(detail::TypedEntry<NoAttrs>(op)); }

void expect_only(const Findings& findings, std::initializer_list<Check> checks) {
  for (const Check check : checks)
    EXPECT_TRUE(findings.has_failed(check)) << name_of(check) << " said nothing";
  for (const Finding& finding : findings.failures()) {
    EXPECT_NE(std::find(checks.begin(), checks.end(), finding.check), checks.end())
        << "unexpected: [" << name_of(finding.check) << "] " << finding.text;
  }
}

/// Right for plain calls; inside a region the forward sees it and answers in another dtype.
Outputs region_minded(const Args& args) {
  const Tensor result = cube_in_f32(args);
  return amp::is_autocast_enabled(DeviceType::cpu) ? to(result, DType::f32) : result;
}

Outputs cube_through_16_bits(const Args& args) {
  const Tensor result = cube_in_f32(args);
  return result.dtype() == DType::f32 ? to(to(result, DType::f16), DType::f32) : result;
}
Outputs cube_of_some(const Args& args) {
  if (args.in(0).numel() == 0) throw ShapeError("cube", "elements", "none", "");
  return cube_in_f32(args);
}
Outputs cube_of_dims(const Args& args) {
  if (args.in(0).dim() == 0) throw ShapeError("cube", "dims", "none", "");
  return cube_in_f32(args);
}

/// Refuses large sizes as std::vector would.
Outputs cube_through_std(const Args& args) {
  if (args.in(0).dim() > 0) static_cast<void>(std::vector<char>().at(static_cast<std::size_t>(0)));
  return cube_in_f32(args);
}
/// Calls every problem one of dtypes.
Outputs cube_of_matrices(const Args& args) {
  if (args.in(0).dim() != 2) throw DTypeError("cube", "a matrix", "none", "");
  return cube_in_f32(args);
}
/// Knows no integers, and does not say so.
Outputs nan_for_integers(const Args& args) {
  const Tensor& x = args.in(0);
  if (is_floating(x.dtype())) return cube_in_f32(args);
  return full(x.shape(), std::nan(""));
}
/// Takes any index.
Outputs first_column(const Args& args) { return select(args.in(0), 1, 0); }
Gradients first_column_vjp(const Vjps& args) {
  return {slice_backward(unsqueeze(args.grad(), 1), args.in_shape(0), 1, 0, 1), Tensor()};
}
/// Has a last place that depends on the instruction set.
Outputs cube_by_isa(const Args& args) {
  const double factor = kernels::cpu::isa() == kernels::cpu::Isa::base ? 1 : 1 + 0x1p-52;
  return mul(cube_in_f32(args), factor);
}

std::vector<Sample<NoAttrs>> image_input() { return {{{op_samples::real({2, 3, 2, 2}, 0.2, 2)}}}; }
std::vector<Sample<NoAttrs>> below_zero() { return {{{op_samples::real({3, 4}, -3, -0.2)}}}; }

/// The cube, two units in the last place too large in bf16 when `is_off`.
Outputs cube_off(const Args& args, bool is_off) {
  const Tensor result = cube_in_f32(args)[0];
  if (!is_off || result.dtype() != DType::bf16) return result;
  return to(mul(to(result, DType::f32), 1 + 2 * 0x1p-7), DType::bf16);
}
Outputs cube_by_format(const Args& args) {
  return cube_off(args, args.in(0).suggest_memory_format() == MemoryFormat::channels_last);
}
Outputs cube_by_device(const Args& args) { return cube_off(args, args.in(0).device().is_cuda()); }
/// Answers in another dtype inside a region of a CUDA device.
Outputs device_minded(const Args& args) {
  const Tensor result = cube_in_f32(args)[0];
  return amp::is_autocast_enabled(DeviceType::cuda) ? to(result, DType::f32) : result;
}
/// Forgets the sign of i8 and i16.
Outputs magnitude_of_small_integers(const Args& args) {
  const Tensor& x = args.in(0);
  return x.dtype() == DType::i8 || x.dtype() == DType::i16 ? abs(x) : clone(x);
}

struct DTypeAttrs {
  std::optional<DType> dtype = {};
  static constexpr auto fields() { return std::tuple{attr("dtype", &DTypeAttrs::dtype)}; }
};
Outputs ignores_dtype(const ForwardArgs<DTypeAttrs>& args) { return cube(Args{args.inputs, NoAttrs{}}); }

TEST(SweepItself, IsSilentOnASoundOp) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_in_f32, cube_vjp);
  const Findings findings = sweep_of(op);
  expect_only(findings, {});
  for (const Check check : {Check::gradient, Check::second_gradient, Check::strided, Check::f32,
                            Check::low_precision, Check::autocast, Check::host_reads})
    EXPECT_GT(findings.count(check), 0) << name_of(check);
}

TEST(SweepItself, ReportsAWrongGradient) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_in_f32, doubled_vjp);
  expect_only(sweep_of(op), {Check::gradient});
}

TEST(SweepItself, ReportsASecondGradientThatIsCutOff) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_in_f32, detached_vjp);
  expect_only(sweep_of(op), {Check::second_gradient});
}

TEST(SweepItself, ReportsRoundingInBetween) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube, cube_vjp);
  expect_only(sweep_of(op), {Check::low_precision});
}

TEST(SweepItself, ReportsAForwardThatIgnoresStrides) {
  static constexpr Op<NoAttrs> op = op_of("copy", Category::passthrough, blind_copy, pass_on);
  expect_only(sweep_of(op), {Check::strided});
}

TEST(SweepItself, ReportsAnElementwiseOpThatForgetsTheFormat) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "cube", .category = Category::passthrough, .elementwise = true},
      .samples = one_input,
      .forward = row_major_cube,
      .vjp = cube_vjp};
  expect_only(sweep_of(op), {Check::memory_format});
}

TEST(SweepItself, ReportsA16BitResultThatIsOffByTwoUnitsWhenChannelsLast) {
  static constexpr Op<NoAttrs> op{.info = {.name = "cube", .category = Category::passthrough},
                                  .samples = image_input,
                                  .forward = cube_by_format,
                                  .vjp = cube_vjp};
  expect_only(sweep_of(op), {Check::memory_format});
}

TEST(SweepItself, ReportsA16BitResultThatIsOffByTwoUnitsOnADevice) {
  if (devices().size() < 2) GTEST_SKIP() << "there is no CUDA device";
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_by_device, cube_vjp);
  expect_only(sweep_of(op), {Check::devices});
}

TEST(SweepItself, ReportsAnOpThatHeedsTheRegionOfADevice) {
  if (devices().size() < 2) GTEST_SKIP() << "there is no CUDA device";
  static constexpr Op<NoAttrs> op{
      .info = {.name = "minded", .category = Category::passthrough, .runs_under_autocast = true},
      .samples = one_input,
      .forward = device_minded,
      .vjp = cube_vjp};
  expect_only(sweep_of(op), {Check::autocast, Check::ignored_types});
}

TEST(SweepItself, ReportsWrongSmallIntegers) {
  static constexpr Op<NoAttrs> op{.info = {.name = "magnitude", .category = Category::passthrough},
                                  .samples = below_zero,
                                  .forward = magnitude_of_small_integers,
                                  .vjp = pass_on};
  expect_only(sweep_of(op), {Check::integers});
}

TEST(SweepItself, ReportsAnElementwiseOpThatDoesNotBroadcast) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "picky", .category = Category::passthrough, .elementwise = true},
      .samples = two_inputs,
      .forward = picky_product,
      .vjp = product_vjp};
  expect_only(sweep_of(op), {Check::broadcast});
}

TEST(SweepItself, ReportsAnElementwiseOpThatRefusesNoElements) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "cube", .category = Category::passthrough, .elementwise = true},
      .samples = one_input,
      .forward = cube_of_some,
      .vjp = cube_vjp};
  expect_only(sweep_of(op), {Check::empty});
}

TEST(SweepItself, ReportsAnElementwiseOpThatRefusesNoDims) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "cube", .category = Category::passthrough, .elementwise = true},
      .samples = one_input,
      .forward = cube_of_dims,
      .vjp = cube_vjp};
  expect_only(sweep_of(op), {Check::zero_dim});
}

TEST(SweepItself, ReportsLostPrecisionInF32) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_through_16_bits, cube_vjp);
  expect_only(sweep_of(op), {Check::f32});
}

TEST(SweepItself, ReportsAnOpThatHeedsTheRegionOnIgnoredTypes) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "minded", .category = Category::passthrough, .runs_under_autocast = true},
      .samples = one_input,
      .forward = region_minded,
      .vjp = cube_vjp};
  expect_only(sweep_of(op), {Check::autocast, Check::ignored_types});
}

TEST(SweepItself, ReportsAnOpThatIgnoresTheDtypeAskedFor) {
  static constexpr Op<DTypeAttrs> op{
      .info = {.name = "cube", .category = Category::fp32},
      .samples =
          [] {
            return std::vector<Sample<DTypeAttrs>>{{{op_samples::real({2, 3}, 0.2, 2)}, {}}};
          },
      .forward = ignores_dtype,
      .vjp = NotDifferentiable{"only its dtype is looked at"}};
  EXPECT_TRUE(sweep(detail::TypedEntry<DTypeAttrs>(op)).has_failed(Check::explicit_dtype));
}

TEST(SweepItself, ReportsWrongIntegers) {
  static constexpr Op<NoAttrs> op{.info = {.name = "half", .category = Category::passthrough},
                                  .samples = two_inputs,
                                  .forward = half_for_integers,
                                  .vjp = product_vjp};
  expect_only(sweep_of(op), {Check::integers});
}

TEST(SweepItself, ReportsAnOpThatWidensFloat8) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "same", .category = Category::passthrough, .takes_float8 = true},
      .samples = one_input,
      .forward = [](const Args& args) -> Outputs {
        return is_float8(args.in(0).dtype()) ? to(args.in(0), DType::f32) : clone(args.in(0));
      },
      .vjp = pass_on};
  expect_only(sweep_of(op), {Check::float8});
}

TEST(SweepItself, ReportsAnOpThatChangesFloat8) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "same", .category = Category::passthrough, .takes_float8 = true},
      .samples = one_input,
      .forward = [](const Args& args) -> Outputs {
        if (!is_float8(args.in(0).dtype())) return clone(args.in(0));
        return to(mul(to(args.in(0), DType::f32), 1.25), args.in(0).dtype());
      },
      .vjp = pass_on};
  expect_only(sweep_of(op), {Check::float8});
}

TEST(SweepItself, ReportsAnOpThatRefusesTheFloat8ItSaysItTakes) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "cube", .category = Category::passthrough, .takes_float8 = true},
      .samples = one_input,
      .forward = cube_in_f32,
      .vjp = cube_vjp};
  expect_only(sweep_of(op), {Check::float8});
}

TEST(SweepItself, ReportsAnOpThatIgnoresItsRunDtype) {
  static constexpr Op<NoAttrs> op{.info = {.name = "deaf", .category = Category::fp32, .reads_16bit = true},
                                  .samples = one_input,
                                  .forward = [](const Args& args) -> Outputs {
                                    return to(cube_in_f32(Args{args.inputs, args.attrs}), args.in(0).dtype());
                                  },
                                  .vjp = cube_vjp};
  expect_only(sweep_of(op), {Check::autocast});
}

TEST(SweepItself, AcceptsTheSameOpWhenItListens) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "listens", .category = Category::fp32, .reads_16bit = true},
      .samples = one_input,
      .forward = cube_in_f32,
      .vjp = cube_vjp};
  expect_only(sweep_of(op), {});
}

TEST(SweepItself, ReportsAReferenceThatMeansSomethingElse) {
  static constexpr Op<NoAttrs> op{.info = {.name = "cube", .category = Category::passthrough},
                                  .samples = one_input,
                                  .forward = cube_in_f32,
                                  .vjp = cube_vjp,
                                  .reference = square_of};
  expect_only(sweep_of(op), {Check::reference});
}

TEST(SweepItself, ReportsAMissingGradientWithoutReason) {
  static constexpr Op<NoAttrs> op =
      op_of("cube", Category::passthrough, cube_in_f32, Vjp<NoAttrs>(std::string_view()));
  expect_only(sweep_of(op), {Check::history});
}

TEST(SweepItself, ReportsHostReads) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_in_f32, reading_vjp);
  expect_only(sweep_of(op), {Check::host_reads});
}

TEST(SweepItself, ReportsAnInputThatIsWrittenTo) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_in_f32, writing_vjp);
  EXPECT_TRUE(sweep_of(op).has_failed(Check::inputs_kept));
}

TEST(SweepItself, ReportsErrorsThatAreNotOurs) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_through_std, cube_vjp);
  EXPECT_TRUE(sweep_of(op).has_failed(Check::bad_input));
}

TEST(SweepItself, ReportsErrorsOfAKindThatDoesNotFit) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_of_matrices, cube_vjp);
  expect_only(sweep_of(op), {Check::bad_input});
}

TEST(SweepItself, ReportsNansOutOfNothing) {
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, nan_for_integers, cube_vjp);
  EXPECT_TRUE(sweep_of(op).has_failed(Check::bad_input));
}

TEST(SweepItself, ReportsAnIndexThatNobodyChecks) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "column", .category = Category::passthrough},
      .samples =
          [] {
            return std::vector<Sample<NoAttrs>>{{{op_samples::real({3, 4}), op_samples::index({3}, 4)}}};
          },
      .forward = first_column,
      .vjp = first_column_vjp};
  expect_only(sweep_of(op), {Check::bad_input});
}

TEST(SweepItself, ReportsAnOptionalInputThatTheDescriptorDoesNotName) {
  static constexpr Op<NoAttrs> op{
      .info = {.name = "cube", .category = Category::passthrough},
      .samples =
          [] {
            return std::vector<Sample<NoAttrs>>{{{op_samples::real({3, 4}, 0.2, 2), op_samples::absent()}}};
          },
      .forward = cube_in_f32,
      .vjp = cube_vjp};
  EXPECT_TRUE(sweep_of(op).has_failed(Check::bad_input));
}

TEST(SweepItself, ReportsBitsThatDependOnTheInstructionSet) {
  if (kernels::cpu::best_isa() == kernels::cpu::Isa::base) GTEST_SKIP() << "there is only one";
  static constexpr Op<NoAttrs> op = op_of("cube", Category::passthrough, cube_by_isa, cube_vjp);
  expect_only(sweep_of(op), {Check::instruction_sets});
}

TEST(SweepItself, LeavesOutOnlyWhatAnOpGivesAReasonFor) {
  static constexpr Op<NoAttrs> op{.info = {.name = "cube",
                                           .category = Category::passthrough,
                                           .opt_out = {.gradient = "wrong on purpose"}},
                                  .samples = one_input,
                                  .forward = cube_in_f32,
                                  .vjp = doubled_vjp};
  const Findings findings = sweep_of(op);
  expect_only(findings, {});
  ASSERT_EQ(findings.notes().size(), 1U);
  EXPECT_NE(findings.notes()[0].find("wrong on purpose"), std::string::npos);
}

}  // namespace
}  // namespace mezzo::sweep
