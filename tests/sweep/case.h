// One call of one op as the sweep sees it, the values it runs on, and what running it gives. All checks are
// made of these.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/autograd/registry.h"

namespace mezzo::sweep {

/// A call of an op: its inputs described, its attributes given.
struct Case {
  const RegistryEntry* op;
  std::string label;  ///< "op sample 2"
  std::vector<SampleInput> inputs;
  Value attrs;
  std::uint64_t key = 0;  ///< what the values are drawn from

  [[nodiscard]] const OpInfo& info() const { return op->info(); }
};

/// The op's samples as cases, values drawn from its name.
[[nodiscard]] std::vector<Case> cases_of(const RegistryEntry& op);

/// Inputs of a case: real ones in `dtype`, deterministic, without history; absent ones undefined. With an
/// integer dtype real inputs are small integers within their range (none below 0 for u8 and bool).
[[nodiscard]] Tensors make_inputs(const Case& one, DType dtype);
/// The same values in other dtypes: entry i says which (only real inputs are converted).
[[nodiscard]] Tensors converted(const Case& one, const Tensors& inputs, const std::vector<DType>& dtypes);
[[nodiscard]] Tensors converted(const Case& one, const Tensors& inputs, DType dtype);
/// The same tensors on `device`; undefined ones stay.
[[nodiscard]] Tensors moved(const Tensors& tensors, Device device);
/// The CPU, and a CUDA device if there is one.
[[nodiscard]] std::vector<Device> devices();
/// Whether input i is a real number (kinds real and distinct).
[[nodiscard]] bool is_real(const SampleInput& input);

/// Uniform in [-1, 1], fixed by shape and `stream`: upstream gradients and directions.
[[nodiscard]] Tensor direction(const Shape& shape, DType dtype, std::uint64_t stream);

using Function = std::function<Outputs(Inputs)>;
/// The op itself, or its reference.
[[nodiscard]] Function forward_of(const Case& one);
[[nodiscard]] Function reference_of(const Case& one);
[[nodiscard]] Outputs call(const Function& function, const Tensors& inputs);

/// Outputs of a call, and the gradients of sum_i sum(output_i * direction_i) for the inputs that have one
/// (undefined elsewhere, or when nothing flows).
struct Result {
  Tensors outputs;
  Tensors gradients;
};
/// How a tensor that is not contiguous lies: dims stored in reverse order, every second index of a larger
/// storage, or channels-last (those of other than 3 to 5 dims row-major).
enum class Stride : std::uint8_t { reversed, spread, channels_last };
/// Runs a function on leaves of the same values, with upstream gradients that lie so; row-major otherwise.
[[nodiscard]] Result run(const Case& one, const Function& function, const Tensors& inputs,
                         std::optional<Stride> upstream = {});

/// The same values in a tensor that lies so. A leaf without history.
[[nodiscard]] Tensor strided_copy(const Tensor& x, Stride stride);
/// The same of each tensor that is defined.
[[nodiscard]] Tensors strided_copies(const Tensors& inputs, Stride stride);

}  // namespace mezzo::sweep
