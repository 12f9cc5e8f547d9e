// Tensors as handles on memory: layout and sharing, reading values on the host and what that counts,
// printing, the allocator's statistics, and the messages of refused calls.
#include "mezzo/core/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/support/sanitizer.h"

namespace mezzo {
namespace {

using test::message_of;

// --- layout and sharing

TEST(Tensor, IsUndefinedUntilMade) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(none.requires_grad());
  EXPECT_EQ(to_string(none), "(undefined tensor)");
}

TEST(Tensor, EveryMemberOfAnUndefinedOneThrows) {
  const Tensor none, one = ones({1});
  const std::vector<std::pair<const char*, std::function<void()>>> members{
      {"shape", [&] { static_cast<void>(none.shape()); }},
      {"strides", [&] { static_cast<void>(none.strides()); }},
      {"dim", [&] { static_cast<void>(none.dim()); }},
      {"size", [&] { static_cast<void>(none.size(0)); }},
      {"numel", [&] { static_cast<void>(none.numel()); }},
      {"dtype", [&] { static_cast<void>(none.dtype()); }},
      {"device", [&] { static_cast<void>(none.device()); }},
      {"is_contiguous", [&] { static_cast<void>(none.is_contiguous()); }},
      {"suggest_memory_format", [&] { static_cast<void>(none.suggest_memory_format()); }},
      {"item", [&] { static_cast<void>(none.item()); }},
      {"item", [&] { static_cast<void>(none.item_scalar()); }},
      {"data", [&] { static_cast<void>(none.data<float>()); }},
      {"data", [&] { static_cast<void>(none.mutable_data<float>()); }},
      {"to_vector", [&] { static_cast<void>(none.to_vector<float>()); }},
      {"requires_grad_", [&] { none.requires_grad_(); }},
      {"requires_grad_", [&] { none.requires_grad_(false); }},
      {"is_leaf", [&] { static_cast<void>(none.is_leaf()); }},
      {"grad", [&] { static_cast<void>(none.grad()); }},
      {"set_grad", [&] { none.set_grad({}); }},
      {"set_grad", [&] { none.set_grad(one); }},
      {"backward", [&] { none.backward(); }},
      {"backward", [&] { none.backward(one, {}); }},
      {"detach", [&] { static_cast<void>(none.detach()); }},
      {"register_hook", [&] { none.register_hook([](const Tensor& gradient) { return gradient; }); }},
      {"remove_hook", [&] { none.remove_hook(0); }},
      {"version", [&] { static_cast<void>(none.version()); }},
      {"to", [&] { static_cast<void>(none.to(DType::f64)); }},
      {"to", [&] { static_cast<void>(none.to(Device::cpu())); }},
      {"to", [&] { static_cast<void>(none.to(MemoryFormat::channels_last)); }},
      {"contiguous", [&] { static_cast<void>(none.contiguous()); }},
      {"clone", [&] { static_cast<void>(none.clone()); }},
      {"add_", [&] { none.add_(one); }},
      {"add_", [&] { none.add_(1); }},
      {"add_", [&] { one.add_(none); }},
      {"mul_", [&] { none.mul_(one); }},
      {"mul_", [&] { none.mul_(1); }},
      {"mul_", [&] { one.mul_(none); }},
      {"addmm_",
       [&] {
         none.addmm_(ones({1, 1}), ones({1, 1}));
       }},
      {"copy_", [&] { none.copy_(one); }},
      {"copy_", [&] { one.copy_(none); }},
      {"fill_", [&] { none.fill_(1); }},
      {"fill_", [&] { none.zero_(); }},
  };
  for (const auto& [name, call] : members) {
    const std::string text = message_of<ValueError>(call);
    EXPECT_EQ(text.rfind(std::string(name) + ": ", 0), 0U) << name << ": " << text;
    EXPECT_NE(text.find("expected "), std::string::npos) << text;
    EXPECT_NE(text.find("undefined"), std::string::npos) << text;
  }
}

TEST(Tensor, KnowsItsShape) {
  const Tensor x = zeros({2, 3, 4}, {.dtype = DType::f16});
  EXPECT_EQ(x.dim(), 3);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.strides(), (Dims{12, 4, 1}));
  EXPECT_EQ(x.size(1), 3);
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.dtype(), DType::f16);
  EXPECT_TRUE(x.device().is_cpu());
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(zeros({}).numel(), 1);
  EXPECT_EQ(zeros({2, 0}).numel(), 0);
  EXPECT_EQ(message_of<IndexError>([&] { (void)x.size(3); }),
            "size: expected a dim in [-3, 2], got 3; the tensor has 3 dims");
  EXPECT_EQ(message_of<IndexError>([] { (void)zeros({}).size(0); }),
            "size: expected a tensor with dims, got a 0-dim tensor; use numel() or item()");
}

