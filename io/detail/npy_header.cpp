// A small parser of Python's literals: strings, True and False, tuples of whole numbers. Nothing else is
// understood, and nothing is evaluated.
#include "mezzo/io/detail/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file_kind.h"

namespace mezzo::io::detail {

namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
/// NumPy's own limit on headers that it reads; more than a structured dtype of many fields needs.
constexpr std::size_t kMaxNpyHeader = 10'000;
constexpr std::size_t kNpyAlignment = 64;
/// Room that NumPy leaves for the first size to grow into.
constexpr std::size_t kGrowthDigits = 21;

struct NpyDType {
  DType dtype;
  std::string_view code, name;  ///< NumPy reads both, and writes the code
  bool is_unsigned = false;
};
constexpr std::array<NpyDType, 12> kNpyDTypes{{{DType::f16, "f2", "float16"},
                                               {DType::f32, "f4", "float32"},
                                               {DType::f64, "f8", "float64"},
                                               {DType::i8, "i1", "int8"},
                                               {DType::i16, "i2", "int16"},
                                               {DType::i32, "i4", "int32"},
                                               {DType::i64, "i8", "int64"},
                                               {DType::u8, "u1", "uint8"},
                                               {DType::boolean, "b1", "bool"},
                                               {DType::i16, "u2", "uint16", true},
                                               {DType::i32, "u4", "uint32", true},
                                               {DType::i64, "u8", "uint64", true}}};

/// A dtype that mezzo does not have: its name, and what to do about it.
struct Foreign {
  std::string_view name, fix;
};
Foreign foreign_dtype(char kind) {
  switch (kind) {
    case 'O':
      return {"Python objects, which are pickled and never read", "save numbers: x.astype(numpy.float32)"};
    case 'U':
    case 'S':
    case 'a':
      return {"strings", "save numbers, and the strings in a text file"};
    case 'V':
      return {"raw or structured records", "save each field as an array of its own"};
    case 'c':
      return {"complex numbers", "save real and imaginary part as two arrays"};
    case 'M':
    case 'm':
      return {"dates or times", "save x.astype(numpy.int64)"};
    default:
      return {"another dtype", "save x.astype(numpy.float32)"};
  }
}

class NpyParser {
 public:
  NpyParser(const ByteSource& source, const std::string& what, std::string_view text)
      : source_(source), what_(what), text_(text) {}

  void parse(NpyHeader& header) {
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (peek() != '}') {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !has_descr) {
        has_descr = true;
        read_dtype(header);
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.is_fortran = boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        read_shape(header);
      } else {
        fail("the key " + quote(key) +
             (key == "descr" || key == "fortran_order" || key == "shape" ? " twice" : ""));
      }
      if (peek() == ',')
        ++at_;
      else if (peek() != '}')
        fail_character();
    }
    ++at_;
    if (peek() != '\0' || at_ != text_.size()) fail("more behind the dict");
    if (!has_descr || !has_order || !has_shape)
      fail(std::string("no key \"") + (!has_descr ? "descr" : !has_order ? "fortran_order" : "shape") + "\"");
  }

 private:
  [[noreturn]] void fail(const std::string& got) const {
    throw IoError(source_.op(), "a header {'descr': ..., 'fortran_order': ..., 'shape': ...}" + what_,
                  got + " at character " + std::to_string(at_ + 1) + " of it", "write it with numpy.save");
  }
  [[noreturn]] void fail_character() const {
    fail(at_ < text_.size() ? quote(text_.substr(at_, 1)) : "its end");
  }

