// Graphs of one operation each, and which of cuDNN's engines keep what kernels/conv/conv.h promises.
#include "mezzo/kernels/conv/cuda_dnn_plan.h"

#if MEZZO_HAVE_CUDNN
#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

namespace mezzo::kernels::cuda {

namespace {

std::atomic<std::int64_t>& workspace_limit() {
  static std::atomic<std::int64_t> bytes{std::int64_t{1} << 30};
  return bytes;
}

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    default:
      return CUDNN_DATA_FLOAT;
  }
}
cudnnDataType_t compute_type(const DnnProblem& problem) {
  return problem.operands == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/// cuDNN has convolutions over two dims and over three.
std::size_t first_dim(const Windows& w) {
  const bool flat = w.input[0] == 1 && w.kernel[0] == 1 && w.output[0] == 1 && w.padding[0] == 0;
  return flat ? 1 : 0;
}
std::span<const std::int64_t> spatial(const Windows& w, const Windows::Sizes& sizes) {
  return std::span(sizes).subspan(first_dim(w));
}

/// An array [first, channels, spatial...], dense in the problem's order of memory.
DnnDescriptor tensor(const DnnProblem& problem, std::size_t which, DType dtype, std::int64_t first,
                     std::int64_t channels, const Windows::Sizes& sizes) {
  std::vector<std::int64_t> dims{first, channels}, strides(2);
  for (const std::int64_t size : spatial(problem.windows, sizes)) dims.push_back(size);
  strides.resize(dims.size());
  std::int64_t step = problem.channels_last ? channels : 1;
  for (std::size_t d = dims.size(); d-- > 2;) {
    strides[d] = step;
    step *= dims[d];
  }
  strides[1] = problem.channels_last ? 1 : step;
  strides[0] = problem.channels_last ? step : step * channels;
  DnnDescriptor result(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type(dtype));
  result.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  result.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  result.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, kDnnIds[which]);
  result.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, problem.alignment[which]);
  result.finalize();
  return result;
}

DType dtype_in(const DnnProblem& problem, ConvMap result_of) {
  return problem.map == result_of ? problem.result : problem.operands;
}

/// Padding behind a dim: as much as in front where that gives as many windows, which more engines can do,
/// else what the last window needs. Less than none, where windows leave places out, is for cuDNN to refuse.
std::int64_t padding_behind(const Windows& w, std::size_t d) {
  const std::int64_t reach = w.dilation[d] * (w.kernel[d] - 1) + 1;
  if ((w.input[d] + 2 * w.padding[d] - reach) / w.stride[d] + 1 == w.output[d]) return w.padding[d];
  return w.position(d, w.output[d] - 1, w.kernel[d] - 1) + 1 - w.input[d];
}

DnnDescriptor convolution(const DnnProblem& problem) {
  const Windows& w = problem.windows;
  Windows::Sizes behind{};
  for (std::size_t d = 0; d < Windows::kDims; ++d) behind[d] = padding_behind(w, d);
  const auto dims = static_cast<std::int64_t>(Windows::kDims - first_dim(w));
  DnnDescriptor result(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  result.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, dims);
  result.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute_type(problem));
  result.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  result.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial(w, w.stride));
  result.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial(w, w.dilation));
  result.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial(w, w.padding));
  result.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spatial(w, behind));
  result.finalize();
  return result;
}

/// Names of a map's operation and of its attributes.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution, x, weight, y, alpha, beta;
};
Names names_of(ConvMap map) {
  switch (map) {
    case ConvMap::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvMap::input_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvMap::weight_gradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

/// result = product, or result + product.
void set_factors(const DnnDescriptor& operation, const Names& names, const DnnProblem& problem) {
  if (problem.operands == DType::f64) {
    operation.set(names.alpha, CUDNN_TYPE_DOUBLE, 1.0);
    operation.set(names.beta, CUDNN_TYPE_DOUBLE, problem.accumulate ? 1.0 : 0.0);
  } else {
    operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F);
    operation.set(names.beta, CUDNN_TYPE_FLOAT, problem.accumulate ? 1.0F : 0.0F);
  }
}

/// Whether an engine does what is promised: the same bits in every run, one rounding, no larger error than a
/// sum of products has (transforms have larger errors, and spread an infinity), f32 in f32.
bool keeps_contract(const DnnProblem& problem, const DnnDescriptor& config) {
  const DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  std::int64_t count = 0;
  check_dnn(dnn()->get(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                       static_cast<std::int64_t>(notes.size()), &count, notes.data()));
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return problem.operands == DType::f32 && !(problem.tf32 && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
      default:
        return true;
    }
  });
}

/// The heuristic's engine configurations, best first; none when it has nothing to say.
std::vector<DnnDescriptor> configs(const DnnGraph& graph, cudnnBackendHeurMode_t mode) {
  const DnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  try {
    heuristic.finalize();
    return heuristic.get_all(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  } catch (const DnnRefusal&) {
    return {};
  }
}

/// The plan of a configuration, unless it cannot run here or wants too much.
std::optional<DnnPlan> plan_of(const DnnProblem& problem, DnnDescriptor config, cudnnHandle_t handle) {
  try {
    if (!keeps_contract(problem, config)) return {};
    DnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    plan.finalize();
    const std::int64_t workspace = plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    if (workspace > dnn_workspace_limit()) return {};
    return DnnPlan{std::move(config), std::move(plan), workspace};
  } catch (const DnnRefusal&) {
    return {};
  }
}

}  // namespace

DnnGraph::DnnGraph(const DnnProblem& problem, cudnnHandle_t handle)
    : x_(tensor(problem, 0, dtype_in(problem, ConvMap::input_gradient), problem.batch, problem.in_channels,
                problem.windows.input)),
      weight_(tensor(problem, 1, dtype_in(problem, ConvMap::weight_gradient), problem.out_channels,
                     problem.in_channels / problem.groups, problem.windows.kernel)),
      y_(tensor(problem, 2, dtype_in(problem, ConvMap::forward), problem.batch, problem.out_channels,
                problem.windows.output)),
      convolution_(convolution(problem)),
      operation_(names_of(problem.map).operation),
      graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  const Names names = names_of(problem.map);
  operation_.set(names.convolution, convolution_);
  operation_.set(names.x, x_);
  operation_.set(names.weight, weight_);
  operation_.set(names.y, y_);
  set_factors(operation_, names, problem);
  operation_.finalize();
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
  graph_.finalize();
}

std::vector<DnnPlan> dnn_plans(const DnnProblem& problem, const DnnGraph& graph, cudnnHandle_t handle,
                               std::size_t wanted) {
  std::vector<DnnPlan> result;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!result.empty()) break;  // the fallback is slow engines, for what no other has
    for (DnnDescriptor& config : configs(graph, mode)) {
      if (result.size() == wanted) break;
      std::optional<DnnPlan> plan = plan_of(problem, std::move(config), handle);
      if (plan) result.push_back(std::move(*plan));
    }
  }
  return result;
}

std::string engine_of(const DnnPlan& plan) {
  try {
    const DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    plan.config.get(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    return std::to_string(engine.get_int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  } catch (const DnnRefusal&) {
    return "?";
  }
}

std::int64_t dnn_workspace_limit() { return workspace_limit(); }
void set_dnn_workspace_limit(std::int64_t bytes) { workspace_limit() = bytes; }

}  // namespace mezzo::kernels::cuda
#endif