TEST(Tensor, CopiesAreHandlesOnTheSameValues) {
  const Tensor x = zeros({2});
  const Tensor y = x;
  EXPECT_TRUE(x.is_same(y));
  y.mutable_data<float>()[0] = 5;
  EXPECT_EQ(x.data<float>()[0], 5);
  EXPECT_FALSE(x.is_same(zeros({2})));
}

TEST(Tensor, IsMadeInAMemoryFormat) {
  const TensorOptions options{.memory_format = MemoryFormat::channels_last};
  const Tensor x = zeros({2, 3, 4, 5}, options);
  EXPECT_EQ(x.strides(), (Dims{60, 1, 15, 3}));
  EXPECT_TRUE(x.is_contiguous(MemoryFormat::channels_last));
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_EQ(x.suggest_memory_format(), MemoryFormat::channels_last);
  EXPECT_EQ(full({2, 3, 4, 5}, 1, options).to_vector<float>(), std::vector<float>(120, 1));
  EXPECT_EQ(zeros({2, 3, 4}, {.memory_format = MemoryFormat::preserve}).strides(), (Dims{12, 4, 1}));
  for (const Shape& shape : {Shape{2, 3}, Shape{1, 2, 3, 4, 5, 6}}) {
    EXPECT_EQ(message_of<ShapeError>([&] { (void)empty(shape, options); }),
              "empty: expected 3 to 5 dims [N, C, spatial...] for channels_last, got " + to_string(shape) +
                  "; use MemoryFormat::contiguous");
    EXPECT_THROW((void)zeros(shape).to(MemoryFormat::channels_last), ShapeError);
    EXPECT_THROW((void)zeros(shape).contiguous(MemoryFormat::channels_last), ShapeError);
  }
}

TEST(Tensor, ViewsShareStorageAndVersion) {
  const Tensor x = zeros({2, 3});
  const Tensor row = alias(x, {3}, {1}, 3, true);
  EXPECT_FALSE(row.is_same(x));
  const std::uint32_t version = x.version();
  row.mutable_data<float>()[1] = 7;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 0, 0, 0, 7, 0}));
  EXPECT_EQ(x.version(), version + 1);
  EXPECT_EQ(row.version(), x.version());
}

TEST(Tensor, CountsLivingViewsButNotDetachedHandles) {
  const Tensor x = zeros({2, 3});
  const Storage& storage = *x.impl().storage;
  {
    const Tensor view = alias(x, {3}, {1}, 0, true);
    const Tensor copy_of_handle = view;
    const Tensor detached = x.detach();
    EXPECT_EQ(storage.live_views(), 1);
  }
  EXPECT_EQ(storage.live_views(), 0);
}

TEST(Tensor, HasUpToEightDims) {
  const Tensor x = zeros({1, 2, 1, 2, 1, 2, 1, 2});
  EXPECT_EQ(x.dim(), 8);
  EXPECT_EQ(x.numel(), 16);
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)zeros({1, 1, 1, 1, 1, 1, 1, 1, 1});
            }),
            "shape: expected at most 8 dimensions, got more; flatten some of them");
}

TEST(Tensor, RefusesImpossibleRequests) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)empty({2, -1});
            }),
            "empty: expected sizes of at least 0, got [2, -1]; check the shape");
  EXPECT_EQ(message_of<DTypeError>([] { (void)zeros({1}, {.dtype = DType::i64, .requires_grad = true}); }),
            "empty: expected a floating dtype for requires_grad, got i64; use f32");
  EXPECT_EQ(
      message_of<ShapeError>([] {
        (void)empty({1 << 30, 1 << 30});
      }),
      "empty: expected fewer than 2^60 elements, sizes of 0 left out, got [1073741824, 1073741824]; check "
      "the shape");
}

