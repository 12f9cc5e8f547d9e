// Normalization layers. The functions have tests of their own: here the oracle is the function, and for the
// running statistics, which layers move from batch to batch, PyTorch 2.15 in f64.
#include "mezzo/nn/norm.h"

#include <cmath>

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

/// Numbers that are no line, so that normalizing changes their picture.
Tensor uneven(const Shape& shape) {
  const Tensor x = counting(shape);
  return mul(x, mul(x, Scalar(0.25)));
}

/// Gives the parameters values that show.
template <class L>
void set_parameters(L& layer) {
  layer.weight.set(counting(layer.weight->shape(), 2));
  layer.bias.set(counting(layer.bias->shape(), -3));
}

template <class L>
void expect_gradients(L&& layer, const Tensor& x) {
  const Tensor y = layer(x);
  sum(mul(y, counting(y.shape()))).backward();
  for (const auto& [name, parameter] : layer.named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << to_string(layer) << " " << name;
    EXPECT_EQ(parameter.grad().dtype(), parameter.dtype());
    EXPECT_GT(max(abs(parameter.grad())).item(), 0) << to_string(layer) << " " << name;
  }
}

TEST(LayerNorm, CallsItsFunction) {
  LayerNorm layer({2, 3}, {.eps = 0.5});
  EXPECT_EQ(values(layer.weight), std::vector<float>(6, 1));
  EXPECT_EQ(values(layer.bias), std::vector<float>(6, 0));
  set_parameters(layer);
  const Tensor x = uneven({4, 2, 3});
  EXPECT_EQ(values(layer(x)), values(layer_norm(x, {2, 3}, layer.weight, layer.bias, 0.5)));
  EXPECT_EQ(values(LayerNorm(3)(x)), values(layer_norm(x, {3}, ones({3}), zeros({3}))));
  LayerNorm plain(3, {.elementwise_affine = false});
  EXPECT_FALSE(plain.weight.defined() || plain.bias.defined());
  EXPECT_EQ(values(plain(x)), values(layer_norm(x, {3})));
  LayerNorm no_bias(3, {.bias = false, .dtype = DType::f64});
  EXPECT_TRUE(no_bias.weight.defined() && !no_bias.bias.defined());
  EXPECT_EQ(no_bias.weight->dtype(), DType::f64);
  layer.reset_parameters();
  EXPECT_EQ(values(layer.weight), std::vector<float>(6, 1));
  EXPECT_EQ(values(layer.bias), std::vector<float>(6, 0));
}

TEST(RMSNorm, CallsItsFunction) {
  RMSNorm layer({2, 3}, {.eps = 0.5});
  layer.weight.set(counting({2, 3}, 2));
  const Tensor x = uneven({4, 2, 3});
  EXPECT_EQ(values(layer(x)), values(rms_norm(x, {2, 3}, layer.weight, 0.5)));
  EXPECT_EQ(values(RMSNorm(3)(x)), values(rms_norm(x, {3}, ones({3}))));
  RMSNorm plain(3, {.elementwise_affine = false});
  EXPECT_FALSE(plain.weight.defined());
  EXPECT_EQ(values(plain(x)), values(rms_norm(x, {3})));
  layer.reset_parameters();
  EXPECT_EQ(values(layer.weight), std::vector<float>(6, 1));
}

TEST(GroupNorm, CallsItsFunction) {
  GroupNorm layer(2, 4, {.eps = 0.5});
  EXPECT_EQ(values(layer.weight), std::vector<float>(4, 1));
  EXPECT_EQ(values(layer.bias), std::vector<float>(4, 0));
  set_parameters(layer);
  const Tensor x = uneven({3, 4, 2, 3});
  EXPECT_EQ(values(layer(x)), values(group_norm(x, 2, layer.weight, layer.bias, 0.5)));
  GroupNorm plain(4, 4, {.affine = false});
  EXPECT_FALSE(plain.weight.defined() || plain.bias.defined());
  EXPECT_EQ(values(plain(x)), values(group_norm(x, 4)));
  const GroupNorm no_bias(2, 4, {.bias = false});
  EXPECT_TRUE(no_bias.weight.defined() && !no_bias.bias.defined());
  layer.reset_parameters();
  EXPECT_EQ(values(layer.weight), std::vector<float>(4, 1));
}

