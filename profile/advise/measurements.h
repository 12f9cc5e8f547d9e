// What was measured of a training step, from which the judge makes advice. Internal.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mezzo/profile/advise.h"

namespace mezzo::amp::detail {

/// The least gain that counts: two cores shared with others differ by some percent from turn to turn.
inline constexpr double kGain = 1.03;

/// Casts of a weight, in one step.
struct WeightCasts {
  std::string place;         ///< "Linear 'fc'"
  bool is_computed = false;  ///< the weight is no leaf
  std::int64_t casts = 0, bytes = 0;
};
/// An op that stays in f32 and whose results are cast to 16 bits, in one step.
struct Island {
  std::string op, place;  ///< of the first call
  std::int64_t casts = 0, bytes = 0;
};
/// Products of a weight [n, k] in one layer.
struct Product {
  std::string place;
  std::int64_t m = 0, n = 0, k = 0, calls = 0;
};

/// What one step under autocast ran.
struct Watched {
  std::optional<Device> device;        ///< of the first product in 16 bits, else of the first op
  std::optional<DType> dtype;          ///< of the first product in 16 bits
  std::set<std::string> half_modules;  ///< paths of modules with products in 16 bits
  std::int64_t casts = 0, bytes = 0;   ///< that autocast made
  std::vector<WeightCasts> weights;    ///< that were cast
  std::vector<Island> islands;         ///< the most bytes first
  std::vector<Product> products;       ///< of linear
  std::string odd_convolution;         ///< the first one with channels that are no multiples of 8
  bool has_row_major_images = false;   ///< a convolution of them
};

/// A change that was tried beside what it changes, in turns.
struct Trial {
  AdviceKind kind = AdviceKind::sizes;
  std::string what = {};         ///< "norms in bf16"
  std::string write = {};        ///< what to write
  std::string cause = {};        ///< what is wrong without; may be empty
  double before = 0, after = 0;  ///< seconds: of the shortest turns
  std::int64_t per_step = 0;     ///< 0: of whole steps; else of a part that a step has so many times
  bool is_above_noise = false;   ///< faster in most turns
};
/// A larger batch, in f32 and under autocast.
struct BatchTrial {
  std::int64_t samples = 0, times = 1;
  double f32 = 0, autocast = 0;  ///< seconds
};
/// Gradients of a layer that are not 0 in f32, and in f16, scaled, are 0 or subnormal.
struct LostGradients {
  std::string path;          ///< of the module
  double share = 0;          ///< of those that are not 0 in f32
  double share_in_bf16 = 0;  ///< with a rule that lets the layer run in bf16
};

struct Measurements {
  Device device;
  DType dtype = DType::bf16;
  bool opens_region = false;     ///< measured was a function that opens its own
  bool has_instructions = true;  ///< of the dtype
  double f32_seconds = 0, seconds = 0;
  double call_seconds = 0;   ///< of an op on one number
  std::int64_t samples = 0;  ///< of the batch; 0: not known
  profile::Report f32, autocast;
  Watched watched;
  std::vector<Trial> trials;
  std::vector<BatchTrial> batches;
  std::vector<LostGradients> gradients;
  double scale = 0;          ///< of the scaler
  std::int64_t skipped = 0;  ///< steps until it was there
  std::vector<std::string> untried;
};

/// "layer_norm stays in f32 (first in LayerNorm '1'), and its results are cast 2 times a step, 1.5 MB".
[[nodiscard]] std::string described(const Island& island);
/// The advice that follows, in order. A function of its argument alone.
[[nodiscard]] Advisory judge(Measurements measured);

}  // namespace mezzo::amp::detail
