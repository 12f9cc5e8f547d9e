// Names of other programs' checkpoints (Hugging Face's, PyTorch's) become the names of a model here.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "mezzo/io/tensor_file.h"

namespace mezzo::io {

/// The change to a tensor besides its name.
enum class Renamed : std::uint8_t {
  as_is,
  transposed,  ///< a matrix with its dims exchanged, as GPT-2's Conv1D keeps weights
  dropped,     ///< left out, as masks that a model makes itself
};

/// One line of a map of names. `from` is
///   * a name: {"wte.weight", "embedding.weight"};
///   * with `*` a name for each layer: a `*` is what stands there up to the next dot, and comes where `to`
///   has
///     one, in the same order: {"h.*.attn.c_proj.weight", "blocks.*.out.weight", io::Renamed::transposed};
///   * with a dot at its end the beginning of names: {"module.", ""}, {"h.*.", "blocks.*."}.
struct RenameRule {
  std::string from;
  std::string to = {};
  Renamed how = Renamed::as_is;
};

/// The tensors under the names that the rules give them, in their order. For each name the first rule that
/// matches counts; a name that none matches stays. Tensors are shared but for those transposed.
///   net.load_state_dict(io::rename(io::load("gpt2.safetensors"), {{"wte.weight", "embedding.weight"},
///   ...}));
/// Throws: ValueError for a rule that is used by no tensor, two tensors that get one name, a `*` that is not
/// followed by a dot or the end, more `*` in `to` than in `from`, and `from` and `to` of which one only ends
/// with a dot; ShapeError for `transposed` of other than 2 dims.
[[nodiscard]] TensorFile::NamedTensors rename(const TensorFile::NamedTensors& tensors,
                                              std::span<const RenameRule> rules);
[[nodiscard]] TensorFile::NamedTensors rename(const TensorFile::NamedTensors& tensors,
                                              std::initializer_list<RenameRule> rules);

}  // namespace mezzo::io
