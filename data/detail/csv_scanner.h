// The fields of CSV text, one after the other. Not for use outside of data.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mezzo::data::detail {

/// A walk over text in memory. A field's text is valid until the next one is taken.
class CsvScanner {
 public:
  /// From `comment` on, where there is one and outside of quotes, the rest of a line is passed over.
  CsvScanner(std::string op, std::string_view text, char delimiter, char quote,
             std::optional<char> comment = {});

  /// Goes to the next row, past empty lines and those of a comment alone. False at the end.
  bool next_row();
  /// The next field of the row. Throws: IoError, see read_csv.
  [[nodiscard]] std::string_view next_field() {
    field_ = at_;
    if (at_ < text_.size() && text_[at_] == quote_) return quoted_field();
    std::size_t end = at_;
    while (end < text_.size() && !ends_field_[static_cast<unsigned char>(text_[end])]) ++end;
    at_ = end;
    end_field();
    return text_.substr(field_, end - field_);
  }
  /// Whether the field taken last was the row's last.
  [[nodiscard]] bool row_ended() const noexcept { return row_ended_; }

  [[nodiscard]] const std::string& op() const noexcept { return op_; }
  /// "line 7": of the row, or of the field taken last. Counted from 1, by a walk over the text.
  [[nodiscard]] std::string row_place() const { return place(row_); }
  [[nodiscard]] std::string field_place() const { return place(field_); }

 private:
  [[nodiscard]] std::string_view quoted_field();
  /// Steps over what ends the field that has been walked over.
  void end_field() {
    if (at_ < text_.size() && text_[at_] == delimiter_) {
      ++at_;
      return;
    }
    row_ended_ = true;
    skip_comment();
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;  // alone, or before a line feed
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
  }
  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\r' && text_[at_] != '\n') ++at_;
  }
  [[nodiscard]] std::string place(std::size_t offset) const;

  std::string op_;
  std::string_view text_;
  char delimiter_, quote_;
  std::optional<char> comment_;
  std::array<bool, 256> ends_field_{};
  std::size_t at_ = 0, row_ = 0, field_ = 0;
  bool row_ended_ = false;
  std::string unquoted_;
};

}  // namespace mezzo::data::detail
