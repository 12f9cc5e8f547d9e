// Float8: scales and codes to the bit, and linear under amp::Fp8 with its gradients. A code of NaN only has
// to be one.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduction.h"
#include "support/gpu.h"

namespace mezzo::golden {

namespace {

DType format_of(const Value& meta, std::string_view key) {
  return meta.at(key).as_string() == "e4m3" ? DType::f8_e4m3 : DType::f8_e5m2;
}

bool is_nan_code(std::uint8_t code, DType format) {
  return format == DType::f8_e4m3 ? (code & 0x7f) == 0x7f : (code & 0x7f) > 0x7c;
}

void expect_codes(const Tensor& codes, const std::vector<std::uint8_t>& want, DType format) {
  const Tensor host = codes.to(Device::cpu());
  const auto* const got = static_cast<const std::uint8_t*>(host.impl().data());
  if (host.numel() != static_cast<std::int64_t>(want.size())) throw Mismatch("code: sizes differ");
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (is_nan_code(want[i], format) ? is_nan_code(got[i], format) : got[i] == want[i]) continue;
    throw Mismatch("code[" + std::to_string(i) + "]: got " + std::to_string(got[i]) + ", want " +
                   std::to_string(want[i]));
  }
}

/// A tensor whose largest element a relative tolerance is given for.
Tolerance within(double rtol, double of_largest, const Tensor& want) {
  return {rtol, of_largest * want.abs().max().item<double>()};
}

}  // namespace

void run_scaling_f8(const CaseFile& file, std::size_t index) {
  const Value& meta = file.meta(index);
  const DType format = format_of(meta, "format");
  const QuantizedF8 got = quantize_f8(file.tensor(index, "in").detach().to(run_device()),
                                      {.dtype = format, .power_of_two = meta.at("power_of_two").as_bool()});
  expect_dtype("code", got.codes.dtype(), format);
  expect_close("scale", got.scale, file.tensor(index, "scale"), {});
  expect_close("inv", got.inverse, file.tensor(index, "inv"), {});
  const auto code = file.tensor(index, "code").to_vector<std::int64_t>();
  expect_codes(got.codes, std::vector<std::uint8_t>(code.begin(), code.end()), format);
}

void run_linear_f8(const CaseFile& file, std::size_t index) {
  const Value& meta = file.meta(index);
  const auto leaf = [&](std::string_view name) {
    return file.tensor(index, name).detach().to(run_device()).requires_grad_();
  };
  const bool has_bias = meta.at("bias").as_bool();
  const Tensor x = leaf("x"), weight = leaf("w"), bias = has_bias ? leaf("b") : Tensor();
  Tensor y;
  {
    const amp::Autocast region(
        run_device().type, DType::bf16,
        {.fp8 = amp::Fp8{.gradients = format_of(meta, "gradients"),
                         .power_of_two = meta.at("power_of_two").as_bool(),
                         .gradient_weight = meta.at("gradient_weight").as_string() == "high"
                                                ? GradientWeight::high
                                                : GradientWeight::fp8}});
    y = linear(x, weight, bias);
  }
  expect_dtype("y", y.dtype(), DType::bf16);
  expect_close("y", y, file.tensor(index, "y"), within(8e-3, 1e-3, file.tensor(index, "y")));
  y.backward(file.tensor(index, "gout").detach().to(run_device()));
  expect_dtype("dx", x.grad().dtype(), DType::bf16);
  expect_close("dx", x.grad(), file.tensor(index, "dx"), within(8e-3, 1e-3, file.tensor(index, "dx")));
  // Of float8 operands a GPU cuts every product; a sum of these loses twice as much of its largest here.
  const bool is_float8 = meta.at("gradient_weight").as_string() == "fp8";
  const double cut = is_float8 ? 2 * test::float8_cut(run_device()) : 0;
  expect_close("dw", weight.grad(), file.tensor(index, "dw"),
               within(1e-5, 1e-6 + cut, file.tensor(index, "dw")));
  if (has_bias)
    expect_close("db", bias.grad(), file.tensor(index, "db"), within(1e-5, 1e-6, file.tensor(index, "db")));
}

}  // namespace mezzo::golden