  /// The next character that is no space, or 0 at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void expect(char wanted) {
    if (peek() != wanted || at_ == text_.size()) fail_character();
    ++at_;
  }
  bool skip_word(std::string_view word) {
    static_cast<void>(peek());
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  /// A string without escapes, which no header needs.
  std::string_view string() {
    const char mark = peek();
    if (mark != '\'' && mark != '"') fail_character();
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != mark && text_[at_] != '\\' && text_[at_] != '\n') ++at_;
    if (at_ == text_.size() || text_[at_] != mark) fail_character();
    return text_.substr(begin, at_++ - begin);
  }

  bool boolean() {
    if (skip_word("True")) return true;
    if (!skip_word("False")) fail_character();
    return false;
  }

  std::int64_t integer() {
    static_cast<void>(peek());
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) fail_character();
    if (error != std::errc() || value < 0) fail("a size outside of 0 to 2^63 - 1");
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 writes long integers
    return value;
  }

  void read_dtype(NpyHeader& header) {
    if (peek() == '[') refuse_dtype("of a structured array", foreign_dtype('V'));
    std::string_view code = string();
    const std::string shown = quote(code);
    const char order = code.empty() ? '\0' : code.front();
    if (order == '<' || order == '>' || order == '=' || order == '|') code.remove_prefix(1);
    const auto row = std::find_if(kNpyDTypes.begin(), kNpyDTypes.end(), [&](const NpyDType& one) {
      return one.code == code || (one.name == code && !code.empty() && code.front() == order);
    });
    if (row == kNpyDTypes.end()) refuse_dtype(shown, foreign_dtype(code.empty() ? '\0' : code.front()));
    header.dtype = row->dtype;
    header.is_unsigned = row->is_unsigned;
    header.is_big_endian = order == '>';
  }

  [[noreturn]] void refuse_dtype(const std::string& shown, const Foreign& foreign) const {
    throw IoError(
        source_.op(),
        "elements of dtype float16, float32, float64, int8 to int64, uint8 to uint64 or bool" + what_,
        "dtype " + shown + ": " + std::string(foreign.name), foreign.fix);
  }

  void read_shape(NpyHeader& header) {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (peek() != ')') {
      sizes.push_back(integer());
      if (peek() == ',')
        ++at_;
      else if (peek() != ')' || sizes.size() == 1)
        fail_character();
    }
    ++at_;
    if (sizes.size() > static_cast<std::size_t>(kMaxDims)) {
      throw IoError(source_.op(), "at most " + std::to_string(kMaxDims) + " dims" + what_,
                    std::to_string(sizes.size()), "reshape the array");
    }
    if (checked_count(sizes) < 0) {
      throw IoError(source_.op(), "a shape of fewer than 2^60 elements" + what_, to_string(sizes),
                    "write it with numpy.save");
    }
    header.shape = Shape(std::span<const std::int64_t>(sizes));
  }

  const ByteSource& source_;
  const std::string& what_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader read_npy_header(ByteSource& source, const std::string& what) {
  std::array<std::byte, 8> begin{};
  source.read(begin);
  const std::string_view magic(reinterpret_cast<const char*>(begin.data()), kNpyMagic.size());
  if (magic != kNpyMagic) {
    refuse_other_file(source.op(), "a .npy array" + what, begin);
    throw IoError(source.op(), "a .npy array" + what, "other bytes", "write it with numpy.save");
  }
  const int version = std::to_integer<int>(begin[6]);
  if (version < 1 || version > 3 || begin[7] != std::byte{0}) {
    throw IoError(source.op(), "format 1.0, 2.0 or 3.0" + what,
                  std::to_string(version) + "." + std::to_string(std::to_integer<int>(begin[7])),
                  "write it with numpy.save");
  }
  std::array<std::byte, 4> number{};
  const std::size_t width = version == 1 ? 2 : 4;
  source.read(std::span(number).first(width));
  std::size_t length = 0;
  for (std::size_t i = width; i-- > 0;) length = length * 256 + std::to_integer<std::size_t>(number[i]);
  if (length > kMaxNpyHeader) {
    throw IoError(source.op(), "a header of at most " + std::to_string(kMaxNpyHeader) + " bytes" + what,
                  std::to_string(length), "write it with numpy.save");
  }
  std::string text(length, '\0');
  source.read(std::as_writable_bytes(std::span(text)));
  NpyHeader header{.shape = {}, .size = begin.size() + width + length};
  NpyParser(source, what, text).parse(header);
  return header;
}

std::string npy_header(std::string_view op, DType dtype, const Shape& shape) {
  const auto row = std::find_if(kNpyDTypes.begin(), kNpyDTypes.end(), [&](const NpyDType& one) {
    return one.dtype == dtype;
  });  // the first is signed
  if (row == kNpyDTypes.end()) {
    throw DTypeError(op, "a dtype that NumPy has", to_string(dtype), "convert it with .to(DType::f32)");
  }
  std::string dict = std::string("{'descr': '") + (size_of(dtype) == 1 ? '|' : '<') + std::string(row->code) +
                     "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) dict += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  if (!shape.empty()) dict.append(kGrowthDigits - std::to_string(shape[0]).size(), ' ');
  const std::size_t before = kNpyMagic.size() + 4;  // version, and the length in two bytes
  dict.append(kNpyAlignment - (before + dict.size() + 1) % kNpyAlignment, ' ');
  dict += '\n';
  std::string text(kNpyMagic);
  text += {'\x01', '\x00', static_cast<char>(dict.size() & 0xFFU), static_cast<char>(dict.size() >> 8U)};
  return text + dict;
}

}  // namespace mezzo::io::detail
