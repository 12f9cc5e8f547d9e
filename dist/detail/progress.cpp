// Notes of collectives, made for each of them, and the text of the last one, made when somebody asks.
#include "mezzo/dist/detail/progress.h"

namespace mezzo::dist {

CollectiveCall call_of(const char* name, std::size_t bytes, std::string op) {
  return {.name = name, .count = static_cast<std::int64_t>(bytes), .unit = "bytes", .op = std::move(op)};
}

CollectiveCall call_of(const char* name, std::int64_t count, DType dtype, ReduceOp op) {
  return {.name = name, .count = count, .unit = mezzo::to_string(dtype), .op = std::string(to_string(op))};
}

std::string to_string(const CollectiveCall& call) {
  std::string text = std::string(call.name) + " " + std::to_string(call.number);
  std::string details;
  if (!call.unit.empty()) details = std::to_string(call.count) + " " + call.unit;
  if (!call.op.empty()) details += (details.empty() ? "" : ", ") + call.op;
  if (!details.empty()) text += " (" + details + ")";
  return text;
}

void Progress::set_place(std::string_view place) {
  const std::scoped_lock lock(mutex_);
  place_ = place;
}

std::string Progress::place() {
  const std::scoped_lock lock(mutex_);
  return place_;
}

void Progress::begin(const CollectiveCall& call, std::string_view group) {
  const std::scoped_lock lock(mutex_);
  call_ = call;
  group_ = group;
  place_of_call_ = place_;
  is_inside_ = true;
}

void Progress::end() {
  const std::scoped_lock lock(mutex_);
  is_inside_ = false;
}

void Progress::set_stage(std::string_view stage) {
  const std::scoped_lock lock(mutex_);
  stage_ = stage;
}

std::string Progress::text() {
  const std::scoped_lock lock(mutex_);
  std::string last = "before its first collective";
  if (call_.number != 0) {
    last = (is_inside_ ? "in " : "behind ") + to_string(call_);
    if (!group_.empty()) last += " of " + group_;
    if (!place_of_call_.empty()) last += ", " + place_of_call_;
  }
  return stage_.empty() ? last : stage_ + ", " + last;
}

Progress& progress() {
  static auto& progress = *new Progress();  // never destroyed: asked to the end
  return progress;
}

}  // namespace mezzo::dist
