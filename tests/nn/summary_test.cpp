// Model summaries: whole tables against text written by hand, the numbers behind them, models that call their
// modules in unusual ways, and that a model is afterwards as it was. Sizes in bytes of the first table are
// torchinfo's too.
#include "mezzo/nn/summary.h"

#include <thread>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module_list.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

/// A Linear that is used twice, inside of a Sequential in a Sequential, and a frozen one.
Sequential nested() {
  auto twice = make<Linear>(8, 8);
  auto frozen = make<Linear>(4, 8);
  frozen->requires_grad_(false);
  return Sequential(frozen, make<ReLU>(), make<Sequential>(twice, make<LayerNorm>(8), twice),
                    make<Linear>(8, 2));
}

TEST(Summary, PrintsATreeWithTotals) {
  Sequential net = nested();
  EXPECT_EQ(to_string(summary(net, Shape{3, 4})),
            R"(==========================================================
Layer (type (name))   Output Shape      Param #  Mult-Adds
==========================================================
Sequential            [3, 2]                 --         --
├─Linear (0)          [3, 8]               (40)         96
├─ReLU (1)            [3, 8]                 --         --
├─Sequential (2)      [3, 8]                 --         --
│    ├─Linear (0)     [3, 8]                 72        192
│    ├─LayerNorm (1)  [3, 8]                 16         --
│    └─Linear (2)     [3, 8]        (recursive)        192
└─Linear (3)          [3, 2]                 18         48
==========================================================
Total params: 146
Trainable params: 106
Non-trainable params: 40
Total mult-adds: 528
==========================================================
Input size: 48 B
Forward/backward pass size: 816 B
Params size: 584 B
Estimated total size: 1.45 kB
==========================================================)");
}

TEST(Summary, AddsUpWhatIsTooDeepToBePrinted) {
  Sequential net = nested();
  const SummaryOptions options{
      .depth = 1,
      .columns = {SummaryColumn::calls, SummaryColumn::trainable, SummaryColumn::output_dtype,
                  SummaryColumn::mult_adds, SummaryColumn::parameters}};
  const std::string text = to_string(summary(net, Shape{3, 4}, options));
  EXPECT_EQ(text.substr(0, text.find("Total params")),
            R"(=======================================================================
Layer (type (name))  Calls  Trainable  Output DType  Mult-Adds  Param #
=======================================================================
Sequential               1  partial    f32                  --       --
├─Linear (0)             1  false      f32                  96     (40)
├─ReLU (1)               1  --         f32                  --       --
├─Sequential (2)         1  true       f32                 384       88
└─Linear (3)             1  true       f32                  48       18
=======================================================================
)");
  const std::string root =
      to_string(summary(net, Shape{3, 4}, {.depth = 0, .columns = {SummaryColumn::mult_adds}}));
  EXPECT_TRUE(contains(root, "Sequential                 528\n==="));
}

/// Modules that are called by slot, by pointer, not at all, in a list, and many times.
struct Unusual final : Module {
  Tensor forward(const Tensor& x, const Tensor& y, int steps) {
    Tensor state = first(x);
    for (int i = 0; i < steps; ++i) state = (*list)[0](state);
    return mul(by_pointer->forward(state), add(gain, y));
  }
  Child<Linear> first{*this, "first", make<Linear>(3, 5)};
  Child<Linear> by_pointer{*this, "by_pointer", make<Linear>(5, 2)};
  Child<Linear> unused{*this, "unused", make<Linear>(70, 20, LinearOptions{.bias = false})};
  Child<Layer> empty{*this, "empty"};
  Child<ModuleList<Layer>> list{*this, "list", make<ModuleList<Layer>>()};
  Param gain{*this, "gain", counting({2})};
};

TEST(Summary, ShowsHowModulesWereCalled) {
  Unusual net;
  net.list->push_back(make<Linear>(5, 5));
  net.list->push_back(make<Sequential>(make<ReLU>()));
  const Tensor x = counting({4, 3});
  const Summary result = summary(net, [&] { return net.forward(x, counting({2}), 6); },
                                 {.columns = {SummaryColumn::output_shape, SummaryColumn::parameters,
                                              SummaryColumn::mult_adds, SummaryColumn::calls}});
  EXPECT_EQ(to_string(result),
            R"(==============================================================
Layer (type (name))    Output Shape  Param #  Mult-Adds  Calls
==============================================================
Unusual                [4, 2]              2         40      1
├─Linear (first)       [4, 5]             20         60      1
├─Linear (by_pointer)  not called         12         --      0
├─Linear (unused)      not called      1,400         --      0
└─ModuleList (list)    --                 --         --      0
     ├─Linear (0)      [4, 5]             30        600      6
     └─Sequential (1)  not called         --         --      0
          └─ReLU (0)   not called         --         --      0
==============================================================
Total params: 1,464
Trainable params: 1,464
Non-trainable params: 0
Total mult-adds: 700
==============================================================
Forward/backward pass size: 1.12 kB
Params size: 5.86 kB
Estimated total size: 6.98 kB
==============================================================)");
  EXPECT_FALSE(result.input_bytes.has_value());
  EXPECT_EQ(result.forward_bytes, 7 * 4 * 5 * 4) << "seven calls of layers that have parameters";
}

