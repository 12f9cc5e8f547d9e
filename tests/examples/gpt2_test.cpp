// examples/gpt2: its model beside PyTorch's numbers (files/gpt2.py), keys and values that are kept, and the
// program as a user runs it.
#include "../examples/gpt2/model.h"

#include <set>

#include "examples/trained_program.h"
#include "mezzo/core/cuda.h"
#include "support/data_folder.h"
#include "support/message_of.h"
#include "support/sanitizer.h"

namespace mezzo {
namespace {

using Named = io::TensorFile::NamedTensors;

const std::string kGolden = test::data_folder() + "/examples/files/gpt2.safetensors";

/// What files/gpt2.py wrote.
class GPT2Model : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kGolden)) GTEST_SKIP() << kGolden << " is not here";
    golden_ = io::TensorFile::load(kGolden);
    folder_ = std::filesystem::path(testing::TempDir()) / ("mezzo-gpt2-model-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    io::write_json_file((folder_ / "config.json").string(), Value::Map{{"n_head", 4}});
  }
  ~GPT2Model() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Tensor tensor_of(const std::string& name) const {
    for (const auto& [given, tensor] : golden_.tensors) {
      if (given == name) return tensor;
    }
    ADD_FAILURE() << name;
    return {};
  }
  /// The weights as a file of Hugging Face's, with a prefix before the names and something done to them.
  template <class Change>
  [[nodiscard]] std::string written(const std::string& prefix, const Change& change) const {
    Named weights;
    for (const auto& [name, tensor] : golden_.with_prefix("weights."))
      weights.emplace_back(prefix + name, tensor);
    change(weights);
    std::string path = (folder_ / "model.safetensors").string();
    io::save(weights, path);
    return path;
  }
  [[nodiscard]] std::string written(const std::string& prefix = "") const {
    return written(prefix, [](Named&) {});
  }
  static std::shared_ptr<gpt2::GPT2> read(const std::string& path) {
    const Named weights = gpt2::read_weights(path);
    gpt2::Config config = gpt2::config_of(weights, path);
    auto model = nn::make<gpt2::GPT2>(config);
    model->load_state_dict(weights, {.cast = true});
    model->eval();
    return model;
  }
  static double distance(const Tensor& a, const Tensor& b) {
    return amax(abs(a.to(DType::f64) - b.to(DType::f64))).item();
  }

  io::TensorFile golden_;
  std::filesystem::path folder_;
};

/// PyTorch's own rounding shows in its distance from f64; another order of sums has one of that size.
TEST_F(GPT2Model, LogitsAndGradientsArePyTorchs) {
  const Tensor expected = tensor_of("logits"), exact = tensor_of("logits_f64");
  const double rounding = distance(expected, exact);
  EXPECT_GT(rounding, 0);
  EXPECT_LT(rounding, 1e-5);
  for (const char* prefix : {"", "transformer."}) {
    const auto model = read(written(prefix));
    EXPECT_EQ(model->config.layers, 2);
    EXPECT_EQ(model->config.heads, 4);
    model->zero_grad();
    const Tensor logits = (*model)(tensor_of("tokens"));
    EXPECT_LT(distance(logits, exact), 2 * rounding);
    EXPECT_LT(distance(logits, expected), 3 * rounding);
    const Tensor loss = cross_entropy(logits.flatten(0, 1), tensor_of("targets").flatten());
    EXPECT_NEAR(loss.item(), tensor_of("loss").item(), 2 * rounding);
    loss.backward();
    const Named parameters = model->named_parameters();
    std::size_t compared = 0;
    for (const auto& [name, gradient] : golden_.with_prefix("gradients.")) {
      for (const auto& [path, parameter] : parameters) {
        if (path != name) continue;
        // Linear keeps weights as [out, in].
        const Tensor got = name.ends_with("c_attn.weight") ? parameter.grad().t() : parameter.grad();
        EXPECT_LT(distance(got, gradient), 1e-5 * amax(abs(gradient)).item()) << name;
        ++compared;
      }
    }
    EXPECT_EQ(compared, 7U);
  }
}

