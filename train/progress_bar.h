// ProgressBar: how far a training is, on one line of the terminal.
//    42% ━━━━━━━━╸━━━━━━━━━━  420/1000  12.3 steps/s  0:34<0:47  loss 0.1234  lr 0.001
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/train/sink.h"
#include "mezzo/train/throughput.h"

namespace mezzo::train {

struct ProgressBarOptions {
  std::int64_t total = 0;              ///< steps; 0 where it is not known: then there is no bar and no ETA
  std::vector<std::string> show = {};  ///< names of values, the most important first; default: all
  std::string unit = "steps";
  double seconds = 0.1;               ///< between two redraws of a terminal; at least 0.1
  double plain_seconds = 30;          ///< between two lines where there is no terminal
  int descriptor = 2;                 ///< of the open file that is written to: stderr
  std::optional<bool> terminal = {};  ///< default: isatty, unless TERM is dumb
  std::optional<bool> colour = {};    ///< default: on a terminal, unless NO_COLOR is set
  std::optional<bool> unicode = {};   ///< default: as LC_ALL, LC_CTYPE or LANG say
  std::optional<int> columns = {};    ///< default: the terminal's width, else COLUMNS, else 80
  Clock clock = {};                   ///< default: steady_seconds
};

/// Draws the share of steps that are done, their rate, the time that has passed and that is left, and the
/// last values, as many as there is room for. A step s counts as s steps done. On a terminal the line is
/// redrawn at most 10 times a second; tensors are read only then. Elsewhere (a file, a pipe) it is a line
/// every 30 seconds, without colours. Lines that cannot be written are dropped: nothing depends on it.
/// Throws: ValueError for a negative total.
class ProgressBar final : public Sink {
 public:
  explicit ProgressBar(ProgressBarOptions options = {});
  [[nodiscard]] bool is_due(std::int64_t step) override;
  void write(const LogRecord& record) override;
  [[nodiscard]] bool wants_last() const override { return true; }
  void resume(std::int64_t step) override;
  /// The run goes on to this many steps, 0 where nobody knows: after close(), say. The time begins anew.
  void extend(std::int64_t total);
  /// The last state, and the end of the line.
  void close() override;

 private:
  struct Shown {
    std::string name;
    double value;
  };
  [[nodiscard]] int columns() const;
  void note(const LogRecord& record);
  void draw();

  ProgressBarOptions options_;
  bool terminal_ = false;
  Throughput rate_;
  std::int64_t first_ = -1, step_ = 0;  // the step that the time began with; the last one
  double began_ = 0, drawn_at_ = 0;
  bool drawn_ = false, is_current_ = true, at_end_ = false, line_is_open_ = false;
  std::vector<Shown> shown_;
};

}  // namespace mezzo::train
