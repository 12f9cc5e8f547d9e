// Which results of interpolate a place takes part in, and with which weights, against the taps of all
// results.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/kernels/resample/interpolate_math.h"

namespace mezzo::kernels {
namespace {

constexpr Resampling kKinds[] = {Resampling::nearest, Resampling::nearest_exact, Resampling::linear,
                                 Resampling::cubic};
const std::vector<std::int64_t> kSizes{1, 2, 3, 4, 5, 7, 16, 33, 100};

/// Taps rise with the result: those of `readers` are behind all whose highest tap lies before place i, and
/// before all whose lowest one lies beyond it.
template <class T>
void expect_same_readers(const Resampler<T>& map, std::int64_t i, const std::vector<Taps<T>>& of_results,
                         const std::string& name) {
  std::int64_t before = 0, not_beyond = 0;
  for (const Taps<T>& taps : of_results) {
    before += taps.at[map.count() - 1] < i ? 1 : 0;
    not_beyond += taps.at[0] <= i ? 1 : 0;
  }
  const Readers readers = map.readers(i);
  ASSERT_EQ(readers.first, before) << name << ", place " << i;
  ASSERT_EQ(readers.last, not_beyond) << name << ", place " << i;
}

template <class T>
void expect_same_weights(const Resampler<T>& map, std::int64_t o, const Taps<T>& taps,
                         const std::string& name) {
  std::vector<T> weights(static_cast<std::size_t>(map.in()), T(0));
  for (int k = 0; k < map.count(); ++k) weights[static_cast<std::size_t>(taps.at[k])] += taps.weight[k];
  for (std::int64_t i = 0; i < map.in(); ++i) {
    const T expected = weights[static_cast<std::size_t>(i)];
    ASSERT_EQ(map.weight_of(o, i), expected) << name << ", result " << o << ", place " << i;
    if (map.count() <= 2) {
      ASSERT_EQ(map.template weight_of<2>(o, i), expected) << name;
    }
    if (map.count() == 1) {
      ASSERT_EQ(map.template weight_of<1>(o, i), expected) << name;
    }
  }
}

template <class T>
void expect_transposed_taps(Resampling kind, const ResampledDim& dim, bool align_corners) {
  const Resampler<T> map(kind, dim, align_corners);
  const std::string name = "kind " + std::to_string(static_cast<int>(kind)) + ", " + std::to_string(dim.in) +
                           " to " + std::to_string(dim.out) + ", factor " + std::to_string(dim.factor) +
                           (align_corners ? ", aligned" : "");
  std::vector<Taps<T>> of_results;
  for (std::int64_t o = 0; o < dim.out; ++o) {
    of_results.push_back(map.taps_of(o));
    expect_same_weights(map, o, of_results.back(), name);
  }
  for (std::int64_t i = 0; i < dim.in; ++i) expect_same_readers(map, i, of_results, name);
}

template <class T>
class ResamplerOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ResamplerOf, Types);

TYPED_TEST(ResamplerOf, ReadersAndWeightsAreThoseOfTheTaps) {
  for (const Resampling kind : kKinds) {
    const bool has_corners = kind == Resampling::linear || kind == Resampling::cubic;
    for (const std::int64_t in : kSizes) {
      for (const std::int64_t out : kSizes) {
        expect_transposed_taps<TypeParam>(kind, {in, out}, false);
        if (has_corners) expect_transposed_taps<TypeParam>(kind, {in, out}, true);
      }
    }
  }
}

// Results may then lie in the first places only, or many of them at the last one.
TYPED_TEST(ResamplerOf, AFactorDecidesWhereResultsLie) {
  for (const Resampling kind : kKinds) {
    for (const std::int64_t in : kSizes) {
      for (const std::int64_t out : kSizes) {
        for (const double factor : {0.3, 0.5, 1.0, 1.7, 2.9})
          expect_transposed_taps<TypeParam>(kind, {in, out, factor}, false);
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
