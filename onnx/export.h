// A trained model as an ONNX file, for onnxruntime and other programs that know nothing of mezzo.
//   io::export_onnx(*net, example, "unet.onnx");
//   io::export_onnx(*net, {ids, mask}, "tagger.onnx", {.precision = DType::f16, .input_names = {"ids",
//   "mask"}});
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/nn/call.h"
#include "mezzo/onnx/forward.h"

namespace mezzo::io {

struct OnnxOptions {
  /// The version of ONNX's list of ops, 17 to 23. RMSNorm and attention are one node from 23 on, GroupNorm
  /// from 21 on; before, they are spelled out.
  std::int64_t opset = 17;
  /// f32: the model runs as it is. f16: as amp::Autocast runs it, weights in f16 and with its casts. bf16 the
  /// same way, which onnxruntime does not load on a CPU.
  DType precision = DType::f32;
  /// Defaults: "input", "input_1", ...; "output", "output_1", ...
  std::vector<std::string> input_names = {}, output_names = {};
  /// The inputs of the second run: dims whose sizes differ from the example's may have any size in the file,
  /// and such sizes that are equal in both runs are one. Default: one more row in dim 0, and other values.
  std::vector<Tensor> second_example = {};
  /// Export for the example's sizes alone.
  bool fixed_sizes = false;
  /// Whether weights stand in "<path>.data", a file beside it. Default: where the file would reach 2 GiB.
  std::optional<bool> external_data = {};
};

namespace detail {
void export_onnx(const onnx::Forward& forward, std::vector<Tensor> example, const std::string& path,
                 const OnnxOptions& options);
/// Throws: ValueError, as the model cannot be called with `given` tensors.
[[noreturn]] void refuse_onnx_inputs(const nn::Module& net, std::size_t given);

void add_results(std::vector<Tensor>& all, const auto& result);
template <class... T>
void add_each_result(std::vector<Tensor>& all, const T&... results) {
  (add_results(all, results), ...);
}
/// The tensors of what a model returns, in order: a tensor, a range, pair or tuple of such, or the members
/// output, weights, h_n and state (h, c) of nn's results. Undefined ones are left out.
void add_results(std::vector<Tensor>& all, const auto& result) {
  using R = std::remove_cvref_t<decltype(result)>;
  if constexpr (std::convertible_to<const R*, const Tensor*>) {
    if (result.defined()) all.push_back(result);
  } else if constexpr (requires { result.output; }) {
    add_results(all, result.output);
    if constexpr (requires { result.weights; }) add_results(all, result.weights);
    if constexpr (requires { result.h_n; }) add_results(all, result.h_n);
    if constexpr (requires { result.state; }) add_results(all, result.state);
  } else if constexpr (requires {
                         result.h;
                         result.c;
                       }) {
    add_each_result(all, result.h, result.c);
  } else if constexpr (requires { std::tuple_size<R>::value; }) {
    std::apply([&](const auto&... each) { add_each_result(all, each...); }, result);
  } else {
    for (const auto& one : result) add_results(all, one);
  }
}

/// Calls `net` with the inputs, of which there are as many as it takes.
template <class F, std::size_t... I>
std::vector<Tensor> call_with(F& net, const std::vector<Tensor>& inputs, std::index_sequence<I...> /*all*/) {
  std::vector<Tensor> results;
  add_results(results, net(inputs[I]...));
  return results;
}
template <std::size_t kInputs, class F>
std::vector<Tensor> call_with_all(F& net, const nn::Module& module, const std::vector<Tensor>& inputs) {
  constexpr std::size_t kMostInputs = 12;
  const auto callable = []<std::size_t... I>(std::index_sequence<I...> /*all*/) {
    return std::invocable<F&, decltype((static_cast<void>(I), std::declval<const Tensor&>()))...>;
  };
  if constexpr (callable(std::make_index_sequence<kInputs>())) {
    if (inputs.size() == kInputs) return call_with(net, inputs, std::make_index_sequence<kInputs>());
  }
  if constexpr (kInputs < kMostInputs)
    return call_with_all<kInputs + 1>(net, module, inputs);
  else
    refuse_onnx_inputs(module, inputs.size());
}
/// A module with its call, whether or not it has a call operator.
template <class Net>
struct CalledModule {
  Net& net;
  template <class... A>
  requires requires(Net& module, const A&... inputs) { nn::call(module, inputs...); }
  auto operator()(const A&... inputs) const { return nn::call(net, inputs...); }
};
}  // namespace detail

/// Writes `net` to `path` as ONNX, all or nothing. The model runs twice in evaluation mode, without
/// recording, with the example and with inputs of other sizes and values; what both runs do is the graph:
/// branches that depend on values are those that the runs took. Parameters and buffers keep their paths as
/// names, and the model is as before. Throws: what the model throws; ValueError, naming op and module, for an
/// op that ONNX lacks and for what depends on sizes in a way that a graph cannot compute; StateError for a
/// write in place; IoError where the file cannot be written. Nothing is written then. Source:
/// torch.onnx.export; ONNX's list of ops, https://onnx.ai/onnx/operators.
template <std::derived_from<nn::Module> Net>
void export_onnx(Net& net, const std::vector<Tensor>& example, const std::string& path,
                 const OnnxOptions& options = {}) {
  const auto run = [&net](const std::vector<Tensor>& inputs) {
    detail::CalledModule<Net> called{net};
    return detail::call_with_all<1>(called, net, inputs);
  };
  detail::export_onnx({&net, run}, example, path, options);
}
/// The same for another call than net(inputs..): `run(inputs)` gives the results as a vector.
template <std::invocable<const std::vector<Tensor>&> F>
void export_onnx(nn::Module& net, const std::vector<Tensor>& example, const std::string& path, F run,
                 const OnnxOptions& options = {}) {
  detail::export_onnx({&net,
                       [run = std::move(run)](const std::vector<Tensor>& inputs) {
                         std::vector<Tensor> results;
                         detail::add_results(results, run(inputs));
                         return results;
                       }},
                      example, path, options);
}
template <std::derived_from<nn::Module> Net>
void export_onnx(Net& net, const Tensor& example, const std::string& path, const OnnxOptions& options = {}) {
  export_onnx(net, std::vector<Tensor>{example}, path, options);
}
template <std::derived_from<nn::Module> Net>
void export_onnx(const std::shared_ptr<Net>& net, const Tensor& example, const std::string& path,
                 const OnnxOptions& options = {}) {
  export_onnx(*net, example, path, options);
}
template <std::derived_from<nn::Module> Net>
void export_onnx(const std::shared_ptr<Net>& net, const std::vector<Tensor>& example, const std::string& path,
                 const OnnxOptions& options = {}) {
  export_onnx(*net, example, path, options);
}

}  // namespace mezzo::io
