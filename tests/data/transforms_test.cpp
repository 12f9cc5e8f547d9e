// Transforms: their functions against torchvision's (files/transforms.py), their random choices by their
// laws.
#include "mezzo/data/transforms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/support/data_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;

/// torchvision's results by name.
const std::map<std::string, Tensor>& goldens() {
  static const std::map<std::string, Tensor> tensors = [] {
    const auto named = io::load(test::data_folder() + "/data/files/transforms.safetensors");
    return std::map<std::string, Tensor>(named.begin(), named.end());
  }();
  return tensors;
}

/// Equal to torchvision's; `tolerance` is for f32 results.
void expect_golden(const std::string& name, const Tensor& got, double tolerance = 0) {
  const Tensor& expected = goldens().at(name);
  ASSERT_EQ(got.shape(), expected.shape()) << name;
  ASSERT_EQ(got.dtype(), expected.dtype()) << name;
  const double difference = (got.to(DType::f64) - expected.to(DType::f64)).abs().max().item();
  EXPECT_LE(difference, is_floating(got.dtype()) ? tolerance : 0.0) << name;
}

TEST(Transforms, MoveElementsAsTorchvisionDoes) {
  for (const std::string name : {"image", "bytes", "images"}) {
    const Tensor& x = goldens().at(name);
    expect_golden("hflip." + name, hflip(x));
    expect_golden("vflip." + name, vflip(x));
    expect_golden("crop." + name, crop(x, {-1, 2, 4, 5}));
    for (const auto& [h, w] : {std::pair{4, 4}, {3, 6}, {9, 8}, {12, 13}})
      expect_golden("center_crop." + std::to_string(h) + "x" + std::to_string(w) + "." + name,
                    center_crop(x, {h, w}));
    expect_golden("erase." + name, erase(x, {1, 2, 3, 2}, 1));
  }
}

TEST(Transforms, ResizeAsTorchvisionDoes) {
  const std::map<std::string, InterpolateMode> modes{{"nearest", InterpolateMode::nearest},
                                                     {"nearest-exact", InterpolateMode::nearest_exact},
                                                     {"bilinear", InterpolateMode::bilinear},
                                                     {"bicubic", InterpolateMode::bicubic}};
  for (const std::string name : {"image", "images"}) {
    for (const auto& [text, mode] : modes) {
      // Weighted sums of at most 16 values below 1, in another order.
      expect_golden("resize." + text + ".3x4." + name, resize(goldens().at(name), {3, 4}, {.mode = mode}),
                    16 * 0x1p-23);
      expect_golden("resize." + text + ".14x11." + name, resize(goldens().at(name), {14, 11}, {.mode = mode}),
                    16 * 0x1p-23);
    }
    expect_golden("resize.edge." + name, resize_shorter_edge(goldens().at(name), 4, {.antialias = false}),
                  16 * 0x1p-23);
  }
}

TEST(Transforms, ResizedBytesAreWithinOneOfTorchvisions) {  // which rounds its weights to 16 bits
  for (const char* size : {"3x4", "14x11"}) {
    const ImageSize to = size[0] == '3' ? ImageSize(3, 4) : ImageSize(14, 11);
    const Tensor& expected = goldens().at(std::string("resize.bilinear.") + size + ".bytes");
    const Tensor got = resize(goldens().at("bytes"), to);
    ASSERT_EQ(got.dtype(), DType::u8);
    EXPECT_LE((got.to(DType::f64) - expected.to(DType::f64)).abs().max().item(), 1) << size;
    expect_golden(std::string("resize.nearest.") + size + ".bytes",
                  resize(goldens().at("bytes"), to, {.mode = InterpolateMode::nearest}));
  }
}

TEST(Transforms, IntegersOfEveryKindAreRounded) {
  const Tensor image = (goldens().at("image") - 0.5) * 200;  // from -100 to 100
  for (const DType dtype : {DType::i8, DType::i16, DType::i32, DType::i64}) {
    const Tensor whole = round(image).to(dtype);
    const Tensor expected = round(resize(whole.to(DType::f64), {3, 4}));
    EXPECT_TRUE(equal(resize(whole, {3, 4}).to(DType::f64), expected)) << dtype;
    EXPECT_LT(expected.min().item(), 0);
  }
  EXPECT_TRUE(equal(to_dtype(tensor({0.0, 1.0}), DType::i32).to(DType::i64), tensor({0, 2147483647})));
  const Tensor large = to_dtype(tensor({1.0}), DType::i64);
  EXPECT_GT(large.item<std::int64_t>(), std::int64_t{1} << 62U);
}