TEST(Norm, SharesTensorsWithWhatItReplaces) {
  LayerNorm layer({2, 3}, {.eps = 0.5});
  set_parameters(layer);
  LayerNorm shared(layer, ShareTensors{});
  EXPECT_TRUE(shared.weight->is_same(layer.weight) && shared.bias->is_same(layer.bias));
  EXPECT_EQ(values(shared(uneven({2, 3}))), values(layer(uneven({2, 3}))));
  GroupNorm group(2, 4, {.eps = 0.5, .affine = false});
  GroupNorm other(group, ShareTensors{});
  EXPECT_FALSE(other.weight.defined());
  EXPECT_EQ(to_string(other), to_string(group));
}

TEST(Norm, GivesGradientsToItsParameters) {
  expect_gradients(LayerNorm(3), uneven({4, 3}));
  expect_gradients(RMSNorm(3), uneven({4, 3}));
  expect_gradients(GroupNorm(2, 4), uneven({2, 4, 3}));
  expect_gradients(BatchNorm1d(3), uneven({4, 3}));
  expect_gradients(InstanceNorm2d(3, {.affine = true}), uneven({2, 3, 2, 2}));
  const amp::Autocast region(Device::cpu(), DType::bf16);
  expect_gradients(LayerNorm(3), uneven({4, 3}).to(DType::bf16));
  expect_gradients(BatchNorm2d(3), uneven({2, 3, 2, 2}).to(DType::bf16));
}

TEST(Norm, ClonesAndConverts) {
  BatchNorm2d layer(3);
  const Tensor x = uneven({2, 3, 2, 2});
  (void)layer(x);
  const auto copy = clone(layer);
  EXPECT_EQ(values(copy->running_var), values(layer.running_var));
  (void)layer(x);
  EXPECT_NE(values(copy->running_var), values(layer.running_var));
  EXPECT_EQ(copy->num_batches_tracked->item<std::int64_t>(), 1);
  layer.to(DType::f64);
  EXPECT_EQ(layer.running_mean->dtype(), DType::f64);
  EXPECT_EQ(layer.num_batches_tracked->dtype(), DType::i64);
  EXPECT_EQ(layer(x.to(DType::f64)).dtype(), DType::f64);
  const auto norm = clone(LayerNorm({2, 3}, {.eps = 0.5, .bias = false}));
  EXPECT_EQ(to_string(*norm), "LayerNorm([2, 3], eps=0.5, elementwise_affine=true, bias=false)");
}

TEST(Norm, ResultsHaveTheDtypeThatAutocastGives) {
  const amp::Autocast region(Device::cpu(), DType::bf16);
  const Tensor x = uneven({2, 4, 3}).to(DType::bf16);
  EXPECT_EQ(LayerNorm(3)(x).dtype(), DType::f32);
  EXPECT_EQ(GroupNorm(2, 4)(x).dtype(), DType::f32);
  EXPECT_EQ(BatchNorm1d(4)(x).dtype(), DType::bf16);
  EXPECT_EQ(InstanceNorm1d(4)(x).dtype(), DType::bf16);
}

TEST(Norm, PrintsAsPyTorchDoes) {
  EXPECT_EQ(to_string(LayerNorm(5)), "LayerNorm([5], eps=1e-05, elementwise_affine=true, bias=true)");
  EXPECT_EQ(to_string(RMSNorm(5)), "RMSNorm([5], eps=none, elementwise_affine=true)");
  EXPECT_EQ(to_string(RMSNorm({2, 5}, {.eps = 0.5, .elementwise_affine = false})),
            "RMSNorm([2, 5], eps=0.5, elementwise_affine=false)");
  EXPECT_EQ(to_string(GroupNorm(2, 4)), "GroupNorm(2, 4, eps=1e-05, affine=true, bias=true)");
  EXPECT_EQ(to_string(BatchNorm2d(3)),
            "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=true, bias=true, track_running_stats=true)");
  EXPECT_EQ(to_string(BatchNorm1d(3, {.momentum = {}, .affine = false})),
            "BatchNorm1d(3, eps=1e-05, momentum=none, affine=false, bias=false, track_running_stats=true)");
  EXPECT_EQ(to_string(InstanceNorm3d(3)),
            "InstanceNorm3d(3, eps=1e-05, momentum=0.1, affine=false, bias=false, "
            "track_running_stats=false)");
}

