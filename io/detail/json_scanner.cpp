// The grammar of JSON. Values nest by recursion, which the limit of levels bounds.
#include "mezzo/io/detail/json_scanner.h"

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/parallel/float_environment.h"
#include "mezzo/core/text/utf8.h"

namespace mezzo::io::detail {

namespace {

bool is_digit(int byte) { return byte >= '0' && byte <= '9'; }

/// Whether a number that double cannot hold is too large and not too small: by the place of its first digit
/// other than 0. `text` is a number of JSON.
bool is_too_large(std::string_view text) {
  const std::size_t e = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, e);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  if (e != std::string_view::npos && text.size() - e > 18) return text[e + 1] != '-';  // no text is so long
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    const std::size_t digits = e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(text.data() + digits, text.data() + text.size(), exponent);
  }
  return static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) + exponent > 0;
}

}  // namespace

JsonScanner::JsonScanner(std::string op, JsonBlocks blocks, const JsonLimits& limits)
    : op_(std::move(op)), blocks_(std::move(blocks)), limits_(limits) {}

std::string JsonScanner::position() const {
  return "line " + std::to_string(line_) + ", column " + std::to_string(bytes_ - line_begin_) + " (byte " +
         std::to_string(bytes_) + ")";
}

void JsonScanner::fail(std::string_view expected, const std::string& got, std::string_view fix) const {
  throw IoError(op_, expected, got + " at " + position(), fix);
}

void JsonScanner::fail_syntax(const std::string& what) const {
  fail("JSON", "syntax error: " + what, "correct the text there");
}

/// Refuses the byte that peek() showed.
void JsonScanner::fail_at(int byte, std::string_view wanted) {
  static_cast<void>(take());
  if (byte == kEnd) fail_syntax("unexpected end of input, where " + std::string(wanted) + " is to stand");
  if (byte == 0) fail("JSON", "a zero byte", "remove it");
  const char text = static_cast<char>(byte);
  fail_syntax(quote({&text, 1}) + ", where " + std::string(wanted) + " is to stand");
}

void JsonScanner::refill() {
  if (text_ended_) return;
  block_ = blocks_(bytes_);
  at_ = 0;
  text_ended_ = block_.empty();
}

int JsonScanner::peek() {
  if (at_ == block_.size()) refill();
  return at_ < block_.size() ? static_cast<unsigned char>(block_[at_]) : kEnd;
}

int JsonScanner::take() {
  const int byte = peek();
  if (line_ended_) {
    ++line_;
    line_begin_ = bytes_;
  }
  line_ended_ = byte == '\n';
  ++bytes_;
  if (byte != kEnd) ++at_;
  return byte;
}

void JsonScanner::skip_mark() {
  if (peek() != 0xEF) return;
  for (const int byte : {0xEF, 0xBB, 0xBF}) {
    if (peek() != byte) fail_at(peek(), "a byte order mark");
    static_cast<void>(take());
  }
}

int JsonScanner::peek_past_space() {
  for (;;) {
    const int byte = peek();
    if (byte != ' ' && byte != '\n' && byte != '\t' && byte != '\r') return byte;
    static_cast<void>(take());
  }
}

void JsonScanner::count_value() {
  if (++values_ > limits_.max_values)
    fail("at most " + std::to_string(limits_.max_values) + " values", "another", "split the file");
}

void JsonScanner::open() {
  count_value();
  static_cast<void>(take());
  if (depth_ >= limits_.max_depth) {
    fail("at most " + std::to_string(limits_.max_depth) + " levels of lists and maps", "another",
         "nest less");
  }
  ++depth_;
}

std::string JsonScanner::read_key() {
  const int byte = peek_past_space();
  if (byte != '"') fail_at(byte, "a key in quotes");
  read_string();
  std::string key = token_;  // of just its length: token_ may have room for twice as much
  const int colon = peek_past_space();
  if (colon != ':') fail_at(colon, "':'");
  static_cast<void>(take());
  return key;
}

char JsonScanner::next() {
  const int byte = peek_past_space();
  const bool begins =
      byte != kEnd && (byte == '-' || is_digit(byte) ||
                       std::string_view("{[\"tfn").find(static_cast<char>(byte)) != std::string_view::npos);
  if (!begins) fail_at(byte, "a value");
  return static_cast<char>(byte);
}

Value JsonScanner::read_scalar() {
  const char first = next();
  count_value();
  if (first == '"') {
    read_string();
    return token_;
  }
  if (first == 't' || first == 'f') {
    read_word(first == 't' ? "true" : "false");
    return first == 't';
  }
  if (first != 'n') return read_number();
  read_word("null");
  return nullptr;
}