TEST(Transforms, RotateAsTorchvisionDoes) {
  for (const double degrees : {30.0, -77.5, 90.0}) {
    for (const std::string name : {"image", "bytes", "images"}) {
      std::string angle = std::to_string(degrees);
      angle.erase(angle.find('.') + 2);
      const Tensor& x = goldens().at(name);
      expect_golden("rotate.nearest." + angle + "." + name, rotate(x, degrees));
      if (!is_floating(x.dtype())) continue;
      // Coordinates up to 10 have an error of 10 * 2^-23, and neighbours differ by less than 1.
      const Tensor turned = rotate(x, degrees, {.mode = GridSampleMode::bilinear});
      expect_golden("rotate.bilinear." + angle + "." + name, turned, 40 * 0x1p-23);
      // What lies outside has the value `fill`, and is interpolated like the rest.
      const Tensor filled = rotate(x, degrees, {.mode = GridSampleMode::bilinear, .fill = 0.5});
      const Tensor expected = rotate(x - 0.5, degrees, {.mode = GridSampleMode::bilinear}) + 0.5;
      EXPECT_LE((filled - expected).abs().max().item(), 4 * 0x1p-23);
    }
  }
}

TEST(Transforms, NormalizeAndConvert) {
  const Tensor &image = goldens().at("image"), &bytes = goldens().at("bytes");
  expect_golden("normalize.image", data::normalize(image, {0.5, 0.25, 0.125}, {0.5, 1, 2}), 0x1p-22);
  expect_golden("f32.bytes", to_dtype(bytes, DType::f32), 0x1p-24);
  expect_golden("u8.image", to_dtype(image, DType::u8));
  expect_golden("i16.image", to_dtype(image, DType::i16));
  EXPECT_TRUE(equal(to_dtype(tensor({0.0, 0.5, 1.0}), DType::u8).to(DType::i64), tensor({0, 127, 255})));
  EXPECT_TRUE(equal(to_dtype(to_dtype(bytes, DType::f32), DType::u8), bytes));
  EXPECT_EQ(to_dtype(bytes, DType::f32, false).max().item(), bytes.max().item());
  EXPECT_EQ(data::normalize(ones({2, 2}), {1}, {2}).sum().item(), 0);
}

TEST(Transforms, RandomCropTakesEachPlace) {
  const Tensor image = (arange(16) + 1).reshape({1, 4, 4});
  const RandomCrop crop_2(2), padded(4, {.padding = 1});
  std::set<std::int64_t> corners, padded_corners;
  for (std::uint64_t i = 0; i < 300; ++i) {
    Random random(1, 0, i);
    const Tensor part = crop_2(image, random);
    ASSERT_EQ(part.shape(), (Shape{1, 2, 2}));
    EXPECT_EQ((part[{0, 1, 1}] - part[{0, 0, 0}]).item<std::int64_t>(), 5);
    corners.insert(part[{0, 0, 0}].item<std::int64_t>());
    padded_corners.insert(padded(image, random)[{0, 0, 0}].item<std::int64_t>());
  }
  EXPECT_EQ(corners, (std::set<std::int64_t>{1, 2, 3, 5, 6, 7, 9, 10, 11}));
  EXPECT_EQ(padded_corners, (std::set<std::int64_t>{0, 1, 2, 5, 6}));
}

TEST(Transforms, ChancesAndAnglesFollowTheirLaws) {
  const Tensor image = arange(2).to(DType::f32).reshape({1, 1, 2});
  int flipped = 0, upside_down = 0, erased = 0;
  constexpr int kCount = 2000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    Random random(2, 0, i);
    flipped += RandomHorizontalFlip(0.25)(image, random)[{0, 0, 0}].item() == 1 ? 1 : 0;
    upside_down += RandomVerticalFlip(0.75)(image.transpose(1, 2), random)[{0, 0, 0}].item() == 1 ? 1 : 0;
    erased += RandomErasing({.p = 0.5, .value = -1})(ones({1, 20, 20}), random).min().item() < 0 ? 1 : 0;
  }
  const auto five_deviations = [](double p) { return 5 * std::sqrt(kCount * p * (1 - p)); };
  EXPECT_NEAR(flipped, kCount * 0.25, five_deviations(0.25));
  EXPECT_NEAR(upside_down, kCount * 0.75, five_deviations(0.75));
  EXPECT_NEAR(erased, kCount * 0.5, five_deviations(0.5));
}

TEST(Transforms, RandomErasingAndResizedCropKeepToTheirRanges) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    Random random(3, 0, i);
    const Tensor holes =
        RandomErasing({.p = 1, .min_scale = 0.1, .max_scale = 0.2})(ones({1, 40, 30}), random);
    const double part = 1 - holes.mean().item();
    EXPECT_GT(part, 0.08);
    EXPECT_LT(part, 0.22);
    const Tensor x = arange(40).to(DType::f32).reshape({1, 40, 1}).expand({1, 40, 40}).contiguous();
    const Tensor y = RandomResizedCrop(
        8, {.min_scale = 0.25, .max_scale = 0.25, .min_ratio = 1, .max_ratio = 1})(x, random);
    ASSERT_EQ(y.shape(), (Shape{1, 8, 8}));
    EXPECT_NEAR((y[{0, 7, 0}] - y[{0, 0, 0}]).item(), 17.5, 1) << "20 rows shrunk to 8";
  }
}

