// SyncBatchNorm over ranks against BatchNorm over the whole batch, and the call that converts a model.
#include "mezzo/dist/sync_batch_norm.h"

#include "dist/parallel_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/checkpoint.h"
#include "mezzo/nn/conv.h"
#include "mezzo/optim/sgd.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::Group;
using test::copies_of;
using test::difference;
using test::run_ranks;

/// Rows [begin, end) of a rank: 3, 1, 5, 0 and then 2 of 11.
constexpr std::int64_t kRows[] = {0, 3, 4, 9, 9, 11};

Tensor rows_of(const Tensor& x, const Group& group) {
  const auto r = static_cast<std::size_t>(group.rank());
  const std::int64_t end = group.rank() + 1 == group.size() ? 11 : kRows[r + 1];
  return x.narrow(0, kRows[r], end - kRows[r]);
}

Tensor random_of(std::uint64_t seed, const Shape& shape) {
  Generator generator(seed);
  return uniform(-1, 2, shape, {.dtype = DType::f64}, generator);
}

template <int kSpatial>
std::shared_ptr<nn::BatchNorm<kSpatial>> norm_of(DType dtype, std::optional<double> momentum = 0.3) {
  auto norm = nn::make<nn::BatchNorm<kSpatial>>(3, nn::RunningNormOptions{.momentum = momentum});
  const NoGrad no_grad;
  norm->weight.copy_(random_of(1, {3}));
  norm->bias.copy_(random_of(2, {3}));
  norm->to(dtype);
  return norm;
}

/// What one pass leaves: result, gradients of x, weight, bias, the same made with a history, and second
/// gradients of x and weight.
struct Pass {
  Tensor y;
  std::vector<Tensor> gradients, recorded, second, buffers;
};

/// The sum over all ranks' outputs of y * target, and the squares of its gradient.
Pass pass(nn::Layer& norm, const nn::RunningNorm& parts, const Tensor& x, const Tensor& target,
          const Tensor& direction) {
  const Tensor input = x.detach().requires_grad_();
  const std::vector<Tensor> inputs{input, parts.weight, parts.bias};
  Pass result;
  result.y = norm(input);
  const Tensor loss = sum(result.y * target);
  for (const Tensor& gradient : grad(loss, inputs, {}, {.retain_graph = true}))
    result.gradients.push_back(gradient);
  const Tensors first = grad(loss, inputs, {}, {.create_graph = true});
  for (const Tensor& gradient : first) result.recorded.push_back(gradient.detach());
  const Tensors second = grad(sum(first[0] * direction), std::vector<Tensor>{input, parts.weight});
  for (const Tensor& gradient : second) result.second.push_back(gradient.detach());
  result.y = result.y.detach();
  for (const auto& [name, buffer] : norm.named_buffers()) result.buffers.push_back(buffer);
  return result;
}

/// All ranks' rows one behind the other, or the sum over the ranks.
Tensor joined(const std::vector<Tensor>& parts) { return cat(TensorList(parts)); }
Tensor added(const std::vector<Tensor>& parts) {
  Tensor total = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) total = total + parts[i];
  return total;
}

template <int kSpatial>
void expect_whole_batch(const Shape& shape, DType dtype, double tolerance, int p) {
  SCOPED_TRACE(std::string(to_string(dtype)) + " " + to_string(shape) + " " + std::to_string(p));
  const Tensor x = random_of(3, shape).to(dtype), target = random_of(4, shape).to(dtype),
               direction = random_of(5, shape).to(dtype);
  const DType parameters = is_16bit(dtype) ? DType::f32 : dtype;
  const auto whole = norm_of<kSpatial>(parameters);
  const Pass expected = pass(*whole, *whole, x, target, direction);
  std::vector<Pass> of_rank(static_cast<std::size_t>(p));
  run_ranks(p, [&](const Group& group) {
    const auto norm = norm_of<kSpatial>(parameters);
    dist::SyncBatchNorm<kSpatial> sync(*norm, group);
    of_rank[static_cast<std::size_t>(group.rank())] =
        pass(sync, sync, rows_of(x, group), rows_of(target, group), rows_of(direction, group));
  });
  const auto each = [&](auto f) {
    std::vector<Tensor> parts;
    for (const Pass& rank : of_rank) parts.push_back(f(rank).to(DType::f64));
    return parts;
  };
  const auto expect_near = [&](const Tensor& actual, const Tensor& wanted, std::string_view what) {
    EXPECT_LT(difference({actual}, {wanted}), tolerance) << what;
  };
  expect_near(joined(each([](const Pass& r) { return r.y; })), expected.y, "y");
  expect_near(joined(each([](const Pass& r) { return r.gradients[0]; })), expected.gradients[0], "x");
  expect_near(added(each([](const Pass& r) { return r.gradients[1]; })), expected.gradients[1], "weight");
  expect_near(added(each([](const Pass& r) { return r.gradients[2]; })), expected.gradients[2], "bias");
  expect_near(joined(each([](const Pass& r) { return r.recorded[0]; })), expected.gradients[0],
              "recorded, x");
  expect_near(added(each([](const Pass& r) { return r.recorded[1]; })), expected.gradients[1],
              "recorded, weight");
  expect_near(joined(each([](const Pass& r) { return r.second[0]; })), expected.second[0], "second, x");
  expect_near(added(each([](const Pass& r) { return r.second[1]; })), expected.second[1], "second, weight");
  for (const Pass& rank : of_rank) {
    for (std::size_t i = 0; i < 3; ++i)
      expect_near(rank.buffers[i], expected.buffers[i], "buffer " + std::to_string(i));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(test::bytes_of(rank.buffers[i]) == test::bytes_of(of_rank[0].buffers[i]));
  }
}

