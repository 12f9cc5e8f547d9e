// Ops of one's own under autocast: what custom_fwd and custom_bwd do for functions in Python, a field of the
// op's descriptor says here.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

// Sample calls are for tests over all registered ops; these two are the program's own.
std::vector<Sample<NoAttrs>> no_samples() { return {}; }

// x^4 needs the range of f32: above 16 it is beyond f16. Inside a region `cast_inputs` casts x to f32 and
// runs forward and backward with autocast off; outside of one it changes nothing.
constexpr Op<NoAttrs> power4_op{
    .info = {.name = "power4", .category = Category::passthrough, .cast_inputs = DType::f32},
    .samples = no_samples,
    .forward = [](const ForwardArgs<NoAttrs>& args) -> Outputs { return square(square(args.in(0))); },
    // The gradient consists of public ops, so it can be differentiated again.
    .vjp = [](const VjpArgs<NoAttrs>& args) -> Gradients { return {args.grad() * pow(args.in(0), 3) * 4.0}; },
    .saves = save_inputs(0),
};
Tensor power4(const Tensor& x) { return bind(power4_op, {x}); }

// x x^T is worth running in 16 bits: `runs_under_autocast` leaves the region on, so that matmul casts its
// operands. Backward runs under the region that forward ran under, wherever it is called.
constexpr Op<NoAttrs> gram_op{
    .info = {.name = "gram", .category = Category::passthrough, .runs_under_autocast = true},
    .samples = no_samples,
    .forward = [](const ForwardArgs<NoAttrs>& args) -> Outputs { return matmul(args.in(0), t(args.in(0))); },
    .vjp = [](const VjpArgs<NoAttrs>& args) -> Gradients {
      return {matmul(args.grad() + t(args.grad()), args.in(0))};
    },
    .saves = save_inputs(0),
};
Tensor gram(const Tensor& x) { return bind(gram_op, {x}); }

/// The largest difference, in units of the largest expected number.
double error(const Tensor& got, const Tensor& expected) {
  return (amax(abs(got.to(DType::f64) - expected)) / amax(abs(expected))).item();
}

int run(Device device) {
  manual_seed(0);
  const Tensor x = randn({8, 16}, {.device = device}) * 10.0;
  const Tensor weight = randn({16, 16}, {.device = device, .requires_grad = true});
  Tensor hidden, plain, powers, products;
  {
    const amp::Autocast autocast(device, DType::f16);
    hidden = matmul(x, eye(16, {}, {.device = device, .requires_grad = true}));  // f16
    plain = square(square(hidden));  // without the op: these run in the dtype that comes in, and overflow
    powers = power4(hidden);
    products = gram(weight);
  }
  const Tensor power_gradient = grad(mean(powers), {hidden})[0];
  const Tensor gram_gradient = grad(mean(products.to(DType::f32)), {weight})[0];

  // The same in f64, by formulas.
  const Tensor h = hidden.detach().to(DType::f64), w = weight.detach().to(DType::f64);
  const double power_error = error(powers, pow(h, 4));
  const double power_gradient_error = error(power_gradient, pow(h, 3) * (4.0 / 128));
  const double gram_error = error(products, matmul(w, t(w)));
  const double gram_gradient_error =
      error(gram_gradient, matmul(full({16, 16}, 2.0 / 256, options_of(w)), w));
  const bool plain_finite = all(isfinite(plain)).item<bool>();
  std::printf("x^4 of ops: %s %s\n", to_string(plain.dtype()).c_str(), plain_finite ? "finite" : "inf");
  std::printf("power4: %s error %.1e gradient %s error %.1e\n", to_string(powers.dtype()).c_str(),
              power_error, to_string(power_gradient.dtype()).c_str(), power_gradient_error);
  std::printf("gram: %s error %.1e gradient %s error %.1e\n", to_string(products.dtype()).c_str(), gram_error,
              to_string(gram_gradient.dtype()).c_str(), gram_gradient_error);
  // Up to three roundings each: of 2^-24 in f32, of 2^-11 to f16.
  if (!plain_finite && powers.dtype() == DType::f32 && power_error < 3 * 0x1p-24 &&
      power_gradient_error < 3 * 0x1p-11 && products.dtype() == DType::f16 && gram_error < 3 * 0x1p-11 &&
      gram_gradient_error < 3 * 0x1p-11)
    return 0;
  std::fprintf(stderr, "custom_function: expected one op in f32, one in f16, and their gradients\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("custom_function", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
