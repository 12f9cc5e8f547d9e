// Small modules and helpers that the tests of nn share. They need no ops, so that a fault in one of those
// does not show up here.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/nn/module.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::nn::testing {

/// An f32 tensor of the given values.
inline Tensor tensor(const Shape& shape, std::initializer_list<float> values) {
  Tensor result = empty(shape);
  std::copy(values.begin(), values.end(), result.mutable_data<float>().begin());
  return result;
}

/// An f32 tensor that counts up from `first`.
inline Tensor counting(const Shape& shape, float first = 1) {
  Tensor result = empty(shape);
  for (float& value : result.mutable_data<float>()) value = first++;
  return result;
}

inline std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

template <class T>
std::vector<std::string> names(const std::vector<std::pair<std::string, T>>& list) {
  std::vector<std::string> result;
  for (const auto& entry : list) result.push_back(entry.first);
  return result;
}

using test::message_of;

/// Whether `text` holds `part`, shown when it does not.
inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in: " << text;
}

/// An interface that two layers share, as norm layers do.
class Scaling : public Layer {};

/// The input itself; says `factor`, which is a plain member.
struct Gain final : Scaling {
  explicit Gain(float first = 1) : weight(*this, "weight", counting({2}, first)) {}
  Tensor forward(const Tensor& x) override {
    ++calls;
    return x;
  }
  std::string extra_repr() const override { return "factor=" + std::to_string(factor); }
  Param weight;
  int factor = 3;
  int calls = 0;
};

/// The same with another class.
struct LowGain final : Scaling {
  Tensor forward(const Tensor& x) override { return x; }
  Param weight{*this, "weight", counting({2}, 100)};
};

/// Slots of all kinds, declared in mixed order.
struct Block final : Layer {
  Tensor forward(const Tensor& x) override { return second->forward(first->forward(x)); }
  Child<Scaling> first{*this, "first", make<Gain>(10.0F)};
  Param b{*this, "b", counting({3}, 20)};
  Buffer seen{*this, "seen", zeros({1}, {.dtype = DType::i64})};
  Param a{*this, "a", counting({2, 2}, 30)};
  Param bias{*this, "bias", Tensor()};
  Child<Scaling> second{*this, "second", make<Gain>(40.0F)};
  Buffer mask{*this, "mask", counting({2}, 50), {.persistent = false}};
};

/// Two blocks, the first of them used twice.
struct Net final : Module {
  Child<Block> stem{*this, "stem", make<Block>()};
  Child<Block> again{*this, "again", stem.get()};
  Child<Block> head{*this, "head", make<Block>()};
};

}  // namespace mezzo::nn::testing
