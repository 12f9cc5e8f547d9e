// Channels-last tensors through the library: conversions and their gradients, which ops keep the format, that
// none takes the memory for row-major, gradients and optimizers, and a block of a network in which nothing
// but the input is converted.
#include <gtest/gtest.h>

#include "mezzo/optim/adam.h"
#include "mezzo/tests/ops/channels_last_block.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

constexpr auto kLast = MemoryFormat::channels_last;

const Shape kImage{2, 6, 4, 5};

Tensor image(DType dtype = DType::f32) { return random(kImage, dtype).to(kLast); }

TEST(MemoryFormat, ConversionsKeepValuesAndShareWhatLiesRight) {
  const Tensor x = counted(kImage);
  const Tensor y = x.to(kLast);
  EXPECT_EQ(y.strides(), (Dims{120, 1, 30, 6}));
  EXPECT_TRUE(same_bits(x, y));
  EXPECT_EQ(static_cast<const double*>(y.impl().data())[1], 20) << "the second channel of the first place";
  EXPECT_TRUE(y.to(kLast).is_same(y));
  EXPECT_TRUE(y.contiguous(kLast).is_same(y));
  EXPECT_TRUE(y.to(MemoryFormat::preserve).is_same(y));
  EXPECT_TRUE(x.contiguous(MemoryFormat::preserve).is_same(x));
  EXPECT_EQ(y.contiguous().strides(), x.strides());
  EXPECT_EQ(y.to(MemoryFormat::contiguous).strides(), x.strides());
  EXPECT_EQ(y.clone().strides(), y.strides());
  EXPECT_EQ(clone(y, MemoryFormat::contiguous).strides(), x.strides());
  EXPECT_EQ(clone(narrow(y, 1, 1, 3)).strides(), (Dims{60, 1, 15, 3})) << "a slice becomes dense";
  EXPECT_EQ(y.to(DType::bf16).strides(), y.strides());
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{2, 3, 2, 1, 4}})
    EXPECT_TRUE(same_bits(counted(shape).to(kLast), counted(shape))) << to_string(shape);
}

TEST(MemoryFormat, IsTakenByImagesOfOneChannel) {
  const Tensor x = counted({2, 1, 3, 4});
  EXPECT_TRUE(x.is_contiguous(kLast)) << "dense in both";
  const Tensor y = x.to(kLast);
  EXPECT_EQ(y.suggest_memory_format(), kLast);
  EXPECT_EQ(relu(y).suggest_memory_format(), kLast);
  EXPECT_EQ(y.to(MemoryFormat::contiguous).suggest_memory_format(), MemoryFormat::contiguous);
  EXPECT_TRUE(same_bits(x, y));
}

TEST(MemoryFormat, OfAGradientFollowsTheUse) {
  const Tensor x = random(kImage, DType::f64).requires_grad_(), g = random(kImage, DType::f64, -1, 1, 0.3);
  const Tensor y = x.to(kLast);
  EXPECT_TRUE(same_bits(grad({&y, 1}, {&x, 1}, {&g, 1}, {.retain_graph = true})[0], g));
  const Tensor square = y * y;
  const Tensor found = grad(sum(square), {x})[0];
  EXPECT_TRUE(same_bits(found, x.detach() * 2.0));
}

using Map = std::function<Tensor(const Tensor&)>;