TEST(SyncBatchNorm, IsBatchNormOfTheWholeBatch) {
  for (const int p : {1, 2, 3, 5}) {  // with 5 ranks one has no samples
    expect_whole_batch<1>({11, 3}, DType::f64, 1e-12, p);
    expect_whole_batch<1>({11, 3, 4}, DType::f64, 1e-12, p);
    expect_whole_batch<2>({11, 3, 2, 5}, DType::f64, 1e-12, p);
    expect_whole_batch<3>({11, 3, 2, 1, 2}, DType::f64, 1e-12, p);
    expect_whole_batch<2>({11, 3, 2, 5}, DType::f32, 1e-6, p);
  }
}

TEST(SyncBatchNorm, LargeMeansDoNotCancel) {
  const Tensor x = random_of(3, {11, 3}) + 10000.0;  // f32 keeps 10 bits of the deviations
  const auto whole = norm_of<1>(DType::f64);
  const Tensor expected = (*whole)(x.to(DType::f32).to(DType::f64)).detach();
  run_ranks(2, [&](const Group& group) {
    dist::SyncBatchNorm<1> sync(*norm_of<1>(DType::f32), group);
    const Tensor y = sync(rows_of(x.to(DType::f32), group)).detach();
    // The mean is an f32 number: off by 2^-11 at most, of a deviation of 0.87.
    EXPECT_LT(difference({y}, {rows_of(expected, group)}), 1.2e-3);
  });
}

TEST(SyncBatchNorm, SixteenBitsAndAutocast) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = random_of(3, {11, 3, 2, 2}).to(dtype), target = random_of(4, x.shape()).to(dtype);
    const auto whole = norm_of<2>(DType::f32);
    const Tensor input = x.detach().requires_grad_();
    const Tensor expected = (*whole)(input);
    sum(expected * target).backward();
    const double one_rounding = dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
    for (const bool in_region : {false, true}) {
      run_ranks(3, [&](const Group& group) {
        dist::SyncBatchNorm<2> sync(*norm_of<2>(DType::f32), group);
        const Tensor own = rows_of(x, group).detach().requires_grad_();
        Tensor y;
        if (in_region) {
          const amp::Autocast region(dtype);
          y = sync(own);
        } else {
          y = sync(own);
        }
        EXPECT_EQ(y.dtype(), expected.dtype());
        EXPECT_LT(difference({y}, {rows_of(expected, group)}), one_rounding);
        sum(y * rows_of(target, group)).backward();
        EXPECT_LT(difference({own.grad()}, {rows_of(input.grad(), group)}), one_rounding);
        EXPECT_EQ(sync.weight.grad().dtype(), DType::f32);
        const Tensor weight = sync.weight.grad().clone();
        dist::all_reduce(weight, dist::ReduceOp::sum, {.group = group});
        EXPECT_LT(difference({weight}, {whole->weight.grad()}), 1e-6);
        for (std::size_t i = 0; i < 2; ++i)
          EXPECT_LT(difference({sync.named_buffers()[i].second}, {whole->named_buffers()[i].second}), 1e-6);
      });
    }
  }
}

