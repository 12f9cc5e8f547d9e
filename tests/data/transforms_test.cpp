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

const std::map<std::string, Affine> kTurns{
    {"turn", {.degrees = 25}},
    {"all", {.degrees = -40, .right = 2, .down = -1, .scale = 1.3, .shear_x = 10, .shear_y = -7}},
    {"move", {.right = 3, .down = 1}}};

TEST(Transforms, AffineAsTorchvisionDoes) {
  for (const auto& [name, by] : kTurns) {
    expect_golden("affine." + name + ".nearest", affine(goldens().at("bytes"), by));
    // As of rotate.
    expect_golden("affine." + name + ".bilinear",
                  affine(goldens().at("image"), by, {.mode = GridSampleMode::bilinear}), 40 * 0x1p-23);
  }
}

TEST(Transforms, BoxesGoWhereTheImageGoes) {
  const Tensor& boxes = goldens().at("boxes");
  const ImageSize size(7, 10);
  for (const auto& [name, by] : kTurns)  // numbers up to 10, of a few roundings
    expect_golden("boxes." + name, transform_boxes(boxes, size, {.affine = by}), 40 * 0x1p-23);
  expect_golden("boxes.crop", transform_boxes(boxes, size, {.crop = Box{1, 2, 4, 5}}));
  expect_golden("boxes.resize", transform_boxes(boxes, size, {.size = ImageSize(14, 11)}), 11 * 0x1p-23);
  expect_golden("boxes.hflip", transform_boxes(boxes, size, {.hflip = true}));
  expect_golden("boxes.vflip", transform_boxes(boxes, size, {.vflip = true}));
  // One after the other as all at once.
  const Geometry all{
      .crop = Box{1, 2, 4, 5}, .size = ImageSize(8, 15), .hflip = true, .affine = kTurns.at("all")};
  Tensor one = transform_boxes(boxes, size, {.crop = all.crop});
  one = transform_boxes(one, {4, 5}, {.size = all.size});
  one = transform_boxes(transform_boxes(one, {8, 15}, {.hflip = true}), {8, 15}, {.affine = all.affine});
  EXPECT_TRUE(equal(transform_boxes(boxes, size, all), one));
}

TEST(Transforms, ColoursAndBlurAsTorchvisionDoes) {
  for (const std::string name : {"image", "bytes", "images", "gray"}) {
    const Tensor& x = goldens().at(name == "gray" ? "image" : name);
    const Tensor image = name == "gray" ? narrow(x, 0, 0, 1) : x;
    // Sums of 15 products of numbers below 1; of bytes a half may be rounded either way.
    const Tensor blurred = gaussian_blur(image, {3, 5}, 1.25);
    if (name == "bytes") {
      EXPECT_LE((blurred.to(DType::f64) - goldens().at("blur.bytes").to(DType::f64)).abs().max().item(), 1);
    } else {
      expect_golden("blur." + name, blurred, 16 * 0x1p-23);
    }
    for (const char* factor : {"0.0", "0.5", "1.7"}) {
      const double by = std::stod(factor);
      const std::string end = std::string(".") + factor + "." + name;
      expect_golden("brightness" + end, adjust_brightness(image, by), 4 * 0x1p-23);
      expect_golden("contrast" + end, adjust_contrast(image, by), 8 * 0x1p-23);
      expect_golden("saturation" + end, adjust_saturation(image, by), 8 * 0x1p-23);
    }
    for (const char* factor : {"-0.5", "0.1", "0.4"}) {
      // Twelve sixths of the circle are added before the remainder is taken: 18 * 2^-23.
      const Tensor moved = adjust_hue(image, std::stod(factor));
      const Tensor& expected = goldens().at(std::string("hue.") + factor + "." + name);
      const double difference = (moved.to(DType::f64) - expected.to(DType::f64)).abs().max().item();
      EXPECT_LE(difference, name == "bytes" ? 1 : 24 * 0x1p-23) << factor << " " << name;
    }
  }
}

