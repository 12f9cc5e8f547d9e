// Slots: what registers, in which order and under which path, what they refuse, and that a change through one
// is seen everywhere at once.
#include "mezzo/nn/module/slot.h"

#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

template <class T>
Names slot_names(std::span<T* const> slots) {
  Names result;
  for (const Slot* slot : slots) result.push_back(slot->name());
  return result;
}

TEST(Slot, RegistersInOrderOfDeclaration) {
  const Block block;
  EXPECT_EQ(slot_names(block.param_slots()), (Names{"b", "a", "bias"}));
  EXPECT_EQ(slot_names(block.buffer_slots()), (Names{"seen", "mask"}));
  EXPECT_EQ(slot_names(block.child_slots()), (Names{"first", "second"}));
}

TEST(Slot, LeavesTheListsWhenItEnds) {
  Block block;
  {
    const Param more{block, "more", counting({1})};
    const Child<Gain> child{block, "child", make<Gain>()};
    EXPECT_EQ(block.param_slots().size(), 4U);
    EXPECT_EQ(child->path(), "child");
  }
  EXPECT_EQ(slot_names(block.param_slots()), (Names{"b", "a", "bias"}));
  EXPECT_EQ(slot_names(block.child_slots()), (Names{"first", "second"}));
}

TEST(Slot, KnowsItsPathFromTheRoot) {
  Net net;
  EXPECT_EQ(net.head->a.path(), "head.a");
  auto* gain = dynamic_cast<Gain*>(net.head->second.get().get());
  EXPECT_EQ(gain->weight.path(), "head.second.weight");
  EXPECT_EQ(gain->path(), "head.second");
  EXPECT_EQ(net.path(), "");
  EXPECT_EQ(net.again->path(), "stem") << "the oldest place of a shared module";
}

TEST(Slot, ForgetsThePathOfAReplacedModule) {
  Net net;
  const std::shared_ptr<Module> former = net.head.replace(make<Block>());
  EXPECT_EQ(former->path(), "");
  EXPECT_EQ(net.head->path(), "head");
}

TEST(Slot, RefusesBadNames) {
  Block block;
  EXPECT_THROW(Param(block, "", counting({1})), ValueError);
  EXPECT_TRUE(contains(message_of<ValueError>([&] { Param(block, "x.y", counting({1})); }), "'x.y'"));
  const std::string twice = message_of<ValueError>([&] { Buffer(block, "first", counting({1})); });
  EXPECT_TRUE(contains(twice, "'first' a second time"));
  EXPECT_TRUE(contains(twice, "Block"));
  EXPECT_EQ(block.param_slots().size() + block.buffer_slots().size(), 5U) << "a refused slot is not listed";
}

TEST(Slot, ACopyOutsideOfCloneIsNoMember) {
  const Block block;
  const auto copy = block.a;
  EXPECT_TRUE(copy.is_same(block.a));
  EXPECT_TRUE(contains(message_of<StateError>([&] { static_cast<void>(copy.owner()); }), "'a'"));
  EXPECT_EQ(block.param_slots().size(), 3U);
}

TEST(Param, StandsForItsTensor) {
  const Block block;
  const Tensor& tensor = block.a;
  EXPECT_TRUE(tensor.is_same(block.a.get()));
  EXPECT_EQ(block.a->shape(), (Shape{2, 2}));
  EXPECT_TRUE(block.a->requires_grad());
  EXPECT_FALSE(block.bias.defined());
}

TEST(Param, GivesANewTensorItsRequiresGrad) {
  Block block;
  const Tensor trained = counting({3});
  block.b.set(trained);
  EXPECT_TRUE(trained.requires_grad());
  block.b->requires_grad_(false);
  const Tensor frozen = counting({3});
  block.b.set(frozen);
  EXPECT_FALSE(frozen.requires_grad());
  block.b.set(Tensor());
  block.b.set(frozen);
  EXPECT_TRUE(frozen.requires_grad()) << "an empty slot is trained";
}

