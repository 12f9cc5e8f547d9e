// What a trainer refuses, with one line, before training begins wherever it can be known then.
#include <gtest/gtest.h>

#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/trainer_support.h"

namespace mezzo::train {
namespace {

using test::message_of;

class TrainerRefuses : public ::testing::Test {
 protected:
  /// The message of a trainer made with options that `change` has changed.
  template <class F>
  std::string with(F change) {
    TrainerOptions options = bench_.options();
    options.max_duration = 1;
    change(options);
    return message_of<ValueError>([&] { Trainer trainer(options); });
  }

  Bench bench_{Setting{}};
};

TEST_F(TrainerRefuses, TimesThatMakeNoSense) {
  EXPECT_EQ(with([](TrainerOptions& o) { o.max_duration = "0ep"; }),
            "Trainer: expected a max_duration above 0, got 0ep; name one, such as \"3ep\"");
  EXPECT_EQ(with([](TrainerOptions& o) { o.max_duration = "1dur"; }),
            "Trainer: expected max_duration in another unit than dur, got 1dur; dur is a share of "
            "max_duration itself");
  EXPECT_EQ(
      with([](TrainerOptions& o) { o.max_duration = "10tok"; }),
      "Trainer: expected a function that counts tokens, for max_duration = 10tok, got none; give .tokens = "
      "[](const Batch& batch) { return batch.target.numel(); }");
  EXPECT_NE(with([](TrainerOptions& o) { o.eval_interval = "10tok"; }), "");
  EXPECT_NE(with([](TrainerOptions& o) { o.iteration_length = Time("10ba"); }), "");
  EXPECT_THROW(with([](TrainerOptions& o) { o.max_duration = "3 weeks"; }), ValueError);
  EXPECT_EQ(message_of<ValueError>([&] { Trainer(bench_.options()).fit(); }),
            "Trainer::fit: expected a max_duration, got none; give .max_duration = \"3ep\", or fit(\"3ep\")");
  Trainer trainer(bench_.options());
  EXPECT_THROW(trainer.fit(0), ValueError);
  EXPECT_THROW(trainer.fit("1dur"), ValueError);
}

TEST_F(TrainerRefuses, MissingAndWrongPieces) {
  EXPECT_EQ(with([](TrainerOptions& o) { o.model = {}; }),
            "Trainer: expected a model, got none; give .model = net");
  EXPECT_NE(with([](TrainerOptions& o) { o.loss = {}; }), "");
  EXPECT_EQ(message_of<ValueError>([&] {
              TrainerOptions options = bench_.options();
              options.train_loader = {};
              Trainer(options).fit("1ep");
            }),
            "Trainer::fit: expected a train_loader, got none; give .train_loader = loader");
  EXPECT_EQ(with([&](TrainerOptions& o) { o.eval_loader = *bench_.loader; }),
            "Trainer: expected metrics for the eval_loader, got none; give .metrics = {{\"accuracy\", "
            "train::Accuracy()}}");
  nn::Bilinear two(3, 2, 1);
  EXPECT_EQ(
      with([&](TrainerOptions& o) {
        o.model = two;
        o.optimizer = {};
      }),
      "Trainer: expected a model that is an nn::Layer, or a forward, got Bilinear and none; give .forward = "
      "[&](const Batch& batch) { return net(...); }");
}

TEST_F(TrainerRefuses, OptimizersOfAnotherModel) {
  nn::Linear other(2, 2);
  optim::SGD sgd(other);
  EXPECT_EQ(with([&](TrainerOptions& o) { o.optimizer = sgd; }),
            "Trainer: expected an optimizer of the model's parameters, got weight, which is not one; make it "
            "of this "
            "model");
}

TEST_F(TrainerRefuses, BatchesOfAnotherType) {
  std::vector<std::vector<Tensor>> lists{{ones({2, 6})}};
  EXPECT_EQ(with([&](TrainerOptions& o) { o.train_loader = lists; }),
            "Trainer: expected batches of type Example, Tensor or pair of tensors, for the model, got "
            "batches of type "
            "vector<mezzo::Tensor, std::allocator<mezzo::Tensor> >; give a function of the whole batch");
  EXPECT_NE(
      with([&](TrainerOptions& o) { o.forward = [](const std::vector<Tensor>& batch) { return batch[0]; }; }),
      "");
  EXPECT_NE(
      with([&](TrainerOptions& o) { o.tokens = [](const std::vector<Tensor>& /*batch*/) { return 1; }; }),
      "");
  EXPECT_NE(with([&](TrainerOptions& o) {
              o.loss = [](const Tensor& y, const std::vector<Tensor>& /*batch*/) { return mean(y); };
            }),
            "");
  struct Opaque {
    int value = 0;
  };
  std::vector<Opaque> opaque{{1}};
  EXPECT_NE(with([&](TrainerOptions& o) {
              o.train_loader = opaque;
              o.loss = [](const Opaque& /*batch*/) { return ones({}); };
              o.microbatch = 1;
            }).find("batches whose tensors are known"),
            std::string::npos);
}

TEST_F(TrainerRefuses, NumbersAndNames) {
  EXPECT_NE(with([](TrainerOptions& o) { o.accumulate = 0; }), "");
  EXPECT_NE(with([](TrainerOptions& o) { o.clip_norm = -1.0; }), "");
  EXPECT_NE(with([](TrainerOptions& o) { o.clip_norm = NAN; }), "");
  EXPECT_THROW(Microbatch(0), ValueError);
  EXPECT_THROW(Microbatch("half"), ValueError);
  EXPECT_THROW(TrainerPrecision("fp8"), ValueError);
  EXPECT_EQ(TrainerPrecision("fp16").value(), amp::Precision::amp_fp16);
  EXPECT_EQ(TrainerPrecision("AMP").value(), amp::Precision::amp_fp16);
  EXPECT_EQ(TrainerPrecision("bf16").value(), amp::Precision::amp_bf16);
  EXPECT_NE(with([](TrainerOptions& o) { o.precision = amp::Precision::fp16; }), "");
  EXPECT_EQ(
      with([](TrainerOptions& o) {
        o.precision = "amp_fp16";
        o.scaler.enabled = false;
      }),
      "Trainer: expected an enabled scaler with precision amp_fp16, got scaler.enabled = false; leave it "
      "enabled, or take amp_bf16");
  EXPECT_NE(with([](TrainerOptions& o) { o.resume = true; }), "");
  EXPECT_NE(with([](TrainerOptions& o) { o.save.metric = "accuracy"; }), "");
  EXPECT_NE(with([](TrainerOptions& o) { o.callbacks = {std::shared_ptr<Callback>()}; }), "");
  EXPECT_THROW(with([](TrainerOptions& o) { o.load = "/nowhere/a.safetensors"; }), IoError);
}

TEST_F(TrainerRefuses, WhatCannotGoTogether) {
  optim::LBFGS lbfgs(*bench_.net);
  EXPECT_NE(with([&](TrainerOptions& o) {
              o.optimizer = lbfgs;
              o.precision = "amp_fp16";
            }),
            "");
  EXPECT_NE(with([&](TrainerOptions& o) {
              o.optimizer = lbfgs;
              o.schedule = Bench::cosine();
            }),
            "");
  optim::SAM sam(*bench_.adam);
  EXPECT_NE(with([&](TrainerOptions& o) {
              o.optimizer = sam;
              o.precision = "amp_fp16";
              o.clip_norm = 1.0;
            }),
            "");
  EXPECT_NE(with([&](TrainerOptions& o) {
              o.captured = true;
              o.microbatch = "auto";
            }),
            "");
  EXPECT_NE(with([&](TrainerOptions& o) {
              o.captured = true;
              o.callbacks = {on(Event::after_forward, [](State& /*state*/) {})};
            }),
            "");
}

TEST_F(TrainerRefuses, WhatOnlyTrainingShows) {
  TrainerOptions options = bench_.options();
  options.max_duration = 1;
  options.loss = [](const Tensor& y, const Tensor& /*target*/) { return y; };
  EXPECT_EQ(
      message_of<ShapeError>([&] { Trainer(options).fit(); }),
      "Trainer::fit: expected a loss of one element, got [8, 4]; let it return the mean over the samples");

  options = bench_.options();
  options.max_duration = 1;
  std::vector<data::Example> mixed{{ones({4, 6}), zeros({4}, {.dtype = DType::i64})},
                                   {ones({4, 6}), zeros({4, 4})}};
  options.train_loader = mixed;
  EXPECT_EQ(message_of<DTypeError>([&] { Trainer(options).fit(); }),
            "Trainer::fit: expected batches like the first one: tensors of f32, i64, got tensors of f32, f32 "
            "at batch "
            "1; let the loader give the same kinds of tensors every time");

  std::vector<data::Example> none;
  options.train_loader = none;
  EXPECT_NE(message_of<ValueError>([&] { Trainer(options).fit(); }), "");
}

}  // namespace
}  // namespace mezzo::train