/// Ops whose results have the shape of their input or are joined along channels.
std::vector<std::pair<const char*, Map>> keepers() {
  const Tensor mask = to(random({6, 1, 1}, DType::f32), DType::boolean),
               other = random({6, 1, 1}, DType::f32);
  const Tensor low = random(kImage, DType::f32, -1, 0), high = random(kImage, DType::f32, 0, 1, 0.5);
  const Tensor kept = lt(low, -0.5);
  return {{"add a channel", [=](const Tensor& x) { return x + other; }},
          {"from a number", [](const Tensor& x) { return 2.0 - x; }},
          {"where", [=](const Tensor& x) { return where(kept, x, x * 2.0); }},
          {"lerp", [=](const Tensor& x) { return lerp(x, other, 0.25); }},
          {"addcmul", [=](const Tensor& x) { return addcmul(x, other, other); }},
          {"clamp", [](const Tensor& x) { return clamp(x, -1, 1); }},
          {"clamp by tensors", [=](const Tensor& x) { return clamp(x, low, high); }},
          {"maximum", [=](const Tensor& x) { return maximum(x, other); }},
          {"masked_fill", [=](const Tensor& x) { return masked_fill(x, kept, 3); }},
          {"dropout", [=](const Tensor& x) { return dropout(x, kept, 0.5); }},
          {"pow", [](const Tensor& x) { return pow(x, 2); }},
          {"power of 0", [](const Tensor& x) { return pow(x, 0) * x; }},
          {"sin", [](const Tensor& x) { return sin(x); }},
          {"gelu", [](const Tensor& x) { return gelu(x); }},
          {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
          {"prelu", [=](const Tensor& x) { return prelu(x, tensor({0.25})); }},
          {"gate", [](const Tensor& x) { return narrow(x, 1, 0, 3) * sigmoid(narrow(x, 1, 3, 3)); }},
          {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
          {"log_softmax", [](const Tensor& x) { return log_softmax(x, 3); }},
          {"cumsum", [](const Tensor& x) { return cumsum(x, 2); }},
          {"cat",
           [](const Tensor& x) {
             return cat({x, x * 2.0, narrow(x, 1, 0, 1)}, 1);
           }},
          {"cat along the batch",
           [=](const Tensor& x) {
             return cat({low, x}, 0);
           }},
          {"narrow", [](const Tensor& x) { return relu(narrow(x, 1, 2, 3)); }},
          {"crop", [](const Tensor& x) { return relu(slice(x, 3, 1, std::nullopt, 2)); }},
          {"flip", [](const Tensor& x) { return flip(x, {3}); }},
          {"roll", [](const Tensor& x) { return roll(x, {1}, {1}); }},
          {"pad",
           [](const Tensor& x) {
             return pad(x, {1, 2, 0, 1});
           }},
          {"mse_loss", [=](const Tensor& x) { return mse_loss(x, low, Reduction::none); }},
          {"huber_loss", [=](const Tensor& x) { return huber_loss(x, low, Reduction::none); }},
          {"batch_norm", [](const Tensor& x) { return batch_norm(x, {}, {}, {}, {}, true); }},
          {"instance_norm", [](const Tensor& x) { return instance_norm(x); }},
          {"group_norm", [](const Tensor& x) { return group_norm(x, 3); }},
          {"conv2d",
           [](const Tensor& x) {
             return conv2d(x, random({5, 6, 3, 3}, DType::f32));
           }},
          {"cast", [](const Tensor& x) { return x.to(DType::f64); }}};
}

TEST(MemoryFormat, IsKeptByResultsAndGradients) {
  const Tensor row_major = random(kImage, DType::f32);
  for (const auto& [name, f] : keepers()) {
    const auto run = [&keep = f](const Tensor& values) {
      const Tensor x = values.detach();
      x.requires_grad_();
      const Tensor y = keep(x);
      const Tensor g = random(y.shape(), y.dtype(), -1, 1, 0.3).to(y.suggest_memory_format());
      return Tensors{y.detach(), grad({&y, 1}, {&x, 1}, {&g, 1})[0]};
    };
    const Tensors got = run(row_major.to(kLast)), want = run(row_major);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(got[i].suggest_memory_format(), kLast)
          << name << ", number " << i << ", strides " << to_string(got[i].strides());
      expect_near(got[i], list(want[i]), 1e-5, 1e-5);
    }
  }
}

TEST(MemoryFormat, IsThatOfTensorsMadeLikeAnother) {
  const Tensor x = image();
  for (const Tensor& like : {zeros_like(x), ones_like(x), full_like(x, 2), empty_like(x, DType::i64)})
    EXPECT_EQ(like.strides(), x.strides());
  EXPECT_EQ(list(full_like(x, 2)), Doubles(240, 2));
  EXPECT_EQ(zeros_like(narrow(x, 1, 0, 2)).strides(), (Dims{40, 1, 10, 2}));
}

TEST(MemoryFormat, OfAnInPlaceResultStays) {
  const Tensor x = image(), y = random(kImage, DType::f32, 0, 1, 0.7);
  const Tensor want = x.contiguous() + y;
  EXPECT_TRUE(same_bits(x.clone().add_(y), want));
  EXPECT_EQ(x.clone().add_(y).strides(), x.strides());
  const Tensor rows = x.contiguous().clone();
  EXPECT_TRUE(same_bits(rows.copy_(x), x));
  EXPECT_TRUE(rows.is_contiguous());
}

// A copy that keeps the format must not be taken for a row-major one.
TEST(MemoryFormat, ChangesNoValueOfOpsThatRearrange) {
  const Tensor index = indices({2, 1, 1, 1}, {3, 1}), values = random({2, 1, 1, 1}, DType::f32);
  const std::vector<std::pair<const char*, Map>> functions{
      {"reshape",
       [](const Tensor& x) {
         return reshape(x, {12, -1});
       }},
      {"flatten", [](const Tensor& x) { return flatten(x, 1); }},
      {"permute",
       [](const Tensor& x) {
         return reshape(permute(x, {0, 2, 3, 1}), {-1, 6});
       }},
      {"roll", [](const Tensor& x) { return roll(x, {7}); }},
      {"index_put",
       [](const Tensor& x) {
         return index_put(x, {indices({1}), indices({5})}, tensor({7.0}));
       }},
      {"index",
       [](const Tensor& x) {
         return mezzo::index(x, {indices({1}), indices({5, 2})});
       }},
      {"index_select",
       [](const Tensor& x) {
         return index_select(x, 1, indices({5, 2}));
       }},
      {"scatter", [=](const Tensor& x) { return scatter(x, 1, index, values); }},
      {"scatter_add", [=](const Tensor& x) { return scatter_add(x, 1, index, values); }},
      {"gather", [=](const Tensor& x) { return gather(x, 1, index); }},
      {"sort", [](const Tensor& x) { return sort(x, 1).values; }},
      {"pixel_shuffle", [](const Tensor& x) { return pixel_shuffle(narrow(x, 1, 0, 4), 2); }},
      {"layer_norm",
       [](const Tensor& x) {
         return layer_norm(x, {4, 5});
       }},
      {"sum",
       [](const Tensor& x) {
         return sum(x, {0, 3});
       }},
      {"matmul", [](const Tensor& x) { return matmul(x, transpose(x, 2, 3)); }},
      {"repeat", [](const Tensor& x) { return repeat_interleave(x, 2, 1); }}};
  for (const auto& [name, f] : functions) {
    const Tensor x = random(kImage, DType::f32);
    EXPECT_TRUE(same_bits(f(x.to(kLast)), f(x))) << name;
  }
}

TEST(MemoryFormat, OfAStoredGradientIsThatOfItsLeaf) {
  const Tensor values = random(kImage, DType::f32), factor = random(kImage, DType::f32, -1, 1, 0.3);
  for (const auto format : {MemoryFormat::contiguous, kLast}) {
    const Tensor x = values.to(format).detach();
    x.requires_grad_();
    for (int i = 1; i <= 2; ++i) {
      // The op's own gradient is channels-last.
      sum(x * factor.to(kLast)).backward();
      EXPECT_EQ(x.grad().strides(), x.strides());
      EXPECT_TRUE(same_bits(x.grad(), factor * static_cast<double>(i)));
    }
  }
}

TEST(MemoryFormat, OfAGradientDoesNotMatterToOptimizers) {
  const Tensor values = random(kImage, DType::f32), gradient = random(kImage, DType::f32, -1, 1, 0.3);
  const auto stepped = [&](MemoryFormat of_parameter, MemoryFormat of_gradient) {
    const Tensor p = clone(values, of_parameter).detach();
    p.requires_grad_();
    optim::Adam optimizer(std::vector<Tensor>{p});
    for (int i = 0; i < 2; ++i) {
      p.set_grad(gradient.to(of_gradient));
      optimizer.step();
    }
    return p.detach();
  };
  const Tensor want = stepped(MemoryFormat::contiguous, MemoryFormat::contiguous);
  EXPECT_TRUE(same_bits(stepped(MemoryFormat::contiguous, kLast), want));
  EXPECT_TRUE(same_bits(stepped(kLast, kLast), want));
  EXPECT_TRUE(same_bits(stepped(kLast, MemoryFormat::contiguous), want));
}

// The 16-bit copies of leaves that autocast keeps lie as the leaves do.
TEST(MemoryFormat, OfALeafIsThatOfItsCopyUnderAutocast) {
  const Tensor values = random(kImage, DType::f32), w = random({5, 3}, DType::f32);
  const auto product = [&](MemoryFormat format) {
    const Tensor x = values.to(format).detach();
    x.requires_grad_();
    const amp::Autocast autocast(Device::cpu(), DType::bf16);
    return matmul(x, w) + matmul(x, w);
  };
  EXPECT_TRUE(same_bits(product(kLast), product(MemoryFormat::contiguous)));
}

TEST(MemoryFormat, IsConvertedOnceForABlock) {
  expect_no_conversion(Device::cpu(), DType::f64, 1e-11);
  expect_no_conversion(Device::cpu(), DType::f32, 2e-3);
}

TEST(MemoryFormat, IsNotConvertedInsideOfOps) { expect_no_hidden_copies(Device::cpu()); }

}  // namespace
}  // namespace mezzo