TEST(Summary, KeepsItsNumbersPerPlace) {
  Sequential net = nested();
  const Summary result = summary(net, Shape{3, 4});
  ASSERT_EQ(result.rows.size(), 8U);
  const SummaryRow& row = result.rows[6];
  EXPECT_EQ(row.path, "2.2");
  EXPECT_EQ(row.name, "2");
  EXPECT_EQ(row.depth, 2);
  EXPECT_EQ(row.type, "Linear");
  EXPECT_EQ(row.first, 4U);
  EXPECT_EQ(row.calls, 1);
  EXPECT_EQ(row.parameters, 0);
  EXPECT_EQ(row.mult_adds, 192);
  EXPECT_EQ(row.output_shape, (Shape{3, 8}));
  EXPECT_EQ(row.output_dtype, DType::f32);
  EXPECT_EQ(result.rows[1].parameters, 40);
  EXPECT_EQ(result.rows[1].trainable, 0);
  EXPECT_EQ(result.input_bytes, 3 * 4 * 4);
  EXPECT_EQ(result.parameter_bytes, 146 * 4);
}

TEST(Summary, ShowsWhatTheFirstCallReturned) {
  struct Pyramid final : Layer {
    Tensor forward(const Tensor& x) override { return head(narrow(head(x), 0, 0, 1)); }
    Child<Linear> head{*this, "head", make<Linear>(3, 3)};
  };
  Pyramid net;
  const Summary result = summary(net, Shape{5, 3});
  EXPECT_EQ(result.rows[1].output_shape, (Shape{5, 3}));
  EXPECT_EQ(result.rows[1].calls, 2);
  EXPECT_EQ(result.forward_bytes, (5 + 1) * 3 * 4);
}

TEST(Summary, CountsATiedTensorOnce) {
  struct Tied final : Layer {
    Tensor forward(const Tensor& x) override { return out(in(x)); }
    Child<Linear> in{*this, "in", make<Linear>(3, 3)};
    Child<Linear> out{*this, "out", make<Linear>(3, 3)};
  };
  Tied net;
  net.out->weight.set(net.in->weight);
  const Summary result = summary(net, Shape{2, 3});
  EXPECT_EQ(result.rows[2].parameters, 3);
  EXPECT_EQ(result.parameters, net.num_parameters());
  EXPECT_EQ(result.parameters, 9 + 3 + 3);
  EXPECT_EQ(result.parameter_bytes, 15 * 4);
}

/// A shared module that has children, called from inside two others.
TEST(Summary, ShowsTheChildrenOfASharedModuleOnce) {
  auto shared = make<Sequential>(make<Linear>(3, 3), make<ReLU>());
  Sequential net(make<Sequential>(shared), make<Sequential>(shared, shared));
  const Summary result = summary(net, Shape{2, 3});
  Names paths;
  for (const SummaryRow& row : result.rows) paths.push_back(row.path);
  EXPECT_EQ(paths, (Names{"", "0", "0.0", "0.0.0", "0.0.1", "1", "1.0", "1.1"}));
  for (const std::size_t place : {2U, 6U, 7U}) EXPECT_EQ(result.rows[place].calls, 1) << place;
  EXPECT_EQ(result.rows[3].calls, 3) << "of all three places";
  EXPECT_EQ(result.rows[3].mult_adds, 3 * 18);
  EXPECT_EQ(result.mult_adds, 3 * 18);
  EXPECT_TRUE(contains(to_string(result), "     └─Sequential (1)   [2, 3]        (recursive)         --\n"));
}

TEST(Summary, KnowsTheSlotOfASharedModuleByItsCaller) {
  struct SecondOnly final : Layer {
    explicit SecondOnly(const std::shared_ptr<Linear>& shared)
        : first(*this, "first", make<Sequential>(shared)),
          second(*this, "second", make<Sequential>(shared)) {}
    Tensor forward(const Tensor& x) override { return second(x); }
    Child<Sequential> first, second;
  };
  SecondOnly net(make<Linear>(3, 3));
  const Summary result = summary(net, Shape{2, 3});
  EXPECT_EQ(result.rows[2].path, "first.0");
  EXPECT_EQ(result.rows[2].calls, 0);
  EXPECT_EQ(result.rows[4].path, "second.0");
  EXPECT_EQ(result.rows[4].calls, 1);
}

