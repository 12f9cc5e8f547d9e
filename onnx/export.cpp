// Two traces, the graph of what they share, and its file.
#include "mezzo/onnx/export.h"

#include <algorithm>
#include <numeric>

#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/onnx/mappings.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/indexing.h"

namespace mezzo::io {

namespace {

constexpr std::int64_t kLeastOpset = 17, kMostOpset = 23;

/// x with `rows` rows, its own from the last to the first, over and over: other values in each place, and
/// none that the model was not given.
Tensor with_rows(const Tensor& x, std::int64_t rows) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) index[static_cast<std::size_t>(i)] = x.size(0) - 1 - i % x.size(0);
  return index_select(x.detach(), 0, tensor(index, {rows}, {.device = x.device()}));
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
  if (!options.input_names.empty() && options.input_names.size() != example.size()) {
    throw ValueError(onnx::kExport, std::to_string(example.size()) + " input_names",
                     std::to_string(options.input_names.size()), "name each input, or none");
  }
}

/// Both examples. One row is too few for the first: a size of 1 broadcasts.
std::pair<std::vector<Tensor>, std::vector<Tensor>> examples_of(std::vector<Tensor> example,
                                                                const OnnxOptions& options) {
  if (options.fixed_sizes) return {example, example};
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
    first.push_back(has_batch && batch == 1 ? with_rows(input, 2) : input);
    second.push_back(has_batch ? with_rows(input, std::max<std::int64_t>(batch, 2) + 1) : input);
  }
  return {std::move(first), std::move(second)};
}

std::string name_at(const std::vector<std::string>& names, const char* base, std::size_t i) {
  if (i < names.size()) return names[i];
  return i == 0 ? base : base + ("_" + std::to_string(i));
}

/// The second run, whose errors say what to do about sizes.
onnx::Trace second_trace(const onnx::Forward& forward, const std::vector<Tensor>& inputs,
                         const OnnxOptions& options) {
  try {
    return onnx::trace(forward, inputs, options.precision, options.opset, onnx::is_mapped);
  } catch (const Error& error) {
    throw ValueError(onnx::kExport, "a model that also takes " + to_string(inputs[0].shape()), error.what(),
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
  auto [first_inputs, second_inputs] = examples_of(std::move(example), options);
  const onnx::Trace first =
      onnx::trace(forward, first_inputs, options.precision, options.opset, onnx::is_mapped);
  const onnx::Trace second = options.fixed_sizes ? first : second_trace(forward, second_inputs, options);
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
  for (std::size_t i = 0; i < first.outputs.size(); ++i)
    graph.add_output(name_at(options.output_names, "output", i), first.outputs[i], second.outputs[i]);
  onnx::write(graph.finish(forward.net->type_name()), path, options.external_data);
}

}  // namespace mezzo::io
