// Which results of interpolate a place takes part in, against all results in turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/kernels/resample/interpolate_math.h"

namespace mezzo::kernels {
namespace {

constexpr Resampling kKinds[] = {Resampling::nearest, Resampling::nearest_exact, Resampling::linear,
                                 Resampling::cubic};
const std::vector<std::int64_t> kSizes{1, 2, 3, 4, 5, 7, 16, 33, 100, 333};

/// The weight that each place has in result o, by its taps.
template <class T>
std::vector<double> weights_in(const Resampler<T>& map, std::int64_t o) {
  std::vector<double> weights(static_cast<std::size_t>(map.in()), 0);
  const Taps<T> taps = map.taps_of(o);
  for (int k = 0; k < map.count(); ++k)
    weights[static_cast<std::size_t>(taps.at[k])] += static_cast<double>(taps.weight[k]);
  return weights;
}

template <class T>
void expect_readers_have_every_part(Resampling kind, const ResampledDim& dim, bool align_corners) {
  const Resampler<T> map(kind, dim, align_corners);
  const std::string name = "kind " + std::to_string(static_cast<int>(kind)) + ", " + std::to_string(dim.in) +
                           " to " + std::to_string(dim.out) + ", factor " + std::to_string(dim.factor) +
                           (align_corners ? ", aligned" : "");
  for (std::int64_t o = 0; o < dim.out; ++o) {
    const std::vector<double> weights = weights_in(map, o);
    for (std::int64_t i = 0; i < dim.in; ++i) {
      const Readers readers = map.readers(i);
      ASSERT_LE(0, readers.first) << name;
      ASSERT_LE(readers.last, dim.out) << name;
      const double expected = weights[static_cast<std::size_t>(i)];
      if (o < readers.first || o >= readers.last) {
        ASSERT_EQ(expected, 0) << name << ": result " << o << " reads place " << i;
      } else {
        // Taps on one place are added in T.
        ASSERT_NEAR(static_cast<double>(map.weight_of(o, i)), expected, 1e-6) << name;
      }
    }
  }
}

template <class T>
class ResamplerOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ResamplerOf, Types);

TYPED_TEST(ResamplerOf, ReadersAreAllResultsThatAPlaceHasAPartIn) {
  for (const Resampling kind : kKinds) {
    const bool has_corners = kind == Resampling::linear || kind == Resampling::cubic;
    for (const std::int64_t in : kSizes) {
      for (const std::int64_t out : kSizes) {
        expect_readers_have_every_part<TypeParam>(kind, {in, out}, false);
        if (has_corners) expect_readers_have_every_part<TypeParam>(kind, {in, out}, true);
      }
    }
  }
}

TYPED_TEST(ResamplerOf, AFactorDecidesWhereResultsLie) {
  for (const Resampling kind : kKinds) {
    for (const std::int64_t in : kSizes) {
      for (const double factor : {0.3, 0.5, 1.0, 1.7, 2.0, 2.9}) {
        const auto out = static_cast<std::int64_t>(std::floor(static_cast<double>(in) * factor));
        if (out >= 1) expect_readers_have_every_part<TypeParam>(kind, {in, out, factor}, false);
      }
    }
  }
}

TYPED_TEST(ResamplerOf, PlacesBehindTheLastResultHaveNoReaders) {
  // By the factor the results lie in the first half; by the sizes they would lie everywhere.
  const Resampler<TypeParam> map(Resampling::nearest, {100, 100, 2.0}, false);
  for (std::int64_t i = 50; i < 99; ++i) EXPECT_GE(map.readers(i).first, map.readers(i).last) << i;
  EXPECT_EQ(map.readers(49).last, 100);
}

}  // namespace
}  // namespace mezzo::kernels
