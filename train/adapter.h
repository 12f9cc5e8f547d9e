// Adapters of LoRA in folders as PEFT has them: adapter_model.safetensors and adapter_config.json.
#pragma once

#include <string>

#include "mezzo/nn/lora.h"

namespace mezzo::train {

/// Writes the adapters of a model (nn::apply_lora) into a folder, which is made where it is missing.
/// `base_model`: what PEFT is told about the model that they belong to, a name on Hugging Face or a path.
/// Source: `PeftModel.save_pretrained`. Throws: StateError for a model without adapters; ValueError for
/// adapters of several ranks, alphas or dropouts; IoError.
void save_adapter(const std::string& folder, const nn::Module& model, const std::string& base_model = "");

/// Loads a folder of PEFT's, or of save_adapter, into a model: gives adapters to the layers that the folder
/// has some of (nn::apply_lora, with its rank, alpha and dropout) unless the model has adapters already, and
/// copies the values. `options`: dtype and generator of new adapters; the rest comes from the folder. Source:
/// `PeftModel.from_pretrained`. Throws: IoError; ValueError for another kind than LoRA, for DoRA, trained
/// biases and several ranks, and what apply_lora and load_lora throw.
void load_adapter(const std::string& folder, nn::Module& model, const nn::LoraOptions& options = {});

}  // namespace mezzo::train
