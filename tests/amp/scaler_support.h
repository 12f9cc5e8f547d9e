// What the GradScaler tests share: exact comparison, a small model, and iterations with a chosen overflow.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::amp {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The elements of a tensor, bit by bit, so that NaN equals itself and 0 differs from -0. Widening is exact.
inline std::vector<std::uint64_t> bits(const Tensor& tensor) {
  std::vector<std::uint64_t> result;
  for (const double value : tensor.to_vector<double>()) result.push_back(std::bit_cast<std::uint64_t>(value));
  return result;
}

inline std::vector<std::vector<std::uint64_t>> bits(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<std::uint64_t>> result;
  for (const Tensor& tensor : tensors) result.push_back(bits(tensor));
  return result;
}

/// A parameter of two elements under SGD with lr 1, whose gradient the test sets.
struct OneParameter {
  Tensor parameter = tensor({1.0, 2.0}, {.requires_grad = true});
  optim::SGD optimizer{std::vector<Tensor>{parameter}, {.lr = 1}};

  /// scale() and a gradient, as after backward.
  void backward(GradScaler& scaler, double gradient = 1.0) {
    static_cast<void>(scaler.scale(zeros({})));
    parameter.set_grad(tensor({gradient, 1.0}));
  }
  /// One whole iteration; whether the step was skipped.
  bool iterate(GradScaler& scaler, bool overflow) {
    backward(scaler, overflow ? kInf : 1.0);
    const StepResult result = scaler.step(optimizer);
    scaler.update();
    return result.skipped();
  }
};

/// y = relu(x w1^T + b1) w2^T + b2, with fixed weights.
struct Mlp {
  explicit Mlp(DType dtype = DType::f32, std::uint64_t seed = 7) {
    Generator generator(seed);
    for (const Shape& shape : {Shape{8, 4}, Shape{8}, Shape{3, 8}, Shape{3}}) {
      const Tensor values = uniform(-0.5, 0.5, shape, {}, generator).to(dtype);
      parameters.push_back(values.detach().requires_grad_());
    }
  }
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return linear(relu(linear(x, parameters[0], parameters[1])), parameters[2], parameters[3]);
  }
  std::vector<Tensor> parameters;
};

/// Input and target of iteration i.
struct Batch {
  explicit Batch(std::uint64_t i, std::int64_t rows = 5, DType dtype = DType::f32) {
    Generator generator(100 + i);
    input = uniform(-1, 1, {rows, 4}, {.dtype = dtype}, generator);
    target = uniform(-1, 1, {rows, 3}, {.dtype = dtype}, generator);
  }
  Tensor input, target;
};

/// Runs f, which must throw E; returns its parts for further checks.
template <class E>
struct Refusal {
  std::string text = "nothing was thrown", expected, fix;
  explicit Refusal(const std::function<void()>& f) {
    try {
      f();
    } catch (const E& error) {
      text = error.what();
      expected = error.expected();
      fix = error.fix();
      return;
    } catch (const std::exception& error) {
      text = std::string("another type was thrown: ") + error.what();
    }
    ADD_FAILURE() << text;
  }
  /// Whether the message holds all of these.
  void names(std::initializer_list<const char*> parts) const {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    EXPECT_FALSE(fix.empty()) << text;
  }
};

}  // namespace mezzo::amp