TEST(Tensor, RequiresGradOnlyWhenAskedFor) {
  EXPECT_FALSE(zeros({1}).requires_grad());
  const Tensor x = zeros({1}, {.requires_grad = true});
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(x.detach().requires_grad());
}

// --- values on the host

TEST(Item, ReadsOneElementOfAnyDTypeAndPlace) {
  for (const DType dtype : kAllDTypes) EXPECT_EQ(ones({1, 1}).to(dtype).item(), 1);
  EXPECT_EQ(full({}, 9007199254740993, {.dtype = DType::i64}).item<std::int64_t>(), 9007199254740993);
  EXPECT_EQ(full({}, 2.5).item<float>(), 2.5F);
  EXPECT_EQ(tensor(Float8E4M3(-3.5F)).item<Float8E4M3>(), Float8E4M3(-3.5F));
  EXPECT_EQ(full({}, true, {.dtype = DType::boolean}).item_scalar().kind(), DTypeKind::boolean);
  const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}, {2, 2});
  EXPECT_EQ(select(select(x, 1, 1), 0, 0).item(), 2);
  EXPECT_EQ(message_of<ShapeError>([&] { (void)x.item(); }),
            "item: expected a tensor of one element, got [2, 2]; reduce it first or use to_vector()");
  EXPECT_THROW((void)zeros({0}).item(), ShapeError);
}

TEST(Data, IsTheMemoryOfAContiguousTensorOfThatType) {
  const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}, {2, 2});
  EXPECT_EQ(x.data<float>().size(), 4U);
  EXPECT_EQ(select(x, 0, 1).data<float>()[0], 3);
  EXPECT_EQ(
      message_of<DTypeError>([&] { (void)x.data<double>(); }),
      "data: expected f32 (the tensor's dtype), got f64; ask for the tensor's own type, or convert with "
      "to(dtype)");
  EXPECT_EQ(message_of<ShapeError>([&] { (void)t(x).data<float>(); }),
            "data: expected a contiguous tensor, got strides [1, 2]; call contiguous() first");
  EXPECT_TRUE(zeros({0}).data<float>().empty());
}

TEST(Data, OfAChannelsLastTensorIsRefusedUntilItIsRowMajor) {
  const Tensor x = empty({1, 2, 2, 1}, {.memory_format = MemoryFormat::channels_last});
  EXPECT_EQ(message_of<ShapeError>([&] { (void)x.data<float>(); }),
            "data: expected a contiguous tensor, got strides [4, 1, 2, 2]; call contiguous() first");
  EXPECT_EQ(x.contiguous().data<float>().size(), 4U);
}

