// Printing of tensors as PyTorch prints them: nested brackets, columns of one width, lines of 80 characters,
// large tensors by their edges; then shape, dtype, device.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ostream>

#include "mezzo/core/tensor.h"

namespace mezzo {

namespace {

constexpr std::int64_t kEdge = 3;           // elements shown at each end of a dim of a large tensor
constexpr std::int64_t kElideAbove = 1000;  // tensors up to this many elements are printed whole
constexpr std::size_t kLineWidth = 80;
constexpr int kDigits = 4;  // behind the point
constexpr std::string_view kBegin = "tensor(";

/// The positions of a dim that are shown; -1 stands for what is left out.
std::vector<std::int64_t> shown_positions(std::int64_t size, bool elide) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < size; ++i) {
    if (elide && size > 2 * kEdge && i == kEdge) {
      result.push_back(-1);
      i = size - kEdge;
    }
    result.push_back(i);
  }
  return result;
}

/// The number as text, the same in every locale; NaN is "nan".
std::string number_text(double value, std::chars_format format, int digits) {
  if (std::isnan(value)) return "nan";
  std::array<char, 400> text;  // 309 digits, sign, point and 4 more
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, format, digits).ptr};
}

/// How the numbers of a floating tensor are written: as integers, with 4 digits behind the point, or in
/// scientific notation, whichever those that are shown ask for.
enum class Style : std::uint8_t { integer, fixed, scientific };

Style style_of(const std::vector<double>& numbers) {
  double least = INFINITY, most = 0;
  bool are_integers = true;
  for (const double number : numbers) {
    if (!std::isfinite(number) || number == 0) continue;
    least = std::min(least, std::abs(number));
    most = std::max(most, std::abs(number));
    are_integers = are_integers && number == std::ceil(number);
  }
  if (most == 0) return Style::integer;
  if (most / least > 1000 || most > 1e8 || (!are_integers && least < 1e-4)) return Style::scientific;
  return are_integers ? Style::integer : Style::fixed;
}
Style style_of(const std::vector<std::int64_t>& /*numbers*/) { return Style::integer; }

/// 0, inf and NaN make no column wider, as in PyTorch.
bool counts_for_width(double number) { return std::isfinite(number) && number != 0; }
bool counts_for_width(std::int64_t /*number*/) { return true; }

std::string bare_text(double number, Style style, DType /*dtype*/) {
  if (style == Style::scientific) return number_text(number, std::chars_format::scientific, kDigits);
  if (style == Style::fixed) return number_text(number, std::chars_format::fixed, kDigits);
  return number_text(number, std::chars_format::fixed, 0) + (std::isfinite(number) ? "." : "");
}
std::string bare_text(std::int64_t number, Style /*style*/, DType dtype) {
  if (dtype == DType::boolean) return number != 0 ? "true" : "false";
  return std::to_string(number);
}

/// The values in brackets. T is double for floating tensors, else std::int64_t.
template <class T>
class Brackets {
 public:
  explicit Brackets(const Tensor& tensor)
      : dtype_(tensor.dtype()),
        shape_(tensor.shape()),
        values_(tensor.to_vector<T>()),
        elide_(tensor.numel() > kElideAbove) {
    std::vector<T> shown;
    collect(0, 0, shown);
    style_ = style_of(shown);
    for (const T value : shown) {
      if (counts_for_width(value)) width_ = std::max(width_, bare_text(value, style_, dtype_).size());
    }
  }
  [[nodiscard]] std::string text(std::size_t indent) const { return dim_text(0, 0, indent); }

 private:
  [[nodiscard]] std::int64_t step_of(std::size_t dim) const {
    std::int64_t step = 1;
    for (std::size_t d = dim + 1; d < shape_.size(); ++d) step *= shape_[d];
    return step;
  }
  void collect(std::size_t dim, std::int64_t first, std::vector<T>& shown) const {
    if (dim == shape_.size()) {
      shown.push_back(values_[static_cast<std::size_t>(first)]);
      return;
    }
    for (const std::int64_t i : shown_positions(shape_[dim], elide_)) {
      if (i >= 0) collect(dim + 1, first + i * step_of(dim), shown);
    }
  }
  /// Padded from the left.
  [[nodiscard]] std::string number_at(std::int64_t position) const {
    const std::string number = bare_text(values_[static_cast<std::size_t>(position)], style_, dtype_);
    return std::string(width_ - std::min(width_, number.size()), ' ') + number;
  }
  [[nodiscard]] std::string row_text(std::int64_t first, std::size_t indent) const {
    const std::size_t room = kLineWidth > indent ? kLineWidth - indent : 0;
    const std::size_t per_line = std::max<std::size_t>(1, room / (width_ + 2));
    std::string text = "[";
    std::size_t in_line = 0;
    for (const std::int64_t i : shown_positions(shape_.back(), elide_)) {
      if (in_line == per_line) {
        text += ",\n" + std::string(indent + 1, ' ');
        in_line = 0;
      } else if (in_line > 0) {
        text += ", ";
      }
      text += i < 0 ? " ..." : number_at(first + i);
      ++in_line;
    }
    return text + "]";
  }
  [[nodiscard]] std::string dim_text(std::size_t dim, std::int64_t first, std::size_t indent) const {
    if (shape_.empty()) return number_at(first);
    const std::size_t below = shape_.size() - dim - 1;
    if (below == 0) return row_text(first, indent);
    std::string text = "[";
    for (const std::int64_t i : shown_positions(shape_[dim], elide_)) {
      if (i != 0) text += "," + std::string(below, '\n') + std::string(indent + 1, ' ');
      text += i < 0 ? "..." : dim_text(dim + 1, first + i * step_of(dim), indent + 1);
    }
    return text + "]";
  }

  DType dtype_;
  Shape shape_;
  std::vector<T> values_;
  bool elide_;
  Style style_ = Style::integer;
  std::size_t width_ = 1;
};

std::string values_text(const Tensor& tensor, std::size_t indent) {
  if (tensor.numel() == 0) return "[]";
  return is_floating(tensor.dtype()) ? Brackets<double>(tensor).text(indent)
                                     : Brackets<std::int64_t>(tensor).text(indent);
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "(undefined tensor)";
  std::string text(kBegin);
  text += values_text(tensor, kBegin.size()) + ", shape=" + to_string(tensor.shape()) +
          ", dtype=" + to_string(tensor.dtype());
  if (!tensor.device().is_cpu()) text += ", device=" + to_string(tensor.device());
  if (tensor.requires_grad()) text += ", requires_grad=true";
  return text + ")";
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << to_string(tensor); }
std::ostream& operator<<(std::ostream& stream, const Dims& dims) { return stream << to_string(dims); }
std::ostream& operator<<(std::ostream& stream, DType dtype) { return stream << to_string(dtype); }
std::ostream& operator<<(std::ostream& stream, Device device) { return stream << to_string(device); }

}  // namespace mezzo
