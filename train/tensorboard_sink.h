// TensorBoardSink: records as event files that `tensorboard --logdir FOLDER` shows.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/train/sink.h"

namespace mezzo::train {

using TensorBoardSinkOptions = SinkOptions;

/// Values become scalars (f32, as TensorBoard has them; NaN and infinities as they are), texts text, maps and
/// lists of maps tables of Markdown, images PNGs, histograms such of exponential buckets over the finite
/// elements; where others are among them, the scalar "<name>/nonfinite" has their number. Each record is with
/// the system when write() returns.
///
/// The file is FOLDER/events.out.tfevents.<seconds since 1970>.<host>.<process>.<number>, new for each sink;
/// the folder is made where it is not there. resume(step) begins a session there, which makes TensorBoard
/// drop what older files of the folder hold of later steps. Throws: IoError for a folder that cannot be
/// written. Source: torch.utils.tensorboard.SummaryWriter.
class TensorBoardSink final : public detail::FileSink {
 public:
  explicit TensorBoardSink(const std::string& folder, TensorBoardSinkOptions options = {});
  void write(const LogRecord& record) override;
  void write_text(const LogText& text) override;
  [[nodiscard]] bool wants_pictures() const override { return true; }
  void write_histogram(const LogHistogram& histogram) override;
  void write_image(const LogImage& image) override;
  void resume(std::int64_t step) override;
  /// Of the event file.
  [[nodiscard]] const std::string& path() const noexcept;
};

}  // namespace mezzo::train
