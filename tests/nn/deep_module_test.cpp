// Models that contain themselves are refused, and models that are nested deeper than a stack can be listed,
// saved, printed and destroyed.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module_dict.h"
#include "mezzo/nn/module_list.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::nn {
namespace {

using test::message_of;

TEST(DeepModule, AModuleIsNotPutIntoItself) {
  const auto net = make<Sequential>();
  EXPECT_NE(message_of<ValueError>([&] { net->push_back(net); }).find("a model must not contain itself"),
            std::string::npos);
  EXPECT_EQ(net->size(), 0U);
  const auto list = make<ModuleList<Module>>();
  EXPECT_NE(message_of<ValueError>([&] { list->push_back(list); }).find("a model must not contain itself"),
            std::string::npos);
  EXPECT_EQ(list->size(), 0U);
  const auto dict = make<ModuleDict<Module>>();
  EXPECT_NE(message_of<ValueError>([&] { dict->insert("a", dict); }).find("a model must not contain itself"),
            std::string::npos);
  EXPECT_FALSE(dict->contains("a"));
}

TEST(DeepModule, AModuleIsNotPutBelowItself) {
  const auto top = make<Sequential>(), middle = make<Sequential>(), bottom = make<Sequential>();
  top->push_back(middle);
  middle->push_back(bottom);
  for (const auto& above : {top, middle, bottom})
    EXPECT_NE(
        message_of<ValueError>([&] { bottom->push_back(above); }).find("a model must not contain itself"),
        std::string::npos);
  bottom->push_back(make<Linear>(1, 1));
  EXPECT_NE(
      message_of<ValueError>([&] { (*bottom)[0].replace(top); }).find("a model must not contain itself"),
      std::string::npos);
  // One module at two places is no cycle.
  const auto shared = make<Sequential>();
  bottom->push_back(shared);
  top->push_back(shared);
  EXPECT_EQ(to_string(*top),
            "Sequential(\n  (0): Sequential(\n    (0): Sequential(\n      (0): Linear(in_features=1, "
            "out_features=1, "
            "bias=true)\n      (1): Sequential()\n    )\n  )\n  (1): Sequential()\n)");
  EXPECT_EQ(shared->path(), "0.0.1");
}

std::shared_ptr<Layer> nested(int depth) {
  std::shared_ptr<Layer> net = make<Linear>(1, 1);
  for (int i = 0; i < depth; ++i) {
    auto outer = make<Sequential>();
    outer->push_back(std::move(net));
    net = std::move(outer);
  }
  return net;
}

TEST(DeepModule, WalksDoNotNest) {
  const auto net = nested(100'000);
  EXPECT_EQ(net->parameters().size(), 2U);
  EXPECT_EQ(net->num_parameters(), 2);
  net->eval();
  net->requires_grad_(false);
  const NamedTensors state = net->state_dict();
  ASSERT_EQ(state.size(), 2U);
  EXPECT_EQ(state[0].first.size(), 200'000 + std::string("weight").size());
  EXPECT_TRUE(net->load_state_dict(state).missing.empty());
  EXPECT_THROW(static_cast<void>(net->clone()), StateError);
}

TEST(DeepModule, PrintingIsLinearInTheText) {
  const std::string text = to_string(*nested(3'000));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 * 3'000);
  EXPECT_EQ(text.substr(0, 31), "Sequential(\n  (0): Sequential(\n");
  EXPECT_EQ(text.substr(text.size() - 10), std::string("   )\n  )\n)"));
}

TEST(DeepModule, ADeepModelCanBeCopied) {
  const auto net = nested(1'000);
  EXPECT_EQ(net->clone()->parameters().size(), 2U);
}

}  // namespace
}  // namespace mezzo::nn
