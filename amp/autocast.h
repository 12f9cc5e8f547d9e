// Autocast: inside a region, ops run in the dtype their category asks for. It sits above autograd, so the
// casts it makes are recorded and every gradient returns in the dtype of the tensor it belongs to.
#pragma once

#include <optional>

#include "mezzo/amp/float8.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/device.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/tensor.h"

namespace mezzo::amp {

struct AutocastOptions {
  bool enabled = true;
  /// Keep the 16-bit copy of a weight for the whole region instead of casting at each use. Default: as
  /// outside the region.
  std::optional<bool> cache_enabled = {};
  /// Products in float8, where the region's dtype is f16 or bf16: `true`, or how (amp/float8.h).
  Fp8Option fp8 = {};
};

/// A region of mixed precision, as long as the object lives:
///   { amp::Autocast autocast(device, DType::f16); loss = mse_loss(net(x), y); }
/// Touches tensors on the device's type that are f32, f16 or bf16; f64, integers and bools pass unchanged.
/// Regions nest, the inner one counts, and one for the CPU leaves one for CUDA alone. State is per thread: a
/// new thread starts outside. Backward needs no region. `enabled = false` makes a region in which nothing is
/// cast. The dtype is f16, bf16 or f32 (ValueError otherwise, and for fp8 with f32); without one, the dtype
/// of the surrounding region, else f16 on CUDA and bf16 on the CPU. Throws: DeviceError when an enabled
/// region's device is not there. Semantics: torch.amp.autocast with the CUDA op lists on all devices. Regions
/// may end in any order, on another thread and after the thread that made them. The end of one region changes
/// nothing about other regions. When another thread ends a region, the thread that made it leaves it at its
/// next op; the state of the thread that ends it does not change.
class Autocast : mezzo::detail::NoCopy {
 public:
  explicit Autocast(Device device, std::optional<DType> dtype = {}, const AutocastOptions& options = {});
  explicit Autocast(DeviceType type, std::optional<DType> dtype = {}, const AutocastOptions& options = {})
      : Autocast(Device{type, 0}, dtype, options) {}
  /// A region for all types of devices.
  explicit Autocast(DType dtype, const AutocastOptions& options = {});
  ~Autocast();

 private:
  mezzo::detail::OpenScope<InputHookState>* scope_;
};

/// Whether the calling thread is in an enabled region for this type of device, and that region's dtype.
[[nodiscard]] bool is_autocast_enabled(DeviceType type);
[[nodiscard]] DType autocast_dtype(DeviceType type);
/// Whether autocast casts this tensor on this thread: in an enabled region for its device, f32, f16 or bf16.
[[nodiscard]] bool is_autocast_eligible(const Tensor& tensor);
/// The tensor as an op of category lower_precision would get it: cast to the dtype of its device's region.
/// The cast is recorded; for a weight it is the copy that the region caches. A tensor that is not eligible is
/// returned as it is. For modules that choose their dtypes themselves and then run ops in a disabled region.
[[nodiscard]] Tensor cast_to_region(const Tensor& tensor);
/// The float8 options of the calling thread's region for this type of device; nullptr: it has none.
[[nodiscard]] const Fp8* autocast_fp8(DeviceType type);
/// Whether weights' 16-bit copies are kept for the region.
[[nodiscard]] bool is_autocast_cache_enabled();

}  // namespace mezzo::amp
