// Moments in 8 bits: near to f32's where it counts, the same bits however a step is run, and states that go
// both ways.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/optim/cpu_arrays.h"
#include "mezzo/kernels/optim/moments_8bit.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/detail/packed_state.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/algorithms.h"
#include "optim/steps.h"

namespace mezzo::optim {
namespace {

const Value kPacked = Value::Map{{"state_bits", 8}};
constexpr std::size_t kCount = 5000;  // 19 blocks and a part of one

std::vector<Algorithm> algorithms_with_moments() {
  std::vector<Algorithm> all = algorithms();
  std::erase_if(all, [](const Algorithm& one) { return !one.options.contains("state_bits"); });
  return all;
}

class EveryPackedOptimizer : public ::testing::TestWithParam<Algorithm> {};

INSTANTIATE_TEST_SUITE_P(All, EveryPackedOptimizer, ::testing::ValuesIn(algorithms_with_moments()),
                         [](const auto& named) { return named.param.name; });

std::vector<Tensor> parameters(DType dtype = DType::f32) {
  return {parameter_of(values_of(1, kCount), dtype), parameter_of(values_of(2, 4095), dtype)};
}

TEST(PackedMoments, AreTheNearestEntriesTimesTheLargestOfABlock) {
  for (const bool nonnegative : {false, true}) {
    std::vector<double> values = values_of(3, 1000);
    for (std::size_t i = 0; i < 300; ++i) values[i] *= std::pow(10.0, -static_cast<double>(i % 9));
    for (std::size_t i = 512; i < 768; ++i) values[i] = 0;
    if (nonnegative) {
      for (double& value : values) value = std::abs(value);
    }
    const Tensor x = tensor(values, {.dtype = DType::f32});
    const PackedMoments packed = packed_moments(x, nonnegative);
    const std::vector<float> scales = packed.scales.to_vector<float>(), exact = x.to_vector<float>();
    const std::vector<float> got = unpacked_moments(packed, nonnegative).to_vector<float>();
    ASSERT_EQ(scales.size(), 4U);
    for (std::size_t b = 0; b < 4; ++b) {
      float largest = 1e-12F;
      for (std::size_t i = 256 * b; i < std::min<std::size_t>(1000, 256 * (b + 1)); ++i)
        largest = std::max(largest, std::abs(exact[i]));
      EXPECT_EQ(scales[b], largest);
    }
    const std::vector<std::int64_t> codes = packed.codes.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto distance = [&, x = exact[i] / scales[i / 256]](int code) {
        return std::abs(static_cast<double>(kernels::Moments8::entry(!nonnegative, code)) - x);
      };
      const int code = static_cast<int>(codes[i]);
      EXPECT_EQ(got[i], kernels::Moments8::entry(!nonnegative, code) * scales[i / 256]);
      for (const int other : {std::max(code - 1, 0), std::min(code + 1, 255)})
        ASSERT_LE(distance(code), distance(other)) << i;
    }
    for (std::size_t i = 512; i < 768; ++i) EXPECT_EQ(got[i], 0);
  }
}

/// Numbers of [-1, 1]: all borders with their neighbours, entries, what is not finite, and random ones in
/// every decade. In each block the first is 1, so that quotients are the numbers themselves.
std::vector<float> numbers_for_codes(bool has_sign) {
  std::vector<float> numbers{0, -0.0F, std::numeric_limits<float>::denorm_min(), 1e-30F};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  numbers.insert(numbers.end(), {nan, -nan, 1, std::nextafter(1.0F, 0.0F)});
  for (int code = 1; code < 256; ++code) {
    const float border = kernels::Moments8::border(has_sign, code);
    numbers.insert(numbers.end(), {border, std::nextafter(border, -1.0F), std::nextafter(border, 1.0F),
                                   kernels::Moments8::entry(has_sign, code)});
  }
  for (const double x : values_of(7, 20000)) numbers.push_back(static_cast<float>(std::tanh(x)));
  for (std::size_t i = 2000; i < numbers.size(); ++i)
    numbers[i] *= static_cast<float>(std::pow(10.0, -0.5 * static_cast<double>(i % 16)));
  for (float& number : numbers) number = has_sign ? number : std::abs(number);
  for (std::size_t i = 0; i < numbers.size(); i += 256) numbers[i] = 1;
  return numbers;
}

TEST(PackedMoments, TheCodesOfEveryInstructionSetAreThoseOfTheBorders) {
  using kernels::cpu::Isa;
  for (const Isa isa : {Isa::base, Isa::v3, Isa::v4}) {
    if (isa > kernels::cpu::best_isa()) continue;
    const kernels::cpu::IsaGuard guard(isa);
    for (const bool has_sign : {false, true}) {
      const std::vector<float> numbers = numbers_for_codes(has_sign);
      const auto border = [&](int code) { return kernels::Moments8::border(has_sign, code); };
      for (const float scale : {1.0F, 3.3F, 7e-9F, std::numeric_limits<float>::max()}) {
        std::vector<float> values;
        for (const float number : numbers) values.push_back(number * scale);
        const std::vector<float> exact = values;
        std::vector<std::uint8_t> codes(values.size());
        std::vector<float> scales(values.size() / 256 + 1);
        const auto n = static_cast<std::int64_t>(values.size());
        kernels::cpu::write_moments(values.data(), has_sign, codes.data(), scales.data(), n);
        kernels::cpu::read_moments(codes.data(), scales.data(), has_sign, values.data(), n);
        for (std::size_t i = 0; i < codes.size(); ++i) {
          ASSERT_EQ(scales[i / 256], scale);
          const int code = kernels::Moments8::code_of(has_sign, border, exact[i] / scale);
          ASSERT_EQ(codes[i], code) << exact[i] / scale;
          ASSERT_EQ(values[i], kernels::Moments8::entry(has_sign, code) * scale) << code;
        }
      }
    }
  }
}

TEST_P(EveryPackedOptimizer, TheUpdateIsMadeWithTheNewMomentsBeforeTheyAreRounded) {
  // From one step to the next, the f32 optimizer with the packed one's state does the same.
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<Tensor> packed_parameters = parameters(dtype), wide_parameters = parameters(dtype);
    const Value masters = Value::Map{{"master_weights", dtype == DType::bf16}};
    Value both = masters;
    both.set("state_bits", 8);
    const auto packed = GetParam().make(packed_parameters, both);
    for (std::uint64_t step = 1; step < 6; ++step) {
      const auto wide = GetParam().make(wide_parameters, masters);
      {
        const NoGrad no_grad;
        for (std::size_t i = 0; i < 2; ++i) wide_parameters[i].copy_(packed_parameters[i]);
      }
      wide->load_state_dict(packed->state_dict());
      run_steps(*packed, step, step + 1);
      run_steps(*wide, step, step + 1);
      for (std::size_t i = 0; i < 2; ++i)
        ASSERT_EQ(bits(packed_parameters[i]), bits(wide_parameters[i])) << "step " << step;
      // The small parameter has f32 moments; those of the large one are the f32 ones, rounded.
      for (const auto& [key, tensor] : wide->state_dict().tensors) {
        const Tensor own = state_of(*packed, key);
        if (own.dtype() != DType::u8) {
          ASSERT_EQ(bits(own), bits(tensor)) << key;
          continue;
        }
        const std::string name = key.substr(2);
        const PackedMoments rounded = packed_moments(tensor, is_nonnegative(name));
        ASSERT_EQ(bits(own), bits(rounded.codes)) << key;
        ASSERT_EQ(bits(state_of(*packed, key + "_scale")), bits(rounded.scales)) << key;
      }
    }
  }
}