Value JsonScanner::checked(Value::Map&& map) const {
  if (const std::string* twice = Value::duplicate_key(map))
    fail("distinct keys", "the key " + quote(*twice) + " twice in the map ending", "remove one");
  return std::move(map);
}

Value JsonScanner::read() {
  skip_mark();
  Value result = value();
  expect_end();
  return result;
}

void JsonScanner::expect_end() {
  if (const int byte = peek_past_space(); byte != kEnd) fail_at(byte, "the end");
}

void JsonScanner::read_word(std::string_view word) {
  for (const char letter : word) {
    if (const int byte = peek(); byte != letter) fail_at(byte, quote(word));
    static_cast<void>(take());
  }
}

void JsonScanner::read_string() {
  static_cast<void>(take());
  token_.clear();
  for (;;) {
    const int byte = peek();
    if (byte == kEnd || byte < 0x20) fail_at(byte, "the rest of a string");
    static_cast<void>(take());
    if (byte == '"') break;
    if (byte == '\\') {
      read_escape();
    } else {
      token_ += static_cast<char>(byte);
    }
  }
  if (!is_valid_utf8(token_)) fail_syntax("a string that is not UTF-8, which ends");
}

unsigned JsonScanner::read_hex() {
  unsigned code = 0;
  for (int i = 0; i < 4; ++i) {
    const int byte = peek();
    const int letter = byte | 0x20;
    if (is_digit(byte)) {
      code = code * 16 + static_cast<unsigned>(byte - '0');
    } else if (byte != kEnd && letter >= 'a' && letter <= 'f') {
      code = code * 16 + static_cast<unsigned>(letter - 'a' + 10);
    } else {
      fail_at(byte, "one of four hexadecimal digits");
    }
    static_cast<void>(take());
  }
  return code;
}

void JsonScanner::read_escape() {
  constexpr std::string_view kLetters = "\"\\/bfnrtu", kMeanings = "\"\\/\b\f\n\r\t";
  const int byte = peek();
  const std::size_t which = byte == kEnd ? std::string_view::npos : kLetters.find(static_cast<char>(byte));
  if (which == std::string_view::npos) fail_at(byte, "what may stand behind a backslash");
  static_cast<void>(take());
  if (which < kMeanings.size()) {
    token_ += kMeanings[which];
    return;
  }
  unsigned code = read_hex();
  if (code >= 0xDC00 && code < 0xE000) fail_syntax("the second half of a surrogate pair without the first");
  if (code >= 0xD800 && code < 0xDC00) {
    for (const char letter : {'\\', 'u'}) {
      if (const int next = peek(); next != letter) fail_at(next, "the second half of a surrogate pair");
      static_cast<void>(take());
    }
    const unsigned low = read_hex();
    if (low < 0xDC00 || low >= 0xE000) fail_syntax("the first half of a surrogate pair without the second");
    code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
  }
  mezzo::detail::append_utf8(token_, code);
}

void JsonScanner::read_digits(std::string_view where) {
  if (const int byte = peek(); !is_digit(byte)) fail_at(byte, where);
  while (is_digit(peek())) token_ += static_cast<char>(take());
}

Value JsonScanner::read_number() {
  token_.clear();
  if (peek() == '-') token_ += static_cast<char>(take());
  if (peek() == '0') {
    token_ += static_cast<char>(take());
    if (is_digit(peek())) fail_at(peek(), "no digit behind a leading 0");
  } else {
    read_digits("a digit");
  }
  bool is_integer = true;
  if (peek() == '.') {
    is_integer = false;
    token_ += static_cast<char>(take());
    read_digits("a digit behind the point");
  }
  if (peek() == 'e' || peek() == 'E') {
    is_integer = false;
    token_ += static_cast<char>(take());
    if (peek() == '+' || peek() == '-') token_ += static_cast<char>(take());
    read_digits("a digit of the exponent");
  }
  return number_value(is_integer);
}

Value JsonScanner::number_value(bool is_integer) const {
  const char* const end = token_.data() + token_.size();
  if (is_integer) {
    std::int64_t value = 0;
    if (std::from_chars(token_.data(), end, value).ec == std::errc()) return value;
  }
  // A file holds the same numbers however the program rounds and whatever it does with subnormals.
  const mezzo::detail::WithFloatEnvironment standard(mezzo::detail::FloatEnvironment::standard());
  double value = 0;
  const bool in_range = std::from_chars(token_.data(), end, value).ec != std::errc::result_out_of_range;
  if (in_range ? std::isfinite(value) : !is_too_large(token_))
    return in_range ? value : (token_.front() == '-' ? -0.0 : 0.0);
  fail("JSON", "number overflow: " + quote(token_, 40), "correct the text there");
}

}  // namespace mezzo::io::detail