TEST(Transforms, JointChangesImageMaskAndBoxesAlike) {
  // The mask has the image's own values, and the box is around the only bright rectangle.
  const Joint joint(RandomResizedCrop(16, {.resize = {.mode = InterpolateMode::nearest}}),
                    RandomHorizontalFlip(), RandomVerticalFlip(), CenterCrop(12),
                    Resize(24, {.mode = InterpolateMode::nearest}), RandomCrop(20),
                    ColorJitter({.brightness = 0.1}), ToDType(DType::f32));
  int seen = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    Tensor image = zeros({1, 24, 30}, {.dtype = DType::u8});
    narrow(narrow(image, 1, 8, 9), 2, 10, 12).fill_(200);
    const Tensor mask = image.select(0, 0).gt(0).to(DType::i64);
    Random random(7, 0, i);
    const MarkedImage out = joint(MarkedImage{image, mask, tensor({10.0, 8.0, 22.0, 17.0}, {1, 4})}, random);
    ASSERT_EQ(out.mask.dtype(), DType::i64);
    EXPECT_TRUE(equal(out.image.select(0, 0).gt(0), out.mask.eq(1)));
    const Tensor places = nonzero(out.mask);
    if (places.numel() == 0) continue;
    ++seen;
    const Tensor first = amin(places, {0}), last = amax(places, {0});
    const double edges[] = {first[1].item(), first[0].item(), last[1].item() + 1, last[0].item() + 1};
    // Nearest neighbours move an edge by up to the pixels that one of the image has become, twice.
    for (std::int64_t e = 0; e < 4; ++e) EXPECT_NEAR((out.boxes[{0, e}].item()), edges[e], 6) << i;
  }
  EXPECT_GT(seen, 80);
  // Of an Example the target is the mask; turned, 0 comes in from outside.
  Random random(8);
  const auto [image, mask] =
      Joint(RandomAffine(180, {.translate_x = 0.3, .min_scale = 0.5, .max_scale = 1.5}))(
          Example{ones({3, 9, 9}), full({9, 9}, std::int64_t{5})}, random);
  EXPECT_TRUE(equal(image.select(0, 0).gt(0), mask.eq(5)));
  EXPECT_TRUE(equal(mask.eq(0), mask.ne(5)));
}

TEST(Transforms, JitterAndAffineKeepToTheirRanges) {
  const Tensor image = full({3, 5, 5}, 0.5);
  std::set<double> levels;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Random random(9, 0, i);
    const Tensor brighter = ColorJitter({.brightness = 0.4})(image, random);
    levels.insert(brighter.max().item());
    EXPECT_EQ(brighter.max().item(), brighter.min().item());
    const auto by = RandomAffine(30, {.translate_y = 0.25, .min_scale = 0.8, .max_scale = 0.9, .shear_x = 5})
                        .choose({100, 50}, random)
                        .affine.value();
    EXPECT_LE(std::abs(by.degrees), 30);
    EXPECT_EQ(by.right, 0);
    EXPECT_LE(std::abs(by.down), 25);
    EXPECT_EQ(by.down, std::nearbyint(by.down));
    EXPECT_TRUE(by.scale >= 0.8 && by.scale <= 0.9 && by.shear_y == 0 && std::abs(by.shear_x) <= 5);
  }
  EXPECT_GE(*levels.begin(), 0.5 * 0.6 - 1e-6);
  EXPECT_LT(*levels.begin(), 0.5 * 0.65);
  EXPECT_LE(*levels.rbegin(), 0.5 * 1.4 + 1e-6);
  EXPECT_GT(*levels.rbegin(), 0.5 * 1.35);
  Random random;
  EXPECT_TRUE(equal(ColorJitter({})(image, random), image));
  EXPECT_TRUE(allclose(GaussianBlur(3)(image, random), image));
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
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(ColorJitter({.hue = 0.6})); }),
            "ColorJitter: expected hue of at least 0 and at most 0.5, got 0.6");
  EXPECT_EQ(
      message_of<ShapeError>([] {
        static_cast<void>(adjust_hue(ones({2, 4, 4}), 0.1));
      }),
      "adjust_hue: expected an image of 1 or 3 channels [..., C, H, W], got [2, 4, 4]; select the colours");
  EXPECT_THROW(static_cast<void>(adjust_brightness(ones({3, 4, 4}), -1)), ValueError);
  EXPECT_THROW(static_cast<void>(adjust_hue(ones({3, 4, 4}), 0.6)), ValueError);
  EXPECT_THROW(static_cast<void>(gaussian_blur(ones({3, 4, 4}), 4, 1)), ValueError);
  EXPECT_THROW(static_cast<void>(gaussian_blur(ones({3, 4, 4}), 9, 1)), ValueError);
  EXPECT_THROW(static_cast<void>(gaussian_blur(ones({3, 4, 4}), 3, 0)), ValueError);
  EXPECT_THROW(static_cast<void>(affine(ones({3, 4, 4}), {.scale = 0})), ValueError);
  EXPECT_THROW(static_cast<void>(affine(ones({3, 4, 4}), {.degrees = NAN})), ValueError);
  EXPECT_THROW(RandomAffine(-1), ValueError);
  EXPECT_THROW(RandomAffine(1, {.translate_x = 2}), ValueError);
  EXPECT_THROW(GaussianBlur(3, 0, 1), ValueError);
  EXPECT_THROW(static_cast<void>(transform_boxes(ones({4}), 4, {})), ShapeError);
  EXPECT_THROW(static_cast<void>(transform_boxes(ones({1, 4}).to(DType::i64), 4, {})), DTypeError);
  EXPECT_THROW(
      static_cast<void>(Joint(RandomHorizontalFlip())(Example{ones({1, 4, 4}), ones({3, 4})}, random)),
      ShapeError);
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
