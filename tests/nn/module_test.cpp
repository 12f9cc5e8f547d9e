// Walks over modules: order, paths, sharing; modes, gradients and printing.
#include "mezzo/nn/module.h"

#include <set>
#include <sstream>

#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

TEST(Module, NamesParametersOwnFirstThenChildrenAndSharedOnesOnce) {
  const Net net;
  EXPECT_EQ(names(net.named_parameters()),
            (Names{"stem.b", "stem.a", "stem.first.weight", "stem.second.weight", "head.b", "head.a",
                   "head.first.weight", "head.second.weight"}));
  EXPECT_EQ(net.parameters().size(), 8U);
}

TEST(Module, ListsASharedTensorOnce) {
  Net net;
  net.head->a.set(net.stem->a);
  EXPECT_EQ(names(net.named_parameters()),
            (Names{"stem.b", "stem.a", "stem.first.weight", "stem.second.weight", "head.b",
                   "head.first.weight", "head.second.weight"}));
}

TEST(Module, NamesBuffersAndModules) {
  Net net;
  EXPECT_EQ(names(net.named_buffers()), (Names{"stem.seen", "stem.mask", "head.seen", "head.mask"}));
  EXPECT_EQ(names(net.named_modules()),
            (Names{"", "stem", "stem.first", "stem.second", "head", "head.first", "head.second"}));
  EXPECT_EQ(net.named_modules()[0].second, &net);
  EXPECT_EQ(names(std::as_const(net).named_modules()), names(net.named_modules()));
}

TEST(Module, ListsChildrenOnceAndNoEmptySlots) {
  Net net;
  net.stem->first.replace(nullptr);
  EXPECT_EQ(net.stem->children().size(), 1U);
  const auto children = net.children();
  ASSERT_EQ(children.size(), 2U);
  EXPECT_EQ(children[0], net.stem.module());
  EXPECT_EQ(children[1], net.head.module());
}

TEST(Module, CountsElementsOfParameters) {
  const Net net;
  EXPECT_EQ(net.num_parameters(), 2 * (3 + 4 + 2 + 2));
}

TEST(Module, ReachesEverythingWithTrainAndEval) {
  Net net;
  EXPECT_TRUE(net.is_training());
  net.eval();
  for (const auto& [path, module] : net.named_modules()) EXPECT_FALSE(module->is_training()) << path;
  net.head->train();
  for (const auto& [path, module] : net.named_modules())
    EXPECT_EQ(module->is_training(), path.rfind("head", 0) == 0) << path;
}

TEST(Module, FreezesAndThawsAllParameters) {
  Net net;
  net.requires_grad_(false);
  for (const Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.requires_grad());
  net.requires_grad_();
  for (const Tensor& parameter : net.parameters()) EXPECT_TRUE(parameter.requires_grad());
}

TEST(Module, DropsGradients) {
  Net net;
  for (const Tensor& parameter : net.parameters()) parameter.set_grad(zeros(parameter.shape()));
  net.zero_grad();
  for (const Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(Module, HasNoPlainCopy) {
  const Net net;
  EXPECT_TRUE(contains(message_of<StateError>([&] { const Net copy = net; }), "clone()"));
}

TEST(Module, NamesItsTypeWithoutScopes) {
  struct Local final : Module {};
  EXPECT_EQ(Local().type_name(), "Local");
  EXPECT_EQ(Block().type_name(), "Block");
  EXPECT_EQ(detail::type_text(typeid(std::vector<std::string>)).rfind("vector<", 0), 0U);
}

TEST(Module, DescribesItselfByTypeAndPath) {
  Net net;
  EXPECT_EQ(net.described(), "Net") << "a root has no path";
  EXPECT_EQ(net.head->described(), "Block 'head'");
  EXPECT_EQ(net.head->second->described(), "Gain 'head.second'");
  EXPECT_EQ(net.again->described(), "Block 'stem'") << "the oldest place of a shared module";
  const std::shared_ptr<Module> former = net.head.replace(make<Block>());
  EXPECT_EQ(former->described(), "Block");
}

TEST(Module, PrintsAsATree) {
  EXPECT_EQ(to_string(LowGain()), "LowGain()");
  EXPECT_EQ(to_string(Gain()), "Gain(factor=3)");
  std::ostringstream stream;
  stream << Net();
  EXPECT_EQ(stream.str(),
            "Net(\n"
            "  (stem): Block(\n"
            "    (first): Gain(factor=3)\n"
            "    (second): Gain(factor=3)\n"
            "  )\n"
            "  (again): Block(\n"
            "    (first): Gain(factor=3)\n"
            "    (second): Gain(factor=3)\n"
            "  )\n"
            "  (head): Block(\n"
            "    (first): Gain(factor=3)\n"
            "    (second): Gain(factor=3)\n"
            "  )\n"
            ")");
}

TEST(Module, PrintsItsOwnOptionsAboveItsChildren) {
  struct Pair final : Module {
    Child<Gain> gain{*this, "gain", make<Gain>()};
    std::string extra_repr() const override { return "size=1"; }
  };
  EXPECT_EQ(to_string(Pair()), "Pair(\n  size=1\n  (gain): Gain(factor=3)\n)");
}

}  // namespace

}  // namespace mezzo::nn