TEST(Param, SharesTheTensorOfAnotherSlotAsItIs) {
  const Block frozen;
  frozen.a->requires_grad_(false);
  Block block;
  block.a.set(frozen.a);
  EXPECT_TRUE(block.a->is_same(frozen.a));
  EXPECT_FALSE(block.a->requires_grad());
  const Param tied{block, "tied", frozen.a};
  EXPECT_TRUE(tied->is_same(frozen.a));
  EXPECT_FALSE(tied->requires_grad());
}

TEST(Param, RefusesIntegersAndResultsOfRecordedOps) {
  Block block;
  const Tensor before = block.a;
  EXPECT_TRUE(
      contains(message_of<DTypeError>([&] { block.a.set(zeros({2}, {.dtype = DType::i64})); }), "'a'"));
  EXPECT_THROW(block.a.set(block.b->to(DType::f64)), AutogradError);
  EXPECT_THROW(block.mask.set(block.b->to(DType::f64)), AutogradError);
  EXPECT_TRUE(block.a->is_same(before));
}

TEST(Child, TakesAnyModuleOfItsType) {
  Net net;
  auto low = make<LowGain>();
  const std::shared_ptr<Module> former = net.head->second.replace(low);
  EXPECT_EQ(former->type_name(), "Gain");
  EXPECT_EQ(net.head->second.get(), low);
}

TEST(Child, RefusesAnotherTypeNamingPathExpectedAndGiven) {
  Net net;
  const std::shared_ptr<Module> before = net.head->second.module();
  const std::string message = message_of<ValueError>([&] { net.head->second.replace(make<Block>()); });
  EXPECT_TRUE(contains(message, "expected a module of type Scaling"));
  EXPECT_TRUE(contains(message, "'head.second'"));
  EXPECT_TRUE(contains(message, "got Block"));
  EXPECT_EQ(net.head->second.module(), before);
  EXPECT_EQ(before->path(), "head.second");
}

TEST(Child, RefusesAModuleThatContainsIt) {
  struct Holder final : Module {
    Child<Module> inner{*this, "inner"};
  };
  auto inner = make<Holder>();
  auto outer = make<Holder>();
  outer->inner.replace(inner);
  EXPECT_THROW(inner->inner.replace(outer), ValueError);
  EXPECT_THROW(inner->inner.replace(inner), ValueError);
  EXPECT_FALSE(inner->inner);
}

TEST(Child, MayBeEmptyAndSaysSoWhenUsed) {
  Net net;
  net.head.replace(nullptr);
  EXPECT_FALSE(net.head);
  EXPECT_TRUE(contains(message_of<StateError>([&] { (void)net.head->path(); }), "Block in 'head'"));
  EXPECT_EQ(names(net.named_modules()), (Names{"", "stem", "stem.first", "stem.second"}));
}

TEST(Child, ReplacementIsSeenEverywhereAtOnce) {
  Net net;
  const std::size_t before = net.parameters().size();
  auto gain = make<Gain>(70.0F);
  net.head->first.replace(gain);
  const NamedTensors parameters = net.named_parameters();
  ASSERT_EQ(parameters.size(), before);
  const auto has_new = [&](const NamedTensors& list) {
    for (const auto& [name, tensor] : list) {
      if (name == "head.first.weight") return values(tensor) == std::vector<float>{70, 71};
    }
    return false;
  };
  EXPECT_TRUE(has_new(parameters));
  EXPECT_TRUE(has_new(net.state_dict()));
  (void)net.head->forward(counting({2}));
  EXPECT_EQ(gain->calls, 1) << "forward runs the new module";
  net.head->first.replace(make<LowGain>());
  EXPECT_TRUE(contains(to_string(net), "(first): LowGain()"));
  (void)net.head->forward(counting({2}));
  EXPECT_EQ(gain->calls, 1);
}

}  // namespace

}  // namespace mezzo::nn