TEST(Summary, OfDeeplySharedModulesStaysSmall) {
  auto block = make<Sequential>(make<ReLU>());
  for (int i = 0; i < 12; ++i) block = make<Sequential>(block, block);
  const Summary result = summary(*block, Shape{1});
  EXPECT_EQ(result.rows.size(), 2U * 12 + 2) << "not 2^12";
  EXPECT_EQ(result.rows[13].calls, 1 << 12);
}

TEST(Summary, OfAModelWithoutParametersOrChildren) {
  ReLU net;
  EXPECT_EQ(to_string(summary(net, Shape{2, 0})),
            R"(=====================================================
Layer (type (name))  Output Shape  Param #  Mult-Adds
=====================================================
ReLU                 [2, 0]             --         --
=====================================================
Total params: 0
Trainable params: 0
Non-trainable params: 0
Total mult-adds: 0
=====================================================
Input size: 0 B
Forward/backward pass size: 0 B
Params size: 0 B
Estimated total size: 0 B
=====================================================)");
}

TEST(Summary, RunsInEvaluationModeAndLeavesTheModelAsItWas) {
  Sequential net(make<Linear>(3, 3), make<BatchNorm1d>(3), make<Sequential>(make<Dropout>(), make<ReLU>()));
  net[2]->eval();
  dynamic_cast<Sequential&>(*net[2])[1]->train();
  const NamedTensors state = net.state_dict();
  std::vector<std::vector<double>> before;
  std::vector<std::uint32_t> versions;
  for (const auto& [name, tensor] : state) {
    before.push_back(tensor.to_vector<double>());
    versions.push_back(tensor.version());
  }
  const GeneratorState random = default_generator().state();
  const Tensor x = counting({4, 3});
  static_cast<void>(summary(net, [&] {
    EXPECT_FALSE(grad_enabled());
    for (const auto& [path, module] : net.named_modules()) EXPECT_FALSE(module->is_training()) << path;
    static_cast<void>(rand({100}));
    return net(x);
  }));
  std::vector<bool> training;
  for (const auto& [path, module] : net.named_modules()) training.push_back(module->is_training());
  EXPECT_EQ(training, (std::vector<bool>{true, true, true, false, false, true}));
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(state[i].second.to_vector<double>(), before[i]) << state[i].first;
    EXPECT_EQ(state[i].second.version(), versions[i]) << state[i].first;
  }
  EXPECT_EQ(default_generator().state(), random);
  EXPECT_TRUE(grad_enabled());
}

TEST(Summary, NamesTheLayerThatRefusesItsInputAndRestoresEverything) {
  Sequential net = nested();
  struct Silent final : CallObserver, OpObserver {
    void enter(const Module& /*module*/) override {}
    void leave(const Module& /*module*/, const Tensor* /*output*/) override {}
    void ran(const OpInfo& /*info*/, Inputs /*inputs*/, std::optional<DType> /*run_dtype*/,
             const Outputs& /*outputs*/) override {}
  } outer;
  const CallObserverGuard calls(outer);
  const OpObserverGuard ops(&outer);
  const std::string message = message_of<ShapeError>([&] { (void)summary(net, Shape{3, 5}); });
  EXPECT_TRUE(contains(message, "Linear '0'"));
  EXPECT_TRUE(contains(message, "[3, 5]"));
  EXPECT_EQ(detail::call_observer(), &outer);
  EXPECT_EQ(op_observer(), &outer);
  EXPECT_TRUE(net.is_training());
  EXPECT_TRUE(net[2]->is_training());
  EXPECT_TRUE(grad_enabled());
}

TEST(Summary, RefusesNegativeDepthsUndefinedInputsAndImpossibleShapes) {
  ReLU net;
  EXPECT_TRUE(
      contains(message_of<ValueError>([&] { (void)summary(net, Shape{1}, {.depth = -1}); }), "got -1"));
  EXPECT_TRUE(contains(message_of<ValueError>([&] { (void)summary(net, Tensor()); }), "undefined"));
  EXPECT_THROW((void)summary(net, Shape{-1}), ShapeError);
  EXPECT_THROW((void)summary(net, Shape{1LL << 40, 1LL << 40}), ShapeError);
}

