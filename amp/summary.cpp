// The two extra columns, gathered while ops run: the dtype of each computation, and for norms the dtypes
// of input, output, statistics and parameters. Ops that only move, cast or view data do not count.
#include "mezzo/amp/summary.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/call.h"
#include "mezzo/nn/module/walk.h"

namespace mezzo::amp {

namespace {

/// A norm op, and which of its inputs are parameters.
struct NormOp {
  std::string_view name;
  std::size_t first_parameter;
};
constexpr std::array kNormOps{NormOp{"layer_norm", 1}, NormOp{"rms_norm", 1}, NormOp{"group_norm", 1},
                              NormOp{"batch_norm", 3}, NormOp{"instance_norm", 3}};

const NormOp* norm_op(const OpInfo& info) {
  const auto found = std::find_if(kNormOps.begin(), kNormOps.end(),
                                  [&](const NormOp& op) { return op.name == info.name.value; });
  return found == kNormOps.end() ? nullptr : &*found;
}

/// Whether an op only copies, casts or views its input and computes nothing.
bool only_moves(const OpInfo& info, Inputs inputs, const Outputs& outputs) {
  constexpr std::array<std::string_view, 4> kMoves{"to_dtype", "to_device", "clone", "quantize_f8"};
  if (std::find(kMoves.begin(), kMoves.end(), info.name.value) != kMoves.end()) return true;
  return !inputs.empty() && !outputs.empty() && inputs[0]->defined() && outputs[0].defined() &&
         inputs[0]->impl().storage == outputs[0].impl().storage;
}

/// The widest floating dtype among the inputs; nullopt: none is floating.
std::optional<DType> widest(Inputs inputs) {
  std::optional<DType> result;
  for (const TensorRef& input : inputs) {
    if (!input->defined() || !is_floating(input->dtype())) continue;
    if (is_float8(input->dtype())) return input->dtype();  // a product of codes
    result = result ? promote(*result, input->dtype()) : input->dtype();
  }
  return result;
}

std::string precision_of(const NormOp& op, Inputs inputs, const Tensor& output) {
  const DType in = inputs[0]->dtype(), out = output.dtype(), statistics = compute_dtype(in);
  std::optional<DType> parameters;
  for (std::size_t i = op.first_parameter; i < inputs.size() && !parameters; ++i) {
    if (inputs[i]->defined()) parameters = inputs[i]->dtype();
  }
  std::string text = to_string(in) + (in == out ? " in and out" : " in, " + to_string(out) + " out");
  if (in == out && in == statistics && parameters.value_or(in) == in) return text;
  text += ", " + to_string(statistics) + " statistics";
  if (!parameters) return text;
  return text +
         (*parameters == statistics ? " and parameters" : ", " + to_string(*parameters) + " parameters");
}

/// The two columns.
class PrecisionColumns final : public nn::SummaryExtension {
 public:
  explicit PrecisionColumns(const nn::Module& net) {
    nn::detail::walk(net, [&](const std::string& path, const nn::Module& module) {
      const auto& region = nn::detail::call_region(module);
      if (region != nullptr) rules_[path] = region->described();
      return true;
    });
  }

  void ran(std::size_t row, const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
           const Outputs& outputs) override {
    if (only_moves(info, inputs, outputs)) return;
    const NormOp* const norm = norm_op(info);
    if (norm != nullptr) norms_[row].insert(precision_of(*norm, inputs, outputs[0]));
    const std::optional<DType> dtype = run_dtype         ? run_dtype
                                       : norm != nullptr ? inputs[0]->dtype()
                                                         : widest(inputs);
    if (dtype) dtypes_[row].insert(*dtype);
    if (info.name.value != "linear") return;
    const Fp8* const float8 = autocast_fp8(inputs[0]->device().type);
    if (float8 == nullptr) return;
    const std::string reason = detail::why_not_float8(*float8, inputs[1]->size(0), inputs[1]->size(1));
    if (!reason.empty()) reasons_[row].insert(reason);
  }

  [[nodiscard]] std::vector<std::string> titles() const override { return {"Runs in", "Norm"}; }

  [[nodiscard]] std::vector<std::string> cells(const std::vector<nn::SummaryRow>& rows,
                                               std::size_t row) const override {
    std::set<DType> dtypes;
    add_dtypes(rows, row, dtypes);
    if (rows[row].first && rows[row].calls > 0 && rows[row].has_children)
      add_dtypes(rows, *rows[row].first, dtypes);
    std::string runs_in, norm;
    for (const DType dtype : dtypes)
      runs_in += (runs_in.empty() ? "" : ", ") + (is_float8(dtype) ? "f8" : to_string(dtype));
    if (const auto found = reasons_.find(row); found != reasons_.end()) {
      for (const std::string& reason : found->second)
        runs_in += (&reason == &*found->second.begin() ? ": " : "; ") + reason;
    }
    if (const auto found = norms_.find(row); found != norms_.end()) {
      for (const std::string& text : found->second) norm += (norm.empty() ? "" : "; ") + text;
    }
    if (runs_in.empty()) runs_in = "--";
    const auto rule = rules_.find(rows[row].path);
    if (rule != rules_.end() && !rule->second.empty()) runs_in += " (rule: " + rule->second + ")";
    return {runs_in, norm.empty() ? "--" : norm};
  }

 private:
  /// Adds the dtypes that a row and all rows below it ran in.
  void add_dtypes(const std::vector<nn::SummaryRow>& rows, std::size_t row, std::set<DType>& dtypes) const {
    const auto end = dtypes_.lower_bound(nn::detail::summary_end(rows, row));
    for (auto it = dtypes_.lower_bound(row); it != end; ++it)
      dtypes.insert(it->second.begin(), it->second.end());
  }

  std::map<std::string, std::string> rules_;       // by path
  std::map<std::size_t, std::set<DType>> dtypes_;  // by row
  std::map<std::size_t, std::set<std::string>> norms_;
  std::map<std::size_t, std::set<std::string>> reasons_;  // why a product is not in float8
};

}  // namespace

nn::Summary detail::summarize(nn::Module& net, const nn::detail::SummaryRun& run, Device device,
                              const SummaryOptions& options) {
  const Autocast region(device, options.dtype, {.enabled = options.enabled, .fp8 = options.fp8});
  PrecisionColumns columns(net);
  return nn::detail::summarize(net, run, options.table, &columns);
}

Device detail::device_of(const nn::Module& net) {
  const nn::NamedTensors parameters = net.named_parameters();
  return parameters.empty() ? Device::cpu() : parameters.front().second.device();
}

}  // namespace mezzo::amp
