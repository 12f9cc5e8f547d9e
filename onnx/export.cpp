// Two traces, the graph of what they share, and its file.
#include "mezzo/onnx/export.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/core/warning.h"
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/nn/module/evaluation.h"
#include "mezzo/onnx/mappings.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/shape.h"

namespace mezzo::io {

namespace {

constexpr std::int64_t kLeastOpset = 17, kMostOpset = 23;

/// x with its real numbers made smaller: by them a tensor is told that forward wrote values of its input
/// into, which is no op.
Tensor with_other_values(const Tensor& x) {
  return is_floating(x.dtype()) && !is_float8(x.dtype()) ? x.detach() * 0.75 : x;
}
/// with_other_values with `rows` rows, its own from the last to the first, over and over.
Tensor with_other_rows(const Tensor& x, std::int64_t rows) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) index[static_cast<std::size_t>(i)] = x.size(0) - 1 - i % x.size(0);
  return with_other_values(index_select(x.detach(), 0, tensor(index, {rows}, {.device = x.device()})));
}

void check_names(const char* what, const std::vector<std::string>& names, std::size_t count) {
  if (names.size() != count) {
    throw ValueError(onnx::kExport, std::to_string(count) + " " + what, std::to_string(names.size()),
                     "name each of them, or none");
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (!name->empty() && std::find(names.begin(), name, *name) == name) continue;
    throw ValueError(onnx::kExport, std::string(what) + " that differ", quote(*name), "choose another name");
  }
}

void check(const OnnxOptions& options, const std::vector<Tensor>& example) {
  if (options.opset < kLeastOpset || options.opset > kMostOpset) {
    throw ValueError(onnx::kExport, "an opset from 17 to 23", std::to_string(options.opset),
                     "17 is read by every onnxruntime since 1.12");
  }
  if (!is_floating(options.precision) || size_of(options.precision) == 8 || is_float8(options.precision)) {
    throw DTypeError(onnx::kExport, "a precision of f32, f16 or bf16", to_string(options.precision),
                     "an f64 model is exported as it is with f32");
  }
  if (example.empty())
    throw ValueError(onnx::kExport, "an example", "no tensors", "pass the inputs of one call");
  for (const Tensor& input : example) detail::check_defined(onnx::kExport, "input", input);
  if (!options.input_names.empty()) check_names("input_names", options.input_names, example.size());
}

/// Both examples. One row is too few for the first: a size of 1 broadcasts.
std::pair<std::vector<Tensor>, std::vector<Tensor>> examples_of(std::vector<Tensor> example,
                                                                const OnnxOptions& options) {
  // Each with memory of its own: values are told apart by it.
  for (std::size_t i = 0; i < example.size(); ++i) {
    const bool is_shared =
        std::any_of(example.begin(), example.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Tensor& other) { return other.impl().data() == example[i].impl().data(); });
    if (is_shared) example[i] = example[i].detach().clone();
  }
  if (options.fixed_sizes) {
    std::vector<Tensor> second;
    for (const Tensor& input : example) second.push_back(with_other_values(input));
    return {std::move(example), std::move(second)};
  }
  if (!options.second_example.empty()) {
    const auto& second = options.second_example;
    bool fits = second.size() == example.size();
    for (std::size_t i = 0; fits && i < second.size(); ++i) {
      fits = second[i].defined() && second[i].dim() == example[i].dim() &&
             second[i].dtype() == example[i].dtype();
    }
    if (!fits) {
      throw ValueError(onnx::kExport, "a second_example like the first but for sizes",
                       "another number, rank or dtype", "pass the inputs of another call");
    }
    return {std::move(example), second};
  }
  std::vector<Tensor> first, second;
  std::int64_t batch = 0;
  for (const Tensor& input : example) batch = std::max(batch, input.dim() == 0 ? 0 : input.size(0));
  for (const Tensor& input : example) {
    const bool has_batch = input.dim() > 0 && input.size(0) == batch && batch > 0;
    first.push_back(has_batch && batch == 1 ? cat({input, input}, 0) : input);
    second.push_back(has_batch ? with_other_rows(input, std::max<std::int64_t>(batch, 2) + 1)
                               : with_other_values(input));
  }
  return {std::move(first), std::move(second)};
}

std::string name_at(const std::vector<std::string>& names, const char* base, std::size_t i) {
  if (i < names.size()) return names[i];
  return i == 0 ? base : base + ("_" + std::to_string(i));
}

/// Two runs, between which the default generator goes on: random numbers are told by their differing.
std::pair<onnx::Trace, onnx::Trace> traces_of(const onnx::Forward& forward, std::vector<Tensor> example,
                                              const OnnxOptions& options) {
  const auto [first, second] = examples_of(std::move(example), options);
  const auto trace = [&](const std::vector<Tensor>& inputs) {
    return onnx::trace(forward, inputs, options.precision, options.opset, onnx::is_mapped);
  };
  const nn::Evaluation evaluation(*forward.net);
  onnx::Trace once = trace(first);
  try {
    return {std::move(once), trace(second)};
  } catch (const Error& error) {
    if (options.fixed_sizes) throw;
    throw ValueError(onnx::kExport, "a model that also takes " + to_string(second[0].shape()), error.what(),
                     "export for one size, .fixed_sizes = true, or pass a second_example that it takes");
  }
}

}  // namespace

void detail::refuse_onnx_inputs(const nn::Module& net, std::size_t given) {
  throw ValueError(onnx::kExport, "as many tensors as " + net.described() + " takes", std::to_string(given),
                   "pass a function of the inputs that calls it");
}

void detail::export_onnx(const onnx::Forward& forward, std::vector<Tensor> example, const std::string& path,
                         const OnnxOptions& options) {
  check(options, example);
  if (options.precision == DType::bf16) {
    warn_once("onnx_bf16",
              "export_onnx: expected a precision that onnxruntime loads on a CPU, got bf16; use "
              "DType::f16, or run it on a GPU");
  }
  const auto [first, second] = traces_of(forward, std::move(example), options);
  nn::NamedTensors weights = forward.net->named_parameters();
  for (const auto& buffer : forward.net->named_buffers()) weights.push_back(buffer);
  onnx::Graph graph(options.opset, weights);
  for (std::size_t i = 0; i < first.inputs.size(); ++i)
    graph.add_input(name_at(options.input_names, "input", i), first.inputs[i], second.inputs[i]);
  if (first.ops.size() != second.ops.size() || first.outputs.size() != second.outputs.size()) {
    throw ValueError(onnx::kExport, "a forward that runs the same ops for both sizes of its inputs",
                     std::to_string(first.ops.size()) + " and " + std::to_string(second.ops.size()) + " ops",
                     "a graph has no branches or loops: export for one size, .fixed_sizes = true");
  }
  for (std::size_t i = 0; i < first.ops.size(); ++i) onnx::add_call(graph, first.ops[i], second.ops[i]);
  if (first.outputs.empty())
    throw ValueError(onnx::kExport, "a model that returns tensors", "none", "return its result");
  if (!options.output_names.empty()) check_names("output_names", options.output_names, first.outputs.size());
  for (std::size_t i = 0; i < first.outputs.size(); ++i)
    graph.add_output(name_at(options.output_names, "output", i), first.outputs[i], second.outputs[i]);
  onnx::write(graph.finish(forward.net->type_name()), path, options.external_data);
}

}  // namespace mezzo::io
