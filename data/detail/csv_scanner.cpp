// The rare parts of reading CSV text: quotes, and places for messages.
#include "mezzo/data/detail/csv_scanner.h"

#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::data::detail {

CsvScanner::CsvScanner(std::string op, std::string_view text, char delimiter, char quote,
                       std::optional<char> comment)
    : op_(std::move(op)), text_(text), delimiter_(delimiter), quote_(quote), comment_(comment) {
  for (const char end : {delimiter, '\r', '\n', comment.value_or('\n')})
    ends_field_[static_cast<unsigned char>(end)] = true;
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text_.substr(0, kMark.size()) == kMark) at_ = kMark.size();
  const std::string_view start = text_.substr(0, 2);
  if (start == "\xFF\xFE" || start == "\xFE\xFF")
    throw IoError(op_, "text in UTF-8", "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8");
}

bool CsvScanner::next_row() {
  while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == comment_)) {
    skip_comment();
    if (at_ < text_.size()) ++at_;
  }
  row_ = field_ = at_;
  row_ended_ = false;
  return at_ < text_.size();
}

std::string_view CsvScanner::quoted_field() {
  unquoted_.clear();
  std::size_t from = at_ + 1;
  for (;;) {
    const std::size_t end = text_.find(quote_, from);
    if (end == std::string_view::npos) {
      throw IoError(op_, "a closing quote for the field that begins in " + field_place(),
                    "the end of the file", "close the quote, or double a quote that belongs to the text");
    }
    unquoted_.append(text_, from, end - from);
    from = end + 1;
    if (from >= text_.size() || text_[from] != quote_) break;
    unquoted_.push_back(quote_);
    ++from;
  }
  at_ = from;
  if (at_ < text_.size() && !ends_field_[static_cast<unsigned char>(text_[at_])]) {
    throw IoError(op_, "a delimiter or the end of the line behind the closing quote in " + place(at_),
                  "other text", "double a quote that belongs to the text");
  }
  end_field();
  return unquoted_;
}

std::string CsvScanner::place(std::size_t offset) const {
  std::size_t line = 1;
  for (std::size_t i = 0; i < offset; ++i) {
    const bool is_break =
        text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n'));
    if (is_break) ++line;
  }
  return "line " + std::to_string(line);
}

}  // namespace mezzo::data::detail