TEST(SyncBatchNorm, InACheckpointedRegion) {
  const auto gradient = [](const Group& group, bool in_region) {
    dist::SyncBatchNorm<1> sync(*norm_of<1>(DType::f32), group);
    const Tensor x = rows_of(random_of(3, {11, 3}).to(DType::f32), group).detach().requires_grad_();
    const Tensor y = in_region ? autograd::checkpoint([&] { return exp(sync(x)); }) : exp(sync(x));
    sum(square(y)).backward();
    auto tensors = sync.named_buffers();
    return test::bytes_of({x.grad(), sync.weight.grad(), tensors[0].second, tensors[1].second});
  };
  run_ranks(2, [&](const Group& group) { EXPECT_TRUE(gradient(group, true) == gradient(group, false)); });
}

TEST(SyncBatchNorm, InEvaluationItIsBatchNorm) {
  const Tensor x = random_of(3, {11, 3}).to(DType::f32);
  const auto whole = norm_of<1>(DType::f32);
  static_cast<void>((*whole)(x));
  whole->eval();
  const Tensor expected = (*whole)(x).detach();
  const auto counts = run_ranks(2, [&](const Group& group) {
    const auto copy = nn::clone(*whole);
    dist::SyncBatchNorm<1> sync(*copy, group);
    sync.eval();
    EXPECT_TRUE(test::bytes_of(sync(x)) == test::bytes_of(expected));
  });
  EXPECT_EQ(counts.all_reduces, 0U);
}

TEST(SyncBatchNorm, OneMessageForwardAndOneBackward) {
  const auto counts = run_ranks(2, [](const Group& group) {
    dist::SyncBatchNorm<1> sync(*norm_of<1>(DType::f32), group);
    const Tensor x = rows_of(random_of(3, {11, 3}).to(DType::f32), group).detach().requires_grad_();
    sum(square(sync(x))).backward();
  });
  EXPECT_EQ(counts.all_reduces, 2U);
}

/// Convolution, norm in a typed slot, linear layer, norm.
struct Net final : nn::Layer {
  nn::Child<nn::Conv2d> conv{*this, "conv", nn::Conv2d(2, 4, 3)};
  nn::Child<nn::BatchNorm2d> first{*this, "first", nn::BatchNorm2d(4)};
  nn::Child<nn::Linear> fc{*this, "fc", nn::Linear(16, 5)};
  nn::Child<nn::BatchNorm1d> second{*this, "second", nn::BatchNorm1d(5, {.momentum = std::nullopt})};
  Tensor forward(const Tensor& x) override {
    return second(fc(relu(first(conv(x))).reshape({x.size(0), 16})));
  }
};

TEST(SyncBatchNorm, ConvertedModelsTrainAsOneProcess) {
  const auto train = [](const Group& group) {
    const auto net = nn::make<Net>();
    test::fill(*net, 7);
    std::optional<DataParallel> parallel;
    if (group.size() > 1) {
      const auto weight = net->first->weight.ref();
      const auto report = dist::convert_sync_batchnorm(*net, group);
      EXPECT_EQ(report.replaced().size(), 2U);
      EXPECT_EQ(net->first->type_name(), "SyncBatchNorm");
      EXPECT_TRUE(net->first->weight.ref() == weight);
      EXPECT_TRUE(dist::has_sync_batchnorm(*net));
      parallel.emplace(net, dist::DataParallelOptions{.group = group, .reduction = dist::ReduceOp::sum});
    }
    optim::SGD optimizer(*net, {.lr = 0.1, .momentum = 0.9});
    for (std::uint64_t step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const Tensor x = random_of(step, {11, 2, 4, 4}).to(DType::f32);
      const Tensor y = random_of(step + 9, {11, 5}).to(DType::f32);
      (sum(square((*net)(rows_of(x, group)) - rows_of(y, group))) / 55.0).backward();
      optimizer.step();
    }
    std::vector<Tensor> tensors = copies_of(net->parameters());
    for (const auto& [name, buffer] : net->named_buffers()) tensors.push_back(buffer.clone());
    return tensors;
  };
  const auto expected = train(Group());
  for (const int p : {2, 3}) {
    // A bias before a norm has the gradient 0, of which rounding leaves some 1e-8; all else is f32 rounding.
    run_ranks(p, [&](const Group& group) { EXPECT_LT(difference(train(group), expected), 1e-6); });
  }
}

TEST(SyncBatchNorm, IsRefusedInDeterministicMode) {
  const auto net = nn::make<Net>();
  dist::convert_sync_batchnorm(*net, Group());
  const auto message = test::message_of<ValueError>(
      [&] { DataParallel parallel(net, {.group = Group(), .virtual_parts = 2}); });
  EXPECT_NE(message.find("no SyncBatchNorm in deterministic mode"), std::string::npos) << message;
}

}  // namespace
}  // namespace mezzo
