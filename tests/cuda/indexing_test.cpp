// Indexing on a device against the CPU, bit for bit, on few indices and on as many as take several tiles of
// the sort, with many repeated places; and indices out of range, which are reported and not used.
#include <functional>

#include "cuda/twin.h"
#include "mezzo/core/cuda/launch.h"

namespace mezzo {
namespace {

const Device kDevice = Device::cuda(0);

Tensor random_indices(const Shape& shape, std::int64_t limit) {
  return to(mul(rand(shape, {.dtype = DType::f64}), static_cast<double>(limit)), DType::i64);
}
std::vector<double> values_of(const Tensor& x) { return to(x, DType::f64).to_vector<double>(); }

class CudaIndexing : public twin::CudaTwin {
 protected:
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  static void same(const Function& f, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> there;
    for (const Tensor& x : inputs) there.push_back(x.to(kDevice));
    EXPECT_EQ(values_of(f(there).to(Device::cpu())), values_of(f(inputs)));
  }
};

TEST_F(CudaIndexing, GivesTheBitsOfTheCpu) {
  manual_seed(3);
  const Tensor x = randn({70, 90}), rows = random_indices({300}, 70), all = random_indices({300, 90}, 70);
  const Tensor src = randn({300, 90}), columns = random_indices({300}, 90);
  same([](const auto& t) { return gather(t[0], 0, t[1]); }, {x, all});
  same([](const auto& t) { return scatter(t[0], 0, t[1], t[2]); }, {x, all, src});
  same([](const auto& t) { return scatter_add(t[0], 0, t[1], t[2]); }, {x, all, src});
  for (const ScatterReduction how : {ScatterReduction::sum, ScatterReduction::prod, ScatterReduction::mean,
                                     ScatterReduction::amax, ScatterReduction::amin}) {
    for (const bool include_self : {false, true}) {
      same([&](const auto& t) { return scatter_reduce(t[0], 0, t[1], t[2], how, include_self); },
           {x, all, src});
    }
  }
  same([](const auto& t) { return index_add(t[0], 0, t[1], t[2], 0.5); }, {x, rows, src});
  same([](const auto& t) { return index_put(t[0], {t[1]}, t[2], true); }, {x, rows, src});
  same(
      [](const auto& t) {
        return index_put(t[0], {t[1], t[2]}, select(t[3], 1, 0), true);
      },
      {x, rows, columns, src});
  same(
      [](const auto& t) {
        return index_put(t[0], {Tensor(), t[1]}, full({}, 2, {.device = t[0].device()}));
      },
      {x, random_indices({5}, 90)});
}

TEST_F(CudaIndexing, ScalesRowsInPlace) {
  manual_seed(5);
  const Tensor rows = random_indices({300}, 70);
  same([](const auto& t) { return embedding_renorm_(t[0].clone(), t[1], 8); }, {randn({70, 90}), rows});
}

TEST_F(CudaIndexing, GivesThemWhereFewAndWhereManyFallOnAPlace) {
  manual_seed(4);
  for (const std::int64_t n : {1, 64, 65, 2048, 2049, 20000}) {
    const Tensor x = randn({500}), crowded = random_indices({n}, 500), alone = random_indices({n}, 1);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64, DType::u8}) {
      const Tensor src = to(mul(rand({n}), 9.0), dtype), base = to(mul(rand({500}), 9.0), dtype);
      same([](const auto& t) { return scatter(t[0], 0, t[1], t[2]); }, {base, crowded, src});
      same([](const auto& t) { return scatter_add(t[0], 0, t[1], t[2]); }, {base, crowded, src});
      // Sums of so many are made of pieces (index_runs_test.cpp); those of whole numbers are exact.
      const Tensor whole = to(floor(mul(rand({n}), 9.0)), dtype), zero = zeros({500}, {.dtype = dtype});
      same([](const auto& t) { return scatter_add(t[0], 0, t[1], t[2]); }, {zero, alone, whole});
    }
    same([](const auto& t) { return index_put(t[0], {t[1]}, t[2], true); },
         {x, sub(crowded, 250), randn({n})});
  }
}

TEST_F(CudaIndexing, WritesTheLastElementOfEachPlace) {
  manual_seed(7);
  // Among few places, and among more than are worth a number each.
  for (const std::int64_t places : {100, 1200, 1201, 40000}) {
    const Tensor index = random_indices({300}, places), src = randn({300, 3});
    const auto put = [](const auto& t) { return index_put(t[0], {t[1]}, t[2]); };
    same(put, {randn({places, 3}), index, src});
    same(put, {randn({places, 3}), full({300}, places - 1, {.dtype = DType::i64}), src});
  }
  same([](const auto& t) { return scatter(t[0], 1, t[1], t[2]); },
       {transpose(randn({70, 4, 5}), 0, 1), random_indices({4, 90, 5}, 70),
        transpose(randn({4, 5, 90}), 1, 2)});
  same([](const auto& t) { return scatter(t[0], 0, t[1], t[2]); },
       {randn({70, 4}), random_indices({90, 1}, 70).expand({90, 4}), randn({90, 4})});
}