TEST_F(GPT2Model, WeightsMayBeOf16Bits) {
  const auto model = read(written("", [](Named& weights) {
    for (auto& [name, tensor] : weights) {
      if (tensor.dtype() == DType::f32) tensor = tensor.to(DType::f16);
    }
  }));
  EXPECT_EQ(model->wte->weight.dtype(), DType::f32);
  EXPECT_TRUE(equal(model->wte->weight, tensor_of("weights.wte.weight").to(DType::f16).to(DType::f32)));
}

/// In one call, token by token, and in pieces, of which the second has to be masked.
TEST_F(GPT2Model, LogitsWithACacheAreThoseWithout) {
  const auto model = read(written());
  const NoGrad no_grad;
  const Tensor tokens = narrow(tensor_of("tokens"), 0, 0, 1);
  // A product of fewer rows may be added up in another order. In 16 bits logits, which are below 8, may be a
  // few units in the last place apart.
  const double rounding = distance(tensor_of("logits"), tensor_of("logits_f64"));
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::f32, 3 * rounding), std::pair(DType::f16, 0x1p-11 * 32),
        std::pair(DType::bf16, 0x1p-8 * 32)}) {
    const amp::Autocast autocast(DeviceType::cpu, dtype, {.enabled = dtype != DType::f32});
    const Tensor whole = (*model)(tokens);
    for (const std::vector<std::int64_t>& pieces :
         {std::vector<std::int64_t>{16}, std::vector<std::int64_t>(16, 1),
          std::vector<std::int64_t>{5, 4, 1, 6}}) {
      gpt2::Cache cache = model->make_cache(dtype);
      std::int64_t at = 0;
      for (const std::int64_t length : pieces) {
        const Tensor piece = (*model)(narrow(tokens, 1, at, length), &cache);
        EXPECT_EQ(piece.shape(), (Shape{1, length, 61}));
        EXPECT_LE(distance(piece, narrow(whole, 1, at, length)), tolerance)
            << to_string(dtype) << " at " << at;
        at += length;
      }
      EXPECT_EQ(cache.back().length(), 16);
    }
  }
}

/// Greedily, beyond the context, where the window moves on by half of it.
TEST_F(GPT2Model, GeneratesWhatALoopWithoutCacheDoes) {
  const auto model = read(written());
  std::vector<std::int64_t> got{3, 1, 4}, expected = got;
  gpt2::generate(*model, got, {.count = 40, .vocab_size = 61, .sample = {.temperature = 0}});
  const NoGrad no_grad;
  for (std::size_t begin = 0; expected.size() < 43;) {
    const std::vector<std::int64_t> window(expected.begin() + static_cast<std::ptrdiff_t>(begin),
                                           expected.end());
    const Tensor logits = (*model)(tensor(window, {1, std::ssize(window)}));
    expected.push_back(argmax(logits[{0, -1}]).item<std::int64_t>());
    if (expected.size() - begin > 16) begin = expected.size() - 8;
  }
  EXPECT_EQ(got, expected);
}

TEST_F(GPT2Model, GenerationEndsAtTheEndAndDrawsKnownTokensOnly) {
  const auto model = read(written());
  std::vector<std::int64_t> all{3, 1, 4};
  gpt2::generate(*model, all, {.count = 20, .vocab_size = 61, .sample = {.temperature = 0}});
  std::vector<std::int64_t> some{3, 1, 4};
  gpt2::generate(*model, some, {.count = 20, .vocab_size = 61, .end = all[5], .sample = {.temperature = 0}});
  EXPECT_EQ(some,
            (std::vector<std::int64_t>(all.begin(), std::find(all.begin() + 3, all.end(), all[5]) + 1)));
  std::vector<std::int64_t> low{3};
  gpt2::generate(*model, low, {.count = 60, .vocab_size = 5, .sample = {.temperature = 2}});
  EXPECT_EQ(low.size(), 61U);
  for (const std::int64_t token : low) EXPECT_LT(token, 5);
  EXPECT_GT(std::set<std::int64_t>(low.begin(), low.end()).size(), 2U);
}

