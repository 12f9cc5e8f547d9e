// DLPack: what is handed out, what is taken over, and when memory goes back. tests/plugin/dlpack.py exchanges
// tensors with NumPy and PyTorch.
#include "mezzo/tests/io/dlpack_structs.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::io {
namespace {

using test::message_of;

/// A tensor of somebody else's: f32 values 0, 1, ... of shape [2, 3], which counts its deleter's calls.
template <class Managed>
struct Foreign {
  Foreign() {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    managed.dl_tensor = {values.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape.data(), nullptr, 0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    if constexpr (requires { managed.version; }) managed.version = {1, 0};
  }
  std::vector<float> values = std::vector<float>(12);
  std::array<std::int64_t, 9> shape{2, 3, 1, 1, 1, 1, 1, 1, 1}, strides{};
  int deleted = 0;
  Managed managed{};
};
using Old = Foreign<DLManagedTensor>;
using New = Foreign<DLManagedTensorVersioned>;

TEST(Dlpack, GivesMemoryShapeAndStrides) {
  const Tensor x = arange(6, DType::f32).view({2, 3});
  const Tensor turned = x.t()[1].unsqueeze(0);
  DLManagedTensorVersioned* const shared = to_dlpack(turned);
  EXPECT_EQ(shared->version.major, 1U);
  EXPECT_EQ(shared->flags, 0U);
  const DLTensor& t = shared->dl_tensor;
  EXPECT_EQ(t.data, turned.impl().data());
  EXPECT_EQ(t.device.device_type, kDLCPU);
  EXPECT_EQ(t.ndim, 2);
  EXPECT_EQ(t.shape[0], 1);
  EXPECT_EQ(t.shape[1], 2);
  EXPECT_EQ(t.strides[1], 3);
  EXPECT_EQ(t.dtype.code, kDLFloat);
  EXPECT_EQ(t.dtype.bits, 32);
  EXPECT_EQ(t.dtype.lanes, 1);
  EXPECT_EQ(t.byte_offset, 0U);
  shared->deleter(shared);
}

TEST(Dlpack, KeepsTheMemoryOfWhatItGave) {
  DLManagedTensor* shared = nullptr;
  {
    const Tensor x = tensor({1.0, 2.0, 3.0});
    shared = to_dlpack_unversioned(x);
  }
  EXPECT_EQ(static_cast<const float*>(shared->dl_tensor.data)[2], 3);
  shared->deleter(shared);
}

TEST(Dlpack, EveryDtypeComesBack) {
  for (const DType dtype : kAllDTypes) {
    const Tensor x = tensor({{0, 1}, {1, 0}}).to(dtype);
    const Tensor y = from_dlpack(to_dlpack(x.t()));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(equal(y, x.t()));
    EXPECT_EQ(y.impl().data(), x.impl().data());
    EXPECT_TRUE(equal(from_dlpack(to_dlpack_unversioned(x)), x));
  }
  EXPECT_EQ(from_dlpack(to_dlpack(zeros({0, 3}))).shape(), (Shape{0, 3}));
  EXPECT_EQ(from_dlpack(to_dlpack(tensor(5.0))).item(), 5);
}

TEST(Dlpack, Float8HasCodesOfItsOwn) {
  for (const auto& [dtype, code] :
       {std::pair{DType::f8_e4m3, kDLFloat8_e4m3fn}, std::pair{DType::f8_e5m2, kDLFloat8_e5m2}}) {
    DLManagedTensorVersioned* const shared = to_dlpack(tensor({1.5, -2.0}, dtype));
    EXPECT_EQ(shared->dl_tensor.dtype.code, code);
    EXPECT_EQ(shared->dl_tensor.dtype.bits, 8);
    shared->deleter(shared);
  }
  // Other formats of 8 bits: e4m3fnuz is 11.
  Old foreign;
  foreign.managed.dl_tensor.dtype = {11, 8, 1};
  EXPECT_THROW(static_cast<void>(from_dlpack(&foreign.managed)), DTypeError);
}

TEST(Dlpack, TakesMemoryOverAndGivesItBackOnce) {
  New foreign;
  {
    const Tensor w = ones({2, 3}).requires_grad_();
    Tensor loss;
    {
      const Tensor x = from_dlpack(&foreign.managed);
      EXPECT_EQ(x.impl().data(), foreign.values.data());
      x.mul_(2);
      loss = sum(w * x);
    }
    EXPECT_EQ(foreign.deleted, 0);  // the graph needs it
    EXPECT_EQ(foreign.values[5], 10);
    loss.backward();
    EXPECT_EQ(w.grad()[1][2].item(), 10);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(Dlpack, FollowsStridesAndOffset) {
  Old foreign;
  foreign.strides = {1, 2};
  foreign.managed.dl_tensor.strides = foreign.strides.data();
  foreign.managed.dl_tensor.byte_offset = 4;
  EXPECT_TRUE(equal(from_dlpack(&foreign.managed), tensor({{1.0, 3, 5}, {2.0, 4, 6}})));
}

TEST(Dlpack, RefusesWhatItCannotShare) {
  EXPECT_THROW(static_cast<void>(to_dlpack(Tensor())), ValueError);
  EXPECT_EQ(message_of<AutogradError>([] { static_cast<void>(to_dlpack(ones({2}).requires_grad_())); }),
            "to_dlpack: expected a tensor without history, got one that requires grad; detach() it");
  EXPECT_THROW(static_cast<void>(from_dlpack(static_cast<DLManagedTensor*>(nullptr))), ValueError);
}

/// What from_dlpack throws for a tensor that `bend` has changed; it must have given it back.
template <class E, class F, class Bend>
std::string refused(const Bend& bend) {
  F foreign;
  bend(foreign);
  std::string message = message_of<E>([&] { static_cast<void>(from_dlpack(&foreign.managed)); });
  EXPECT_EQ(foreign.deleted, 1) << message;
  return message;
}

TEST(Dlpack, GivesBackWhatItRefuses) {
  EXPECT_EQ(
      (refused<DTypeError, Old>([](Old& f) {
        f.managed.dl_tensor.dtype = {kDLComplex, 64, 1};
      })),
      "from_dlpack: expected a dtype that mezzo has, got code 5 of 64 bits and 1 lanes; convert it where it "
      "comes from");
  refused<DTypeError, Old>([](Old& f) { f.managed.dl_tensor.dtype.lanes = 4; });
  refused<DeviceError, Old>([](Old& f) { f.managed.dl_tensor.device.device_type = kDLROCM; });
  refused<ShapeError, Old>([](Old& f) { f.managed.dl_tensor.ndim = 9; });
  refused<ShapeError, Old>([](Old& f) { f.shape[1] = -1; });
  refused<ShapeError, Old>([](Old& f) {
    f.strides = {3, -1};
    f.managed.dl_tensor.strides = f.strides.data();
  });
  refused<ShapeError, Old>([](Old& f) {
    f.strides = {INT64_MAX, INT64_MAX};
    f.managed.dl_tensor.strides = f.strides.data();
  });
  refused<ShapeError, Old>([](Old& f) { f.shape = {INT64_MAX, INT64_MAX}; });
  refused<ValueError, Old>([](Old& f) { f.managed.dl_tensor.byte_offset = 2; });
  refused<ValueError, New>([](New& f) { f.managed.version.major = 2; });
  refused<ValueError, New>([](New& f) { f.managed.flags = 1; });
}

}  // namespace
}  // namespace mezzo::io
