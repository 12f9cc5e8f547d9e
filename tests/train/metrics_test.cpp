// Metrics: the values of torchmetrics (files/metrics.py), in every dtype and under autocast, without reads.
#include "mezzo/train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/io/json.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/data_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::train {
namespace {

/// torchmetrics divides in f32.
constexpr double kTolerance = 1e-6;

const Value& expected() {
  static const Value value = io::read_json_file(test::data_folder() + "/train/files/metrics.json");
  return value;
}

std::vector<double> numbers(const Value& list) {
  std::vector<double> result;
  for (const Value& entry : list.as_list()) {
    if (entry.is_list()) {
      const std::vector<double> row = numbers(entry);
      result.insert(result.end(), row.begin(), row.end());
    } else {
      result.push_back(entry.as_double());
    }
  }
  return result;
}

struct Batch {
  Tensor logits, target;
};

std::vector<Batch> batches(DType dtype = DType::f32) {
  std::vector<Batch> result;
  for (const Value& entry : expected()["batches"].as_list()) {
    const std::vector<double> logits = numbers(entry["logits"]), target = numbers(entry["target"]);
    const auto n = static_cast<std::int64_t>(target.size());
    result.push_back({tensor(logits, {n, static_cast<std::int64_t>(logits.size()) / n}, {.dtype = dtype}),
                      tensor(target, {.dtype = DType::i64})});
  }
  return result;
}

template <class M>
M updated(M metric, DType dtype = DType::f32) {
  for (const Batch& batch : batches(dtype)) metric.update(batch.logits, batch.target);
  return metric;
}

void expect_values(const Tensor& value, const char* name) {
  const Value& entry = expected()[name];
  const std::vector<double> wanted = entry.is_list() ? numbers(entry) : std::vector{entry.as_double()};
  const std::vector<double> got = value.to_vector<double>();
  ASSERT_EQ(got.size(), wanted.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], kTolerance) << name << " " << i;
}

TEST(Metrics, ClassesAreTorchmetricsInEveryDtype) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    expect_values(updated(Accuracy(), dtype).compute(), "accuracy");
    expect_values(updated(TopKAccuracy(2), dtype).compute(), "top2");
    expect_values(updated(ConfusionMatrix(5), dtype).compute(), "confusion");
    expect_values(updated(F1Score(5), dtype).compute(), "f1_macro");
    const double perplexity = updated(Perplexity(), dtype).value();
    EXPECT_NEAR(perplexity, expected()["perplexity"].as_double(), 1e-5) << info(dtype).name;
  }
}

TEST(Metrics, AveragesAndShares) {
  const std::pair<Average, std::string> averages[] = {{Average::micro, "micro"},
                                                      {Average::macro, "macro"},
                                                      {Average::weighted, "weighted"},
                                                      {Average::none, "none"}};
  for (const auto& [average, name] : averages) {
    expect_values(updated(Precision(5, {.average = average})).compute(), ("precision_" + name).c_str());
    expect_values(updated(Recall(5, {.average = average})).compute(), ("recall_" + name).c_str());
    expect_values(updated(F1Score(5, {.average = average})).compute(), ("f1_" + name).c_str());
    expect_values(updated(JaccardIndex(5, {.average = average})).compute(), ("jaccard_" + name).c_str());
  }
  expect_values(updated(ConfusionMatrix(5, {.normalize = Normalize::by_target})).compute(), "confusion_true");
  expect_values(updated(ConfusionMatrix(5, {.normalize = Normalize::by_prediction})).compute(),
                "confusion_pred");
  expect_values(updated(ConfusionMatrix(5, {.normalize = Normalize::all})).compute(), "confusion_all");
  EXPECT_EQ(updated(ConfusionMatrix(5)).compute().dtype(), DType::i64);
}

