// Deep copies: equal, independent, with sharing inside the model kept and nothing shared with the original.
#include <set>

#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

TEST(Clone, IsEqualAndIndependent) {
  Net net;
  const auto copy = clone(net);
  const NamedTensors original = net.state_dict();
  const NamedTensors copied = copy->state_dict();
  ASSERT_EQ(names(original), names(copied));
  for (std::size_t i = 0; i < original.size(); ++i) {
    EXPECT_EQ(values(original[i].second), values(copied[i].second)) << original[i].first;
    EXPECT_NE(original[i].second.impl().storage, copied[i].second.impl().storage) << original[i].first;
  }
  EXPECT_EQ(to_string(net), to_string(*copy));
  net.head->a->mutable_data<float>()[0] = -1;
  EXPECT_EQ(values(copy->head->a)[0], 30);
  copy->head->b->mutable_data<float>()[0] = -2;
  EXPECT_EQ(values(net.head->b)[0], 20);
}

TEST(Clone, OwnsItsSlotsAndModules) {
  Net net;
  const auto copy = clone(net);
  std::set<const Module*> originals;
  for (const auto& [path, module] : net.named_modules()) originals.insert(module);
  for (const auto& [path, module] : copy->named_modules()) {
    EXPECT_EQ(originals.count(module), 0U) << path;
    for (const Param* slot : module->param_slots()) EXPECT_EQ(&slot->owner(), module);
    EXPECT_EQ(module->path(), path);
  }
  EXPECT_EQ(net.param_slots().size(), copy->param_slots().size());
  EXPECT_EQ(net.head->param_slots().size(), 3U) << "the original has got no slots of the copy";
}

TEST(Clone, KeepsSharingInsideTheModel) {
  Net net;
  net.head->a.set(net.stem->a);
  const auto copy = clone(net);
  EXPECT_EQ(copy->stem.get(), copy->again.get());
  EXPECT_TRUE(copy->head->a->is_same(copy->stem->a));
  EXPECT_FALSE(copy->head->a->is_same(net.head->a));
}

TEST(Clone, KeepsPlainMembersModeAndRequiresGradButNoGradients) {
  Net net;
  auto* gain = dynamic_cast<Gain*>(net.head->first.get().get());
  gain->factor = 7;
  net.head->eval();
  net.stem->a->requires_grad_(false);
  net.stem->b->set_grad(zeros({3}));
  const auto copy = clone(net);
  EXPECT_EQ(dynamic_cast<Gain*>(copy->head->first.get().get())->factor, 7);
  EXPECT_FALSE(copy->head->is_training());
  EXPECT_TRUE(copy->stem->is_training());
  EXPECT_FALSE(copy->stem->a->requires_grad());
  EXPECT_TRUE(copy->stem->b->requires_grad());
  EXPECT_FALSE(copy->stem->b->grad().defined());
  EXPECT_FALSE(copy->stem->bias.defined());
  EXPECT_FALSE(copy->stem->mask.is_persistent());
}

TEST(Clone, FollowsReplacedModules) {
  Net net;
  net.head->first.replace(make<LowGain>());
  net.stem->second.replace(nullptr);
  const auto copy = clone(net);
  EXPECT_EQ(copy->head->first->type_name(), "LowGain");
  EXPECT_FALSE(copy->stem->second);
}

TEST(Clone, CopiesGrowingListsOfSlots) {
  struct List final : Module {
    SlotList<Child<Gain>> gains;
  };
  List list;
  for (int i = 0; i < 100; ++i)
    list.gains.emplace_back(list, std::to_string(i), make<Gain>(static_cast<float>(i)));
  const auto copy = clone(list);
  ASSERT_EQ(copy->gains.size(), 100U);
  EXPECT_EQ(names(copy->named_parameters()), names(list.named_parameters()));
  EXPECT_EQ(values(copy->gains[42]->weight), (std::vector<float>{42, 43}));
}

TEST(Clone, WorksThroughTheBaseClassAndOnCopies) {
  const std::shared_ptr<Module> module = make<Net>();
  const std::shared_ptr<Module> copy = module->clone()->clone();
  EXPECT_EQ(copy->type_name(), "Net");
  EXPECT_EQ(copy->num_parameters(), module->num_parameters());
  const Net on_the_stack;
  EXPECT_EQ(on_the_stack.Module::clone()->type_name(), "Net") << "slots tell the type of their owner";
}

TEST(Clone, RefusesWhatItCannotCopyExactly) {
  struct Bare : Module {};
  struct Derived final : Bare {};
  const Derived derived;
  const Bare& as_base = derived;
  EXPECT_TRUE(contains(message_of<StateError>([&] { (void)clone(as_base); }), "nn::make"));
  EXPECT_EQ(clone(derived)->type_name(), "Derived");

  struct Unique final : Module {
    std::unique_ptr<int> number = std::make_unique<int>(1);
    Param weight{*this, "weight", counting({1})};
  };
  EXPECT_TRUE(contains(message_of<StateError>([&] { (void)make<Unique>()->clone(); }), "Unique"));
}

TEST(Clone, AFailureInTheMiddleLeavesTheOriginalWhole) {
  struct Unique final : Layer {
    std::unique_ptr<int> number = std::make_unique<int>(1);
    Tensor forward(const Tensor& x) override { return x; }
  };
  struct Pair final : Module {
    Child<Layer> first{*this, "first", make<Gain>()};
    Child<Layer> second{*this, "second", make<Unique>()};
  };
  const Pair pair;
  EXPECT_THROW((void)clone(pair), StateError);
  EXPECT_EQ(pair.child_slots().size(), 2U);
  EXPECT_EQ(pair.first->path(), "first");
  EXPECT_THROW(const Pair copy = pair, StateError) << "no clone is in progress any more";
}

}  // namespace

}  // namespace mezzo::nn
