// f32 masters of 16-bit parameters: what they are for, and that they follow their parameters.
#include <cmath>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr std::size_t kCount = 100;

/// Steps with gradients that 16 bits hold exactly, so that a master sees what an f32 parameter sees.
template <class Optimizer, class Options>
void check_tracks(const Options& options, DType dtype) {
  const Tensor half = parameter_of(values_of(1, kCount), dtype);
  const Tensor full_precision = parameter_of(half.to_vector<double>(), DType::f32);
  Options with_masters = options;
  with_masters.master_weights = true;
  Optimizer a(std::vector<Tensor>{half}, with_masters);
  Optimizer b(std::vector<Tensor>{full_precision}, options);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Tensor gradient = tensor(values_of(10 + step, kCount), {.dtype = dtype});
    half.set_grad(gradient);
    full_precision.set_grad(gradient.to(DType::f32));
    a.step();
    b.step();
    ASSERT_EQ(bits(state_of(a, "0.master")), bits(full_precision)) << "step " << step;
    ASSERT_EQ(bits(half), bits(full_precision.detach().to(dtype))) << "step " << step;
  }
}

TEST(MasterWeights, MakeA16BitParameterTheRoundedF32Run) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    check_tracks<SGD>(SGDOptions{.lr = 1e-3, .momentum = 0.9, .weight_decay = 0.01}, dtype);
    check_tracks<Adam>(AdamOptions{.lr = 1e-3}, dtype);
    check_tracks<AdamW>(AdamWOptions{.lr = 1e-3, .amsgrad = true}, dtype);
  }
}

TEST(MasterWeights, WithoutThemSmallUpdatesAreLost) {
  // bf16 has 8 bits: 1 - 1e-3 rounds back to 1, a hundred times over.
  const Tensor with = parameter_of({1}, DType::bf16), without = parameter_of({1}, DType::bf16);
  SGD a(std::vector<Tensor>{with}, {.lr = 1e-3, .master_weights = true});
  SGD b(std::vector<Tensor>{without}, {.lr = 1e-3});
  for (int i = 0; i < 100; ++i) {
    for (const Tensor& p : {with, without}) p.set_grad(ones({1}, {.dtype = DType::bf16}));
    a.step();
    b.step();
  }
  EXPECT_EQ(without.item(), 1);
  EXPECT_NEAR(with.item(), 0.9, 0x1p-9);
}

TEST(MasterWeights, AreKeptFor16BitParametersOnly) {
  const Tensor f32 = parameter_of({1}, DType::f32), f16 = parameter_of({1}, DType::f16);
  SGD sgd(std::vector<Tensor>{f32, f16}, {.master_weights = true});
  EXPECT_FALSE(sgd.has_master(0));
  EXPECT_TRUE(sgd.has_master(1));
  for (const Tensor& p : {f32, f16}) p.set_grad(ones({1}, {.dtype = p.dtype()}));
  sgd.step();
  EXPECT_FALSE(state_of(sgd, "0.master").defined());
  EXPECT_EQ(state_of(sgd, "1.master").dtype(), DType::f32);
  EXPECT_FALSE(SGD(std::vector<Tensor>{f16}).has_master(0));
}

TEST(MasterWeights, AStepMakesNoTemporariesWhenNobodyElseWrote) {
  const Tensor p = parameter_of({1, 2, 3}, DType::bf16);
  Adam adam(std::vector<Tensor>{p}, {.master_weights = true});
  p.set_grad(ones({3}, {.dtype = DType::bf16}));
  adam.step();
  const std::int64_t allocations = memory_stats(Device::cpu()).allocations;
  adam.step();
  EXPECT_EQ(memory_stats(Device::cpu()).allocations, allocations);
}

TEST(MasterWeights, TakeOverWhatOthersWriteToTheParameter) {
  const Tensor p = parameter_of({1, 2, 3}, DType::bf16);
  SGD sgd(std::vector<Tensor>{p}, {.lr = 1e-3, .master_weights = true});
  const auto step = [&] {
    p.set_grad(ones({3}, {.dtype = DType::bf16}));
    sgd.step();
  };
  step();
  const std::vector<double> master = state_of(sgd, "0.master").to_vector<double>();
  {
    const NoGrad no_grad;
    select(p, 0, 1).fill_(10.0);  // as a loaded checkpoint or another initialisation would
  }
  step();
  const auto moved = [](double value) {
    return static_cast<double>(static_cast<float>(value) - static_cast<float>(1e-3));
  };
  EXPECT_EQ(state_of(sgd, "0.master").to_vector<double>(),
            (std::vector<double>{moved(master[0]), moved(10), moved(master[2])}))
      << "elements that nobody wrote keep their f32 value";
}

TEST(MasterWeights, ALoadedMasterSurvivesLoadingTheModelAfterIt) {
  const Tensor source = parameter_of({1, 2}, DType::bf16), target = parameter_of({5, 6}, DType::bf16);
  const SGDOptions options{.lr = 1e-3, .momentum = 0.5, .master_weights = true};
  SGD a(std::vector<Tensor>{source}, options), b(std::vector<Tensor>{target}, options);
  const Tensor gradient = ones({2}, {.dtype = DType::bf16});
  for (int i = 0; i < 3; ++i) {
    source.set_grad(gradient);
    a.step();
  }
  b.load_state_dict(saved(a));
  {
    const NoGrad no_grad;
    target.copy_(source);
  }
  for (const Tensor& p : {source, target}) p.set_grad(gradient);
  a.step();
  b.step();
  EXPECT_EQ(bits(target), bits(source));
  EXPECT_EQ(bits(state_of(b, "0.master")), bits(state_of(a, "0.master")));
}

}  // namespace
}  // namespace mezzo::optim
