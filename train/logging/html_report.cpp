// The report sink: the page around the charts.
#include "mezzo/train/html_report.h"

#include <algorithm>
#include <cmath>

#include "mezzo/core/text/text_table.h"
#include "mezzo/train/logging/chart.h"
#include "mezzo/train/logging/markup.h"
#include "mezzo/train/logging/page_file.h"
#include "mezzo/train/logging/progress_line.h"
#include "mezzo/train/logging/report_charts.h"
#include "mezzo/train/logging/run_history.h"
#include "mezzo/train/logging/text_form.h"

namespace mezzo::train {

namespace {

constexpr std::string_view kPageStyle =
    ":root{color-scheme:light dark;--page:#f3f4f6;--card:#fff;--ink:#111827;--soft:#4b5563;--line:#e5e7eb}"
    "@media(prefers-color-scheme:dark){:root{--page:#0b0f17;--card:#111827;--ink:#f3f4f6;--soft:#9ca3af;"
    "--line:#2b3544}}*{box-sizing:border-box}"
    "body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,\"Segoe "
    "UI\","
    "Roboto,sans-serif}main{max-width:1340px;margin:0 auto;padding:20px 16px 40px}"
    "h1{font-size:24px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:17px;margin:28px 0 10px;overflow-wrap:anywhere}p{margin:0;color:var(--soft)}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(132px,1fr));gap:10px;margin:18px 0}"
    ".tile,.card{background:var(--card);border:1px solid var(--line);border-radius:8px}"
    ".tile{padding:8px 12px;min-width:0}.tile b{display:block;font-size:19px;font-weight:600;line-height:1.3;"
    "font-variant-numeric:tabular-nums}.tile span{display:block;font-size:13px;color:var(--soft);"
    "overflow-wrap:anywhere}.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,"
    "390px),"
    "1fr));gap:14px}.charts .card{padding:12px 12px 6px;min-width:0}svg{display:block;width:100%;height:auto}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px;width:100%;"
    "font-variant-numeric:tabular-nums}td,th{text-align:left;padding:6px 12px;border-bottom:1px solid "
    "var(--line);"
    "vertical-align:top}tr:last-child td{border-bottom:0}th{color:var(--soft);font-weight:600}"
    "td:first-child,th:first-child{white-space:nowrap}td{overflow-wrap:anywhere}.wide td,.wide "
    "th{white-space:nowrap}"
    ".pairs td:first-child{width:1%;padding-right:32px}"
    "pre{margin:0;padding:10px 12px;font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;white-space:pre}";

void append_head(std::string& out, const HTMLReportOptions& options, bool is_ended) {
  constexpr double kLeastRefresh = 10;
  out +=
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  if (options.refresh && !is_ended) {
    const double seconds = std::min(std::max(options.seconds, kLeastRefresh), 86400.0);
    out += "<meta http-equiv=\"refresh\" content=\"" + std::to_string(static_cast<int>(seconds)) + "\">\n";
  }
  out += "<title>" + detail::escaped(options.title) + "</title>\n<style>";
  ((out += kPageStyle) += detail::chart_style()) += "</style>\n</head>\n";
}

void append_state(std::string& out, const detail::RunHistory& history, bool is_ended) {
  out += "<p>Step " + grouped(history.step());
  if (history.started() != 0) {
    out += " · " + detail::duration_text(history.time() - history.started()) + " since " +
           detail::time_text(history.started());
    out += is_ended ? " · ended " : " · as of ";
    out += detail::time_text(history.time());
  }
  out += "</p>\n";
}

/// A name that may be broken behind '_' and '/'.
std::string breakable(const std::string& name) {
  std::string out;
  for (const char c : detail::escaped(name)) {
    out += c;
    if (c == '_' || c == '/') out += "<wbr>";
  }
  return out;
}

/// The loss scale 65536 as "65,536", where an axis says 65.54k.
std::string tile_value(double value, bool bytes) {
  constexpr double kMost = 1e7;
  const bool whole = value == std::floor(value) && std::abs(value) < kMost;
  return whole && !bytes ? grouped(static_cast<std::int64_t>(value)) : detail::value_text(value, bytes);
}

/// The newest value of each series, in the order of the charts.
void append_tiles(std::string& out, const std::vector<detail::Chart>& charts,
                  const detail::RunHistory& history) {
  out += "<div class=\"tiles\">\n";
  const auto add = [&](const std::string& value, const std::string& name) {
    out += "<div class=\"tile\"><b>" + value + "</b><span>" + breakable(name) + "</span></div>\n";
  };
  for (const detail::Chart& chart : charts) {
    for (const detail::ChartLine& line : chart.lines)
      if (!line.points->empty()) add(tile_value(line.points->newest().value, chart.bytes), line.name);
  }
  for (const detail::RunHistory::Series& series : history.series()) {
    if (detail::is_skip_count(series.name)) add(tile_value(series.points.newest().value, false), series.name);
  }
  out += "</div>\n";
}

void append_row(std::string& out, const char* cell, const std::vector<std::string>& cells) {
  out += "<tr>";
  for (const std::string& text : cells) {
    (out += '<') += cell;
    (out += '>') += detail::escaped(text);
    ((out += "</") += cell) += '>';
  }
  out += "</tr>\n";
}

void append_text_section(std::string& out, const std::string& name, const Value& value) {
  out += "<h2>" + detail::escaped(name) + "</h2>\n<div class=\"card scroll\">";
  const std::optional<detail::TextForm> table = detail::table_of(value);
  if (!table) {
    out += "<pre>" + detail::escaped(detail::plain_text(value, 2)) + "</pre></div>\n";
    return;
  }
  out += table->titles.empty() ? "<table class=\"pairs\">\n" : "<table class=\"wide\">\n";
  if (!table->titles.empty()) append_row(out, "th", table->titles);
  for (const std::vector<std::string>& row : table->rows) append_row(out, "td", row);
  out += "</table></div>\n";
}

}  // namespace

HTMLReport::HTMLReport(std::string path, HTMLReportOptions options)
    : Sink(options.every),
      path_(std::move(path)),
      options_(std::move(options)),
      history_(std::make_unique<detail::RunHistory>()) {
  if (!options_.clock) options_.clock = steady_seconds;
  detail::check_page_path(path_);
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
  history_->set_text(text.name, text.value, text.time);
  save_if_due();
}

void HTMLReport::resume(std::int64_t step) {
  if (!is_started_) {
    if (auto saved = detail::RunHistory::load(path_)) *history_ = std::move(*saved);
    is_started_ = true;
  }
  history_->drop_after(step);
  is_saved_ = is_ended_ = false;
}

void HTMLReport::close() {
  if (is_ended_ || (is_saved_ && !is_started_)) return;
  is_ended_ = true;
  try {
    save();
  } catch (...) {
    is_ended_ = false;  // the next close() tries again
    throw;
  }
}

void HTMLReport::save_if_due() {
  is_saved_ = is_ended_ = false;
  if (options_.clock() - saved_at_ >= options_.seconds) save();
}

void HTMLReport::save() {
  // Also when it fails: the next try has the same time to wait.
  saved_at_ = options_.clock();
  if (!is_started_) detail::keep_old_page(path_);
  is_started_ = true;
  detail::write_page(path_, html());
  is_saved_ = true;
}

std::string HTMLReport::html() const {
  const std::vector<detail::Chart> charts = detail::report_charts(*history_, options_.log_scale);
  std::string out;
  append_head(out, options_, is_ended_);
  out += "<body>\n<main>\n<h1>" + detail::escaped(options_.title) + "</h1>\n";
  append_state(out, *history_, is_ended_);
  append_tiles(out, charts, *history_);
  out += "<div class=\"charts\">\n";
  for (const detail::Chart& chart : charts)
    out += "<div class=\"card\">" + detail::chart_svg(chart, false) + "</div>\n";
  out += "</div>\n";
  for (const auto& [name, value] : history_->texts()) append_text_section(out, name, value);
  // A block of data and no script: browsers do not run it.
  out += "</main>\n<script type=\"application/json\" ";
  ((out += detail::kDataBegin) += history_->saved()) += "</script>\n</body>\n</html>\n";
  return out;
}

}  // namespace mezzo::train
