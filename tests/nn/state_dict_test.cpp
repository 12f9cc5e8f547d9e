// State dicts: contents and order, loading, and that a refused load has changed nothing.
#include "mezzo/nn/state_dict.h"

#include "mezzo/nn/sequential.h"
#include "mezzo/ops/cast.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

/// All values of a module, to see that nothing has changed.
std::vector<std::vector<float>> all_values(const Module& module) {
  std::vector<std::vector<float>> result;
  for (const auto& [name, tensor] : module.state_dict()) result.push_back(values(tensor));
  return result;
}

TEST(StateDict, ListsEveryPathOfParametersAndPersistentBuffers) {
  Net net;
  net.again.replace(nullptr);
  net.stem->bias.set(net.stem->b);
  EXPECT_EQ(names(net.state_dict()),
            (Names{"stem.b", "stem.a", "stem.bias", "stem.seen", "stem.first.weight", "stem.second.weight",
                   "head.b", "head.a", "head.seen", "head.first.weight", "head.second.weight"}));
}

TEST(StateDict, SharesMemoryWithoutHistory) {
  const Block block;
  const Tensor b = block.state_dict()[0].second;
  EXPECT_FALSE(b.requires_grad());
  EXPECT_FALSE(b.is_same(block.b));
  b.mutable_data<float>()[1] = -1;
  EXPECT_EQ(values(block.b), (std::vector<float>{20, -1, 22}));
}

TEST(StateDict, RoundTripRestoresEveryValueInPlace) {
  const Net source;
  source.head->a->mutable_data<float>()[3] = 0.5F;
  source.head->seen->mutable_data<std::int64_t>()[0] = std::int64_t{1} << 60;
  Net target;
  for (const auto& [name, tensor] : target.named_parameters()) {
    for (float& value : tensor.mutable_data<float>()) value = -7;
  }
  const Tensor handle = target.head->a;
  const std::uint32_t version = handle.version();
  const LoadReport report = target.load_state_dict(source.state_dict());
  EXPECT_TRUE(report.is_exact());
  EXPECT_EQ(to_string(report), "nothing");
  EXPECT_EQ(all_values(target), all_values(source));
  EXPECT_EQ(target.head->seen->to_vector<std::int64_t>()[0], std::int64_t{1} << 60);
  EXPECT_TRUE(handle.is_same(target.head->a));
  EXPECT_GT(handle.version(), version);
  EXPECT_TRUE(handle.requires_grad());
  EXPECT_TRUE(handle.is_leaf());
  source.head->a->mutable_data<float>()[3] = 1;
  EXPECT_EQ(values(handle)[3], 0.5F) << "values are copied";
}

TEST(StateDict, ReportsAllThatIsWrongAndChangesNothing) {
  Block block;
  NamedTensors state = Block().state_dict();
  for (auto& [name, tensor] : state) tensor = clone(tensor);
  ASSERT_EQ(names(state), (Names{"b", "a", "seen", "first.weight", "second.weight"}));
  state[0].second.mutable_data<float>()[0] = -5;
  state[1].second = counting({4});
  state[2].second = zeros({1}, {.dtype = DType::i32});
  state[3].first = "first.w";
  state[4].second = Tensor();
  const auto before = all_values(block);
  const std::string message = message_of<ValueError>([&] { block.load_state_dict(state); });
  EXPECT_TRUE(contains(message, "load_state_dict: expected the state of Block"));
  EXPECT_TRUE(contains(message, "1 missing (first.weight)"));
  EXPECT_TRUE(contains(message, "1 unexpected (first.w)"));
  EXPECT_TRUE(contains(message, "3 mismatched"));
  EXPECT_TRUE(contains(message, "a: [2, 2] f32 in the module, [4] f32 given"));
  EXPECT_TRUE(contains(message, "seen: [1] i64 in the module, [1] i32 given"));
  EXPECT_TRUE(contains(message, "second.weight: given as an undefined tensor"));
  EXPECT_EQ(all_values(block), before);
  EXPECT_THROW(block.load_state_dict(state, {.strict = false}), ValueError) << "shapes are never optional";
  EXPECT_EQ(all_values(block), before);
}

