// What a report knows of a run: a thinned series per name, and texts. Its page holds it as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/value.h"
#include "mezzo/train/sink.h"

namespace mezzo::train::detail {

/// Neighbouring points as one: what is seen of them where it is a column of pixels.
struct Bucket {
  std::int64_t begin = 0;                    ///< step of the first point
  double last = 0;                           ///< value of the last one, which need not be finite
  std::int64_t end = 0, count = 0, bad = 0;  ///< its step; number of points; of those that are not finite
  double sum = 0, least = 0, largest = 0;    ///< of the finite ones; NaN where there is none
};

/// Fewer than kCapacity buckets of as many points each; when they would be more, pairs become one.
struct Series {
  static constexpr std::size_t kCapacity = 360;
  std::string name;
  std::vector<Bucket> buckets = {};
  std::int64_t stride = 1;  ///< points of a full bucket

  void add(const Bucket& bucket);
};

struct RunHistory {
  std::vector<Series> series = {};
  Value texts = Value::Map{};  ///< a string, or a list of rows whose first one has the titles or is empty
  std::int64_t step = 0;
  double started = 0, time = 0;  ///< seconds since 1970, of the first and the last record; 0: nothing yet
  /// The newest of each name: [step, a PNG in base64], or [step, number of elements that are not finite,
  /// least and largest of the others, [how many of these in each of kBins equal parts]].
  Value pictures = Value::Map{};

  /// Where a count of skipped steps ("steps_skipped", "skipped_steps") has grown, the step becomes a 1 of the
  /// series "skipped", which else holds 0. Steps do not go back.
  void add(const LogRecord& record);
  void add(const LogText& text);
  void add(const LogHistogram& histogram);
  /// Leaves an image out, with a warning, where all would be more than kMostImageBytes.
  void add(const LogImage& image);
  void note_time(double seconds);
  /// Forgets what is later than the step. A bucket with later steps goes as a whole.
  void drop_after(std::int64_t last_step);
  /// A map. A bucket is a list of its numbers in the order above, of a single point [step, value].
  [[nodiscard]] Value saved() const;
  /// What `saved` gave, as JSON. Throws: IoError, with the op, for anything else.
  [[nodiscard]] static RunHistory parse(std::string_view text, const std::string& op);
  /// The history in a page, between `kDataBegin` and the next '<'; nothing where there is no file or an empty
  /// one. Throws: IoError for files that have none, or of more than 16 MB.
  [[nodiscard]] static std::optional<RunHistory> load(const std::string& path);
};

inline constexpr std::size_t kBins = 30, kMostImageBytes = 8'000'000;

/// The attribute that the element with the saved history ends its tag with.
inline constexpr std::string_view kDataBegin = "id=\"mezzo-run\">";

}  // namespace mezzo::train::detail