TEST(Norm, RefusesSizesThatMakeNoSense) {
  const auto refused = [](auto make_layer) { return message_of<ValueError>(make_layer); };
  EXPECT_TRUE(contains(refused([] { LayerNorm(Shape{}); }), "LayerNorm: expected a normalized_shape"));
  EXPECT_TRUE(contains(refused([] { LayerNorm({3, 0}); }), "got [3, 0]"));
  EXPECT_TRUE(contains(refused([] { RMSNorm(-1); }), "RMSNorm: expected a normalized_shape"));
  EXPECT_TRUE(contains(refused([] { GroupNorm(3, 4); }), "num_groups that divides num_channels, both at "));
  EXPECT_THROW(GroupNorm(0, 4), ValueError);
  EXPECT_THROW(GroupNorm(2, -4, {.affine = false}), ValueError);
  EXPECT_TRUE(contains(refused([] { BatchNorm2d(0); }), "BatchNorm2d: expected num_features of at least 1"));
  EXPECT_TRUE(contains(refused([] { InstanceNorm1d(-3); }), "InstanceNorm1d: expected num_features"));
}

TEST(Norm, NamesItsPathWhenAShapeDoesNotFit) {
  const auto refused = [](std::shared_ptr<Layer> layer, const Shape& shape) {
    Sequential net(std::move(layer));
    return message_of<ShapeError>([&] { (void)net(zeros(shape)); });
  };
  EXPECT_TRUE(contains(refused(make<LayerNorm>(Shape{2, 3}), {2, 4}), "LayerNorm '0': expected an input"));
  EXPECT_TRUE(contains(refused(make<LayerNorm>(Shape{2, 3}), {3}), "whose last sizes are [2, 3], got [3]"));
  EXPECT_TRUE(contains(refused(make<RMSNorm>(3), {2, 4}), "RMSNorm '0': expected an input"));
  EXPECT_TRUE(contains(refused(make<GroupNorm>(2, 4), {2, 3, 4}), "GroupNorm '0': expected an input [N, 4"));
  EXPECT_TRUE(contains(refused(make<GroupNorm>(2, 4), {4}), "got [4]"));
  EXPECT_TRUE(contains(refused(make<BatchNorm1d>(3), {2, 3, 4, 5}), "of 3 or 2 dims, got [2, 3, 4, 5]"));
  EXPECT_TRUE(
      contains(refused(make<BatchNorm2d>(3), {2, 3}), "BatchNorm2d '0': expected an input of 4 dims"));
  EXPECT_TRUE(contains(refused(make<BatchNorm2d>(3), {2, 4, 1, 1}), "3 channels (num_features)"));
  EXPECT_TRUE(
      contains(refused(make<InstanceNorm1d>(3), {2, 4}), "InstanceNorm1d '0': expected an input with 3"));
  EXPECT_THROW((void)BatchNorm2d(3)(Tensor()), Error);
  EXPECT_THROW((void)InstanceNorm1d(3)(Tensor()), Error);
  EXPECT_THROW((void)LayerNorm(3)(Tensor()), Error);
}

// --- running statistics

/// The k-th batch: as in the Python program that computed the values below,
///   ((i + 3 k) * 7 % 11 - 4) / 4 + channel.
Tensor batch(int k, const Shape& shape) {
  Tensor x = empty(shape, {.dtype = DType::f64});
  const std::int64_t inner = x.numel() / (shape[0] * shape[1]);
  std::int64_t i = 0;
  for (double& value : x.mutable_data<double>()) {
    value = 0.25 * static_cast<double>((i + 3 * k) * 7 % 11 - 4) + static_cast<double>(i / inner % shape[1]);
    ++i;
  }
  return x;
}

