// Borders as layers. The function, its modes and errors are in ops/rearrange.h (`pad`).
#pragma once

#include <string>

#include "mezzo/nn/module.h"
#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/spatial.h"

namespace mezzo::nn {

/// Base of all padding layers. `padding` is one number for both ends of all spatial dims, or a list:
/// before and after the last dim, then before and after the dim before it; negative numbers cut off.
/// Throws: ValueError for a list of another length than twice the spatial dims; forward throws what `pad`
/// throws.
class PadLayer : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override;
  [[nodiscard]] std::string extra_repr() const override;
  [[nodiscard]] const IntList& padding() const noexcept { return padding_; }

 protected:
  PadLayer(const char* name, int spatial, const SpatialSizes& padding, PadMode mode, double value = 0);

 private:
  const char* name_;
  int spatial_;
  IntList padding_;
  PadMode mode_;
  double value_;
};

/// A border of one number.
template <int kSpatial>
class ConstantPad final : public PadLayer {
 public:
  ConstantPad(const SpatialSizes& padding, double value)
      : PadLayer("ConstantPad", kSpatial, padding, PadMode::constant, value) {}
};
/// A border of zeros.
template <int kSpatial>
class ZeroPad final : public PadLayer {
 public:
  explicit ZeroPad(const SpatialSizes& padding) : PadLayer("ZeroPad", kSpatial, padding, PadMode::constant) {}
};
/// The inside mirrored at its edge, which is not repeated.
template <int kSpatial>
class ReflectionPad final : public PadLayer {
 public:
  explicit ReflectionPad(const SpatialSizes& padding)
      : PadLayer("ReflectionPad", kSpatial, padding, PadMode::reflect) {}
};
/// The edge repeated.
template <int kSpatial>
class ReplicationPad final : public PadLayer {
 public:
  explicit ReplicationPad(const SpatialSizes& padding)
      : PadLayer("ReplicationPad", kSpatial, padding, PadMode::replicate) {}
};
/// The other end of the dim.
template <int kSpatial>
class CircularPad final : public PadLayer {
 public:
  explicit CircularPad(const SpatialSizes& padding)
      : PadLayer("CircularPad", kSpatial, padding, PadMode::circular) {}
};

using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;
using ZeroPad1d = ZeroPad<1>;
using ZeroPad2d = ZeroPad<2>;
using ZeroPad3d = ZeroPad<3>;
using ReflectionPad1d = ReflectionPad<1>;
using ReflectionPad2d = ReflectionPad<2>;
using ReflectionPad3d = ReflectionPad<3>;
using ReplicationPad1d = ReplicationPad<1>;
using ReplicationPad2d = ReplicationPad<2>;
using ReplicationPad3d = ReplicationPad<3>;
using CircularPad1d = CircularPad<1>;
using CircularPad2d = CircularPad<2>;
using CircularPad3d = CircularPad<3>;

}  // namespace mezzo::nn
