// Which attributes the emulated cuDNN's descriptors have, which values go together, and its engines.
#include <algorithm>
#include <array>

#include "descriptor.h"
#include "emulated_cuda/device.h"

namespace emulated_cuda::dnn_library {
namespace {

constexpr std::int64_t kDims = 8;

constexpr Operation kForward{
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Operation kData{
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Operation kFilter{
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

constexpr std::array<Rule, 6> operation_rules(const Operation& o) {
  return {{{o.convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
           {o.x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
           {o.weight, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
           {o.y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
           {o.alpha, CUDNN_TYPE_FLOAT, 1, true},
           {o.beta, CUDNN_TYPE_FLOAT, 1, true}}};
}
constexpr auto kForwardRules = operation_rules(kForward), kDataRules = operation_rules(kData),
               kFilterRules = operation_rules(kFilter);
constexpr Rule kTensorRules[] = {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
                                 {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, kDims, true},
                                 {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, kDims, true},
                                 {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, true},
                                 {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, true}};
constexpr Rule kConvolutionRules[] = {
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, true},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, kDims, true},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, kDims, true},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, kDims, true},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, kDims, true}};
constexpr Rule kGraphRules[] = {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, true},
                                {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true}};
constexpr Rule kHeuristicRules[] = {
    {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, true}};
constexpr Rule kPlanRules[] = {
    {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, true},
    {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true}};
constexpr Rule kPackRules[] = {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kDims, true},
                               {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, kDims, true},
                               {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, false}};

bool all_at_least(const std::vector<std::int64_t>& values, std::int64_t least) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t value) { return value >= least; });
}

bool is_tensor(const Descriptor& d) {
  const auto sizes = d.list(CUDNN_ATTR_TENSOR_DIMENSIONS), strides = d.list(CUDNN_ATTR_TENSOR_STRIDES);
  const auto alignment = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  return sizes.size() == strides.size() && sizes.size() >= 3 && all_at_least(sizes, 1) &&
         all_at_least(strides, 1) && alignment >= 1 && (alignment & (alignment - 1)) == 0;
}

