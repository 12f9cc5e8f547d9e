// Folders of adapters: the options in adapter_config.json, and the layers that the names of the tensors tell.
#include "mezzo/train/adapter.h"

#include <cmath>
#include <filesystem>
#include <system_error>

#include "mezzo/core/error.h"
#include "mezzo/io/json.h"
#include "mezzo/io/tensor_file.h"

namespace mezzo::train {

namespace {

std::string config_path(const std::string& folder) { return folder + "/adapter_config.json"; }
std::string tensors_path(const std::string& folder) { return folder + "/adapter_model.safetensors"; }

bool has_same_options(const nn::LoraOptions& a, const nn::LoraOptions& b) {
  return a.rank == b.rank && a.alpha == b.alpha && a.dropout == b.dropout &&
         a.rank_stabilized == b.rank_stabilized;
}

/// Whether an entry of a config asks for something.
bool is_set(const Value& config, const char* key) {
  const Value* const value = config.find(key);
  if (value == nullptr || value->is_null()) return false;
  if (value->is_bool()) return value->as_bool();
  if (value->is_string()) return value->as_string() != "none";
  return (!value->is_map() && !value->is_list()) || value->size() > 0;
}

/// The options that a config asks for. Throws: ValueError for what mezzo's adapters cannot do.
nn::LoraOptions options_of(const std::string& path, const Value& config, nn::LoraOptions options) {
  const Value* const type = config.find("peft_type");
  if (type == nullptr || !type->is_string() || type->as_string() != "LORA") {
    throw ValueError("load_adapter '" + path + "'", "the peft_type LORA",
                     type == nullptr ? "none" : type->to_string(), "train with a LoraConfig");
  }
  for (const char* key : {"use_dora", "use_qalora", "alora_invocation_tokens", "layer_replication", "bias",
                          "lora_bias", "rank_pattern", "alpha_pattern", "modules_to_save"}) {
    if (!is_set(config, key)) continue;
    throw ValueError("load_adapter '" + path + "'", std::string("a config without ") + key,
                     config.at(key).to_string(), "train without it");
  }
  options.rank = config.at("r").as_int();
  options.alpha = config.at("lora_alpha").as_double();
  if (const Value* dropout = config.find("lora_dropout")) options.dropout = dropout->as_double();
  options.rank_stabilized = is_set(config, "use_rslora");
  return options;
}

/// The path of the layer that a tensor of adapters belongs to, as a target of apply_lora that is no other's.
std::string target_of(std::string_view name) {
  if (name.starts_with(nn::kPeftPrefix)) name.remove_prefix(nn::kPeftPrefix.size());
  std::string target = "^";
  for (const char c : name.substr(0, name.rfind(".lora_"))) {
    if (std::string_view("^$\\.*+?()[]{}|").find(c) != std::string_view::npos) target += '\\';
    target += c;
  }
  return target;
}

}  // namespace

void save_adapter(const std::string& folder, const nn::Module& model, const std::string& base_model) {
  const nn::NamedTensors tensors = nn::lora_state_dict(model);
  const nn::LoraOptions* options = nullptr;
  Value targets = Value::List();
  for (const auto& [path, module] : model.named_modules()) {
    const auto* const layer = dynamic_cast<const nn::LoraLayer*>(module);
    if (layer == nullptr) continue;
    if (options != nullptr && !has_same_options(*options, layer->lora_options())) {
      throw ValueError("save_adapter", "adapters of one rank, alpha and dropout", "others in '" + path + "'",
                       "save nn::lora_state_dict instead");
    }
    options = &layer->lora_options();
    targets.push_back(path);
  }
  const bool is_whole = options->alpha == std::floor(options->alpha) && std::abs(options->alpha) < 0x1p53;
  Value config = Value::Map{{"peft_type", "LORA"}, {"task_type", nullptr}};
  config.set("base_model_name_or_path", base_model.empty() ? Value() : Value(base_model));
  config.set("r", options->rank);
  config.set("lora_alpha",
             is_whole ? Value(static_cast<std::int64_t>(options->alpha)) : Value(options->alpha));
  config.set("lora_dropout", options->dropout);
  config.set("use_rslora", options->rank_stabilized);
  config.set("bias", "none");
  config.set("inference_mode", true);
  config.set("target_modules", std::move(targets));
  std::error_code ignored;  // where there is no folder, the first file says so
  std::filesystem::create_directories(folder, ignored);
  io::TensorFile{tensors, {{"format", "pt"}}}.save(tensors_path(folder));
  io::write_json_file(config_path(folder), config);
}

void load_adapter(const std::string& folder, nn::Module& model, const nn::LoraOptions& options) {
  nn::LoraOptions wanted = options_of(config_path(folder), io::read_json_file(config_path(folder)), options);
  const nn::NamedTensors tensors = io::load(tensors_path(folder));
  if (nn::has_lora(model)) {
    nn::load_lora(model, tensors);
    return;
  }
  wanted.targets.clear();
  for (const auto& [name, tensor] : tensors) {
    if (name.find(".lora_A") != std::string::npos || name.find(".lora_embedding_A") != std::string::npos)
      wanted.targets.push_back(target_of(name));
  }
  std::vector<Tensor> trained = model.parameters();
  std::erase_if(trained, [](const Tensor& parameter) { return !parameter.requires_grad(); });
  nn::surgery::Report report = nn::apply_lora(model, wanted);
  try {
    nn::load_lora(model, tensors);
  } catch (...) {
    static_cast<void>(report.undo());
    for (const Tensor& parameter : trained) parameter.requires_grad_();
    throw;
  }
}

}  // namespace mezzo::train