TEST(Summary, MakesAnInputLikeTheModelOrAsAsked) {
  Linear net(3, 2, {.dtype = DType::f64});
  EXPECT_EQ(summary(net, Shape{2, 3}).rows[0].output_dtype, DType::f64);
  EXPECT_EQ(summary(net, Shape{2, 3}).input_bytes, 2 * 3 * 8);
  Embedding table(10, 4);
  const Summary result = summary(table, Shape{5}, {.dtype = DType::i64});
  EXPECT_EQ(result.rows[0].output_shape, (Shape{5, 4}));
  EXPECT_EQ(result.input_bytes, 5 * 8);
  EXPECT_THROW((void)summary(table, Shape{5}), DTypeError) << "f32, as its parameter";
}

TEST(Summary, SaysWhichProductsItCouldNotCount) {
  struct Product final : Layer {
    Tensor forward(const Tensor& x) override {
      return einsum("ij,jk->ik", {einsum("ij,jk->ik", {x, x}), multi_dot({x, x, x})});
    }
  };
  Product net;
  const Summary result = summary(net, Shape{2, 2});
  EXPECT_EQ(result.uncounted, (Names{"einsum", "multi_dot"}));
  EXPECT_TRUE(contains(to_string(result), "Total mult-adds: 0 (without einsum, multi_dot)\n"));
}

TEST(Summary, SeesItsThreadOnlyAndPutsStrangersWithTheirCaller) {
  struct Outside final : Layer {
    explicit Outside(std::shared_ptr<Linear> given) : hidden(std::move(given)) {}
    Tensor forward(const Tensor& x) override {
      std::thread([&] { (void)inside(x); }).join();
      return narrow((*hidden)(x), 1, 0, 4);
    }
    Child<Linear> inside{*this, "inside", make<Linear>(3, 3)};
    std::shared_ptr<Linear> hidden;  // in no slot
  };
  Outside net(make<Linear>(3, 5));
  const Summary result = summary(net, Shape{2, 3});
  EXPECT_EQ(result.rows[0].mult_adds, 2 * 3 * 5);
  EXPECT_EQ(result.rows[0].output_shape, (Shape{2, 4})) << "not the stranger's";
  EXPECT_EQ(result.rows[1].calls, 0);
  EXPECT_EQ(result.mult_adds, 2 * 3 * 5);
}

TEST(Summary, TakesWhateverTheRunReturns) {
  Linear net(3, 2);
  const Tensor x = counting({4, 3});
  const Summary nothing = summary(net, [&] { (void)net.forward(x); });
  EXPECT_FALSE(nothing.rows[0].output_shape.has_value());
  EXPECT_EQ(nothing.rows[0].calls, 1);
  EXPECT_EQ(nothing.mult_adds, 24);
  const Summary loss = summary(net, [&] { return sum(net(x)); });
  EXPECT_EQ(loss.rows[0].output_shape, (Shape{4, 2})) << "the model's and not the loss";
  const Summary both = summary(net, [&] { return std::pair(net.forward(x), 1); });
  EXPECT_EQ(both.rows[0].output_shape, (Shape{4, 2}));
  const Summary twice = summary(net, [&] { return net(net(x).size(0) == 4 ? x : Tensor()); });
  EXPECT_EQ(twice.rows[0].calls, 2);
  EXPECT_EQ(twice.mult_adds, 48);
}

/// Counts ops per row.
struct OpCounts final : SummaryExtension {
  void ran(std::size_t row, const OpInfo& /*info*/, Inputs /*inputs*/, std::optional<DType> /*run_dtype*/,
           const Outputs& /*outputs*/) override {
    counts.resize(std::max(counts.size(), row + 1));
    ++counts[row];
  }
  [[nodiscard]] std::vector<std::string> titles() const override { return {"Ops", "Path"}; }
  [[nodiscard]] std::vector<std::string> cells(const std::vector<SummaryRow>& rows,
                                               std::size_t row) const override {
    return {std::to_string(row < counts.size() ? counts[row] : 0), "'" + rows[row].path + "'"};
  }
  std::vector<int> counts;
};

TEST(Summary, HasColumnsOfOthers) {
  Unusual net;
  net.list->push_back(make<ReLU>());
  const Tensor x = counting({4, 3});
  OpCounts counts;
  const auto run = [&] { return net.forward(x, counting({2}), 2); };
  const Summary result = detail::summarize(net, detail::summary_run(run), {.columns = {}}, &counts);
  const std::string text = to_string(result);
  EXPECT_EQ(text.substr(0, text.find("Total params")),
            R"(========================================
Layer (type (name))    Ops  Path
========================================
Unusual                3    ''
├─Linear (first)       1    'first'
├─Linear (by_pointer)  0    'by_pointer'
├─Linear (unused)      0    'unused'
└─ModuleList (list)    0    'list'
     └─ReLU (0)        2    'list.0'
========================================
)");
}

}  // namespace

}  // namespace mezzo::nn
