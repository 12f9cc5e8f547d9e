// Indexing on a device against the CPU, bit for bit, on sizes that take several blocks and lanes with many
// repeated places; and indices out of range, which are reported and not used.
#include <functional>

#include "cuda/twin.h"

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

TEST_F(CudaIndexing, SortsAsTheCpuDoes) {
  manual_seed(4);
  const Tensor ties = random_indices({40, 300}, 50);
  same([](const auto& t) { return sort(t[0], 1).indices; }, {ties});
  same([](const auto& t) { return sort(t[0], 0, true).indices; }, {to(ties, DType::f16)});
  same([](const auto& t) { return topk(t[0], 17, 1).indices; }, {ties});
}

TEST_F(CudaIndexing, ReportsIndicesOutOfRange) {
  const Tensor x = zeros({4}, {.device = kDevice}), one = ones({2}, {.device = kDevice});
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
