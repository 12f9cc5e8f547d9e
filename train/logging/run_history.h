// What plots and reports know of a run: a thinned series per name, and texts. It is saved in the page itself,
// so that a resumed run goes on with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/value.h"
#include "mezzo/train/logging/thin_series.h"
#include "mezzo/train/sink.h"

namespace mezzo::train::detail {

class RunHistory {
 public:
  struct Series {
    std::string name;
    ThinSeries points;
  };

  /// Adds the values of a record whose names `wanted` has, or all when it is empty. Where a count of skipped
  /// steps has grown, that step becomes a 1 of the series "skipped", which else holds 0.
  void add(const LogRecord& record, const std::vector<std::string>& wanted = {});
  /// A text takes the place of an earlier one of its name.
  void set_text(std::string_view name, const Value& value, double time);
  /// Forgets what is later than the step.
  void drop_after(std::int64_t step);

  [[nodiscard]] const std::vector<Series>& series() const noexcept { return series_; }
  [[nodiscard]] const Series* find(std::string_view name) const noexcept;
  [[nodiscard]] const std::vector<std::pair<std::string, Value>>& texts() const noexcept { return texts_; }
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  [[nodiscard]] double started() const noexcept { return started_; }  ///< seconds since 1970; 0: nothing yet
  [[nodiscard]] double time() const noexcept { return time_; }        ///< of the last record

  /// JSON, values with the precision of f32, without characters that mean something in HTML or XML.
  [[nodiscard]] std::string saved() const;
  /// What `saved` wrote. Throws: IoError, with the op, for anything else.
  [[nodiscard]] static RunHistory parse(std::string_view text, const std::string& op);
  /// The history in a file that a sink wrote (between `kDataBegin` and the next '<'); nothing where there is
  /// no file or an empty one. Throws: IoError for files that have none, or of more than 16 MB.
  [[nodiscard]] static std::optional<RunHistory> load(const std::string& path);

 private:
  Series& series_of(std::string_view name);
  void touch(double time);

  std::vector<Series> series_;
  std::vector<std::pair<std::string, Value>> texts_;
  std::int64_t step_ = 0;
  double started_ = 0, time_ = 0;
};

/// The attribute that the element with the saved history ends its tag with.
inline constexpr std::string_view kDataBegin = "id=\"mezzo-run\">";

/// The last part of a name: "norm" of "grad/norm".
[[nodiscard]] std::string_view last_part(std::string_view name);
/// Whether a value says that its step was skipped ("skipped"), or how many were so far ("steps_skipped").
[[nodiscard]] bool is_skip_flag(std::string_view name);
[[nodiscard]] bool is_skip_count(std::string_view name);

}  // namespace mezzo::train::detail