TEST(ToVector, FollowsStridesAndConverts) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(t(x).to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(tensor({1.5, -1.5}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, -1}));
  EXPECT_EQ(tensor(7).to_vector<double>(), std::vector<double>{7});
  EXPECT_TRUE(zeros({3, 0}).to_vector<double>().empty());
  EXPECT_EQ(expand(t(x), {2, 3, 2}).to_vector<int>(), (std::vector<int>{1, 4, 2, 5, 3, 6, 1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(expand(tensor(7), {3}).to_vector<int>(), (std::vector<int>{7, 7, 7}));
  EXPECT_EQ(slice(x, 1, 0, 3, 2).to_vector<int>(), (std::vector<int>{1, 3, 4, 6}));
  EXPECT_EQ(permute(reshape(arange(8), {2, 2, 2}), {1, 2, 0}).to_vector<int>(),
            (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
}

template <class T>
void check_float8_patterns() {
  std::vector<T> patterns;
  for (int i = 0; i < 256; ++i) patterns.push_back(T::from_bits(static_cast<std::uint8_t>(i)));
  const Tensor x = from_data(std::span<const T>(patterns), {2, 128});
  EXPECT_EQ(x.dtype(), dtype_of<T>);
  EXPECT_TRUE(std::ranges::equal(x.data<T>(), patterns));
  EXPECT_THROW((void)x.data<std::uint8_t>(), DTypeError);
  const std::vector<double> got = x.to_vector<double>();
  for (std::size_t i = 0; i < 256; ++i) {
    const auto want = static_cast<double>(patterns[i]);
    EXPECT_TRUE(got[i] == want || (std::isnan(got[i]) && std::isnan(want))) << i;
  }
  // Of host values: the dtype is theirs unless another is asked for.
  const std::vector<T> two{T(1.5F), T(-8.0F)};
  const Tensor of_two = tensor(two), wide = tensor(two, DType::f32),
               of_doubles = tensor({1.5, -8.0}, x.dtype());
  EXPECT_EQ(of_two.dtype(), dtype_of<T>);
  EXPECT_EQ(wide.dtype(), DType::f32);
  for (const Tensor& y : {of_two, wide, of_doubles})
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1.5F, -8.0F}));
  const Tensor shared = from_span(std::span(patterns), {256});
  shared.mutable_data<T>()[0] = T(1.0F);
  EXPECT_EQ(patterns[0], T(1.0F));
}

TEST(Float8Tensor, HoldsItsPatternsAndGivesTheirValues) {
  check_float8_patterns<Float8E4M3>();
  check_float8_patterns<Float8E5M2>();
}

TEST(ToVector, OfNumbersWithoutAnIntegerFollowsTheCastRules) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(tensor({std::nan(""), infinity, -infinity}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, INT64_MAX, INT64_MIN}));
}

TEST(HostReads, AreCountedOncePerCallAndOnlyForValues) {
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true}), one = tensor(1.0);
  const auto reads = [](const std::function<void()>& f) {
    const std::uint64_t before = host_reads();
    f();
    return host_reads() - before;
  };
  EXPECT_EQ(reads([&] { (void)one.item(); }), 1U);
  EXPECT_EQ(reads([&] { (void)x.data<float>(); }), 1U);
  EXPECT_EQ(reads([&] { (void)x.to_vector<double>(); }), 1U);
  EXPECT_EQ(reads([&] { (void)to_string(x); }), 1U);
  EXPECT_EQ(reads([&] {
              (void)x.shape();
              (void)x.to(Device::cpu());
              (void)add(x, one).to(DType::f16);
              (void)reshape(t(x), {1, 2});
              add(select(x, 0, 1), one).backward();
            }),
            0U);
}

// --- printing

/// The text that PyTorch 2.15 prints for the tensor, with its shape and dtype in mezzo's words.
std::string as_torch(const std::string& values, const std::string& rest) {
  return "tensor(" + values + ", " + rest + ")";
}

TEST(Printing, IsPyTorchsWithShapeAndDtype) {
  EXPECT_EQ(to_string(tensor({1.0, 2.5, -3.0, 0.0}, {2, 2})),
            as_torch("[[ 1.0000,  2.5000],\n        [-3.0000,  0.0000]]", "shape=[2, 2], dtype=f32"));
  EXPECT_EQ(to_string(tensor({1, 20, -300})), as_torch("[   1,   20, -300]", "shape=[3], dtype=i64"));
  EXPECT_EQ(to_string(tensor({true, false})), as_torch("[ true, false]", "shape=[2], dtype=bool"));
  EXPECT_EQ(to_string(tensor(3)), "tensor(3, shape=[], dtype=i64)");
  EXPECT_EQ(to_string(tensor(3.0)), "tensor(3., shape=[], dtype=f32)");
  EXPECT_EQ(to_string(tensor({1e-9, 1.0})), as_torch("[1.0000e-09, 1.0000e+00]", "shape=[2], dtype=f32"));
  EXPECT_EQ(to_string(tensor({1e6, 1.0})), as_torch("[1.0000e+06, 1.0000e+00]", "shape=[2], dtype=f32"));
  EXPECT_EQ(to_string(tensor({1.0, INFINITY, std::nan("")})),
            as_torch("[1., inf, nan]", "shape=[3], dtype=f32"));
  EXPECT_EQ(to_string(tensor({0.0, -0.0, 5.0})), as_torch("[0., -0., 5.]", "shape=[3], dtype=f32"));
  EXPECT_EQ(to_string(tensor({-1.5, 100.25}, DType::f16)),
            as_torch("[ -1.5000, 100.2500]", "shape=[2], dtype=f16"));
  EXPECT_EQ(to_string(tensor({1.0, 2.5, -448.0, std::nan("")}, DType::f8_e4m3)),
            as_torch("[   1.0000,    2.5000, -448.0000,       nan]", "shape=[4], dtype=f8_e4m3"));
  EXPECT_EQ(to_string(tensor({INFINITY, 57344.0, 1e-5}, DType::f8_e5m2)),
            as_torch("[       inf, 5.7344e+04, 1.5259e-05]", "shape=[3], dtype=f8_e5m2"));
  EXPECT_EQ(to_string(zeros({2, 0})), "tensor([], shape=[2, 0], dtype=f32)");
  EXPECT_EQ(to_string(zeros({1}, {.requires_grad = true})),
            "tensor([0.], shape=[1], dtype=f32, requires_grad=true)");
}

