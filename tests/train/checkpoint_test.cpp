// Checkpoints: a training that is stopped anywhere and resumed ends with the bits of one that was not; bad
// files and other models change nothing.
#include "mezzo/train/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/small_training.h"

namespace mezzo::train {
namespace {

namespace fs = std::filesystem;
using test::message_of;

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() : folder_(fs::temp_directory_path() / ("mezzo-checkpoint-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Checkpoints() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name = "a.safetensors") const {
    return (folder_ / name).string();
  }

  fs::path folder_;
};

struct Float8Weight : nn::Layer {
  nn::Buffer weight{*this, "weight", tensor({1.0, -2.0, 448.0}, DType::f8_e4m3)};
  nn::Param scale{*this, "scale", tensor({0.5})};
  Tensor forward(const Tensor& x) override { return x * weight.to(DType::f32) * scale; }
};

TEST_F(Checkpoints, Float8BuffersComeBack) {
  Float8Weight net, other;
  net.weight.set(tensor({1.5, 0.0, std::nan("")}, DType::f8_e4m3));
  save_checkpoint(path(), {{"model", net}});
  load_checkpoint(path(), {{"model", other}});
  EXPECT_EQ(to_string(other.weight), to_string(net.weight));
  // Another dtype is cast where that is asked for.
  Float8Weight cast;
  cast.load_state_dict({{"weight", tensor({1.0, 500.0, 0.3})}, {"scale", ones({1})}}, {.cast = true});
  EXPECT_EQ(cast.weight.to_vector<float>(), (std::vector<float>{1, 448, 0.3125F}));
}

class Resuming : public Checkpoints, public testing::WithParamInterface<Recipe> {};

TEST_P(Resuming, EndsWithTheBitsOfOneRun) {
  constexpr int kMicroSteps = 26;
  SmallTraining straight(GetParam());
  for (int i = 0; i < kMicroSteps; ++i) straight.micro_step();
  for (int stop = 0; stop < kMicroSteps; stop += stop < 9 ? 1 : 4) {
    {
      SmallTraining first(GetParam());
      for (int i = 0; i < stop; ++i) first.micro_step();
      save_checkpoint(path(), first.parts());
    }
    manual_seed(99);  // what is there before must not matter
    SmallTraining second(GetParam());
    second.micro_step();
    load_checkpoint(path(), second.parts());
    EXPECT_EQ(second.steps(), stop);
    while (second.steps() < kMicroSteps) second.micro_step();
    EXPECT_EQ(second.bits(), straight.bits()) << "stopped after " << stop;
  }
  if (GetParam().dtype == DType::f16) {
    EXPECT_GT(straight.skipped(), 0) << "some steps should be skipped";
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, Resuming,
                         testing::Values(Recipe{"f32", DType::f32}, Recipe{"bf16", DType::bf16},
                                         Recipe{"f16", DType::f16}, Recipe{"masters", DType::f16, true}),
                         [](const testing::TestParamInfo<Recipe>& recipe) { return recipe.param.name; });

TEST_F(Checkpoints, OfNarrowParametersAndMomentsGoOnWithTheBitsOfOneRun) {
  using optim::AdamW, optim::AdamWOptions, optim::MasterWeights;
  for (const AdamWOptions& options :
       {AdamWOptions{.master_weights = MasterWeights::split},
        AdamWOptions{.stochastic_rounding = true, .state_bits = 8},
        AdamWOptions{.master_weights = MasterWeights::split, .state_bits = 8}}) {
    struct Training {
      explicit Training(const AdamWOptions& options) {
        net.to(DType::bf16);
        adam.emplace(net, options);
      }
      void run(std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t step = from; step < to; ++step) {
          Generator generator(step);
          const Tensor x = normal(0, 1, {8, 80}, {}, generator).to(DType::bf16);
          adam->zero_grad();
          mse_loss(net(x).to(DType::f32), x.to(DType::f32)).backward();
          adam->step();
        }
      }
      nn::Linear net{80, 80};
      std::optional<AdamW> adam;
    };
    manual_seed(1);
    Training straight(options);
    manual_seed(1);
    Training stopped(options), resumed(options);
    straight.run(0, 6);
    stopped.run(0, 3);
    save_checkpoint(path(), {{"model", stopped.net}, {"optimizer", *stopped.adam}});
    load_checkpoint(path(), {{"model", resumed.net}, {"optimizer", *resumed.adam}});
    resumed.run(3, 6);
    EXPECT_TRUE(equal(resumed.net.weight, straight.net.weight));
    const auto got = resumed.adam->state_dict().tensors, want = straight.adam->state_dict().tensors;
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(equal(got[i].second, want[i].second)) << want[i].first;
  }
}

TEST_F(Checkpoints, HoldTensorsUnderPyTorchsNamesAndValuesAsJson) {
  nn::Sequential net(nn::Linear(2, 3), nn::BatchNorm1d(3));
  optim::AdamW adam(net, {.lr = 1e-3});
  std::int64_t step = 7;
  Value notes = Value::Map{{"who", "me"}};
  const auto x = ones({4, 2});
  net(x).sum().backward();
  adam.step();
  adam.zero_grad();
  save_checkpoint(path(), {{"", net}, {"optimizer", adam}, {"step", step}, {"notes", notes}});
  const io::SafeTensors file = io::SafeTensors::open(path());
  for (const char* name : {"0.weight", "0.bias", "1.running_mean", "1.num_batches_tracked",
                           "optimizer.0.exp_avg", "optimizer.0.step"}) {
    EXPECT_TRUE(file.contains(name)) << name;
  }
  EXPECT_EQ(file.at("0.weight").shape, (std::vector<std::int64_t>{3, 2}));
  const Value values = io::parse_json(file.metadata().at("mezzo.values"));
  EXPECT_EQ(values["step"].as_int(), 7);
  EXPECT_EQ(values["notes"]["who"].as_string(), "me");
  EXPECT_EQ(values["optimizer"]["param_groups"][0]["lr"].as_double(), 1e-3);
}

TEST_F(Checkpoints, ValuesOfAProgramComeBack) {
  std::int64_t large = std::int64_t{1} << 60U;
  int small = -3;
  double real = 0.1;
  bool flag = true;
  std::string text = "ümlaut\n";
  Tensor tensor = arange(3).to(DType::f64);
  Generator generator(~std::uint64_t{0});
  static_cast<void>(generator.draw(12));
  const GeneratorState state = generator.state();
  const Parts parts{{"large", large}, {"small", small}, {"real", real},          {"flag", flag},
                    {"text", text},   {"t", tensor},    {"generator", generator}};
  save_checkpoint(path(), parts);
  large = small = 0;
  real = 0;
  flag = false;
  text.clear();
  tensor.zero_();
  generator.manual_seed(1);
  EXPECT_TRUE(load_checkpoint(path(), parts).is_exact());
  EXPECT_EQ(large, std::int64_t{1} << 60U);
  EXPECT_EQ(small, -3);
  EXPECT_EQ(real, 0.1);
  EXPECT_TRUE(flag);
  EXPECT_EQ(text, "ümlaut\n");
  EXPECT_TRUE(equal(tensor, arange(3).to(DType::f64)));
  EXPECT_EQ(generator.state(), state);
}

TEST_F(Checkpoints, StrictLoadingListsAllThatDoesNotFit) {
  nn::Linear saved(2, 3);
  double rate = 1;
  save_checkpoint(path(), {{"model", saved}, {"rate", rate}});
  nn::Sequential other(nn::Linear(2, 3));
  amp::GradScaler scaler;
  const std::string message = message_of<ValueError>([&] {
    load_checkpoint(path(), {{"model", other}, {"scaler", scaler}});
  });
  EXPECT_EQ(message,
            "load_checkpoint '" + path() +
                "': expected what the parts have, got 3 missing (model.0.weight, model.0.bias, scaler), 3 "
                "unexpected (model.bias, model.weight, rate); strict = false leaves what is missing or "
                "unexpected");
  const nn::LoadReport report =
      load_checkpoint(path(), {{"model", other}, {"scaler", scaler}}, {.strict = false});
  EXPECT_EQ(report.missing.size(), 3U);
  EXPECT_EQ(report.unexpected.size(), 3U);
  nn::Linear wide(4, 3);
  EXPECT_EQ(message_of<ValueError>([&] {
              load_checkpoint(path(), {{"model", wide}, {"rate", rate}}, {.strict = false});
            }),
            "load_checkpoint '" + path() +
                "': expected what the parts have, got 1 mismatched (model.weight: f32 [3, 4] in the model, "
                "f32 [3, 2] in "
                "the file); make the model as it was");
}

TEST_F(Checkpoints, ALoadThatFailsChangesNothing) {
  nn::Linear net(2, 2);
  optim::SGD sgd(net, {.lr = 0.5, .momentum = 0.9});
  optim::Adam adam(net, {.lr = 0.25});
  const auto step = [&] {
    net(ones({1, 2})).sum().backward();
    sgd.step();
    adam.step();
    net.zero_grad();
  };
  step();
  save_checkpoint(path(), {{"model", net}, {"a", sgd}, {"b", sgd}});  // "b" is no Adam
  step();
  const Parts parts{{"model", net}, {"a", sgd}, {"b", adam}};
  const io::TensorFile before = detail::checkpoint_of(parts, {});
  std::vector<Tensor> copies;
  for (const auto& [name, tensor] : before.tensors) copies.push_back(clone(tensor));
  EXPECT_EQ(message_of<StateError>([&] { load_checkpoint(path(), parts); }),
            "Optimizer.load_state_dict: expected the state of Adam, got SGD; load it into an optimizer of "
            "that kind");
  const io::TensorFile after = detail::checkpoint_of(parts, {});
  ASSERT_EQ(after.tensors.size(), copies.size());
  for (std::size_t i = 0; i < copies.size(); ++i) EXPECT_TRUE(equal(after.tensors[i].second, copies[i]));
  EXPECT_EQ(after.metadata, before.metadata);
}

TEST_F(Checkpoints, GradientsAreSavedUnlessToldOtherwise) {
  nn::Linear net(2, 2);
  net(ones({1, 2})).sum().backward();
  const Parts parts{{"model", net}};
  save_checkpoint(path("with"), parts);
  save_checkpoint(path("without"), parts, {.gradients = false});
  const Tensor gradient = clone(net.parameters()[0].grad());
  net.zero_grad();
  load_checkpoint(path("with"), parts);
  EXPECT_TRUE(equal(net.parameters()[0].grad(), gradient));
  load_checkpoint(path("without"), parts);
  EXPECT_FALSE(net.parameters()[0].grad().defined());
}

TEST_F(Checkpoints, FilesOfTensorsAloneLoadIntoAModel) {
  nn::Linear net(2, 2), other(2, 2);
  net(ones({1, 2})).sum().backward();
  io::save(other.state_dict(), path());
  EXPECT_TRUE(load_checkpoint(path(), {{"", net}}).is_exact());
  EXPECT_TRUE(equal(net.parameters()[0], other.parameters()[0]));
  EXPECT_TRUE(net.parameters()[0].grad().defined()) << "such a file says nothing of gradients";
}

TEST_F(Checkpoints, RefuseAveragesInThePlaceOfWeights) {
  nn::Linear net(3, 2);
  optim::EMA ema(net);
  {
    const auto averaged = ema.average_weights();
    EXPECT_TRUE(optim::holds_average(net.weight.get()));
    EXPECT_THROW(save_checkpoint(path(), {{"model", net}}), StateError);
  }
  EXPECT_FALSE(optim::holds_average(net.weight.get()));
  save_checkpoint(path(), {{"model", net}});
}

TEST_F(Checkpoints, RefuseNamesThatCollide) {
  nn::Linear a(1, 1), b(1, 1);
  nn::Sequential c(nn::Linear(1, 1));
  EXPECT_EQ(message_of<ValueError>([&] {
              save_checkpoint(path(), {{"m", a}, {"m", b}});
            }),
            "checkpoint: expected parts of different names, got \"m\" twice; rename one");
  EXPECT_EQ(message_of<ValueError>([&] {
              save_checkpoint(path(), {{"m", c}, {"m.0", b}});
            }),
            "checkpoint: expected tensors of different names, got \"m.0.bias\" twice; rename a part");
  EXPECT_EQ(
      message_of<ValueError>([&] {
        save_checkpoint(path(), {{"gradients", a}});
      }),
      "checkpoint: expected names of parts other than \"gradients.\", got \"gradients\"; that one is for the "
      "gradients of modules");
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(Checkpoints, RefuseDamagedAndNewerFiles) {
  nn::Linear net(2, 2);
  std::int64_t step = 3;
  const Parts parts{{"model", net}, {"step", step}};
  save_checkpoint(path(), parts);
  io::TensorFile file = io::TensorFile::load(path());
  file.metadata["mezzo.checkpoint"] = "2";
  file.save(path("newer"));
  EXPECT_EQ(message_of<ValueError>([&] { load_checkpoint(path("newer"), parts); }),
            "load_checkpoint '" + path("newer") +
                "': expected a checkpoint of format 1 or older, got format \"2\"; load it with the version "
                "of mezzo that "
                "wrote it, or a newer one");
  std::ifstream in(path(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (const std::size_t length : {std::size_t{0}, std::size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(path("cut"), std::ios::binary) << bytes.substr(0, length);
    EXPECT_THROW(load_checkpoint(path("cut"), parts), IoError) << length;
  }
  EXPECT_EQ(step, 3);
}

TEST_F(Checkpoints, PartsMayBeAProgramsOwn) {
  struct Counter {
    int count = 0;
    [[nodiscard]] Value state_dict() const { return Value::Map{{"count", count}}; }
    void load_state_dict(const Value& state) { count = static_cast<int>(state["count"].as_int()); }
  } counter{5};
  nn::Linear net(2, 2);
  optim::EMA ema(net);
  const Parts parts{{"counter", counter}, {"ema", ema}, {"random", default_generator()}};
  save_checkpoint(path(), parts);
  counter.count = 0;
  load_checkpoint(path(), parts);
  EXPECT_EQ(counter.count, 5);
}

}  // namespace
}  // namespace mezzo::train