TEST(StateDict, LoadsWhatThereIsWhenNotStrict) {
  Block block;
  const NamedTensors state{{"b", counting({3}, 7)}, {"other", counting({1})}};
  const auto before = all_values(block);
  EXPECT_THROW(block.load_state_dict(state), ValueError);
  EXPECT_EQ(all_values(block), before);
  const LoadReport report = block.load_state_dict(state, {.strict = false});
  EXPECT_EQ(values(block.b), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(report.missing, (Names{"a", "seen", "first.weight", "second.weight"}));
  EXPECT_EQ(report.unexpected, (Names{"other"}));
  EXPECT_TRUE(report.mismatched.empty());
}

TEST(StateDict, NeverLoadsNothing) {
  Block block;
  NamedTensors with_prefix = Block().state_dict(), bare = with_prefix, others{{"w", zeros({1})}};
  for (auto& [name, tensor] : with_prefix) name = "model." + name;
  for (const bool strict : {true, false}) {
    const auto message = [&](const NamedTensors& state) {
      return message_of<ValueError>([&] { block.load_state_dict(state, {.strict = strict}); });
    };
    EXPECT_TRUE(contains(message(with_prefix), "begin with 'model.'")) << message(with_prefix);
    EXPECT_TRUE(contains(message(others), "none of the names"));
    Sequential outer(make<Block>());
    EXPECT_TRUE(contains(message_of<ValueError>([&] { outer.load_state_dict(bare, {.strict = strict}); }),
                         "the module's names begin with '0.'"));
  }
}

TEST(StateDict, AdvisesACastWhereOnlyDtypesDiffer) {
  Block block;
  NamedTensors state = Block().state_dict();
  for (auto& [name, tensor] : state) tensor = tensor.to(DType::f64);
  EXPECT_TRUE(contains(message_of<ValueError>([&] { block.load_state_dict(state); }), "cast = true"));
  EXPECT_TRUE(block.load_state_dict(state, {.cast = true}).is_exact());
}

TEST(StateDict, ReportsNameFiveOfEachKind) {
  LoadReport report;
  for (int i = 0; i < 39; ++i) report.missing.push_back("w" + std::to_string(i));
  EXPECT_EQ(to_string(report), "39 missing (w0, w1, w2, w3, w4 and 34 more)");
}

TEST(StateDict, ConvertsDtypesOnlyWhenAsked) {
  Gain gain;
  const NamedTensors state{{"weight", to(tensor({2}, {1.0F / 3, 2}), DType::f16)}};
  EXPECT_THROW(gain.load_state_dict(state), ValueError);
  gain.load_state_dict(state, {.cast = true});
  EXPECT_EQ(gain.weight->dtype(), DType::f32);
  EXPECT_EQ(values(gain.weight), values(state[0].second));
}

TEST(StateDict, RefusesANameGivenTwice) {
  Gain gain;
  const NamedTensors state{{"weight", counting({2})}, {"weight", counting({2})}};
  EXPECT_TRUE(contains(message_of<ValueError>([&] { gain.load_state_dict(state); }), "more than once"));
}

TEST(StateDict, NeedsOnePathOfATiedTensor) {
  Net net;
  net.head->a.set(net.stem->a);
  NamedTensors state = net.state_dict();
  std::erase_if(state, [](const auto& entry) {
    return entry.first == "stem.a" || entry.first.rfind("again.", 0) == 0;
  });
  for (auto& [name, tensor] : state) tensor = clone(tensor);
  for (auto& [name, tensor] : state) {
    if (name == "head.a") tensor.mutable_data<float>()[0] = 77;
  }
  EXPECT_TRUE(net.load_state_dict(state).is_exact());
  EXPECT_EQ(values(net.stem->a)[0], 77);
}

TEST(StateDict, SwapsTensorsOfTheModuleItself) {
  Block block;
  const auto weight = [&](Child<Scaling>& slot) { return values(dynamic_cast<Gain&>(*slot).weight); };
  NamedTensors state = block.state_dict();
  std::swap(state[3].second, state[4].second);
  block.load_state_dict(state);
  EXPECT_EQ(weight(block.first), (std::vector<float>{40, 41}));
  EXPECT_EQ(weight(block.second), (std::vector<float>{10, 11}));
}

}  // namespace

}  // namespace mezzo::nn