TEST_F(CudaIndexing, WritingToFewPlacesSortsNothing) {
  const Tensor x = zeros({4000}, {.device = kDevice}), src = ones({9000}, {.device = kDevice});
  const Tensor index = random_indices({9000}, 4000).to(kDevice);
  const std::uint64_t before = cuda::launches();
  const Tensor result = scatter(x, 0, index, src);
  EXPECT_LE(cuda::launches() - before, 4U)
      << "a check of the indices, a copy of x, the last positions, the elements";
}

TEST_F(CudaIndexing, GivesThemWhateverShapesLanesHave) {
  manual_seed(5);
  const Tensor x = randn({6, 50, 7}), lines = random_indices({900}, 50), src = randn({6, 900, 7});
  same([](const auto& t) { return index_add(t[0], 1, t[1], t[2]); }, {x, lines, src});
  same([](const auto& t) { return index_add(t[0], -1, t[1], t[2]); },
       {transpose(x, 1, 2), lines, transpose(src, 1, 2)});
  const Tensor each = random_indices({6, 900, 5}, 50);
  same([](const auto& t) { return scatter_add(t[0], 1, t[1], t[2]); }, {x, each, src});
  same([](const auto& t) { return scatter(t[0], 1, t[1], t[2]); }, {x, each, src});
  same(
      [](const auto& t) {
        return scatter(t[0], 1, expand(t[1], {6, 900, 5}), t[2]);
      },
      {x, random_indices({900, 1}, 50), src});
  same(
      [](const auto& t) {
        return index_put(t[0], {t[1], Tensor(), t[2]}, t[3], true);
      },
      {x, random_indices({30, 1}, 6), random_indices({1, 40}, 7), randn({30, 40, 50})});
}

TEST_F(CudaIndexing, SumsRowsOfEqualIndices) {
  manual_seed(6);
  for (const std::int64_t n : {1, 70, 2049, 5000}) {
    const Tensor index = random_indices({n}, 90);
    for (const std::int64_t width : {1, 3, 8}) {
      const Tensor grad = randn({n, width});
      same([](const auto& t) { return embedding_backward(t[0], t[1], 100); }, {grad, index});
      same([](const auto& t) { return embedding_backward(t[0], t[1], 100, 7); },
           {grad.to(DType::bf16), index});
      for (const bool by_frequency : {false, true}) {
        same(
            [by_frequency](const auto& t) {
              const Tensor weight = t[2].detach().requires_grad_();
              sum(mul(embedding(t[1], weight, -3, by_frequency), t[0])).backward();
              return weight.grad();
            },
            {grad, index, randn({100, width})});
      }
    }
  }
  same([](const auto& t) { return embedding_backward(t[0], t[1], 4); },
       {zeros({0, 3}), zeros({0}, {.dtype = DType::i64})});
}

TEST_F(CudaIndexing, ReportsIndicesOutOfRange) {
  const Tensor x = zeros({4}, {.device = kDevice}), one = ones({2}, {.device = kDevice});
  const Tensor table = ones({4, 3}, {.device = kDevice}), rows = ones({2, 3}, {.device = kDevice});
  const Tensor wrong = tensor({1, 4}, {.dtype = DType::i64, .device = kDevice});
  const std::vector<std::function<Tensor()>> calls{
      [&] { return gather(x, 0, wrong); },
      [&] { return scatter(x, 0, wrong, one); },
      [&] { return scatter_add(x, 0, wrong, one); },
      [&] { return index_select(x, 0, wrong); },
      [&] { return index_add(x, 0, wrong, one); },
      [&] { return index(x, {wrong}); },
      [&] { return index_put(x, {wrong}, one); },
      [&] { return scatter_reduce(x, 0, wrong, one, ScatterReduction::prod, false); },
      [&] { return embedding(wrong, table); },
      [&] { return embedding_backward(rows, wrong, 4); },
  };
  for (const auto& call : calls) {
    const Tensor result = call();
    try {
      static_cast<void>(result.to(Device::cpu()));
      ADD_FAILURE() << "nothing was reported";
    } catch (const IndexError& error) {
      EXPECT_NE(error.got().find("4 at position 1"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(values_of(x.to(Device::cpu())), std::vector<double>(4, 0));
}

}  // namespace
}  // namespace mezzo