TEST(Printing, FollowsStrides) {
  EXPECT_EQ(to_string(t(tensor({1, 2, 3, 4}, {2, 2}))),
            as_torch("[[1, 3],\n        [2, 4]]", "shape=[2, 2], dtype=i64"));
  const Tensor image = tensor({1, 2, 3, 4}, {1, 2, 2}).to(MemoryFormat::channels_last);
  EXPECT_EQ(image.strides(), (Dims{4, 1, 2}));
  EXPECT_EQ(to_string(image), as_torch("[[[1, 2],\n         [3, 4]]]", "shape=[1, 2, 2], dtype=i64"));
}

TEST(Printing, KeepsEveryDigitOfIntegers) {
  EXPECT_EQ(to_string(tensor({9007199254740993, INT64_MIN})),
            as_torch("[    9007199254740993, -9223372036854775808]", "shape=[2], dtype=i64"));
}

TEST(Printing, BreaksLongRows) {
  EXPECT_EQ(to_string(arange(30) * 1.5),
            as_torch("[ 0.0000,  1.5000,  3.0000,  4.5000,  6.0000,  7.5000,  9.0000, 10.5000,\n"
                     "        12.0000, 13.5000, 15.0000, 16.5000, 18.0000, 19.5000, 21.0000, 22.5000,\n"
                     "        24.0000, 25.5000, 27.0000, 28.5000, 30.0000, 31.5000, 33.0000, 34.5000,\n"
                     "        36.0000, 37.5000, 39.0000, 40.5000, 42.0000, 43.5000]",
                     "shape=[30], dtype=f32"));
}

TEST(Printing, ShowsTheEdgesOfLargeTensors) {
  EXPECT_EQ(to_string(arange(1001)),
            as_torch("[   0,    1,    2,  ...,  998,  999, 1000]", "shape=[1001], dtype=i64"));
  EXPECT_EQ(to_string(arange(1000)).find("..."), std::string::npos);
  EXPECT_EQ(to_string(arange(2000).view({20, 100})),
            as_torch("[[   0,    1,    2,  ...,   97,   98,   99],\n"
                     "        [ 100,  101,  102,  ...,  197,  198,  199],\n"
                     "        [ 200,  201,  202,  ...,  297,  298,  299],\n"
                     "        ...,\n"
                     "        [1700, 1701, 1702,  ..., 1797, 1798, 1799],\n"
                     "        [1800, 1801, 1802,  ..., 1897, 1898, 1899],\n"
                     "        [1900, 1901, 1902,  ..., 1997, 1998, 1999]]",
                     "shape=[20, 100], dtype=i64"));
}

// --- memory

TEST(Memory, StatisticsFollowTensors) {
  const Device cpu = Device::cpu();
  reset_peak_memory_stats(cpu);
  const MemoryStats before = memory_stats(cpu);
  EXPECT_EQ(before.peak, before.current);
  {
    const Tensor x = zeros({1000});
    EXPECT_EQ(memory_stats(cpu).current, before.current + 4000);
    const Tensor view = alias(x, {10}, {1}, 0, true);
    EXPECT_EQ(memory_stats(cpu).current, before.current + 4000) << "a view takes none";
    { const Tensor y = zeros({500}, {.dtype = DType::f64}); }
    EXPECT_EQ(memory_stats(cpu).current, before.current + 4000);
  }
  const MemoryStats after = memory_stats(cpu);
  EXPECT_EQ(after.current, before.current);
  EXPECT_EQ(after.peak, before.current + 8000);
  EXPECT_EQ(after.allocations, before.allocations + 2);
  reset_peak_memory_stats(cpu);
  EXPECT_EQ(memory_stats(cpu).peak, before.current);
}

