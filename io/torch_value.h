// The content of a file of PyTorch's torch.save: tensors in dicts, lists and tuples, with numbers and strings
// between them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/named_tensors.h"
#include "mezzo/io/torch_kind.h"

namespace mezzo::io {

namespace detail {
struct TorchTree;
}

/// A value of Python's, as load_torch returns it: None, bool, int, float, str, list, tuple, dict or a tensor.
///   const io::TorchValue checkpoint = io::load_torch("run.pt");
///   net.load_state_dict(checkpoint["model"].tensors());
///   const double lr = checkpoint["optimizer"]["param_groups"][0]["lr"].as_double();
/// A handle: copies share what was loaded.
class TorchValue {
 public:
  using NamedTensors = mezzo::NamedTensors;
  using Kind = TorchKind;

  /// None.
  TorchValue() noexcept = default;
  TorchValue(std::shared_ptr<const detail::TorchTree> tree, std::uint32_t number) noexcept
      : tree_(std::move(tree)), number_(number) {}

  [[nodiscard]] Kind kind() const noexcept;
  [[nodiscard]] bool is_none() const noexcept { return kind() == Kind::none; }
  [[nodiscard]] bool is_bool() const noexcept { return kind() == Kind::boolean; }
  [[nodiscard]] bool is_int() const noexcept { return kind() == Kind::integer; }
  [[nodiscard]] bool is_double() const noexcept { return kind() == Kind::real; }
  [[nodiscard]] bool is_string() const noexcept { return kind() == Kind::string; }
  [[nodiscard]] bool is_list() const noexcept { return kind() == Kind::list; }
  [[nodiscard]] bool is_tuple() const noexcept { return kind() == Kind::tuple; }
  [[nodiscard]] bool is_map() const noexcept { return kind() == Kind::map; }
  [[nodiscard]] bool is_tensor() const noexcept { return kind() == Kind::tensor; }

  // Each returns what is held and throws ValueError, naming the kind found, where that is something else.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_int() const;
  /// A float or an int.
  [[nodiscard]] double as_double() const;
  /// A str; a torch.dtype is "torch.float32", a torch.device "cuda:0".
  [[nodiscard]] std::string as_string() const;
  [[nodiscard]] Tensor as_tensor() const;

  /// Number of elements of a list, tuple or dict; ValueError on any other kind.
  [[nodiscard]] std::size_t size() const;
  /// Whether a dict has the key. ValueError when this is none.
  [[nodiscard]] bool contains(std::string_view key) const;
  [[nodiscard]] bool contains(std::int64_t key) const;
  /// The value under a key of a dict. Throws: ValueError, listing keys there are, when it is missing or this
  /// is no dict.
  [[nodiscard]] TorchValue at(std::string_view key) const;
  /// Element `index` of a list or tuple, or the value under that number in a dict, as optimizers have them.
  /// Throws: IndexError for a list or tuple that is too short, ValueError as above.
  [[nodiscard]] TorchValue at(std::int64_t index) const;
  TorchValue operator[](std::string_view key) const { return at(key); }
  template <std::integral I>
  TorchValue operator[](I index) const {
    return at(static_cast<std::int64_t>(index));
  }
  /// Key and value of entry `i` of a dict, in the order of the file. Throws: ValueError when this is no dict,
  /// IndexError.
  [[nodiscard]] std::pair<TorchValue, TorchValue> entry(std::size_t i) const;

  /// All tensors in this value, named by the keys and positions that lead there, joined by dots:
  /// "model.fc.weight", "optimizer.state.0.exp_avg". So a state dict of PyTorch's has the names of its keys.
  /// Throws: IoError for two tensors of one name, and for more than 1,048,576 values on the way or
  /// 100,000,000 bytes of names, which lists and keys that are shared may come to.
  [[nodiscard]] NamedTensors tensors() const;

 private:
  [[noreturn]] void refuse(std::string_view member, std::string_view expected) const;
  [[nodiscard]] TorchValue part(std::size_t i) const;
  [[nodiscard]] const std::vector<std::uint32_t>& parts() const;
  /// Position of the value under the key in `parts`, or 0.
  template <class Key>
  [[nodiscard]] std::size_t find(Key key) const;
  template <class Key>
  [[nodiscard]] TorchValue at_key(Key key, const std::string& shown) const;

  std::shared_ptr<const detail::TorchTree> tree_;
  std::uint32_t number_ = 0;
};

}  // namespace mezzo::io
