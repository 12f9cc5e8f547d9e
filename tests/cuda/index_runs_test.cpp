// Places that many elements fall on: a device adds up whole pieces of such a run by themselves. Against the
// CPU where bits must be equal, against the same order written plainly, and in f64 within what f32 explains;
// on grids of any size.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

#include "cuda/twin.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/kernels/indexing/places.h"

namespace mezzo {
namespace {

using kernels::kRunPiece;
using Indices = std::vector<std::int64_t>;

const Device kDevice = Device::cuda(0);

class CudaIndexRuns : public twin::CudaTwin {
 protected:
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  static void same(const Function& f, const std::vector<Tensor>& inputs, const std::string& what) {
    std::vector<Tensor> there;
    for (const Tensor& x : inputs) there.push_back(x.to(kDevice));
    const Tensor expected = f(inputs), got = f(there);
    EXPECT_EQ(got.dtype(), expected.dtype());
    EXPECT_EQ(numbers(got), numbers(expected)) << what;
  }

 private:
  /// NaN as a number that no input has, so that it equals itself.
  static std::vector<double> numbers(const Tensor& x) {
    std::vector<double> result = to(x, DType::f64).to(Device::cpu()).to_vector<double>();
    for (double& value : result) value = std::isnan(value) ? 12345.678 : value;
    return result;
  }
};

/// n indices of `places` places.
struct Pattern {
  const char* name;
  std::function<Indices(std::int64_t n, std::int64_t places)> indices;
};
std::vector<Pattern> patterns() {
  const auto each = [](std::int64_t n, const auto& f) {
    std::mt19937 random(7);
    Indices result;
    for (std::int64_t i = 0; i < n; ++i) result.push_back(f(i, random));
    return result;
  };
  return {{"one hot", [=](auto n, auto) { return each(n, [](auto, auto&) { return std::int64_t{3}; }); }},
          {"two hot",
           [=](auto n, auto places) {
             return each(n, [=](auto, auto& random) { return random() % 5 == 0 ? 2 : places - 1; });
           }},
          {"Zipf",
           [=](auto n, auto places) {
             return each(n, [=](auto, auto& random) {
               const double share = static_cast<double>(random()) / 4294967296.0;
               return static_cast<std::int64_t>(std::pow(static_cast<double>(places), share)) - 1;
             });
           }},
          {"distinct",
           [=](auto n, auto places) { return each(n, [=](auto i, auto&) { return (i * 7919) % places; }); }}};
}

Tensor whole_numbers(const Shape& shape, DType dtype) {
  return to(sub(floor(mul(rand(shape), 9.0)), 4.0), dtype);
}

// Their sums are exact in any order, so an element that is lost or counted twice shows.
TEST_F(CudaIndexRuns, WholeNumbersAreSumsExactly) {
  constexpr std::int64_t kPlaces = 7001;  // a prime, so that "distinct" is
  manual_seed(1);
  for (const Pattern& pattern : patterns()) {
    for (const std::int64_t n :
         {std::int64_t{0}, kRunPiece - 1, kRunPiece, kRunPiece + 1, std::int64_t{6001}}) {
      const Tensor index = tensor(pattern.indices(n, kPlaces), {n});
      for (const DType dtype :
           {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i64, DType::i32, DType::i8, DType::u8}) {
        const Tensor x = to(floor(mul(rand({kPlaces}), 9.0)), dtype), src = whole_numbers({n}, dtype);
        const std::string what =
            std::string(pattern.name) + ", " + std::to_string(n) + ", " + to_string(dtype);
        same([](const auto& t) { return scatter_add(t[0], 0, t[1], t[2]); }, {x, index, src}, what);
        if (dtype != DType::f32) continue;
        same([](const auto& t) { return index_add(t[0], 0, t[1], t[2]); }, {x, index, src}, what);
        for (const DType narrow : {DType::i32, DType::i64})
          same([](const auto& t) { return index_put(t[0], {t[1]}, t[2], true); }, {x, to(index, narrow), src},
               what);
      }
    }
  }
}

TEST_F(CudaIndexRuns, AHundredThousandFallOnOnePlace) {
  constexpr std::int64_t kCount = 100'000;
  manual_seed(2);
  const Tensor x = zeros({5}), src = whole_numbers({kCount}, DType::f32);
  for (const Pattern& pattern : {patterns()[0], patterns()[1]}) {
    const Tensor index = tensor(pattern.indices(kCount, 5), {kCount});
    same([](const auto& t) { return scatter_add(t[0], 0, t[1], t[2]); }, {x, index, src}, pattern.name);
  }
}

TEST_F(CudaIndexRuns, LargestAndSmallestKeepNanAndTheCpusBits) {
  manual_seed(3);
  for (const Pattern& pattern : patterns()) {
    const Tensor index = tensor(pattern.indices(3000, 41), {3000}), src = randn({3000}), x = randn({41});
    for (const bool with_inf : {false, true}) {
      if (with_inf) twin::set_element(src, 1500, twin::kInf), twin::set_element(src, 17, -0.0);
      for (const ScatterReduction how :
           {ScatterReduction::amax, ScatterReduction::amin, ScatterReduction::prod}) {
        if (with_inf && how == ScatterReduction::prod) continue;  // 0 times inf equals nothing
        same([how](const auto& t) { return scatter_reduce(t[0], 0, t[1], t[2], how, true); }, {x, index, src},
             pattern.name);
      }
    }
    twin::set_element(src, 2000, twin::kNan);
    const Tensor got =
        scatter_reduce(x.to(kDevice), 0, index.to(kDevice), src.to(kDevice), ScatterReduction::amax, true);
    const std::int64_t place = index.to_vector<std::int64_t>()[2000];
    EXPECT_TRUE(std::isnan(got.to_vector<float>()[static_cast<std::size_t>(place)])) << pattern.name;
  }
}

/// The sum of a place in the order that is promised: whole pieces first, counted from the place's first
/// element, then what is behind them.
float sum_of_place(float value, const std::vector<float>& elements) {
  const auto whole = elements.size() / kRunPiece * kRunPiece;
  for (std::size_t begin = 0; begin < whole; begin += kRunPiece) {
    float piece = elements[begin];
    for (std::size_t i = begin + 1; i < begin + kRunPiece; ++i) piece += elements[i];
    value += piece;
  }
  for (std::size_t i = whole; i < elements.size(); ++i) value += elements[i];
  return value;
}

/// scatter_add along the first dim of [n, lanes], with indices of one lane for all, against sum_of_place, and
/// against f64.
void expect_sums(const Indices& indices, std::int64_t places, std::int64_t lanes) {
  const auto n = static_cast<std::int64_t>(indices.size());
  const Tensor x = randn({places, lanes}), src = randn({n, lanes}), index = tensor(indices, {n});
  const std::vector<float> base = x.to_vector<float>(), all = src.to_vector<float>();
  const std::vector<float> got =
      index_add(x.to(kDevice), 0, index.to(kDevice), src.to(kDevice)).to_vector<float>();
  for (std::int64_t p = 0; p < places; ++p) {
    for (std::int64_t l = 0; l < lanes; ++l) {
      const auto at = static_cast<std::size_t>(p * lanes + l);
      std::vector<float> own;
      double exact = base[at], sizes = std::abs(base[at]);
      for (std::int64_t i = 0; i < n; ++i) {
        if (indices[static_cast<std::size_t>(i)] != p) continue;
        own.push_back(all[static_cast<std::size_t>(i * lanes + l)]);
        exact += own.back(), sizes += std::abs(own.back());
      }
      ASSERT_EQ(got[at], sum_of_place(base[at], own)) << "place " << p << ", lane " << l;
      // A term takes part in as many roundings, each of half a unit in the last place.
      const double roundings = 2.0 * kRunPiece + static_cast<double>(own.size()) / kRunPiece;
      ASSERT_NEAR(got[at], exact, roundings * 0x1p-24 * sizes) << "place " << p << ", lane " << l;
    }
  }
}

void expect_all_sums() {
  manual_seed(4);
  for (const Pattern& pattern : patterns()) {
    expect_sums(pattern.indices(3001, 13), 13, 1);
    expect_sums(pattern.indices(1000, 13), 13, 5);
  }
  // Runs that end and begin within one slot of pieces, with and without pieces of their own.
  Indices lengths;
  for (const std::int64_t length : {1, 127, 128, 129, 3, 255, 256, 257, 130, 127, 126, 640, 1}) {
    const auto place = static_cast<std::int64_t>(lengths.empty() ? 0 : lengths.back() + 1);
    lengths.insert(lengths.end(), static_cast<std::size_t>(length), place);
  }
  expect_sums(lengths, 13, 1);
  std::shuffle(lengths.begin(), lengths.end(), std::mt19937(5));
  expect_sums(lengths, 13, 2);
}
TEST_F(CudaIndexRuns, SumsHaveThePromisedOrder) { expect_all_sums(); }

#if defined(MEZZO_CUDA_EMULATED)
// In processes of their own, as the device is asked for its size once. Their grids differ, the order that
// they are compared with does not.
TEST_F(CudaIndexRuns, AnyGridHasThePromisedOrder) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (const char* const multiprocessors : {"1", "132"}) {
    setenv("MEZZO_EMULATED_MULTIPROCESSORS", multiprocessors, 1);
    EXPECT_EXIT(
        {
          expect_all_sums();
          std::exit(::testing::Test::HasFailure() ? 1 : 0);
        },
        ::testing::ExitedWithCode(0), "");
  }
  unsetenv("MEZZO_EMULATED_MULTIPROCESSORS");
}
#endif

// Each row with indices of its own, and lanes whose elements are not neighbours.
TEST_F(CudaIndexRuns, RowsWithTheirOwnIndices) {
  manual_seed(6);
  const Tensor x = whole_numbers({3, 11, 4}, DType::f32), src = whole_numbers({3, 900, 4}, DType::f32);
  Indices all;
  for (std::int64_t row = 0; row < 3; ++row) {
    const Indices own = patterns()[static_cast<std::size_t>(row)].indices(3600, 11);
    all.insert(all.end(), own.begin(), own.end());
  }
  const Tensor index = tensor(all, {3, 900, 4});
  same([](const auto& t) { return scatter_add(t[0], 1, t[1], t[2]); }, {x, index, src}, "rows");
  same(
      [](const auto& t) {
        return scatter_add(transpose(t[0], 0, 1), 0, transpose(t[1], 0, 1), transpose(t[2], 0, 1));
      },
      {x, index, src}, "rows, transposed");
  same([](const auto& t) { return index_add(t[0], 1, select(select(t[1], 0, 0), 1, 0), t[2]); },
       {x, index, src}, "lanes");
}

TEST_F(CudaIndexRuns, EmbeddingGradientsHaveTheCpusBits) {
  manual_seed(7);
  constexpr std::int64_t kRows = 59;
  for (const Pattern& pattern : patterns()) {
    for (const std::int64_t n : {std::int64_t{0}, kRunPiece, std::int64_t{3000}}) {
      const Tensor index = tensor(pattern.indices(n, kRows), {n});
      for (const std::int64_t width : {1, 3, 8}) {
        for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
          const std::string what = std::string(pattern.name) + ", " + std::to_string(n) + " of " +
                                   std::to_string(width) + ", " + to_string(dtype);
          const Tensor grad = randn({n, width}, {.dtype = DType::f64}).to(dtype);
          same([](const auto& t) { return embedding_backward(t[0], t[1], kRows); }, {grad, index}, what);
          if (dtype != DType::f32) continue;
          // The hot row is padding, a row without elements is, indices are narrow.
          for (const std::int64_t padding : {3, 2, 58, 40}) {
            same([=](const auto& t) { return embedding_backward(t[0], t[1], kRows, padding); },
                 {grad, to(index, DType::i32)}, what + ", padding " + std::to_string(padding));
          }
        }
      }
    }
  }
}

