// The registry is a map from op name to entry behind a mutex. A call by an unknown name throws an error
// that suggests the nearest one.
#include "mezzo/autograd/registry.h"

#include <map>
#include <mutex>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/core/parallel/hold_over_fork.h"
#include "mezzo/core/text/nearest_name.h"
#include "mezzo/core/value.h"

namespace mezzo {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string_view, std::unique_ptr<RegistryEntry>> entries;
};

Registry& registry() {
  // Never destroyed: static objects of programs, and threads, may call ops until the process ends.
  static auto* const all = new Registry;
  return *all;
}
[[maybe_unused]] const int held_over_fork =
    detail::hold_over_fork([]() -> std::mutex& { return registry().mutex; });

}  // namespace

std::vector<const RegistryEntry*> all_ops() {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  std::vector<const RegistryEntry*> list;
  for (const auto& [name, entry] : all.entries) list.push_back(entry.get());
  return list;
}

const RegistryEntry* find_op(std::string_view name) {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.entries.find(name);
  return found == all.entries.end() ? nullptr : found->second.get();
}

Outputs call_op(std::string_view name, Inputs inputs, const Value& attrs) {
  const RegistryEntry* entry = find_op(name);
  if (entry != nullptr) return entry->call(inputs, attrs);
  std::vector<std::string_view> names;
  for (const RegistryEntry* one : all_ops()) names.push_back(one->info().name.value);
  throw ValueError(
      "call_op", "the name of a registered op", quote(name),
      "did you mean " + std::string(detail::nearest_name(name, names)) + "? all_ops() lists them");
}

namespace detail {
void register_entry(std::unique_ptr<RegistryEntry> entry) {
  Registry& all = registry();
  const std::string_view name = entry->info().name.value;
  const std::scoped_lock lock(all.mutex);
  if (!all.entries.emplace(name, std::move(entry)).second) {
    throw ValueError("Registered", "a new name", "\"" + std::string(name) + "\"",
                     "an op of this name exists already");
  }
}

void add_sample(std::vector<SampleCall>& calls, const std::vector<SampleInput>& inputs, Value attrs) {
  calls.push_back({inputs, std::move(attrs)});
}

void check_input_count(const RegistryEntry& entry, std::size_t count) {
  const OpInfo& info = entry.info();
  const std::vector<SampleCall> samples = entry.samples();
  if (info.takes_list || samples.empty() || samples[0].inputs.size() == count) return;
  throw ValueError(info.name.value, std::to_string(samples[0].inputs.size()) + " inputs",
                   std::to_string(count), "pass an undefined tensor for an optional input");
}
}  // namespace detail

}  // namespace mezzo
