// Printing of tensors: values in nested brackets, long dims elided in the middle, then dtype, shape and
// device.
#include <locale>
#include <ostream>
#include <sstream>

#include "mezzo/core/tensor.h"

namespace mezzo {

namespace {

constexpr std::int64_t kEdge = 3;           // elements shown at each end of an elided dim
constexpr std::int64_t kElideAbove = 1000;  // tensors up to this many elements are printed whole

/// T is double for floating tensors, else std::int64_t.
template <class T>
void print_dim(std::ostream& out, const Tensor& tensor, const std::vector<T>& values, std::size_t dim,
               std::int64_t first, bool elide) {
  if (dim == tensor.shape().size()) {
    const T value = values[static_cast<std::size_t>(first)];
    if (tensor.dtype() == DType::boolean)
      out << (value != 0 ? "true" : "false");
    else
      out << value;
    return;
  }
  std::int64_t step = 1;
  for (std::size_t i = dim + 1; i < tensor.shape().size(); ++i) step *= tensor.shape()[i];
  const std::int64_t size = tensor.shape()[dim];
  const bool innermost = dim + 1 == tensor.shape().size();
  const std::string separator = innermost ? ", " : ",\n" + std::string(dim + 1, ' ');
  out << '[';
  for (std::int64_t i = 0; i < size; ++i) {
    if (i > 0) out << separator;
    if (elide && size > 2 * kEdge && i == kEdge) {
      out << "...";
      i = size - kEdge - 1;
      continue;
    }
    print_dim(out, tensor, values, dim + 1, first + i * step, elide);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  if (!tensor.defined()) return stream << "(undefined tensor)";
  std::ostringstream text;  // the caller's format flags and locale stay out of it
  text.imbue(std::locale::classic());
  const bool elide = tensor.numel() > kElideAbove;
  if (is_floating(tensor.dtype()))
    print_dim(text, tensor, tensor.to_vector<double>(), 0, 0, elide);
  else
    print_dim(text, tensor, tensor.to_vector<std::int64_t>(), 0, 0, elide);
  text << ' ' << to_string(tensor.dtype()) << ' ' << to_string(tensor.shape());
  if (!tensor.device().is_cpu()) text << ' ' << to_string(tensor.device());
  if (tensor.requires_grad()) text << " requires_grad";
  return stream << text.str();
}

std::string to_string(const Tensor& tensor) {
  std::ostringstream text;
  text << tensor;
  return text.str();
}

}  // namespace mezzo
