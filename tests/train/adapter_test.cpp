// Folders of adapters: a model that PEFT 0.21 fine-tuned computes the same here (files/peft/make.py), and
// what is written has PEFT's names.
#include "mezzo/train/adapter.h"

#include <gtest/gtest.h>

#include "mezzo/mezzo.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "mezzo/tests/support/data_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::train {
namespace {

using test::message_of;

const std::string kPeft = test::data_folder() + "/train/files/peft";
using Adapter = io::WithFolder;

/// The model of files/peft/make.py.
struct Net final : nn::Layer {
  nn::Child<nn::Embedding> embed{*this, "embed", nn::Embedding(7, 4)};
  nn::Child<nn::Linear> fc{*this, "fc", nn::Linear(4, 12)};
  nn::Child<nn::Conv2d> conv{*this, "conv", nn::Conv2d(3, 4, 3, {.padding = 1})};
  nn::Child<nn::Linear> head{*this, "head", nn::Linear(16, 2)};
  Tensor forward(const Tensor& tokens) override {
    const Tensor x = fc(embed(tokens)).reshape({-1, 3, 4, 2});
    return head(tanh(conv(x)).mean({3}).flatten(1));
  }
};

/// With the base weights of files/peft.
std::shared_ptr<Net> base() {
  auto net = nn::make<Net>();
  net->to(DType::f64);
  net->load_state_dict(io::TensorFile::load(kPeft + "/net.safetensors").with_prefix("base."));
  return net;
}
std::shared_ptr<Net> with_adapters() {
  auto net = base();
  load_adapter(kPeft, *net, {.dtype = DType::f64});
  return net;
}
Tensor of_file(const std::string& name) {
  return io::TensorFile::load(kPeft + "/net.safetensors").with_prefix(name).front().second;
}

TEST_F(Adapter, OfPeftComputesTheSame) {
  const auto net = base();
  const Tensor plain = (*net)(of_file("tokens"));
  load_adapter(kPeft, *net, {.dtype = DType::f64});
  net->eval();
  const Tensor y = (*net)(of_file("tokens"));
  EXPECT_TRUE(allclose(y, of_file("result"), 1e-13, 1e-13));
  EXPECT_FALSE(allclose(plain, y, 1e-2, 1e-2));
  EXPECT_FALSE(net->head->weight.requires_grad());
  const auto& layer = dynamic_cast<nn::Lora<nn::Linear>&>(*net->fc);
  EXPECT_EQ(layer.lora_options().dropout, 0.25);
  EXPECT_DOUBLE_EQ(layer.scaling(), 6 / std::sqrt(2.0));
  nn::merge_lora(*net);
  EXPECT_TRUE(allclose((*net)(of_file("tokens")), y, 1e-13, 1e-13));
}

TEST_F(Adapter, IsWrittenUnderPeftsNamesAndReadAgain) {
  const auto net = with_adapters(), other = base();
  save_adapter(path("new/adapter"), *net, "some/base");
  const auto written = io::SafeTensors::open(path("new/adapter/adapter_model.safetensors"));
  const auto peft = io::SafeTensors::open(kPeft + "/adapter_model.safetensors");
  auto names = written.names(), expected = peft.names();
  std::sort(names.begin(), names.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names, expected);
  const Value config = io::read_json_file(path("new/adapter/adapter_config.json"));
  const Value theirs = io::read_json_file(kPeft + "/adapter_config.json");
  for (const char* key : {"peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "bias"})
    EXPECT_EQ(config[key], theirs[key]) << key;
  EXPECT_EQ(config["target_modules"], Value::list("embed", "fc", "conv"));
  EXPECT_EQ(config["base_model_name_or_path"], Value("some/base"));

  load_adapter(path("new/adapter"), *other, {.dtype = DType::f64});
  net->eval();
  other->eval();
  EXPECT_TRUE(equal((*other)(of_file("tokens")), (*net)(of_file("tokens"))));
  load_adapter(path("new/adapter"), *net);  // into the adapters that are there
}

/// Writes PEFT's folder with one entry of the config changed, and loads it into a model that must stay.
std::string refused(const std::string& folder, const std::string& key, const Value& value) {
  Value config = io::read_json_file(kPeft + "/adapter_config.json");
  config.set(key, value);
  io::write_json_file(folder + "/adapter_config.json", config);
  io::save(io::load(kPeft + "/adapter_model.safetensors"), folder + "/adapter_model.safetensors");
  const auto net = base();
  const std::string said = message_of<ValueError>([&] {
    load_adapter(folder, *net);
    return 0;
  });
  EXPECT_FALSE(nn::has_lora(*net));
  EXPECT_TRUE(net->head->weight.requires_grad());
  return said;
}

TEST_F(Adapter, RefusesWhatItCannotCompute) {
  EXPECT_NE(refused(path(""), "peft_type", "IA3").find("the peft_type LORA, got \"IA3\""), std::string::npos);
  EXPECT_NE(refused(path(""), "use_dora", true).find("without use_dora"), std::string::npos);
  EXPECT_NE(refused(path(""), "bias", "all").find("without bias"), std::string::npos);
  EXPECT_NE(refused(path(""), "rank_pattern", Value::Map{{"fc", 4}}).find("without rank_pattern"),
            std::string::npos);
  EXPECT_NE(refused(path(""), "r", 3).find("apply_lora with the rank that was trained"), std::string::npos);
  EXPECT_NE(refused(path(""), "lora_dropout", 2).find("dropout"), std::string::npos);
  nn::Sequential other{nn::Linear(2, 2)};
  EXPECT_THROW(load_adapter(kPeft, other), ValueError);
  EXPECT_THROW(save_adapter("nowhere", other), StateError);
  EXPECT_THROW(load_adapter("nowhere", other), IoError);
  EXPECT_THROW(save_adapter("/dev/null/folder", *with_adapters()), IoError);
  nn::apply_lora(other, {.rank = 2, .targets = {"0"}});
  EXPECT_THROW(load_adapter(kPeft, other), ValueError);
}

TEST_F(Adapter, OfSeveralRanksIsNotSaved) {
  nn::Sequential net{nn::Linear(2, 2), nn::Linear(2, 2)};
  nn::apply_lora(net, {.rank = 2, .targets = {"0"}});
  nn::apply_lora(net, {.rank = 1, .targets = {"1"}});
  EXPECT_THROW(save_adapter("nowhere", net), ValueError);
}

}  // namespace
}  // namespace mezzo::train