TEST_F(GPT2Model, RefusesOtherFiles) {
  const auto message = [&](const auto& change) {
    const std::string path = written("", change);
    return test::message_of<ValueError>([&] { return read(path); });
  };
  EXPECT_NE(message([](Named& weights) {
              weights = {{"fc.weight", ones({2, 2})}};
            }).find("expected weights of a GPT-2"),
            std::string::npos);
  EXPECT_NE(message([&](Named& weights) {
              weights.emplace_back("lm_head.weight", tensor_of("weights.wte.weight") + 1);
            }).find("lm_head.weight"),
            std::string::npos);
  EXPECT_NE(message([](Named& weights) {
              for (auto& [name, tensor] : weights) {
                if (name == "h.1.mlp.c_fc.weight") tensor = ones({32, 100});
              }
            }).find("h.1.mlp.c_fc.weight"),
            std::string::npos);
  // A tied head is what older files have.
  const auto model = read(written(
      "", [&](Named& weights) { weights.emplace_back("lm_head.weight", tensor_of("weights.wte.weight")); }));
  const std::vector<std::int64_t> long_prompt(17, 1);
  EXPECT_NE(test::message_of<ValueError>([&] {
              return (*model)(tensor(long_prompt, {1, 17}));
            }).find("at most 16 tokens"),
            std::string::npos);
}

class GPT2Program : public test::TrainedProgram {
 protected:
  GPT2Program() : TrainedProgram("gpt2") {}
  const std::string kSmall = "--layers 2 --width 32 --context 32 ";
};

TEST_F(GPT2Program, LearnsInEveryPrecisionAndWrites) {
  const std::string steps = test::under_sanitizer() ? "--steps 8 --lr 0.01 " : "--steps 40 --lr 0.01 ";
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    const std::string text =
        text_of(kSmall + steps + "--generate 50 --prompt 'A dog' --report run.html --precision " + precision);
    const double before = number_behind(text, "step 0: loss "),
                 after = number_behind(text.substr(text.find("trained:")), ": loss ");
    EXPECT_NEAR(before, std::log(256.0), 0.1) << "a random model";
    EXPECT_LT(after, before - (test::under_sanitizer() ? 0.5 : 2.5)) << text;
    EXPECT_GT(number_behind(text, "trained: "), 0);
    EXPECT_GT(number_behind(text, "generated 50 tokens: "), 0);
    const std::size_t sample = text.find("\nA dog");
    ASSERT_NE(sample, std::string::npos) << text;
    EXPECT_GE(text.size() - sample, 50U);
    const std::string page = content_of("run.html");
    EXPECT_NE(page.find("\"grad_norm\":[["), std::string::npos);
  }
}

TEST_F(GPT2Program, StoppedAndBegunAgainItEndsWithTheSameBits) {
  const std::string flags = kSmall + "--steps 12 --save-every 5 --batch-size 4 --precision amp_fp16 ";
  static_cast<void>(text_of(flags + "--resume whole"));
  static_cast<void>(text_of(flags + "--resume parts --stop 7"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "parts/step-000000000005.safetensors"));
  const std::string text = text_of(flags + "--resume parts");
  EXPECT_NE(text.find("step 5: loss"), std::string::npos) << text;
  expect_same_checkpoint("parts", "whole");
}

TEST_F(GPT2Program, ReadsATextAndWeights) {
  std::ofstream(folder_ / "text.txt") << std::string(2000, 'x') + std::string(2000, 'y');
  EXPECT_NE(text_of(kSmall + "--data text.txt --steps 2 --batch-size 2").find("step 2: loss"),
            std::string::npos);
  if (!std::filesystem::exists(kGolden)) GTEST_SKIP() << kGolden << " is not here";
  // Its 61 tokens are fewer than bytes are.
  io::save(io::TensorFile::load(kGolden).with_prefix("weights."), (folder_ / "model.safetensors").string());
  expect_refused("--weights model.safetensors --steps 0", "expected weights of as many tokens");
}

