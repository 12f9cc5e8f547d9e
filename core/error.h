// The typed errors of mezzo. Every message has one form: `op: expected ..., got ...; fix`. They live in one
// place so that a caller can catch by kind and read the parts, and so that all devices and layers speak
// alike.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "mezzo/core/host_device.h"

namespace mezzo {

/// Base of everything mezzo throws for a user's mistake or a failing resource. `what()` is
/// "op: expected E, got G; fix" (without the last part when `fix` is empty), on one line: control characters
/// of names and paths read "\n" or "\x1b". Thrown in the forward of a module that was called, it reads "...,
/// got G in Block 'encoder.0'; fix".
class Error : public std::runtime_error {
 public:
  Error(std::string_view op, std::string_view expected, std::string_view got, std::string_view fix);
  /// The op or function that refused.
  [[nodiscard]] const std::string& op() const noexcept { return op_; }
  /// The values that would have been right.
  [[nodiscard]] const std::string& expected() const noexcept { return expected_; }
  /// The value that was given, and the place: "[3]", "[3] in Block 'encoder.0'".
  [[nodiscard]] const std::string& got() const noexcept { return got_; }
  /// What to do about it.
  [[nodiscard]] const std::string& fix() const noexcept { return fix_; }
  /// The innermost module in whose call it was thrown, "Block 'encoder.0'"; in backward "the gradient of op".
  /// Empty: neither.
  [[nodiscard]] const std::string& place() const noexcept { return place_; }
  /// Sets the place, which becomes part of what was got, unless there is one.
  void set_place(std::string_view place);

 private:
  std::string op_, expected_, got_, fix_, place_;
};

/// Sizes or ranks that do not fit, dims out of range.
class ShapeError : public Error {
  using Error::Error;
};
/// A dtype that the op does not take.
class DTypeError : public Error {
  using Error::Error;
};
/// Tensors on different devices, or a device that is not there.
class DeviceError : public Error {
  using Error::Error;
};
/// An index outside of the tensor it addresses.
class IndexError : public Error {
  using Error::Error;
};
/// An argument value that makes no sense (negative step, unknown reduction, ...).
class ValueError : public Error {
  using Error::Error;
};
/// Misuse of the recorded graph: backward twice, a modified saved tensor, in-place on a leaf, ...
class AutogradError : public Error {
  using Error::Error;
};
/// Calls in an order that an object's state machine forbids (GradScaler above all).
class StateError : public Error {
  using Error::Error;
};
/// The allocator could not serve a request.
class OutOfMemoryError : public Error {
  using Error::Error;
};
/// Files that cannot be read, written or understood.
class IoError : public Error {
  using Error::Error;
};

/// "[2, 3]": how shapes and lists of dims appear in messages.
[[nodiscard]] std::string to_string(std::span<const std::int64_t> values);
/// "0.5", "1e+300": the shortest text that reads back as the number.
[[nodiscard]] std::string number_text(double value);

}  // namespace mezzo
