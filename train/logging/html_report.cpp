// The report sink: the data of a page, which its script shows.
#include "mezzo/train/html_report.h"

#include <algorithm>
#include <filesystem>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/train/logging/report_page.h"
#include "mezzo/train/logging/run_history.h"

namespace mezzo::train {

HTMLReport::HTMLReport(std::string path, HTMLReportOptions options)
    : Sink(options.every),
      path_(std::move(path)),
      options_(std::move(options)),
      history_(std::make_unique<detail::RunHistory>()) {
  if (!options_.clock) options_.clock = steady_seconds;
  const io::AtomicFile probe(
      path_);  // a path that cannot be written is refused before there is anything to write
  saved_at_ = options_.clock() - options_.seconds;
}

HTMLReport::HTMLReport(HTMLReport&& other) noexcept = default;
HTMLReport& HTMLReport::operator=(HTMLReport&& other) noexcept = default;
HTMLReport::~HTMLReport() = default;

void HTMLReport::write(const LogRecord& record) {
  history_->add(record);
  save_if_due();
}

void HTMLReport::write_text(const LogText& text) {
  history_->add(text);
  save_if_due();
}

void HTMLReport::resume(std::int64_t step) {
  if (!is_started_) {
    if (auto saved = detail::RunHistory::load(path_)) *history_ = std::move(*saved);
    is_started_ = true;
  }
  history_->drop_after(step);
  is_ended_ = false;
}

void HTMLReport::close() {
  if (is_ended_ || (!is_started_ && history_->started == 0)) return;  // nothing new, or nothing
  is_ended_ = true;
  try {
    save();
  } catch (...) {
    is_ended_ = false;  // the next close() tries again
    throw;
  }
}

void HTMLReport::save_if_due() {
  is_ended_ = false;
  if (options_.clock() - saved_at_ >= options_.seconds) save();
}

void HTMLReport::save() {
  saved_at_ = options_.clock();  // also when it fails: the next try has the same time to wait
  std::error_code error;
  if (!is_started_ && std::filesystem::exists(path_, error)) {
    std::filesystem::rename(path_, path_ + ".bak", error);
    if (error)
      throw IoError("write '" + path_ + "'", "an old file that can be renamed to *.bak", error.message(),
                    "check the folder's permissions");
  }
  is_started_ = true;
  io::AtomicFile file(path_);
  file.write(html());
  file.commit();
}

std::string HTMLReport::html() const {
  Value run = history_->saved();
  run.set("title", options_.title).set("log_scale", options_.log_scale).set("ended", is_ended_);
  run.set("refresh", options_.refresh && !is_ended_ ? std::clamp(options_.seconds, 10.0, 86400.0) : 0);
  std::string data, page(detail::kReportPage);
  for (const char c : run.to_string()) data += c == '<' ? "\\u003c" : std::string(1, c);  // ends no element
  return page.insert(page.find(detail::kDataBegin) + detail::kDataBegin.size(), data);
}

}  // namespace mezzo::train
