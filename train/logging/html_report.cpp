// The report sink: the data of a page, which its script shows.
#include "mezzo/train/html_report.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "mezzo/io/detail/file.h"
#include "mezzo/train/logging/log_file.h"
#include "mezzo/train/logging/run_history.h"

namespace mezzo::train {

namespace {

/// The page but for its data: its style, and the script that shows the data.
/// It loads nothing from elsewhere. The run goes, as JSON, into the element "mezzo-run".
constexpr std::string_view kReportPage = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Training</title>
<style>
:root { color-scheme: light dark; --page: #f3f4f6; --card: #fff; --ink: #111827; --soft: #4b5563; --line: #e5e7eb;
  --axis: #9ca3af; --bad: #dc2626; --0: #2563eb; --1: #d97706; --2: #059669; --3: #9333ea; --4: #db2777; --5: #0891b2 }
@media (prefers-color-scheme: dark) {
  :root { --page: #0b0f17; --card: #111827; --ink: #f3f4f6; --soft: #9ca3af; --line: #2b3544; --axis: #6b7280;
    --bad: #f87171; --0: #60a5fa; --1: #fbbf24; --2: #34d399; --3: #c084fc; --4: #f472b6; --5: #22d3ee }
}
* { box-sizing: border-box; overflow-wrap: anywhere }
body { margin: 0 auto; max-width: 1340px; padding: 20px 16px 40px; background: var(--page); color: var(--soft);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }
h1, h2, h3, b, td, pre { color: var(--ink) }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px }
h2 { font-size: 17px; margin: 28px 0 10px }
h3 { font-size: 14px; font-weight: 600; margin: 0 2px 4px }
#tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(132px, 1fr)); gap: 10px; margin: 18px 0 }
#charts, #pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 390px), 1fr)); gap: 14px }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow-x: auto }
.tile { padding: 8px 12px; font-size: 13px }
.tile b { display: block; font-size: 19px; font-weight: 600; line-height: 1.3 }
:is(#charts, #pictures) .card { padding: 12px 12px 6px; font-size: 12px }
#pictures { margin-top: 14px }
img { display: block; width: 100%; image-rendering: pixelated }
.legend { display: inline-block; margin: 0 14px 0 2px }
.legend svg { display: inline; width: 16px; margin-right: 4px; vertical-align: middle }
table { border-collapse: collapse; font-size: 14px; width: 100%; font-variant-numeric: tabular-nums }
td, th { text-align: left; padding: 6px 12px; border-bottom: 1px solid var(--line); vertical-align: top }
tr:last-child td { border-bottom: 0 }
td:first-child, .wide :is(td, th) { white-space: nowrap }
.pairs td:first-child { width: 1%; padding-right: 32px }
pre { margin: 0; padding: 10px 12px; font: 13px/1.45 ui-monospace, Menlo, Consolas, monospace }
svg { display: block; width: 100%; height: auto; fill: var(--soft); font-size: 12px }
path { fill: none; stroke-linejoin: round; stroke-linecap: round; stroke-width: 1.5 }
.grid { stroke: var(--line); stroke-width: 1 }
.axis { stroke: var(--axis); stroke-width: 1 }
.pale { stroke-opacity: 0.3; stroke-width: 1 }
.dot { stroke-width: 6 }
.skip { stroke: var(--bad); stroke-opacity: 0.55; stroke-dasharray: 3 2; stroke-linecap: butt; stroke-width: 1 }
.bad { fill: var(--bad) }
</style>
</head>
<body>
<noscript>This page shows its data by JavaScript, which is off.</noscript>
<h1 id="title"></h1> <div id="state"></div>
<div id="tiles"></div> <div id="charts"></div> <div id="pictures"></div>
<script type="application/json" id="mezzo-run"></script>
<script>
const place = id => document.getElementById(id), run = JSON.parse(place("mezzo-run").textContent);

// A new last child of `parent`, an element of HTML or, within one, of SVG.
function add(parent, tag, attributes = {}, text = "") {
  const space = tag === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI;
  const element = parent.appendChild(document.createElementNS(space, tag));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

// 1500000 as "1.5M", 0.00001 as "1e-5", 0.25 as "0.25", bytes as "1.5 MB". The prefix is as for `size`.
function numberText(value, isBytes, size = Math.abs(value)) {
  const notation = size >= 1e15 || (size > 0 && size < 1e-4) ? "scientific" : size >= 1e4 ? "compact" : "standard";
  const text = value.toLocaleString("en", {notation, maximumSignificantDigits: 4, useGrouping: false});
  const short = text.replace("E", "e").replace("K", "k").replace("B", "G");
  return isBytes ? short.replace(/(\d)([kMGT]?)$/, "$1 $2B") : short;
}

// About `wanted` round numbers, 1, 2 or 5 times a power of ten apart.
function linearTicks(low, high, wanted) {
  const raw = (high - low) / wanted, power = Number(`1e${Math.floor(Math.log10(raw))}`);
  const distance = power * [1, 2, 5, 10].find(factor => factor * power >= 0.75 * raw);
  const first = Math.ceil(low / distance - 1e-9), last = Math.floor(high / distance + 1e-9);
  return Array.from({length: last - first + 1}, (_, i) => Number(((first + i) * distance).toPrecision(12)));
}

// Powers of ten between two exponents; where these are few, also 2 and 5 times such, or else linear ticks.
function logTicks(low, high, wanted) {
  const powers = Array.from({length: Math.floor(high) - Math.floor(low) + 1}, (_, i) => Math.floor(low) + i);
  const times = digits => powers.flatMap(power => digits.map(digit => Number(`${digit}e${power}`)))
    .filter(tick => Math.log10(tick) >= low && Math.log10(tick) <= high);
  const whole = times([1]), few = whole.filter((_, i) => i % Math.ceil(whole.length / wanted) === 0);
  return [few, times([1, 2, 5])].find(ticks => ticks.length > 1) || linearTicks(10 ** low, 10 ** high, wanted);
}

// The least and the largest of the numbers that are finite.
const extremes = numbers => numbers.filter(Number.isFinite)
  .reduce(([low, high], number) => [Math.min(low, number), Math.max(high, number)], [Infinity, -Infinity]);

// The range of an axis, with room around the numbers; on a log scale of exponents.
function rangeOf(numbers, isLog) {
  const [low, high] = extremes(numbers), size = Math.max(Math.abs(low), Math.abs(high));
  if (low > high) return [0, 1];
  const isWide = high - low > 1e-12 * size + 1e-300;
  const room = isWide ? 0.05 * (high - low) : isLog ? 0.5 : size > 1e-300 ? 0.1 * size : 1;
  // Values that stay above 0 and come near it are seen against it.
  if (!isLog && low > 0 && low < 0.3 * high) return [0, 1.05 * high];
  return [isLog || low < 0 ? low - room : Math.max(low - room, 0), high + room];
}

// The buckets of a series, their values by `scale`; NaN where there is none.
const bucketsOf = (name, scale) => run.series[name].map(([begin, last, end = begin, count = 1,
    bad = typeof last === "number" ? 0 : 1, sum = last, least = last, largest = last]) => {
  const ends = last < sum / (count - bad) ? [largest, least] : [least, largest];  // falls or rises
  const [mean, from, to] = [sum / (count - bad), ...ends].map(value => scale(Number(value)));
  return {begin, end, step: (begin + end) / 2, isThin: count > 1, isGap: bad === count, bad, mean, from, to};
});

function drawChart(title, names, marks) {
  const isLog = [title, ...names].some(name => run.log_scale.includes(name));
  const scale = isLog ? Math.log10 : value => Math.max(-1e300, Math.min(1e300, value));
  const lines = names.map(name => bucketsOf(name, scale)), all = lines.flat();
  const styles = names.map((_, i) => ({style: `stroke: var(--${i % 6})`})), bad = all.filter(bucket => bucket.bad);
  const legend = names.length > 1 ? names.map((name, i) => [name, {d: "M0 6h16", ...styles[i]}]) : [];
  if (marks) legend.push(["skipped step", {d: "M8 0v12", class: "skip"}]);
  if (bad.length) legend.push(["NaN or infinite", {d: "M8 9l-4-6h8z", class: "bad"}]);
  const card = add(place("charts"), "div", {class: "card"});
  add(card, "h3", {}, title);
  for (const [text, attributes] of legend) {
    const entry = add(card, "span", {class: "legend"});
    add(add(entry, "svg", {viewBox: "0 0 16 12"}), "path", attributes);
    entry.append(text);
  }
  const [low, high] = rangeOf(all.flatMap(bucket => [bucket.from, bucket.to]), isLog);
  const [begin, end] = extremes(all.flatMap(bucket => [bucket.begin, bucket.end])), room = begin < end ? 0 : 1;
  const first = begin - room, last = end + room;
  const ticks = (isLog ? logTicks : linearTicks)(low, high, 5), top = 8, bottom = legend.length ? 182 : 200;
  const labels = ticks.map(tick => numberText(tick, isBytes(title)));
  const left = 8 + 6.6 * Math.max(0, ...labels.map(label => label.length)), right = 386;
  const x = step => +(left + (step - first) / (last - first) * (right - left)).toFixed(1);
  const y = value => +(bottom - (value - low) / (high - low) * (bottom - top)).toFixed(1);
  const svg = add(card, "svg", {viewBox: `0 0 400 ${bottom + 24}`, role: "img"});
  add(svg, "title", {}, title);
  const draw = (d, attributes) => add(svg, "path", {d, ...attributes});
  const write = (text, anchor, x, y) => add(svg, "text", {x, y, "text-anchor": anchor}, text);
  ticks.forEach((tick, i) => {
    const height = y(isLog ? Math.log10(tick) : tick);
    draw(`M${left} ${height}H${right}`, {class: "grid"});
    write(labels[i], "end", left - 6, height + 4);
  });
  const steps = linearTicks(first, last, right - left > 260 ? 5 : 3).filter(Number.isInteger);
  for (const step of steps) {
    const text = numberText(step, false, steps.at(-1));
    draw(`M${x(step)} ${bottom}v4`, {class: "axis"});
    write(text, "middle", Math.min(x(step), 398 - 3.3 * text.length), bottom + 17);
  }
  draw(`M${left} ${bottom}H${right}`, {class: "axis"});
  lines.forEach((buckets, i) => {
    const drawLine = (kind, pointsOf) => {
      let d = "", isOpen = false;
      for (const bucket of buckets) {
        for (const [step, value] of pointsOf(bucket).filter(point => Number.isFinite(point[1]))) {
          d += isOpen ? `L${x(step)} ${y(value)}` : `M${x(step)} ${y(value)}h0`;
          isOpen = true;
        }
        isOpen = isOpen && !bucket.isGap;
      }
      draw(d, {class: d.includes("L") ? kind : "dot", ...styles[i]});
    };
    if (buckets.some(bucket => bucket.isThin)) drawLine("pale", b => [[b.begin, b.from], [b.end, b.to]]);
    drawLine("", b => [[b.step, b.mean]]);
  });
  for (const {step, from, to} of marks ? bucketsOf(marks, Number) : [])
    if ((from || to) && step >= first && step <= last) draw(`M${x(step)} ${top}V${bottom}`, {class: "skip"});
  for (const {step} of bad) draw(`M${x(step)} ${top}l-4-6h8z`, {class: "bad"});
}

// The newest value: the loss scale 65536 as "65,536", where an axis says 65.54k.
function drawTile(name) {
  const value = run.series[name].at(-1)[1], tile = add(place("tiles"), "div", {class: "tile"});
  const isWhole = Number.isInteger(value) && Math.abs(value) < 1e7 && !isBytes(name);
  add(tile, "b", {}, isWhole ? value.toLocaleString("en") : numberText(value, isBytes(name)));
  for (const part of name.split(/(?<=[_/])/)) tile.append(part, document.createElement("wbr"));
}

// An image, or a histogram: elements that are not finite, limits, counts.
function drawPicture(name, [step, first, low, high, counts]) {
  const card = add(place("pictures"), "div", {class: "card"});
  add(card, "h3", {}, name);
  if (!counts) add(card, "img", {src: `data:image/png;base64,${first}`, alt: name});
  else if (counts.length) {
    const svg = add(card, "svg", {viewBox: "0 0 400 124", role: "img"}), most = Math.max(...counts);
    const width = 384 / counts.length, bar = (n, i) => `M${8 + i * width} 100v${-92 * n / most}h${width - 1}V100z`;
    add(svg, "path", {d: counts.map(bar).join(""), style: "fill: var(--0)"});
    add(svg, "path", {d: "M8 100H392", class: "axis"});
    for (const [value, anchor, x] of [[low, "start", 8], [high, "end", 392]])
      add(svg, "text", {x, y: 117, "text-anchor": anchor}, numberText(value));
  }
  card.append(`step ${step}${counts && first ? ` · ${first} NaN or infinite` : ""}`);
}

// A text, or a table: its titles, or none, and its rows.
function drawText(name, text) {
  add(document.body, "h2", {}, name);
  const card = add(document.body, "div", {class: "card"});
  if (typeof text === "string") return add(card, "pre", {}, text);
  const [titles, ...rows] = text, table = add(card, "table", {class: titles.length ? "wide" : "pairs"});
  for (const cells of titles.length ? text : rows) {
    const row = add(table, "tr"), tag = cells === titles ? "th" : "td";
    for (const cell of cells) add(row, tag, {}, cell);
  }
}

const lastPart = name => name.slice(name.lastIndexOf("/") + 1);
const isBytes = name => /memory|bytes$/.test(name);
const isFlag = name => lastPart(name) === "skipped";
const isCount = name => ["steps_skipped", "skipped_steps"].includes(lastPart(name));
// The name without what says which data it is of: "loss" of "val_loss", "loss_val" and "train/loss".
const dataName = /^(train(ing)?|val(id(ation)?)?|test|eval)(_|$)|_(train(ing)?|val(id(ation)?)?|test|eval)$/;
const titleOf = name => name.split("/").map(part => part.replace(dataName, "")).filter(part => part).join("/") || name;
// What comes first on the page. What is none of these stands behind the losses.
const ranks = [/(^|\/)loss$/, /^(?!)/, /(^|\/)(lr|learning_rate)(\/|$)/, /scale/, /grad_norm/, /per_second/,
  /memory|bytes$/];
const rankOf = title => Math.abs(ranks.findIndex(rank => rank.test(title)));

if (run.refresh) setTimeout(() => location.reload(), 1000 * run.refresh);
place("title").textContent = document.title = run.title;
const names = Object.keys(run.series).filter(name => run.series[name].length);
const shown = names.filter(name => !isFlag(name) && !isCount(name));
const titles = [...new Set(shown.map(titleOf))].sort((a, b) => rankOf(a) - rankOf(b));
const marked = titles.find(title => rankOf(title) === 3) || titles[0];
for (const title of titles) {
  const ofTitle = shown.filter(name => titleOf(name) === title);
  ofTitle.forEach(drawTile);
  drawChart(title, ofTitle, title === marked && names.find(isFlag));
}
names.filter(isCount).forEach(drawTile);
for (const [name, picture] of Object.entries(run.pictures)) drawPicture(name, picture);
for (const [name, text] of Object.entries(run.texts)) drawText(name, text);
if (run.started) {
  const timeText = seconds => new Date(1000 * seconds).toISOString().slice(0, 19).replace("T", " ") + " UTC";
  const seconds = Math.floor(run.time - run.started), two = number => String(number % 60).padStart(2, "0");
  const minutes = Math.floor(seconds / 60), hours = Math.floor(seconds / 3600);
  const lasted = `${hours ? `${hours}:${two(minutes)}` : minutes}:${two(seconds)} since ${timeText(run.started)}`;
  const end = `${run.ended ? "ended" : "as of"} ${timeText(run.time)}`;
  place("state").textContent = `Step ${run.step.toLocaleString("en")} · ${lasted} · ${end}`;
}
</script>
</body></html>
)html";

}  // namespace

HTMLReport::HTMLReport(std::string path, HTMLReportOptions options)
    : Sink(options.every),
      path_(std::move(path)),
      options_(std::move(options)),
      history_(std::make_shared<detail::RunHistory>()) {
  if (!options_.clock) options_.clock = steady_seconds;
  const io::AtomicFile probe(
      path_);  // a path that cannot be written is refused before there is anything to write
  saved_at_ = options_.clock() - options_.seconds;
}

template <class T>
void HTMLReport::add(const T& content) {
  is_ended_ = false;
  history_->add(content);
  if (options_.clock() - saved_at_ >= options_.seconds) save();
}

void HTMLReport::write(const LogRecord& record) { add(record); }
void HTMLReport::write_text(const LogText& text) { add(text); }
void HTMLReport::write_histogram(const LogHistogram& histogram) { add(histogram); }
void HTMLReport::write_image(const LogImage& image) { add(image); }

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

void HTMLReport::save() {
  saved_at_ = options_.clock();  // also when it fails: the next try has the same time to wait
  std::error_code error;
  if (!is_started_ && std::filesystem::exists(path_, error)) detail::set_aside(path_);
  is_started_ = true;
  io::AtomicFile file(path_);
  file.write(html());
  file.commit();
}

std::string HTMLReport::html() const {
  Value run = history_->saved();
  run.set("title", options_.title).set("log_scale", options_.log_scale).set("ended", is_ended_);
  run.set("refresh", options_.refresh && !is_ended_ ? std::clamp(options_.seconds, 10.0, 86400.0) : 0);
  std::string data, page(kReportPage);
  for (const char c : run.to_string()) data += c == '<' ? "\\u003c" : std::string(1, c);  // ends no element
  return page.insert(page.find(detail::kDataBegin) + detail::kDataBegin.size(), data);
}

}  // namespace mezzo::train