TEST(Metrics, ClassesAndImagesOfScoresCountAsRowsDo) {
  Accuracy rows, classes, images;
  Precision rows_of(5), images_of(5);
  TopKAccuracy top_rows(2), top_images(2);
  for (const auto& [logits, target] : batches()) {
    rows.update(logits, target);
    rows_of.update(logits, target);
    top_rows.update(logits, target);
    classes.update(argmax(logits, 1).to(DType::i32), target.to(DType::i16));
    // [N, C] as [1, C, N]: the positions of one image.
    const Tensor image = logits.t().unsqueeze(0), pixels = target.unsqueeze(0);
    images.update(image, pixels);
    images_of.update(image, pixels);
    top_images.update(image, pixels);
  }
  EXPECT_EQ(classes.value(), rows.value());
  EXPECT_EQ(images.value(), rows.value());
  EXPECT_EQ(images_of.value(), rows_of.value());
  EXPECT_EQ(top_images.value(), top_rows.value());
}

TEST(Metrics, BinaryDecisionsAreClasses) {
  F1Score f1(2, {.average = Average::none});
  const Tensor logit = tensor({-1.0, 2.0, 0.5, -3.0}), target = tensor({false, true, false, true});
  f1.update(logit.ge(0), target);
  // Class 1: right 1, predicted 2, targets 2. Class 0 alike.
  EXPECT_EQ(f1.compute().to_vector<double>(), (std::vector{0.5, 0.5}));
}

/// A metric of the binary batches, of their probabilities or of the decisions that these are above 1/2.
template <class M>
Tensor of_binary(M metric, DType dtype, bool decided = false) {
  for (const Value& entry : expected()["binary"].as_list()) {
    const Tensor p = tensor(numbers(entry["preds"]), {.dtype = dtype});
    const Tensor target = tensor(numbers(entry["target"]), {.dtype = DType::i64});
    metric.update(decided ? p.gt(0.5) : p, target);
  }
  return metric.compute();
}

TEST(Metrics, ThresholdsAreTorchmetrics) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const std::int64_t n : {2, 11, 17}) {
      const std::string number = std::to_string(n);
      expect_values(of_binary(AUROC({.thresholds = n}), dtype), ("auroc_" + number).c_str());
      expect_values(of_binary(AveragePrecision({.thresholds = n}), dtype), ("ap_" + number).c_str());
    }
    expect_values(of_binary(F1Score(2, {.average = Average::binary}), dtype, true), "f1_binary");
    expect_values(of_binary(JaccardIndex(2, {.average = Average::binary}), dtype, true), "jaccard_binary");
  }
}

TEST(Metrics, ThresholdsOfTheEnds) {
  // The best and the worst order, with scores of 0 and 1, and targets that are all alike.
  const Tensor p = tensor({0.0, 0.25, 1.0, 1.0}), target = tensor({false, false, true, true});
  const auto area = [](const Tensor& scores, const Tensor& wanted) {
    AUROC auroc;
    auroc.update(scores, wanted);
    return auroc.value();
  };
  EXPECT_EQ(area(p, target), 1);
  EXPECT_EQ(area(p, logical_not(target)), 0);
  EXPECT_EQ(area(full({4}, 0.5), target), 0.5);
  EXPECT_EQ(area(p, ones({4}, {.dtype = DType::i64})), 0);
  EXPECT_TRUE(std::isnan(AUROC().value()));
  AveragePrecision precision, none;
  precision.update(p, target);
  EXPECT_EQ(precision.value(), 1);
  none.update(p, zeros({4}, {.dtype = DType::i64}));
  EXPECT_EQ(none.value(), 0);
  // Every threshold i / 999 is rounded down to itself.
  const Tensor all = arange(0, 1000, 1, {.dtype = DType::f64}) / 999.0;
  AUROC each;
  each.update(cat({all, all}), cat({zeros({1000}), ones({1000})}).to(DType::i64));
  EXPECT_EQ(each.state()[0].narrow(0, 0, 2000).min().item(), 1);
}

TEST(Metrics, NumbersAreTorchmetrics) {
  MeanSquaredError mse, rmse({.squared = false});
  MeanAbsoluteError mae;
  R2Score r2;
  Mean mean;
  for (const Value& entry : expected()["numbers"].as_list()) {
    const auto column = [&](const char* name) { return tensor(numbers(entry[name]), {.dtype = DType::f64}); };
    const Tensor preds = column("preds"), target = column("target");
    mse.update(preds, target);
    rmse.update(preds, target);
    mae.update(preds, target);
    r2.update(preds, target);
    mean.update(preds, column("weight"));
  }
  EXPECT_NEAR(mse.value(), expected()["mse"].as_double(), 1e-12);
  EXPECT_NEAR(rmse.value(), expected()["rmse"].as_double(), 1e-12);
  EXPECT_NEAR(mae.value(), expected()["mae"].as_double(), 1e-12);
  EXPECT_NEAR(r2.value(), expected()["r2"].as_double(), 1e-12);
  EXPECT_NEAR(mean.value(), expected()["weighted_mean"].as_double(), 1e-12);
}

