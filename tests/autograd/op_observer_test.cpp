// Observers of ops: what they are told, of which ops, and where they reach.
#include "mezzo/autograd/op_observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

using Names = std::vector<std::string>;

/// Writes down what it is told.
struct Notes final : OpObserver {
  struct Run {
    std::string name;
    std::vector<DType> inputs;
    std::optional<DType> run_dtype;
    Shape output;
    DType output_dtype;
  };
  void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
           const Outputs& outputs) override {
    Run run{std::string(info.name.value), {}, run_dtype, outputs[0].shape(), outputs[0].dtype()};
    for (const TensorRef& input : inputs) {
      if (input->defined()) run.inputs.push_back(input->dtype());
    }
    runs.push_back(run);
  }
  [[nodiscard]] Names names() const {
    Names result;
    for (const Run& run : runs) result.push_back(run.name);
    return result;
  }
  std::vector<Run> runs;
};

TEST(OpObserver, IsToldOfEachOpWithItsInputsAndOutputs) {
  const Tensor a = ones({2, 3}), b = ones({3, 4});
  Notes notes;
  {
    const OpObserverGuard guard(&notes);
    static_cast<void>(relu(mm(a, b)));
  }
  static_cast<void>(relu(a));
  ASSERT_EQ(notes.names(), (Names{"mm", "relu"}));
  EXPECT_EQ(notes.runs[0].inputs, (std::vector<DType>{DType::f32, DType::f32}));
  EXPECT_EQ(notes.runs[0].output, (Shape{2, 4}));
  EXPECT_FALSE(notes.runs[0].run_dtype.has_value());
}

TEST(OpObserver, SeesInputsAsAutocastMadeThem) {
  const Tensor x = ones({2, 3});
  Notes notes;
  const OpObserverGuard guard(&notes);
  const amp::Autocast region(Device::cpu(), DType::bf16);
  static_cast<void>(softmax(linear(x, ones({3, 3})), 1));
  ASSERT_EQ(notes.names(), (Names{"to_dtype", "to_dtype", "linear", "softmax"})) << "the casts come first";
  EXPECT_EQ(notes.runs[2].inputs, (std::vector<DType>{DType::bf16, DType::bf16}));
  EXPECT_EQ(notes.runs[3].inputs, (std::vector<DType>{DType::bf16}));
  EXPECT_EQ(notes.runs[3].run_dtype, DType::f32) << "the kernel widens";
  EXPECT_EQ(notes.runs[3].output_dtype, DType::f32);
}

TEST(OpObserver, IsNotToldOfWhatAnOpCallsInside) {
  Notes notes;
  const OpObserverGuard guard(&notes);
  static_cast<void>(multi_dot({ones({2, 3}), ones({3, 4}), ones({4, 2})}));
  EXPECT_EQ(notes.names(), (Names{"multi_dot"}));
  EXPECT_EQ(op_observer(), &notes);
}

TEST(OpObserver, IsToldOfTheOpsOfABackward) {
  const Tensor x = ones({3}, {.requires_grad = true});
  const Tensor y = sum(sigmoid(x));
  Notes notes;
  const OpObserverGuard guard(&notes);
  y.backward();
  const Names names = notes.names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "sigmoid_backward"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "sigmoid"), 0);
}

TEST(OpObserver, IsNotToldOfAnOpThatThrowsAndStays) {
  Notes notes;
  const OpObserverGuard guard(&notes);
  EXPECT_THROW(static_cast<void>(mm(ones({2, 3}), ones({2, 3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(relu(Tensor())), ValueError);
  EXPECT_TRUE(notes.runs.empty());
  static_cast<void>(relu(ones({1})));
  EXPECT_EQ(notes.names(), (Names{"relu"}));
}

TEST(OpObserver, OfTheInnermostGuardCounts) {
  const Tensor x = ones({1});
  Notes outer, inner;
  EXPECT_EQ(op_observer(), nullptr);
  {
    const OpObserverGuard first(&outer);
    static_cast<void>(exp(x));
    {
      const OpObserverGuard second(&inner);
      static_cast<void>(neg(x));
      const OpObserverGuard none(nullptr);
      static_cast<void>(abs(x));
    }
    static_cast<void>(sin(x));
  }
  EXPECT_EQ(op_observer(), nullptr);
  EXPECT_EQ(outer.names(), (Names{"exp", "sin"}));
  EXPECT_EQ(inner.names(), (Names{"neg"}));
}

TEST(OpObserver, IsOfItsThread) {
  const Tensor x = ones({1});
  Notes notes;
  const OpObserverGuard guard(&notes);
  const OpObserver* elsewhere = &notes;
  std::thread([&] {
    static_cast<void>(exp(x));
    elsewhere = op_observer();
  }).join();
  EXPECT_EQ(elsewhere, nullptr);
  EXPECT_TRUE(notes.runs.empty());
}

}  // namespace
}  // namespace mezzo