bool is_convolution(const Descriptor& d) {
  const auto dims = static_cast<std::size_t>(d.one<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  const auto fits = [&](cudnnBackendAttributeName_t name, std::int64_t least) {
    return d.list(name).size() == dims && all_at_least(d.list(name), least);
  };
  return (dims == 2 || dims == 3) && fits(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1) &&
         fits(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1) && fits(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0) &&
         fits(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0);
}

/// Whether sizes are those of a convolution: y's are computed from the paddings.
cudnnStatus_t judge_operation(const Descriptor& d, const Operation& o) {
  const Descriptor *const conv = &d.descriptor(o.convolution), *const x = &d.descriptor(o.x),
                          *const w = &d.descriptor(o.weight), *const y = &d.descriptor(o.y);
  for (const Descriptor* tensor : {x, w, y})
    if (tensor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
  if (conv->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
  const auto in = x->list(CUDNN_ATTR_TENSOR_DIMENSIONS), kernel = w->list(CUDNN_ATTR_TENSOR_DIMENSIONS),
             out = y->list(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto stride = conv->list(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
             dilation = conv->list(CUDNN_ATTR_CONVOLUTION_DILATIONS),
             before = conv->list(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
             behind = conv->list(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  if (in.size() != stride.size() + 2 || kernel.size() != in.size() || out.size() != in.size())
    return CUDNN_STATUS_BAD_PARAM;
  if (in[0] != out[0] || out[1] != kernel[0] || in[1] % kernel[1] != 0 || out[1] % (in[1] / kernel[1]) != 0)
    return CUDNN_STATUS_BAD_PARAM;
  for (std::size_t k = 0; k < stride.size(); ++k) {
    const std::int64_t reach = dilation[k] * (kernel[k + 2] - 1) + 1;
    const std::int64_t padded = in[k + 2] + before[k] + behind[k];
    if (padded < reach || (padded - reach) / stride[k] + 1 != out[k + 2]) return CUDNN_STATUS_BAD_PARAM;
  }
  const bool wide = conv->one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_DOUBLE;
  const auto type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  const bool factors = d.values.at(o.alpha).type == type && d.values.at(o.beta).type == type;
  return factors ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

bool is_heuristic(const Descriptor& d) {
  return d.descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
}

cudnnStatus_t judge_plan(Descriptor& d) {
  const Descriptor& config = d.descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (config.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
  d.engine = config.engine, d.graph = config.graph;
  return d.engine == static_cast<int>(Engine::refusing) ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

/// Whether arrays are aligned to 16 bytes, as an engine may rely on.
bool is_aligned(const Descriptor& graph) {
  const Descriptor& operation = only_operation(graph);
  const Operation& o = *operation_of(operation.type);
  const auto names = {o.x, o.weight, o.y};
  return std::all_of(names.begin(), names.end(), [&](cudnnBackendAttributeName_t name) {
    return operation.descriptor(name).one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) >= 16;
  });
}

/// Whether one of the arrays has this type.
bool has_type(const Descriptor& graph, cudnnDataType_t type) {
  const Descriptor& operation = only_operation(graph);
  const Operation& o = *operation_of(operation.type);
  const auto names = {o.x, o.weight, o.y};
  return std::any_of(names.begin(), names.end(), [&](cudnnBackendAttributeName_t name) {
    return operation.descriptor(name).one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == type;
  });
}

cudnnStatus_t good(bool is) { return is ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM; }

}  // namespace

std::span<const Rule> rules(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return kTensorRules;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return kConvolutionRules;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return kForwardRules;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return kDataRules;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return kFilterRules;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return kGraphRules;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return kHeuristicRules;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return kPlanRules;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return kPackRules;
    default:
      return {};  // engines and their configurations come from the heuristics
  }
}

const Operation* operation_of(cudnnBackendDescriptorType_t type) {
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return &kForward;
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) return &kData;
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ? &kFilter : nullptr;
}

cudnnStatus_t judge(Descriptor& d) {
  if (const Operation* const operation = operation_of(d.type)) return judge_operation(d, *operation);
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return good(is_tensor(d));
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return good(is_convolution(d));
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return good(operation_of(only_operation(d).type) != nullptr);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      if (!is_heuristic(d)) return CUDNN_STATUS_BAD_PARAM;
      ++emulated_cuda::dnn().heuristics;
      return engines_of(d).empty() ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return judge_plan(d);
    default:
      return good(d.list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() ==
                  static_cast<std::size_t>(d.values.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count));
  }
}

std::vector<cudnnBackendNumericalNote_t> notes_of(int engine) {
  switch (static_cast<Engine>(engine)) {
    case Engine::nondeterministic:
      return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case Engine::winograd:
      return {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, CUDNN_NUMERICAL_NOTE_WINOGRAD};
    case Engine::tensor_core:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP};
    default:
      return {};
  }
}

std::int64_t workspace_of(int engine) {
  if (engine == static_cast<int>(Engine::tensor_core)) return 65536;
  return engine == static_cast<int>(Engine::general) ? 256 : 0;
}

std::vector<int> engines_of(const Descriptor& heuristic) {
  const emulated_cuda::DnnState& state = emulated_cuda::dnn();
  const Descriptor& graph = heuristic.descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const bool older = emulated_cuda::compute_capability() < 80;
  std::vector<int> result;
  if (older && has_type(graph, CUDNN_DATA_BFLOAT16)) return result;
  if (heuristic.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK) {
    if (state.fallback) result.push_back(static_cast<int>(Engine::fallback));
    return result;
  }
  if (!state.mode_a) return result;
  const bool has_units = is_aligned(graph) && !(older && has_type(graph, CUDNN_DATA_FLOAT));
  for (const Engine engine :
       {Engine::refusing, Engine::nondeterministic, Engine::winograd, Engine::tensor_core, Engine::general}) {
    if (engine != Engine::tensor_core || has_units) result.push_back(static_cast<int>(engine));
  }
  return result;
}

}  // namespace emulated_cuda::dnn_library