TEST(Metrics, AMeanOfNumbersAndTensorsIsWeighted) {
  Mean mean;
  mean.update(1.0);
  mean.update(tensor({2.0, 6.0}), 3);
  mean.update(tensor({1, 2, 4}, {.dtype = DType::i32}), tensor(0.5));
  EXPECT_DOUBLE_EQ(mean.value(), (1 + 3 * 8 + 0.5 * 7) / (1 + 6 + 1.5));
  Mean large;  // 2^24 + 1 terms of 1 are more than an f32 sum can tell apart
  large.update(full({1 << 24}, 1));
  large.update(tensor({1.0}));
  EXPECT_EQ(large.state()[1].item(), (1 << 24) + 1);
  Mean with_nan;
  with_nan.update(tensor({1.0, std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_TRUE(std::isnan(with_nan.value()));
}

TEST(Metrics, PerplexityOfLossesIsThatOfLogits) {
  Perplexity of_logits, of_means, of_sums;
  for (const auto& [logits, target] : batches()) {
    of_logits.update(logits, target);
    const Tensor tokens = sum(target.ne(-100));
    of_means.update_loss(cross_entropy(logits, target), tokens);
    of_sums.update_loss(cross_entropy(logits, target, {.reduction = Reduction::sum}),
                        tokens.item<std::int64_t>(), Reduction::sum);
  }
  const Tensor none = full({4}, -100, {.dtype = DType::i64});
  of_means.update_loss(cross_entropy(zeros({4, 5}), none), 0);  // the mean of nothing is NaN
  of_logits.update(zeros({4, 5}), none);
  EXPECT_NEAR(of_means.value(), of_logits.value(), 1e-5);
  EXPECT_NEAR(of_sums.value(), of_logits.value(), 1e-5);
  Perplexity sequences;  // [batch, tokens, vocabulary]
  sequences.update(zeros({2, 3, 7}), zeros({2, 3}, {.dtype = DType::i64}));
  EXPECT_NEAR(sequences.value(), 7, 1e-6);
}

/// All metrics of this file, updated by f32 scores or numbers.
template <class F>
void for_each_metric(const F& f) {
  const auto classes = [](auto& metric) {
    for (const Batch& b : batches()) metric.update(b.logits, b.target);
  };
  const auto values = [](auto& metric) {
    metric.update(tensor({1.0, 2.5, -1.0}), tensor({1.5, 2.0, 0.0}));
    metric.update(tensor({0.25}), tensor({4.0}));
  };
  f([] { return Accuracy(); }, classes);
  f([] { return TopKAccuracy(3); }, classes);
  f([] { return ConfusionMatrix(5, {.normalize = Normalize::all}); }, classes);
  f([] { return Precision(5); }, classes);
  f([] { return Recall(5, {.average = Average::weighted}); }, classes);
  f([] { return F1Score(5, {.average = Average::none}); }, classes);
  f([] { return JaccardIndex(5); }, classes);
  const auto scores = [](auto& metric) {
    metric.update(tensor({0.25, 1.0, 0.5, 0.75}), tensor({0, 1, 1, 0}));
  };
  f([] { return AUROC(); }, scores);
  f([] { return AveragePrecision({.thresholds = 7}); }, scores);
  f([] { return Perplexity(); }, classes);
  f([] { return Mean(); }, values);
  f([] { return MeanSquaredError(); }, values);
  f([] { return MeanAbsoluteError(); }, values);
  f([] { return R2Score(); }, values);
}

TEST(Metrics, NothingIsReadBeforeTheValueIsAskedFor) {
  for_each_metric([](const auto& make, const auto& update) {
    auto metric = make();
    const auto before = batches();  // what makes the input reads values
    const std::uint64_t reads = host_reads();
    update(metric);
    const Tensor value = metric.compute();
    metric.reset();
    update(metric);
    EXPECT_EQ(host_reads() - reads, 0U) << metric.name();
    static_cast<void>(value.to_vector<double>());
    EXPECT_EQ(host_reads() - reads, 1U) << metric.name();
  });
}

TEST(Metrics, AutocastAndRecordingChangeNothing) {
  for_each_metric([](const auto& make, const auto& update) {
    auto plain = make(), cast = make();
    update(plain);
    {
      const amp::Autocast autocast(Device::cpu(), DType::bf16);
      update(cast);
      EXPECT_EQ(cast.compute().template to_vector<double>(), plain.compute().template to_vector<double>())
          << plain.name();
    }
    for (const Tensor& sum : cast.state()) EXPECT_FALSE(sum.requires_grad());
  });
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  Mean mean;
  mean.update(x);
  EXPECT_FALSE(mean.compute().requires_grad());
  Mean begun_in_inference;
  {
    const InferenceMode inference;
    begun_in_inference.update(x * 2);
  }
  begun_in_inference.update(x);
  EXPECT_EQ(begun_in_inference.value(), 9.0 / 4);
}

/// A metric of a user's own: the sum of all products of rows, which autocast would compute in 16 bits.
class Products final : public Metric {
 public:
  Products() : Metric("Products", "()", {{{}, DType::f64}}) {}
  void update(const Tensor& x) {
    count(x, [&] { sum(0).add_(mezzo::sum(matmul(x, x.t()))); });
  }

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const override { return sums[0] * 1; }
};

TEST(Metrics, ThoseOfAUserAreProtectedFromAutocastToo) {
  const Tensor x = tensor({1.001, 2.003}, {2, 1}).requires_grad_();
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  Products products;
  products.update(x);
  EXPECT_NEAR(products.value(), 3.004 * 3.004, 1e-5);
  EXPECT_FALSE(products.compute().requires_grad());
  EXPECT_EQ(Products().value(), 0);
}

TEST(Metrics, EmptyIsNaNAndCountsAreZero) {
  for_each_metric([](const auto& make, const auto& update) {
    auto metric = make();
    if (metric.name() == "ConfusionMatrix") return;
    for (const double value : metric.compute().template to_vector<double>())
      EXPECT_TRUE(std::isnan(value)) << metric.name();
    update(metric);
    metric.reset();
    for (const double value : metric.compute().template to_vector<double>())
      EXPECT_TRUE(std::isnan(value)) << metric.name();
  });
  EXPECT_EQ(ConfusionMatrix(2).compute().to_vector<double>(), (std::vector<double>(4, 0)));
  EXPECT_TRUE(std::isnan(Recall(3, {.average = Average::micro}).value()));
  R2Score one;
  one.update(tensor({1.0}), tensor({1.0}));
  EXPECT_TRUE(std::isnan(one.value())) << "two values are needed for a deviation";
}

TEST(Metrics, MergedPartsAreTheWhole) {
  for_each_metric([](const auto& make, const auto& update) {
    auto whole = make(), left = make(), right = make();
    update(whole);
    update(whole);
    update(left);
    update(right);
    left.merge(right);
    EXPECT_EQ(left.compute().template to_vector<double>(), whole.compute().template to_vector<double>())
        << whole.name();
    auto fresh = make();
    fresh.merge(right);
    fresh.merge(make());
    right.reset();
    fresh.merge(fresh);
    EXPECT_EQ(fresh.compute().template to_vector<double>(), whole.compute().template to_vector<double>())
        << whole.name();
  });
}

TEST(Metrics, RefusesWhatDoesNotFit) {
  Accuracy accuracy;
  const Tensor target = zeros({4}, {.dtype = DType::i64});
  EXPECT_EQ(
      test::message_of<ShapeError>([&] { return accuracy.update(zeros({4}), target), 0; }),
      "Accuracy: expected scores [N, C, ..] or integer classes [N, ..] for targets [N, ..], got [4] f32 for "
      "[4]; move the dim of the classes to place 1, or give classes");
  EXPECT_EQ(
      test::message_of<DTypeError>([&] {
        return accuracy.update(zeros({4, 2}), zeros({4})), 0;
      }),
      "Accuracy: expected targets that are classes: integers or bools, got f32; cast them, or give their "
      "argmax");
  TopKAccuracy top(3);
  EXPECT_EQ(
      test::message_of<ShapeError>([&] {
        return top.update(zeros({4, 2}), target), 0;
      }),
      "TopKAccuracy: expected scores of at least 3 classes, got [4, 2] f32; give logits, or a smaller k");
  EXPECT_EQ(test::message_of<ValueError>([] { return TopKAccuracy(0), 0; }),
            "TopKAccuracy: expected k of at least 1, got 0; give how many classes count");
  EXPECT_EQ(test::message_of<ValueError>([] { return ConfusionMatrix(0), 0; }),
            "ConfusionMatrix: expected between 1 and 1048576 classes, got 0; give the number of classes");
  MeanSquaredError mse;
  EXPECT_EQ(test::message_of<ShapeError>([&] {
              return mse.update(zeros({4, 1}), zeros({4})), 0;
            }),
            "MeanSquaredError: expected predictions and targets of one shape, got [4, 1] and [4]; squeeze or "
            "reshape one of them");
  Perplexity perplexity;
  EXPECT_EQ(
      test::message_of<ShapeError>([&] {
        return perplexity.update(zeros({4, 2}), zeros({2})), 0;
      }),
      "Perplexity: expected logits [.., vocabulary] and targets [..], got [4, 2] and [2]; move the dim of "
      "the vocabulary to the end");
  EXPECT_THROW(static_cast<void>(perplexity.update_loss(zeros({2}), 3)), ShapeError);
  EXPECT_THROW(static_cast<void>(perplexity.update_loss(zeros({}), -3)), ValueError);
  EXPECT_THROW(static_cast<void>(perplexity.update_loss(zeros({}), 3, Reduction::none)), ValueError);
  EXPECT_EQ(test::message_of<ShapeError>([] { return F1Score(3, {.average = Average::none}).value(); }),
            "F1Score.value: expected a metric of one number, got one of shape [3]; read compute()");
  EXPECT_EQ(
      test::message_of<ValueError>([] { return Recall(3).merge(Recall(4)), 0; }),
      "Recall.merge: expected a metric of the same kind and options: Recall(3 classes, ignore_index -100), "
      "got Recall(4 classes, ignore_index -100); merge metrics that were made alike");
  EXPECT_THROW(static_cast<void>(Recall(3).merge(Precision(3))), ValueError);
}

TEST(Metrics, AClassOutOfRangeCountsNothing) {
  ConfusionMatrix confusion(3);
  Precision precision(3);
  const Tensor preds = tensor({0, 1, 2}), target = tensor({0, 3, 2});
  const std::string message =
      test::message_of<IndexError>([&] { return confusion.update(preds, target), 0; });
  EXPECT_EQ(message,
            "ConfusionMatrix: expected classes in [0, 3), got one outside; check targets and "
            "predictions, or set ignore_index");
  EXPECT_THROW(confusion.update(target, preds), IndexError);
  EXPECT_THROW(precision.update(preds, target), IndexError);
  EXPECT_THROW(precision.update(target, preds), IndexError);
  AUROC auroc;
  for (const double score : {-0.1, 1.1, std::nan("")}) {
    EXPECT_EQ(test::message_of<IndexError>([&] {
                return auroc.update(tensor({0.5, score, 0.5}), preds.clamp(0, 1)), 0;
              }),
              "AUROC: expected probabilities in [0, 1] and targets of 0 and 1, got one outside; give "
              "sigmoid(logits), or set ignore_index");
  }
  EXPECT_THROW(auroc.update(tensor({0.5, 0.5, 0.5}), preds), IndexError);
  EXPECT_EQ(sum(auroc.state()[0]).item(), 0);
  EXPECT_THROW(auroc.update(preds, preds), ShapeError);
  EXPECT_THROW(AUROC({.thresholds = 1}), ValueError);
  EXPECT_THROW(F1Score(3, {.average = Average::binary}), ValueError);
  EXPECT_EQ(sum(confusion.compute()).item(), 0);
  for (const Tensor& sums : precision.state()) EXPECT_EQ(sum(sums).item(), 0);
}

}  // namespace
}  // namespace mezzo::train