TEST(Memory, OutlivesTheTensorWhileAViewUsesIt) {
  const std::int64_t before = memory_stats(Device::cpu()).current;
  Tensor view;
  {
    const Tensor x = zeros({1000});
    view = alias(x, {10}, {1}, 990, true);
  }
  EXPECT_EQ(memory_stats(Device::cpu()).current, before + 4000);
  EXPECT_EQ(view.to_vector<float>(), std::vector<float>(10, 0));
  view = Tensor();
  EXPECT_EQ(memory_stats(Device::cpu()).current, before);
}

TEST(Memory, IsAlignedForTheWidestVectors) {
  for (const std::int64_t n : {1, 17, 5000, 300000}) {
    const Tensor x = empty({n}, {.dtype = DType::u8});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.impl().data()) % 64, 0U) << n;
  }
}

TEST(Memory, IsReusedUntilTheCacheIsEmptied) {
  if (test::under_address_sanitizer()) GTEST_SKIP() << "there freed memory goes straight back";
  const Device cpu = Device::cpu();
  { const Tensor x = zeros({12345}); }
  const MemoryStats cached = memory_stats(cpu);
  { const Tensor x = zeros({12345}); }
  EXPECT_EQ(memory_stats(cpu).system_allocations, cached.system_allocations);
  EXPECT_EQ(memory_stats(cpu).reserved, cached.reserved);
  empty_cache(cpu);
  EXPECT_LE(memory_stats(cpu).reserved, cached.reserved - 4 * 12345);
  { const Tensor x = zeros({12345}); }
  EXPECT_EQ(memory_stats(cpu).system_allocations, cached.system_allocations + 1);
}

TEST(Memory, RunningOutSaysHowMuchIsHeldAndChangesNothing) {
  const MemoryStats before = memory_stats(Device::cpu());
  const std::string message = message_of<OutOfMemoryError>([] { (void)empty({1 << 30, 1 << 20}); });
  EXPECT_EQ(message.find("allocate: expected 4503599627370496 free bytes on cpu, got "), 0U) << message;
  EXPECT_NE(message.find(std::to_string(before.current) + " bytes held by tensors"), std::string::npos)
      << message;
  EXPECT_EQ(memory_stats(Device::cpu()).current, before.current);
  EXPECT_EQ(memory_stats(Device::cpu()).allocations, before.allocations);
}

// --- devices

TEST(Device, ParsesItsOwnNames) {
  for (const Device device : {Device::cpu(), Device::cuda(0), Device::cuda(3)})
    EXPECT_EQ(Device::parse(to_string(device)), device);
  EXPECT_EQ(Device::parse("cuda"), Device::cuda(0));
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0"})
    EXPECT_THROW((void)Device::parse(text), ValueError) << text;
}

TEST(Device, ThatIsNotThereIsRefusedWithTheCause) {
  const std::string message = message_of<DeviceError>([] { (void)zeros({1}, {.device = Device::cuda(99)}); });
  const Backend* const cuda = find_backend(DeviceType::cuda);
  if (cuda == nullptr) {
    EXPECT_EQ(message,
              "device: expected a device of this build, got cuda:99; mezzo was built without CUDA: use "
              "Device::cpu() or Device::best()");
  } else if (cuda->device_count() == 0) {
    EXPECT_EQ(message, "device: expected a usable device, got cuda:99; " + cuda->description());
  } else {
    EXPECT_EQ(message, "device: expected an index from 0 to " + std::to_string(cuda->device_count() - 1) +
                           ", got cuda:99; the devices are: " + cuda->description());
    return;
  }
  EXPECT_EQ(Device::best(), Device::cpu());
  EXPECT_THROW((void)zeros({1}).to(Device::cuda(0)), DeviceError);
}

}  // namespace
}  // namespace mezzo
