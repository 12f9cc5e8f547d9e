// Module::to: dtype and memory change behind the handles. The oracle for values is `to` of single tensors.
#include "mezzo/autograd/half_copy.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

/// Numbers that a 16-bit type must round.
Tensor odd_values() { return tensor({3}, {1.0F / 3, 1234.567F, -0.1F}); }

TEST(Convert, KeepsIdentityAndRoundsOnce) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    Block block;
    block.b.set(odd_values());
    const Tensor handle = block.b;
    const Tensor expected = to(handle.detach(), dtype);
    const std::uint32_t version = handle.version();
    block.to(dtype);
    EXPECT_TRUE(handle.is_same(block.b));
    EXPECT_EQ(handle.dtype(), dtype);
    EXPECT_EQ(handle.to_vector<double>(), expected.to_vector<double>());
    EXPECT_GT(handle.version(), version);
    EXPECT_TRUE(handle.requires_grad());
    EXPECT_TRUE(handle.is_leaf());
    EXPECT_TRUE(handle.is_contiguous());
  }
}

TEST(Convert, LeavesIntegersAloneAndTakesFloatingBuffersAlong) {
  Block block;
  block.to(DType::bf16);
  EXPECT_EQ(block.seen->dtype(), DType::i64);
  EXPECT_EQ(block.mask->dtype(), DType::bf16);
  EXPECT_EQ(dynamic_cast<Gain&>(*block.first).weight->dtype(), DType::bf16);
}

TEST(Convert, ChangesNothingWhereNothingIsToDo) {
  Block block;
  const std::uint32_t version = block.a->version();
  const Ref<Storage> memory = block.a->impl().storage;
  block.to(DType::f32).to(Device::cpu());
  EXPECT_EQ(block.a->version(), version);
  EXPECT_EQ(block.a->impl().storage, memory);
}

TEST(Convert, KeepsTiedTensorsTied) {
  Net net;
  net.head->a.set(net.stem->a);
  net.to(DType::f64);
  EXPECT_TRUE(net.head->a->is_same(net.stem->a));
  EXPECT_EQ(net.head->a->dtype(), DType::f64);
}

TEST(Convert, TakesGradientsAlongWithoutHistory) {
  Block block;
  const Tensor gradient = odd_values();
  block.b->set_grad(gradient);
  block.to(DType::f16);
  EXPECT_EQ(block.b->grad().dtype(), DType::f16);
  EXPECT_TRUE(block.b->grad().is_leaf());
  EXPECT_EQ(values(block.b->grad()), values(to(gradient, DType::f16)));
  EXPECT_EQ(gradient.dtype(), DType::f32) << "a gradient held elsewhere stays";
}

TEST(Convert, LeavesViewsOfTheOldMemoryBehind) {
  Block block;
  const NamedTensors before = block.state_dict();
  block.to(DType::f64);
  block.b->mutable_data<double>()[0] = 99;
  EXPECT_EQ(before[0].first, "b");
  EXPECT_EQ(before[0].second.dtype(), DType::f32);
  EXPECT_EQ(values(before[0].second), (std::vector<float>{20, 21, 22}));
}

TEST(Convert, MakesAViewATensorOfItsOwn) {
  const Tensor base = counting({4});
  Block block;
  block.a.set(alias(base, {2, 2}, {1, 2}, 0, true));
  EXPECT_EQ(base.impl().storage->live_views(), 1);
  block.to(DType::f64);
  EXPECT_EQ(base.impl().storage->live_views(), 0);
  EXPECT_EQ(values(block.a), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(block.a->impl().storage->live_views(), 0);
  EXPECT_FALSE(block.a->impl().is_view);
}

TEST(Convert, GoesOnGivingGradientsToTheSameHandle) {
  Block block;
  const Tensor handle = block.b;
  block.to(DType::f64);
  sum(mul(block.b, block.b)).backward();
  EXPECT_EQ(handle.grad().dtype(), DType::f64);
  EXPECT_EQ(handle.grad().to_vector<double>(), (std::vector<double>{40, 42, 44}));
}

TEST(Convert, IsNoticedByAGraphThatSavedTheTensor) {
  for (const int writes : {0, 1, 5}) {
    Block block;
    for (int i = 0; i < writes; ++i) (void)block.b->mutable_data<float>();
    const Tensor loss = sum(mul(block.b, block.b));
    block.to(DType::f64);
    EXPECT_THROW(loss.backward(), AutogradError) << writes << " writes before";
  }
}

TEST(Convert, DropsSixteenBitCopies) {
  Block block;
  const Ref<Storage> copy = half_copy(block.b, DType::f16).impl().storage;
  EXPECT_EQ(copy->use_count(), 2U) << "the leaf keeps it";
  block.to(DType::f64);
  EXPECT_EQ(copy->use_count(), 1U);
  block.to(DType::f32);
  block.b->mutable_data<float>()[0] = 5;
  EXPECT_EQ(values(half_copy(block.b, DType::f16))[0], 5);
}

TEST(Convert, RefusesIntegersAndDevicesThatAreNotThere) {
  Block block;
  EXPECT_THROW(block.to(DType::i32), DTypeError);
  EXPECT_THROW(block.to(Device::cuda(1000)), DeviceError);
  EXPECT_EQ(block.a->dtype(), DType::f32);
  EXPECT_EQ(block.a->device(), Device::cpu());
}

TEST(Convert, MovesToADeviceAndBack) {
  const Device device = Device::best();
  if (device.is_cpu()) GTEST_SKIP() << "no other device here";
  Block block;
  const Tensor handle = block.b;
  block.to(device);
  EXPECT_EQ(handle.device(), device);
  EXPECT_EQ(block.seen->device(), device);
  block.to(Device::cpu());
  EXPECT_EQ(values(handle), (std::vector<float>{20, 21, 22}));
}

}  // namespace

}  // namespace mezzo::nn
