// Padding layers are one call of `pad` each.
#include "mezzo/nn/padding.h"

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"

namespace mezzo::nn {

namespace {

IntList sizes_of(const std::string& name, int spatial, const SpatialSizes& padding) {
  const auto wanted = static_cast<std::size_t>(2 * spatial);
  IntList sizes;
  for (std::size_t i = 0; i < wanted; ++i) sizes.push_back(padding.size() == 1 ? padding[0] : 0);
  if (padding.size() == 1) return sizes;
  if (padding.size() != wanted) {
    throw ValueError(name, "a padding of 1 or " + std::to_string(wanted) + " numbers",
                     std::to_string(padding.size()), "give each spatial dim one for each end");
  }
  for (std::size_t i = 0; i < wanted; ++i) sizes[i] = padding[i];
  return sizes;
}

}  // namespace

PadLayer::PadLayer(const char* name, int spatial, const SpatialSizes& padding, PadMode mode, double value)
    : name_(name),
      spatial_(spatial),
      padding_(sizes_of(std::string(name) + std::to_string(spatial) + "d", spatial, padding)),
      mode_(mode),
      value_(value) {}

Tensor PadLayer::forward(const Tensor& x) { return pad(x, padding_, mode_, value_); }
std::string PadLayer::type_name() const { return name_ + std::to_string(spatial_) + "d"; }
std::string PadLayer::extra_repr() const {
  const std::string text = "padding=" + mezzo::to_string(padding_);
  return value_ == 0 ? text : text + ", value=" + Value(value_).to_string();
}

}  // namespace mezzo::nn
