// AdamW with moments in 8 bits: the tables to the bit, codes of blocks, and twelve steps. The file was
// computed in f64, so at exact ties of f32 one code of a moment in a hundred may be another.
#include <algorithm>
#include <cmath>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "mezzo/kernels/optim/moments_8bit.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/detail/packed_state.h"

namespace mezzo::golden {

namespace {

std::vector<float> floats(const CaseFile& file, const std::string& name) {
  return io::copy_as<float>(file.raw(name));
}
Tensor tensor_on_device(const std::vector<float>& values) {
  return tensor(std::vector<double>(values.begin(), values.end()), {.dtype = DType::f32}).to(run_device());
}
std::vector<std::uint8_t> bytes(const Tensor& codes) {
  const std::vector<std::int64_t> wide = codes.to(Device::cpu()).to_vector<std::int64_t>();
  return {wide.begin(), wide.end()};
}

/// How many differ, which may be so many; by one at most.
void expect_codes(const std::string& name, const Tensor& codes, const std::vector<std::uint8_t>& want,
                  std::size_t may_differ) {
  const std::vector<std::uint8_t> got = bytes(codes);
  if (got.size() != want.size()) throw Mismatch(name + ": sizes differ");
  std::size_t different = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    different += got[i] != want[i] ? 1 : 0;
    if (std::abs(int{got[i]} - int{want[i]}) > 1 || different > may_differ)
      throw Mismatch(name + "[" + std::to_string(i) + "]: got " + std::to_string(got[i]) + ", want " +
                     std::to_string(want[i]));
  }
}

void check_blocks(const CaseFile& file, bool has_sign) {
  const std::string table_name = has_sign ? "table.signed" : "table.unsigned";
  const std::vector<float> table = floats(file, table_name);
  for (int code = 0; code < 256; ++code) {
    if (kernels::Moments8::entry(has_sign, code) != table[static_cast<std::size_t>(code)])
      throw Mismatch(table_name + "[" + std::to_string(code) + "]");
  }
  const std::string suffix = has_sign ? "" : "_unsigned";
  Tensor x = tensor_on_device(floats(file, "block.in"));
  if (!has_sign) x = abs(x);
  const optim::PackedMoments packed = optim::packed_moments(x, !has_sign);
  expect_codes("block.codes" + suffix, packed.codes,
               io::copy_as<std::uint8_t>(file.raw("block.codes" + suffix)), 0);
  expect_close("block.scales" + suffix, packed.scales,
               tensor_on_device(floats(file, "block.scales" + suffix)), {});
}

}  // namespace

void run_adamw_8bit(const CaseFile& file, std::size_t /*index*/) {
  check_blocks(file, true);
  check_blocks(file, false);
  const Tensor p = tensor_on_device(floats(file, "in.p")).requires_grad_();
  const auto count = static_cast<std::size_t>(p.numel());
  const std::vector<float> gradients = floats(file, "gradseq.p"), want = floats(file, "out.p");
  optim::AdamW adam(std::vector<Tensor>{p}, {.lr = 1e-3, .weight_decay = 0.01, .state_bits = 8});
  for (std::size_t step = 0; step < gradients.size() / count; ++step) {
    const auto begin = gradients.begin() + static_cast<std::ptrdiff_t>(step * count);
    p.set_grad(tensor_on_device({begin, begin + static_cast<std::ptrdiff_t>(count)}));
    adam.step();
    const std::vector<float> got = p.detach().to(Device::cpu()).to_vector<float>();
    std::size_t off = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double expected = want[step * count + i], error = std::abs(got[i] - expected);
      if (error > 1e-4 || (error > 2e-6 + 1e-5 * std::abs(expected) && ++off > count / 100))
        throw Mismatch("out.p[" + std::to_string(step) + "][" + std::to_string(i) + "]: got " +
                       std::to_string(got[i]) + ", want " + std::to_string(expected));
    }
  }
  for (const auto& [key, tensor] : adam.state_dict().tensors) {
    const std::string name = key.starts_with("0.exp_avg_sq") ? "v" : "m";
    if (tensor.dtype() == DType::u8)
      expect_codes(name + ".codes", tensor, io::copy_as<std::uint8_t>(file.raw(name + ".codes")),
                   count / 100);
    else if (key.ends_with("_scale"))
      expect_close(name + ".scales", tensor, tensor_on_device(floats(file, name + ".scales")), {1e-5, 0});
  }
}

}  // namespace mezzo::golden