/// Both sides compute in f64: a few roundings of numbers below 4.
void expect_near(const Tensor& got, const std::vector<double>& wanted) {
  const std::vector<double> given = got.to_vector<double>();
  ASSERT_EQ(given.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(given[i], wanted[i], 1e-14) << i;
}

/// Three batches in training, and the rows [0, :, 0, :] of a fourth in evaluation.
struct Course {
  std::vector<double> mean, var, evaluated;
};
template <class L>
void expect_course(L&& layer, const Course& wanted) {
  for (int k = 0; k < 3; ++k) (void)layer(batch(k, {2, 3, 2, 2}));
  expect_near(layer.running_mean, wanted.mean);
  expect_near(layer.running_var, wanted.var);
  EXPECT_EQ(layer.num_batches_tracked->template item<std::int64_t>(), 3);
  layer.eval();
  const Tensor y = layer(batch(3, {2, 3, 2, 2}));
  expect_near(select(select(y, 0, 0), 1, 0), wanted.evaluated);
  expect_near(layer.running_mean, wanted.mean);
  EXPECT_EQ(layer.num_batches_tracked->template item<std::int64_t>(), 3);
}

TEST(BatchNorm, MovesItsStatisticsAsPyTorchDoes) {
  expect_course(BatchNorm2d(3, {.momentum = 0.3, .dtype = DType::f64}),
                {{0.26025, 0.7013437499999999, 1.5652499999999998},
                 {0.7623638392857142, 0.7905390625, 0.7938169642857142},
                 {0.8472293283904133, -0.29806209221169994, 0.05472354461784551, 2.0229435180278283,
                  1.8909173281683398, 0.7685446745589974}});
  BatchNorm1d flat(3, {.momentum = 0.3, .dtype = DType::f64});
  for (int k = 0; k < 3; ++k) (void)flat(squeeze(batch(k, {4, 3, 1}), 2));
  expect_near(flat.running_mean, {0.5998125, 0.7008749999999999, 1.2577499999999997});
  expect_near(flat.running_var, {0.5882968749999999, 0.41143749999999996, 1.1453437499999999});
}

TEST(RunningNorm, TakesNoStatisticsThatAreNotFinite) {
  const Device device = Device::best();
  for (const double bad : {HUGE_VAL, std::nan(""), 3e30}) {  // the variance of the last one overflows f32
    BatchNorm2d layer(3, {.device = device}), sound(3, {.device = device});
    InstanceNorm2d instances(3, {.track_running_stats = true, .device = device});
    const Tensor good = batch(0, {2, 3, 2, 2}).to(DType::f32).to(device);
    (void)layer(good), (void)sound(good), (void)instances(good);
    const Tensor mean = clone(layer.running_mean.get()), of_instances = clone(instances.running_mean.get());
    const Tensor wrong = clone(good);
    select(select(wrong, 0, 1), 0, 1).fill_(0);
    wrong[{1, 1, 0, 0}] = bad;
    (void)layer(wrong), (void)instances(wrong);
    for (const Tensor& statistic :
         std::vector<Tensor>{layer.running_mean.get(), layer.running_var.get(), instances.running_mean.get()})
      EXPECT_TRUE(all(isfinite(statistic)).item<bool>()) << bad;
    EXPECT_EQ(select(layer.running_mean.get(), 0, 1).item(), select(mean, 0, 1).item()) << bad;
    EXPECT_EQ(select(instances.running_mean.get(), 0, 1).item(), select(of_instances, 0, 1).item()) << bad;
    EXPECT_NE(select(layer.running_mean.get(), 0, 0).item(), select(mean, 0, 0).item())
        << "other channels go on";
  }
}

TEST(BatchNorm, WithoutMomentumTakesTheMeanOfAllBatchesAsPyTorchDoes) {
  expect_course(BatchNorm2d(3, {.momentum = {}, .dtype = DType::f64}),
                {{0.4166666666666667, 1.0833333333333335, 2.322916666666667},
                 {0.658482142857143, 0.6584821428571428, 0.703497023809524},
                 {0.7188553268820816, -0.5134680906300584, -0.41077447250404686, 1.7457915081421982,
                  1.1053111592996785, -0.0869345855628963}});
}

TEST(InstanceNorm, MovesItsStatisticsAsPyTorchDoes) {
  expect_course(
      InstanceNorm2d(3, {.momentum = 0.3, .affine = true, .track_running_stats = true, .dtype = DType::f64}),
      {{0.26025, 0.7013437499999999, 1.56525},
       {0.8087656249999999, 0.8394453125, 0.8424531249999999},
       {0.8225663645483287, -0.28938546316147684, 0.05310554171340165, 1.9631314479115303, 1.8355237772562099,
        0.7460305128215994}});
}

TEST(InstanceNorm, WithoutMomentumTakesTheMeanOfAllBatches) {
  InstanceNorm2d layer(3, {.momentum = {}, .track_running_stats = true, .dtype = DType::f64});
  InstanceNorm2d first(3, {.momentum = 1, .track_running_stats = true, .dtype = DType::f64});
  Tensor mean = zeros({3}, {.dtype = DType::f64});
  for (int k = 0; k < 3; ++k) {
    (void)layer(batch(k, {2, 3, 2, 2}));
    (void)first(batch(k, {2, 3, 2, 2}));  // whose running mean is that of the last batch
    mean = add(mean, div(first.running_mean, Scalar(3)));
  }
  expect_near(layer.running_mean, mean.to_vector<double>());
}

TEST(RunningNorm, CallsItsFunction) {
  const Tensor x = uneven({2, 3, 2, 2});
  BatchNorm2d layer(3, {.eps = 0.5});
  set_parameters(layer);
  EXPECT_EQ(values(layer(x)), values(batch_norm(x, {}, {}, layer.weight, layer.bias, true, 0, 0.5)));
  layer.eval();
  EXPECT_EQ(values(layer(x)), values(batch_norm(x, layer.running_mean, layer.running_var, layer.weight,
                                                layer.bias, false, 0, 0.5)));
  InstanceNorm2d instance(3, {.eps = 0.5});
  EXPECT_EQ(values(instance(x)), values(instance_norm(x, {}, {}, {}, {}, true, 0, 0.5)));
  const Tensor x3 = uneven({2, 3, 2, 1, 2});
  EXPECT_EQ(values(BatchNorm3d(3)(x3)), values(batch_norm(x3, {}, {}, ones({3}), zeros({3}), true)));
}

TEST(RunningNorm, WithoutTrackingUsesTheBatchInEvaluationToo) {
  const Tensor x = uneven({2, 3, 2, 2});
  BatchNorm2d layer(3, {.affine = false, .track_running_stats = false});
  InstanceNorm2d instance(3);
  EXPECT_TRUE(layer.state_dict().empty() && instance.state_dict().empty());
  layer.eval();
  instance.eval();
  EXPECT_EQ(values(layer(x)), values(batch_norm(x, {}, {}, {}, {}, true)));
  EXPECT_EQ(values(instance(x)), values(instance_norm(x)));
}

TEST(InstanceNorm, TakesOneSample) {
  InstanceNorm2d layer(3, {.affine = true, .track_running_stats = true});
  const Tensor x = uneven({3, 2, 2});
  const Tensor y = layer(x);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(values(y), values(instance_norm(unsqueeze(x, 0))));
  EXPECT_EQ(layer.num_batches_tracked->item<std::int64_t>(), 1);
  EXPECT_EQ(InstanceNorm3d(1)(uneven({1, 2, 2, 2})).shape(), (Shape{1, 2, 2, 2}));
}

TEST(InstanceNorm, KeepsItsDefaultsWhenOneOptionIsGiven) {
  const InstanceNorm1d layer(3, {.eps = 1e-3});
  EXPECT_FALSE(layer.weight.defined() || layer.running_mean.defined());
}

TEST(RunningNorm, BeginsAnewOnDemand) {
  BatchNorm1d layer(2);
  set_parameters(layer);
  (void)layer(uneven({4, 2}));
  layer.reset_running_stats();
  EXPECT_EQ(values(layer.running_mean), (std::vector<float>{0, 0}));
  EXPECT_EQ(values(layer.running_var), (std::vector<float>{1, 1}));
  EXPECT_EQ(layer.num_batches_tracked->item<std::int64_t>(), 0);
  EXPECT_EQ(values(layer.weight), (std::vector<float>{2, 3}));
  layer.reset_parameters();
  EXPECT_EQ(values(layer.weight), (std::vector<float>{1, 1}));
  EXPECT_EQ(values(layer.bias), (std::vector<float>{0, 0}));
}

TEST(RunningNorm, StateComesBackWithTheCount) {
  BatchNorm2d layer(3), other(3);
  (void)layer(uneven({2, 3, 2, 2}));
  other.load_state_dict(layer.state_dict());
  EXPECT_EQ(other.num_batches_tracked->item<std::int64_t>(), 1);
  EXPECT_EQ(values(other.running_mean), values(layer.running_mean));
  EXPECT_EQ(names(layer.named_parameters()), (Names{"weight", "bias"}));
  EXPECT_EQ(names(layer.named_buffers()), (Names{"running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_THROW((void)layer(uneven({1, 3, 1, 1})), ValueError);  // one value per channel has no variance
}

}  // namespace

}  // namespace mezzo::nn