TEST(Transforms, MixUpAndCutMixShareTargetsByThePart) {
  const Tensor x = arange(4).to(DType::f32).reshape({4, 1, 1, 1}).expand({4, 1, 8, 8}).contiguous();
  const Tensor labels = arange(4);
  for (std::uint64_t i = 0; i < 50; ++i) {
    Random random(4, 0, i);
    const Example mixed = MixUp(5, 0.4)({x, labels}, random);
    const Example cut = CutMix(5)({x, labels}, random);
    ASSERT_EQ(mixed.target.shape(), (Shape{4, 5}));
    for (std::int64_t n = 0; n < 4; ++n) {
      const std::int64_t before = (n + 3) % 4;
      const double part = mixed.target[{n, n}].item(), rest = mixed.target[{n, before}].item();
      EXPECT_NEAR(rest, 1 - part, 1e-6);
      EXPECT_NEAR((mixed.data[{n, 0, 3, 3}].item()),
                  part * static_cast<double>(n) + rest * static_cast<double>(before), 1e-6);
      const double own = (cut.data[n] == static_cast<double>(n)).to(DType::f32).mean().item();
      EXPECT_NEAR((cut.target[{n, n}].item()), own, 1e-6);
      EXPECT_NEAR((cut.target[{n, before}].item()), 1 - own, 1e-6);
    }
  }
}

TEST(Transforms, ComposeInALoader) {
  const TensorDataset dataset(arange(10 * 3 * 6 * 6).reshape({10, 3, 6, 6}).to(DType::u8), arange(10));
  const auto run = [&](int workers) {
    DataLoader loader(
        transform(dataset, Compose(RandomCrop(4, {.padding = 2}), RandomHorizontalFlip(), RandomRotation(20),
                                   ToDType(DType::f32), Normalize({0.5}, {0.25}), RandomErasing())),
        {.batch_size = 4, .shuffle = true, .num_workers = workers}, MixUp(10));
    std::vector<Tensor> tensors;
    for (const auto& [x, y] : loader) {
      EXPECT_EQ(y.size(1), 10);
      tensors.push_back(x);
      tensors.push_back(y);
    }
    return tensors;
  };
  const std::vector<Tensor> alone = run(0), shared = run(3);
  ASSERT_EQ(alone.size(), 6U);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(equal(alone[i], shared[i]));
}

TEST(Transforms, RefuseBadInput) {
  Random random;
  EXPECT_EQ(
      message_of<ValueError>([&] {
        static_cast<void>(RandomCrop(4)(ones({1, 3, 3}), random));
      }),
      "RandomCrop: expected an image of at least 4 x 4 with its padding, got 3 x 3; resize it, or pad it");
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(RandomHorizontalFlip(1.5)); }),
            "RandomHorizontalFlip: expected a probability from 0 to 1, got 1.5");
  EXPECT_EQ(
      message_of<ValueError>([] { static_cast<void>(RandomErasing({.min_scale = 0.5, .max_scale = 0.1})); }),
      "RandomErasing: expected a scale from a positive number to one that is no smaller, got 0.5 to 0.1");
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(MixUp(3, 0)); }),
            "MixUp: expected a positive, finite alpha, got 0");
  EXPECT_EQ(message_of<DTypeError>([] {
              static_cast<void>(data::normalize(ones({1, 2, 2}).to(DType::u8), {1}, {1}));
            }),
            "normalize: expected a floating image, got u8; convert it by ToDType first");
  EXPECT_EQ(message_of<ValueError>([] {
              static_cast<void>(data::normalize(ones({3, 2, 2}), {1, 2}, {1}));
            }),
            "normalize: expected one mean and std for each of 3 channels, or one, got 2");
  EXPECT_EQ(message_of<ShapeError>([] { static_cast<void>(hflip(ones({3}))); }),
            "hflip: expected an image [..., H, W], got [3]");
  EXPECT_EQ(message_of<ValueError>([] {
              static_cast<void>(erase(ones({4, 4}), {2, 0, 3, 1}));
            }),
            "erase: expected a box within 4 x 4, got 3 x 1 at row 2, column 0");
  EXPECT_EQ(message_of<ValueError>([] {
              static_cast<void>(resize(ones({1, 4, 4}), {0, 3}));
            }),
            "resize: expected a size of at least 1, got 0 x 3");
  EXPECT_EQ(message_of<ShapeError>([&] {
              static_cast<void>(MixUp(3)({ones({2, 2}), ones({2})}, random));
            }),
            "MixUp: expected integer labels [N], or [N, 3], got f32 [2]");
}

}  // namespace
}  // namespace mezzo::data
