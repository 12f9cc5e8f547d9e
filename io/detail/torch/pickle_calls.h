// The values of a pickle while it is read: made one by one, and by the few calls that have a meaning here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/dtype.h"
#include "mezzo/io/detail/torch/pickled.h"

namespace mezzo::io::detail {

/// The meaning of a name of one of Python's functions, types and constants that files of torch.save have: all
/// that an unpickler of state dicts needs to tell apart.
enum class PickleName : std::uint8_t {
  ordered_dict,
  counter,
  set,
  size,
  device,
  rebuild_tensor,  ///< before PyTorch 0.4
  rebuild_tensor_v2,
  rebuild_tensor_v3,
  rebuild_parameter,
  rebuild_parameter_with_state,
  rebuild_from_type,
  tensor_type,
  parameter_type,
  storage_type,  ///< with a dtype, or of bytes
  dtype,
};

struct KnownPickleName {
  PickleName kind;
  std::optional<DType> dtype;     ///< of a storage or a dtype, where mezzo has it
  std::string text;               ///< "torch.float32"
  bool is_unsigned = false;       ///< of unsigned integers as large as `dtype`
  std::string_view foreign = {};  ///< "complex64": a dtype that mezzo has not
  std::uint64_t element = 1;      ///< bytes of one
};

/// Fills a Pickled. Each function that makes a value returns its number.
class PickledValues {
 public:
  using Kind = TorchKind;
  using Number = TorchTree::Number;
  // Kinds that no TorchValue has: a name of Python's, the bytes of tensors.
  static constexpr Kind kName = static_cast<Kind>(100), kStorage = static_cast<Kind>(101);

  /// `pickle` names the pickle in messages.
  PickledValues(std::string op, std::string_view pickle, Pickled& result);

  /// The byte of the pickle that messages name.
  void set_place(std::size_t place) noexcept { place_ = place; }
  /// Throws: IoError: `got` at the place.
  [[noreturn]] void fail(const std::string& expected, const std::string& got) const;
  [[nodiscard]] Pickled& result() const noexcept { return result_; }
  [[nodiscard]] Kind kind(Number value) const { return result_.tree.nodes[value].kind; }
  /// "dict", "torch.Size", "storage": a value in messages.
  [[nodiscard]] std::string shown(Number value) const;

  [[nodiscard]] Number none() const noexcept { return 0; }
  [[nodiscard]] Number boolean(bool value) const noexcept { return value ? 2 : 1; }
  Number integer(std::int64_t value);
  Number real(double value);
  Number text(std::string_view value);
  Number container(Kind kind, std::vector<Number> parts);
  /// Appends to a list or map. Throws: IoError where `to` is something else.
  void append(Number to, Kind kind, const std::vector<Number>& values);
  [[nodiscard]] const std::string& text_of(Number value) const;
  /// A function or type of Python's. Throws: IoError for one that is not known, with its name.
  Number name(const std::string& module, const std::string& name);
  /// The name that a dtype is shown by, once nobody calls it any more.
  [[nodiscard]] const KnownPickleName& name_of(Number value) const;
  /// The bytes that a persistent id names.
  Number storage(Number id);
  /// The value that `function` would return for a tuple of arguments.
  Number call(Number function, Number arguments);

 private:
  using Parts = std::vector<Number>;
  Number add(Kind kind);
  [[nodiscard]] const Parts& parts_of(Number value, Kind kind, const std::string& what) const;
  [[nodiscard]] std::int64_t integer_of(Number value, const std::string& what) const;
  [[nodiscard]] Dims dims_of(Number value, const std::string& what) const;
  [[nodiscard]] Number rebuild_tensor(const Parts& arguments, PickleName function);
  [[nodiscard]] Number ordered_dict(const Parts& arguments);
  [[nodiscard]] Number rebuild_from_type(const Parts& arguments);
  [[nodiscard]] Number device(const Parts& arguments);
  [[noreturn]] void fail_call(const std::string& name) const;

  std::string op_, pickle_;
  Pickled& result_;
  std::vector<KnownPickleName> names_;
  std::size_t place_ = 0;
};

}  // namespace mezzo::io::detail
