// What is exported in the tests: each layer, ops in small functions, whole models.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/mezzo.h"
#include "mezzo/nn/module/evaluation.h"
#include "mezzo/onnx/export.h"

namespace mezzo::onnx::testing {

/// A model with an example, and both of its calls.
struct Case {
  std::string name;
  std::vector<Tensor> example;
  io::OnnxOptions options;
  std::function<void(const std::string& path, const io::OnnxOptions&)> write;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> run;  ///< in evaluation mode
};

[[nodiscard]] std::vector<Case> layer_cases();
[[nodiscard]] std::vector<Case> op_cases();
[[nodiscard]] std::vector<Case> model_cases();

template <class Net>
Case case_of(std::string name, const std::shared_ptr<Net>& net, std::vector<Tensor> example,
             io::OnnxOptions options = {}) {
  return {std::move(name), example, std::move(options),
          [net, example](const std::string& path, const io::OnnxOptions& as) {
            io::export_onnx(*net, example, path, as);
          },
          [net](const std::vector<Tensor>& inputs) {
            const nn::Evaluation evaluation(*net);
            io::detail::CalledModule<Net> called{*net};
            return io::detail::call_with_all<1>(called, *net, inputs);
          }};
}
/// A layer of one input made from a function, for ops by themselves.
struct FunctionLayer final : nn::Layer {
  explicit FunctionLayer(std::function<Tensor(const Tensor&)> f) : function(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return function(x); }
  std::function<Tensor(const Tensor&)> function;
};

struct Cases {
  template <class Net>
  void add(const std::string& name, const std::shared_ptr<Net>& net, std::vector<Tensor> example,
           const io::OnnxOptions& options = {}) {
    all.push_back(case_of(name, net, std::move(example), options));
  }
  /// A layer of one input.
  template <class L>
  void layer(const std::string& name, L&& one, const Tensor& x, const io::OnnxOptions& options = {}) {
    auto net = nn::make<nn::Sequential>();
    net->push_back(std::forward<L>(one));
    add(name, net, {x}, options);
  }
  void op(const std::string& name, const Tensor& x, std::function<Tensor(const Tensor&)> f,
          const io::OnnxOptions& options = {}) {
    add("op_" + name, nn::make<FunctionLayer>(std::move(f)), {x}, options);
  }
  std::vector<Case> all;
};

}  // namespace mezzo::onnx::testing
