// The collective that each rank is about to make, as text: gathered, compared, and shown where two differ.
#include "mezzo/dist/detail/checked_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/dist/group.h"

namespace mezzo::dist {

namespace {

struct Entry {
  char call[160] = {};
  char place[96] = {};
};

template <std::size_t n>
void put(char (&to)[n], std::string_view text) {
  std::memcpy(to, text.data(), std::min(text.size(), n - 1));
}

std::string shown(int rank, const Entry& entry) {
  std::string text = "rank " + std::to_string(rank) + " at " + entry.call;
  if (entry.place[0] != '\0') text += std::string(", ") + entry.place;
  return text;
}

}  // namespace

CheckedTransport::CheckedTransport(Ref<Transport> inner, OnMismatch on_mismatch)
    : Transport(inner->rank(), inner->size(), inner->device()),
      inner_(std::move(inner)),
      on_mismatch_(std::move(on_mismatch)) {}

void CheckedTransport::check(CollectiveCall call) {
  call.number = ++calls_;
  Entry mine;
  put(mine.call, to_string(call));
  put(mine.place, place_);
  // A rank that does not come to the check shows in messages as one that is late there.
  inner_->set_place("check before " + std::string(mine.call) + (place_.empty() ? "" : ", ") + place_);
  std::vector<Entry> all(static_cast<std::size_t>(size()));
  inner_->all_gather(&mine, all.data(), sizeof mine);
  inner_->set_place(place_);
  const auto other = std::find_if(
      all.begin(), all.end(), [&](const Entry& entry) { return std::strcmp(entry.call, all[0].call) != 0; });
  if (other == all.end()) return;
  const CommunicationError error(
      "dist", "the same collective on all ranks",
      shown(0, all[0]) + ", and " + shown(static_cast<int>(other - all.begin()), *other),
      "let all ranks make the same calls in the same order");
  if (on_mismatch_) on_mismatch_(error.what());
  throw CommunicationError(error);
}

void CheckedTransport::broadcast(void* data, std::size_t bytes, int root) {
  check(call_of("broadcast", bytes, "root " + std::to_string(root)));
  inner_->broadcast(data, bytes, root);
}

void CheckedTransport::all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) {
  check(call_of("all_reduce", count, dtype, op));
  inner_->all_reduce(data, count, dtype, op);
}

void CheckedTransport::reduce_scatter(void* whole, void* part, std::int64_t count, DType dtype, ReduceOp op) {
  check(call_of("reduce_scatter", count, dtype, op));
  inner_->reduce_scatter(whole, part, count, dtype, op);
}

void CheckedTransport::all_gather(const void* part, void* whole, std::size_t bytes) {
  check(call_of("all_gather", bytes));
  inner_->all_gather(part, whole, bytes);
}

void CheckedTransport::all_to_all(const void* from, void* to, std::size_t bytes) {
  check(call_of("all_to_all", bytes));
  inner_->all_to_all(from, to, bytes);
}

void CheckedTransport::barrier() {
  check({.name = "barrier"});
  inner_->barrier();
}

Ref<Transport> CheckedTransport::split(std::span<const int> ranks) {
  std::string list = "ranks";
  for (const int rank : ranks) list += " " + std::to_string(rank);
  check({.name = "split", .op = list});
  Ref<Transport> part = inner_->split(ranks);
  if (!part) return {};
  return make_ref<CheckedTransport>(std::move(part), on_mismatch_);
}

void CheckedTransport::set_place(std::string_view place) {
  place_ = place;
  inner_->set_place(place);
}

}  // namespace mezzo::dist
