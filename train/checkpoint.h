// Checkpoints: all that a training needs to go on bit for bit, in one safetensors file that Python reads,
// too.
//   const train::Parts parts{{"model", net}, {"optimizer", adam}, {"scaler", scaler}, {"schedule", schedule},
//                            {"random", default_generator()}, {"loader", loader}, {"step", step}};
//   train::save_checkpoint("run/last.safetensors", parts);
//   train::load_checkpoint("run/last.safetensors", parts);
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/core/value.h"
#include "mezzo/io/tensor_file.h"
#include "mezzo/nn/module.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::train {

/// The state that a part of a training hands to a checkpoint.
struct PartState {
  Value value;               ///< null where there is none
  nn::NamedTensors tensors;  ///< may share memory with the part
};

namespace detail {

/// Functions that save and load the state of an object of any type.
struct PartAccess {
  mezzo::detail::Function<PartState()> save;
  mezzo::detail::Function<void(const PartState&)> load;
  nn::Module* module = nullptr;  ///< the object, if it is one
  bool has_value = false, has_tensors = false;
};

template <class T>
concept HasStateDict = requires(T& object) {
  object.load_state_dict(object.state_dict());
};

PartAccess access(nn::Module& module);
PartAccess access(Generator& generator);
PartAccess access(Value& value);
PartAccess access(Tensor& tensor);
PartAccess access(std::int64_t& number);
PartAccess access(int& number);
PartAccess access(double& number);
PartAccess access(bool& flag);
PartAccess access(std::string& text);

template <class T>
requires(HasStateDict<T> && !std::derived_from<T, nn::Module>) PartAccess access(T& object) {
  using State = std::remove_cvref_t<decltype(object.state_dict())>;
  constexpr bool kOptimizer = std::same_as<State, optim::OptimizerState>;
  constexpr bool kValue = std::same_as<State, Value>;
  static_assert(kOptimizer || kValue || std::same_as<State, nn::NamedTensors>,
                "state_dict() of a part returns a Value, named tensors or an OptimizerState");
  PartAccess access{.save = {}, .load = {}, .has_value = kValue || kOptimizer, .has_tensors = !kValue};
  access.save = [&object]() -> PartState {
    if constexpr (kOptimizer) {
      State state = object.state_dict();
      return {std::move(state.options), std::move(state.tensors)};
    } else if constexpr (kValue) {
      return {object.state_dict(), {}};
    } else {
      return {{}, object.state_dict()};
    }
  };
  access.load = [&object](const PartState& state) {
    if constexpr (kOptimizer)
      object.load_state_dict({state.value, state.tensors});
    else if constexpr (kValue)
      object.load_state_dict(state.value);
    else
      object.load_state_dict(state.tensors);
  };
  return access;
}

}  // namespace detail

/// One thing that a checkpoint holds, by reference: a module; anything with state_dict() and
/// load_state_dict() whose state is a Value (scaler, schedules, a loader), named tensors (averages) or an
/// OptimizerState; a Generator; a program's own Value, number, bool, string or tensor.
class Part {
 public:
  /// Tensors are named "<name>.<tensor>"; under an empty name as they are, which suits a model.
  template <class T>
  Part(std::string name, T& object) : name_(std::move(name)), access_(detail::access(object)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const detail::PartAccess& access() const noexcept { return access_; }
  /// The Part under another name.
  [[nodiscard]] Part renamed(std::string name) const {
    Part part = *this;
    part.name_ = std::move(name);
    return part;
  }

 private:
  std::string name_;
  detail::PartAccess access_;
};
using Parts = std::vector<Part>;

struct SaveCheckpointOptions {
  /// Save the gradients of modules where there are some, as in the middle of an accumulation. To keep a
  /// checkpoint small, drop them first (zero_grad) or set this to false.
  bool gradients = true;
  /// Bytes of tensors in a file; more go into several, in Hugging Face's layout (io::TensorFile::save), where
  /// a killed process can leave neither the former files nor the new ones. None: one file of any size.
  std::optional<std::uint64_t> max_shard_size = {};
  /// More strings about the file, as safetensors has them.
  io::Metadata metadata = {};
};

/// Writes all parts into one file, all or nothing: a full disk or the end of the process at any moment leaves
/// the file that was there. Names and shapes are PyTorch's; what is no tensor is JSON in the file's metadata.
/// Throws: ValueError for parts of one name or with common names of tensors; IoError.
void save_checkpoint(const std::string& path, const Parts& parts, const SaveCheckpointOptions& options = {});

struct LoadCheckpointOptions {
  /// Refuse parts and tensors that the file lacks, and those that only the file has.
  bool strict = true;
  /// Except for names that begin so, as "callback.": they are in the report, and stay as they are.
  std::string optional = {};
};

/// Restores the parts. Tensors keep their identity, dtype and device, so a checkpoint of the CPU loads on
/// CUDA and the other way round. Gradients are replaced by the file's. A file without values (written by
/// Python, say) loads tensors. Returns what was left: parts and tensors that the file lacks, and names that
/// only the file has. Throws: ValueError with all names that are missing, unexpected or do not fit, in one
/// list, and for a newer format; IoError for a file that is damaged; what a part's load_state_dict throws.
/// All parts are then as they were.
nn::LoadReport load_checkpoint(const std::string& path, const Parts& parts,
                               const LoadCheckpointOptions& options = {});

namespace detail {
/// The content of a checkpoint. Its tensors share memory with the parts.
[[nodiscard]] io::TensorFile checkpoint_of(const Parts& parts, const SaveCheckpointOptions& options);
}  // namespace detail

}  // namespace mezzo::train