TEST_F(CudaIndexRuns, EmbeddingGradientsOfAHundredThousand) {
  manual_seed(8);
  constexpr std::int64_t kCount = 100'000;
  const Tensor index = tensor(patterns()[1].indices(kCount, 5), {kCount});
  same([](const auto& t) { return embedding_backward(t[0], t[1], 5); },
       {randn({kCount, 2}, {.dtype = DType::f16}), index}, "two hot");
}

// Of whole numbers below 2^53, so that every order gives the same.
TEST_F(CudaIndexRuns, SecondGradientsAreTheCpus) {
  manual_seed(9);
  const Indices hot = patterns()[0].indices(400, 5);
  const Tensor numbers = whole_numbers({5, 3}, DType::f64), factors = whole_numbers({400, 3}, DType::f64);
  twin::expect_same([&](Device device, twin::Trace& trace) {
    const Tensor index = tensor(hot, {400}).to(device);
    const Tensor weight = numbers.to(device).clone().requires_grad_();
    const Tensor rows = factors.to(device).clone().requires_grad_();
    const auto add_all = [&](const std::string& what, const Tensors& found) {
      for (const Tensor& one : found) trace.add(what, one, 0);
    };
    const Tensor y = mul(embedding(index, weight), rows);
    const Tensors first = grad(sum(mul(y, y)), weight, {.create_graph = true});
    add_all("embedding's", first);
    add_all("embedding's second", grad(sum(mul(first[0], first[0])), Tensors{weight, rows}));
    const Tensor added = index_add(weight, 0, index, rows);
    const Tensors slope = grad(sum(mul(mul(added, added), added)), rows, {.create_graph = true});
    add_all("index_add's", slope);
    add_all("index_add's second", grad(sum(mul(slope[0], slope[0])), Tensors{weight, rows}));
  });
}

}  // namespace
}  // namespace mezzo