TEST_P(EveryPackedOptimizer, HasTheSameBitsHoweverAStepIsRun) {
  expect_same_bits_however_run([] { return GetParam().make(parameters(), kPacked); });
}

TEST_P(EveryPackedOptimizer, AnyLayoutHasTheSameBits) {
  std::vector<std::vector<std::uint64_t>> results;
  for (const bool transposed : {false, true}) {
    Tensor p = parameter_of(values_of(4, 70 * 90), DType::bf16).detach().view({70, 90});
    if (transposed) p = transpose(transpose(p, 0, 1).contiguous(), 0, 1);
    p.requires_grad_();
    const auto optimizer = GetParam().make({p}, Value::Map{{"state_bits", 8}, {"master_weights", "split"}});
    run_steps(*optimizer, 1, 5);
    results.push_back(bits(p.detach().contiguous()));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(EveryPackedOptimizer, LoadsF32MomentsAndGivesThemBack) {
  const auto wide = GetParam().make(parameters()), packed = GetParam().make(parameters(), kPacked);
  run_steps(*wide, 1, 4);
  packed->load_state_dict(saved(*wide));
  EXPECT_EQ(packed->state_dict().options.at("param_groups").at(0).at("state_bits"), Value(8)) << "its own";
  for (const auto& [key, tensor] : wide->state_dict().tensors) {
    if (!key.starts_with("0.") || key == "0.step") continue;
    EXPECT_EQ(state_of(*packed, key).dtype(), DType::u8) << key;
    EXPECT_EQ(state_of(*packed, key).shape(), tensor.shape());
  }
  const auto back = GetParam().make(parameters());
  back->load_state_dict(saved(*packed));
  for (const auto& [key, tensor] : wide->state_dict().tensors) {
    const Tensor got = state_of(*back, key);
    ASSERT_EQ(got.dtype(), tensor.dtype()) << key;
    if (key.starts_with("1.") || key == "0.step") {
      EXPECT_EQ(bits(got), bits(tensor)) << key;
      continue;
    }
    const PackedMoments rounded = packed_moments(tensor, is_nonnegative(key.substr(2)));
    EXPECT_EQ(bits(got), bits(unpacked_moments(rounded, is_nonnegative(key.substr(2))))) << key;
  }
}

TEST(PackedMoments, ABrokenStateIsRefused) {
  Adam adam(parameters(), {.state_bits = 8});
  run_steps(adam, 1, 3);
  const auto before = state_bits(adam);
  const auto refuse = [&](const std::string& key, const Tensor& other) {
    OptimizerState state = saved(adam);
    std::erase_if(state.tensors, [&](const auto& entry) { return entry.first == key; });
    if (other.defined()) state.tensors.emplace_back(key, other);
    EXPECT_THROW(adam.load_state_dict(state), Error) << key;
    EXPECT_EQ(state_bits(adam), before);
  };
  refuse("0.exp_avg_scale", {});
  refuse("0.exp_avg_scale", ones({3}));
  refuse("0.exp_avg_scale", ones({20}, {.dtype = DType::i32}));
  refuse("0.exp_avg", {});
  refuse("0.exp_avg", zeros({7}, {.dtype = DType::u8}));
  refuse("0.exp_avg", zeros({5000}, {.dtype = DType::i32}));
}

TEST(PackedMoments, OtherBitsAreRefused) {
  for (const std::int64_t wrong : {0, 4, 16, -8})
    EXPECT_THROW(Adam(parameters(), {.state_bits = wrong}), ValueError) << wrong;
}

TEST(PackedMoments, AreForF32AndNarrowerParameters) {
  const std::vector<Tensor> with = parameters(DType::f64), without = parameters(DType::f64);
  AdamW a(with, {.state_bits = 8}), b(without, {});
  run_steps(a, 1, 4);
  run_steps(b, 1, 4);
  EXPECT_EQ(bits(with[0]), bits(without[0]));
}

TEST(PackedMoments, TakeAQuarterOfF32sMemory) {
  constexpr std::int64_t kLarge = 1 << 20;
  const auto bytes_of = [](std::int64_t bits_of_state) {
    const Tensor p = zeros({kLarge}).requires_grad_();
    p.set_grad(ones({kLarge}));
    AdamW adam(std::vector<Tensor>{p}, {.state_bits = bits_of_state});
    reset_peak_memory_stats(Device::cpu());
    const std::int64_t before = memory_stats(Device::cpu()).current;
    adam.step();
    return static_cast<double>(memory_stats(Device::cpu()).peak - before);
  };
  EXPECT_LT(bytes_of(8), 0.27 * bytes_of(32));
}

TEST(PackedMoments, TrainAsF32Moments) {
  const auto loss_after = [](std::int64_t bits_of_state) {
    Generator generator(5);
    const Tensor w = zeros({64, 128}).requires_grad_();
    const Tensor truth = normal(0, 1, {64, 128}, {}, generator);
    AdamW adam(std::vector<Tensor>{w}, {.lr = 0.05, .weight_decay = 0, .state_bits = bits_of_state});
    Tensor loss;
    for (int step = 0; step < 60; ++step) {
      const Tensor x = normal(0, 1, {32, 128}, {}, generator);
      adam.zero_grad();
      loss = mse_loss(linear(x, w), linear(x, truth));
      loss.backward();
      adam.step();
    }
    return loss.item();
  };
  // Both moments are off by up to half of the distance of entries, 0.7 % of the largest of a block.
  const double wide = loss_after(32);
  EXPECT_NEAR(loss_after(8), wide, 0.03 * wide);
}

}  // namespace
}  // namespace mezzo::optim
