// Sequential's loop over its layers and its look-ups, the index error that it shares with ModuleList, and
// the error for a key that a ModuleDict does not hold.
#include "mezzo/nn/sequential.h"

#include <string>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/nn/module_dict.h"
#include "mezzo/nn/module_list.h"

namespace mezzo::nn {

void detail::refuse_index(const Module& list, std::size_t i, std::size_t size) {
  throw IndexError(list.type_name(), "an index below " + std::to_string(size), std::to_string(i),
                   "ask size() first");
}

void detail::refuse_key(const Module& dict, const std::string& key) {
  std::string names;
  for (const ChildSlot* slot : dict.child_slots())
    names += (names.empty() ? "'" : ", '") + slot->name() + "'";
  throw IndexError(dict.described(),
                   names.empty() ? "a name of a module, of which there is none" : "one of " + names,
                   "'" + key + "'", "ask contains() first, or insert() it");
}

Sequential::Sequential() = default;
Sequential::Sequential(const Sequential& other) = default;
Sequential::~Sequential() = default;

Sequential::Sequential(const std::vector<std::shared_ptr<Layer>>& layers) {
  for (const std::shared_ptr<Layer>& layer : layers) push_back(layer);
}

std::size_t Sequential::size() const noexcept { return layers_.size(); }

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const Child<Layer>& layer : layers_) y = layer(y);
  return y;
}

const Child<Layer>& Sequential::operator[](std::size_t i) const {
  if (i >= size()) detail::refuse_index(*this, i, size());
  return layers_[i];
}

Child<Layer>& Sequential::operator[](std::size_t i) {
  return const_cast<Child<Layer>&>(std::as_const(*this)[i]);
}

void Sequential::refuse_type(std::size_t i, const std::string& type) const {
  const Child<Layer>& slot = layers_[i];
  throw ValueError("Sequential::at", "a " + type + " at '" + slot.path() + "'",
                   slot.module() ? slot.module()->type_name() : "an empty slot",
                   "ask for the layer's own type");
}

void Sequential::append(const std::string& name, std::shared_ptr<Layer> layer) {
  if (layer == nullptr) {
    throw ValueError("Sequential", "a layer for index " + std::to_string(size()), "a null pointer",
                     "create layers with nn::make");
  }
  layers_.emplace_back(*this, name, std::move(layer));
}

}  // namespace mezzo::nn
