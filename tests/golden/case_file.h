// One golden file in memory: its metadata, and its tensors as mezzo's. Shared by the runners of all kinds, so
// that none of them knows the file format.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "mezzo/core/tensor.h"
#include "mezzo/core/value.h"
#include "mezzo/io/safetensors.h"

namespace mezzo::golden {

/// A golden asks for something that mezzo has not (an op, a dtype, an optimizer). Such cases are counted
/// apart and never as passed.
class NotSupported : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A value differs from the golden's, or mezzo refused what it should do.
class Mismatch : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A `*.safetensors` golden. Throws IoError or ValueError when it is none.
class CaseFile {
 public:
  explicit CaseFile(const std::string& path);

  [[nodiscard]] const std::string& kind() const noexcept { return kind_; }
  [[nodiscard]] const std::string& op() const noexcept { return op_; }
  /// The PyTorch expression of an op file; empty in others.
  [[nodiscard]] const std::string& expr() const noexcept { return expr_; }
  [[nodiscard]] std::size_t num_cases() const noexcept { return cases_.size(); }

  /// Metadata of a case.
  [[nodiscard]] const Value& meta(std::size_t index) const { return cases_.at(index); }
  /// Whether "caseN.<name>" is stored.
  [[nodiscard]] bool has(std::size_t index, std::string_view name) const;
  /// What follows "caseN.<prefix>" in the names that begin so, in the order of the file.
  [[nodiscard]] std::vector<std::string> names_after(std::size_t index, std::string_view prefix) const;
  /// The stored tensor "caseN.<name>", a new leaf. NotSupported for a dtype that mezzo has not.
  [[nodiscard]] Tensor tensor(std::size_t index, std::string_view name) const;
  /// A tensor of the file by its full name, as raw bytes.
  [[nodiscard]] const io::SafeTensors::Entry& raw(std::string_view name) const { return file_.at(name); }

 private:
  io::SafeTensors file_;
  std::string kind_, op_, expr_;
  std::vector<Value> cases_;
};

/// Names in a case's metadata, as strings ("inputs", "grads", ...); empty when there is no such list.
[[nodiscard]] std::vector<std::string> strings(const Value& meta, std::string_view key);

/// Where the goldens run: all their tensors are put there. The CPU unless set.
[[nodiscard]] Device run_device();
void set_run_device(Device device);

/// A contiguous tensor with these bytes, on run_device().
[[nodiscard]] Tensor tensor_of(const io::SafeTensors::Entry& entry);

}  // namespace mezzo::golden