/// A model that was saved as Hugging Face has it writes what it writes here, and learns from where it is.
TEST_F(GPT2Program, GoesOnFromWeights) {
  manual_seed(5);
  gpt2::GPT2 model({.vocab_size = 300, .context = 32, .width = 64, .layers = 2, .heads = 1});
  Named published;
  for (const auto& [name, tensor] : model.state_dict()) {
    const bool is_conv1d = tensor.dim() == 2 && name.starts_with("h.");
    published.emplace_back("transformer." + name, is_conv1d ? tensor.t().contiguous() : tensor);
  }
  io::save(published, (folder_ / "model.safetensors").string());
  const gpt2::Tokenizer bytes("");
  std::vector<std::int64_t> expected = bytes.encode("ab");
  model.eval();
  gpt2::generate(model, expected, {.count = 20, .vocab_size = 256, .sample = {.temperature = 0}});
  const std::string text =
      text_of("--weights model.safetensors --steps 0 --generate 20 --temperature 0 --prompt ab");
  EXPECT_EQ(text.substr(text.find('\n', text.find("generated 20 tokens")) + 1),
            bytes.decode(tensor(expected)) + "\n");
  EXPECT_NE(text.find("2 layers of 1 heads, 64 wide, 32 tokens of context"), std::string::npos) << text;
  const std::string trained = text_of("--weights model.safetensors --steps 4 --batch-size 2 --lr 1e-2");
  EXPECT_LT(number_behind(trained, "step 4: loss "), number_behind(trained, "step 0: loss ") - 0.5);
  for (auto& [name, tensor] : published) {
    if (name.ends_with("h.1.mlp.c_fc.weight")) tensor = ones({64, 100});
  }
  io::save(published, (folder_ / "other.safetensors").string());
  expect_refused("--weights other.safetensors", "h.1.mlp.c_fc.weight");
}

TEST_F(GPT2Program, TakesGPT2sTokens) {
  const std::string tokenizer = test::data_folder() + "/data/files/bpe";
  if (!std::filesystem::exists(tokenizer)) GTEST_SKIP() << tokenizer << " is not here";
  const double tokens = static_cast<double>(gpt2::Tokenizer(tokenizer).size());
  const std::string text =
      text_of(kSmall + "--tokenizer '" + tokenizer + "' --steps 2 --generate 5 --prompt Hello");
  EXPECT_NEAR(number_behind(text, "step 0: loss "), std::log(tokens), 0.1);
  EXPECT_NE(text.find("\nHello"), std::string::npos) << text;
}

TEST_F(GPT2Program, SaysWhatIsWrongInOneLine) {
  expect_refused("--data nowhere.txt", "nowhere.txt");
  expect_refused("--weights nowhere.safetensors", "nowhere.safetensors");
  expect_refused("--tokenizer nowhere", "nowhere/vocab.json");
  expect_refused("--precision fp8", "amp_bf16");
  expect_refused("--precision fp16", "expected --precision fp32, amp_fp16, amp_bf16 or amp_fp8");
  expect_refused("--heads 3", "heads");
  expect_refused("--steps x", "--steps");
  expect_refused("--steps 0 --generate 1 --prompt ''", "--prompt");
  expect_refused("--steps 0 --generate 1 --temperature -1", "temperature");
  std::ofstream(folder_ / "short.txt") << "short";
  expect_refused("--data short.txt", "expected a text of at least");
  std::ofstream(folder_ / "broken.safetensors") << "not a header";
  expect_refused("--weights broken.safetensors", "broken.safetensors");
}

TEST_F(GPT2Program, TrainsAndWritesOnCuda) {
  if (!cuda::is_available()) GTEST_SKIP() << cuda::why_unavailable();
  std::ofstream(folder_ / "text.txt") << std::string(700, 'x') + std::string(700, 'y');
  const std::string flags =
      "--layers 1 --width 16 --heads 2 --context 16 --data text.txt --dropout 0 --steps 2 --batch-size 2 "
      "--generate 4 --temperature 0 --device ";
  const std::string cuda = text_of(flags + "cuda"), cpu = text_of(flags + "cpu");
  const auto losses = [](const std::string& text) {
    return std::pair(number_behind(text, "step 0: loss "), number_behind(text, "step 2: loss "));
  };
  EXPECT_NEAR(losses(cuda).first, losses(cpu).first, 1.5e-4) << "4 digits are printed";
  EXPECT_NEAR(losses(cuda).second, losses(cpu).second, 1.5e-4);
  EXPECT_NE(cuda.find("generated 4 tokens"), std::string::npos);
}

}  // namespace
}  // namespace mezzo
