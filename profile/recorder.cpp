// Spans are written by their own thread, under its track's lock, which only stop() contends for. A thread
// that began an activity before the recording, or ends it after, is told apart by the recording's generation.
#include "mezzo/profile/recorder.h"

#include <pthread.h>
#include <ctime>

#include <algorithm>
#include <chrono>
#include <utility>

#include "mezzo/autograd/node.h"
#include "mezzo/autograd/progress.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/nn/summary/mult_adds.h"

namespace mezzo::profile {

std::int64_t nanoseconds() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t thread_nanoseconds() noexcept {
  timespec time = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

namespace {

std::atomic<Recorder*> recorder{nullptr};

/// A child of fork() records nothing until it has a profiler of its own, with a recorder of its own: another
/// thread of its parent may have held a lock of this one.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
  if (recorder.exchange(nullptr) == nullptr) return;
  set_activity_listener(nullptr);
  set_process_op_observer(nullptr);
});

}  // namespace

Recorder& Recorder::instance() {
  Recorder* found = recorder.load();
  if (found == nullptr) {
    auto* const made = new Recorder;  // never destroyed
    if (recorder.compare_exchange_strong(found, made)) return *made;
    delete made;
  }
  return *found;
}

// --- begin and end of a recording

bool Recorder::start(const RecorderSetup& setup) {
  const std::scoped_lock lock(mutex_);
  if (records_) return false;
  setup_ = setup;
  recording_ = {};
  recording_.device = setup.device;
  names_.clear();
  modules_.clear();
  places_.clear();
  place_of_module_.clear();
  kept_.clear();
  if (setup.model != nullptr) add_modules(*setup.model);
  if (setup.device.is_cuda()) {
    first_mark_ = cuda::Event(cuda::Timing::on);  // an event stays on its first device
    first_mark_.record(cuda::current_stream(setup.device));
  }
  records_ = true;
  wants_eager_step_ = true;
  generation_ = ++generations_;
  recording_.cpu = -thread_nanoseconds();
  recording_.begin = nanoseconds();
  set_process_op_observer(this);
  set_activity_listener(this);
  return true;
}

void Recorder::begin_step() noexcept {
  const std::scoped_lock lock(mutex_);
  kept_.clear();
}

void Recorder::end_step() noexcept {
  const std::int64_t now = nanoseconds();
  const std::scoped_lock lock(mutex_);
  recording_.step_ends.push_back(now);
}

Recording Recorder::stop() {
  const std::int64_t cpu = thread_nanoseconds(), now = nanoseconds();
  set_activity_listener(nullptr);
  set_process_op_observer(nullptr);
  const std::thread::id self = std::this_thread::get_id();
  if (setup_.device.is_cuda()) synchronize(setup_.device);
  generation_ = 0;
  std::vector<OwnTrack*> all;
  {
    const std::scoped_lock lock(mutex_);
    for (OwnTrack& own : tracks_) all.push_back(&own);
  }
  std::vector<Track> tracks;
  for (OwnTrack* const own : all) {  // whose locks are taken before mutex_ elsewhere
    const std::scoped_lock lock(own->mutex);
    if (own->generation != generations_) continue;
    own->generation = 0;
    for (Span& span : own->track.spans) {
      if (span.end < 0) span.end = std::max(now, span.begin);
    }
    read_marks(*own, first_mark_);
    own->track.makes_steps = own->thread == self;
    tracks.push_back(std::exchange(own->track, {}));
    own->marks.clear();
  }
  const std::scoped_lock lock(mutex_);
  records_ = false;
  Recording result = std::exchange(recording_, {});
  result.cpu += cpu;
  result.tracks = std::move(tracks);
  return result;
}

void Recorder::read_marks(OwnTrack& own, const cuda::Event& first) {
  const auto since = [](const cuda::Event& from, const cuda::Event& to) {
    return static_cast<std::int64_t>(static_cast<double>(to.elapsed_ms(from)) * 1e6);
  };
  for (Span& span : own.track.spans) {
    if (span.marks[0] < 0 || span.marks[1] < 0) continue;
    const cuda::Event& begin = own.marks[static_cast<std::size_t>(span.marks[0])];
    span.device_begin = since(first, begin);
    span.device = since(begin, own.marks[static_cast<std::size_t>(span.marks[1])]);
  }
}

// --- modules

void Recorder::add_modules(const nn::Module& model) {
  for (const auto& [path, module] : model.named_modules()) {
    const std::int32_t index = module_of(*module);
    ModuleEntry& entry = recording_.modules[static_cast<std::size_t>(index)];
    entry.path = path;
    // Parents come before their children, so the longest path that this one begins with is its parent's.
    for (std::int32_t i = 0; i < index; ++i) {
      const ModuleEntry& other = recording_.modules[static_cast<std::size_t>(i)];
      const bool is_above = other.path.empty() || path.starts_with(other.path + ".");
      if (is_above && (entry.parent < 0 || other.depth >= entry.depth)) {
        entry.parent = i;
        entry.depth = other.depth + 1;
      }
    }
  }
}

std::int32_t Recorder::module_of(const nn::Module& module) {
  const auto [found, fresh] =
      modules_.try_emplace(&module, static_cast<std::int32_t>(recording_.modules.size()));
  if (!fresh) return found->second;
  const std::string* const place = autograd::interned_place(module.described());
  recording_.modules.push_back({.path = module.path(), .type = module.type_name()});
  place_of_module_.push_back(place);
  places_.emplace(place, found->second);
  return found->second;
}

std::int32_t Recorder::module_at(const std::string* place) {
  const auto found = places_.find(place);
  return found == places_.end() ? -1 : found->second;
}

// --- activities

Recorder::OwnTrack& Recorder::own(std::uint64_t generation, Lock& lock) {
  static constinit mezzo::detail::PerThread<OwnTrack*> own_tracks;
  OwnTrack*& track = own_tracks.get();
  if (track == nullptr || track->recorder != this) {
    const std::scoped_lock all(mutex_);
    track = &tracks_.emplace_back();
    track->recorder = this;
    track->thread = std::this_thread::get_id();
  }
  lock = Lock(track->mutex);
  if (track->generation != generation) {
    track->generation = generation;
    track->track = {};
    track->open.clear();
    track->marks.clear();
    track->module = track->last_op = -1;
    track->ops = 0;
    track->sampled_at = 0;
  }
  return *track;
}

void Recorder::name_track(OwnTrack& own, ActivityKind kind, std::string_view name) {
  const std::scoped_lock lock(mutex_);
  const std::string_view base = kind == ActivityKind::worker ? name : "thread";
  own.track.name = std::string(base) + " " + std::to_string(++names_[base]);
}

std::int32_t Recorder::mark(OwnTrack& own) {
  if (!setup_.device.is_cuda()) return -1;
  const cuda::Stream& stream = cuda::current_stream(setup_.device);
  if (stream.is_capturing()) return -1;
  own.marks.emplace_back(cuda::Timing::on).record(stream);
  return static_cast<std::int32_t>(own.marks.size()) - 1;
}

std::int64_t Recorder::own_clock(OwnTrack& own, std::int64_t now, bool is_exact) {
  constexpr std::int64_t kSoon = 20'000;
  if (!is_exact && now - own.sampled_at < kSoon) return own.sampled + now - own.sampled_at;
  own.sampled_at = now;
  return own.sampled = thread_nanoseconds();
}

void Recorder::open_span(OwnTrack& own, ActivityKind kind, std::string_view name, const void* subject) {
  autograd::Progress& progress = autograd::progress();
  Open open{.span = static_cast<std::int32_t>(own.track.spans.size()),
            .place = progress.place,
            .module = own.module,
            .is_op = kind == ActivityKind::op,
            .changes_place = kind == ActivityKind::module_call};
  if (kind == ActivityKind::module_call) {
    const std::scoped_lock lock(mutex_);
    own.module = module_of(*static_cast<const nn::Module*>(subject));
    progress.place = place_of_module_[static_cast<std::size_t>(own.module)];
  } else if (kind == ActivityKind::gradient) {
    const std::scoped_lock lock(mutex_);
    own.module = module_at(static_cast<const autograd::Node*>(subject)->place);
  }
  Span& span = own.track.spans.emplace_back();
  span.kind = kind;
  span.name = name;
  span.module = own.module;
  for (auto outer = own.open.rbegin(); outer != own.open.rend() && span.parent < 0; ++outer)
    span.parent = outer->span;
  own.open.push_back(open);
}

void Recorder::begin(ActivityKind kind, std::string_view name, const void* subject) noexcept {
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (generation == 0) return;
  try {
    Lock lock;
    OwnTrack& track = own(generation, lock);
    if (track.track.name.empty()) name_track(track, kind, name);
    const bool is_op = kind == ActivityKind::op;
    if (is_op && track.ops++ > 0) {
      track.open.push_back(
          {.span = -1, .place = nullptr, .module = track.module, .is_op = true, .changes_place = false});
      return;
    }
    open_span(track, kind, name, subject);
    if (setup_.nvtx) push_nvtx(kind == ActivityKind::module_call ? *autograd::progress().place : name);
    Span& span = track.track.spans.back();
    if (is_op || kind == ActivityKind::phase) span.marks[0] = mark(track);
    span.begin = nanoseconds();
    if (kind != ActivityKind::module_call && kind != ActivityKind::gradient)
      span.cpu = -own_clock(track, span.begin, false);
  } catch (...) {  // no memory, or the device failed: what comes is not recorded
    generation_ = 0;
  }
}

void Recorder::end() noexcept {
  const std::int64_t now = nanoseconds();
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (generation == 0) return;
  try {
    Lock lock;
    OwnTrack& track = own(generation, lock);
    if (track.open.empty()) return;  // it began before the recording
    const Open open = track.open.back();
    track.open.pop_back();
    if (open.is_op) --track.ops;
    if (open.span < 0) return;
    Span& span = track.track.spans[static_cast<std::size_t>(open.span)];
    span.end = now;
    if (span.cpu < 0) span.cpu += own_clock(track, now, true);
    if (span.marks[0] >= 0) span.marks[1] = mark(track);
    if (open.is_op) track.last_op = open.span;
    track.module = open.module;
    if (open.changes_place) autograd::progress().place = open.place;
    if (setup_.nvtx) pop_nvtx();
  } catch (...) {
    generation_ = 0;
  }
}

bool Recorder::takes_eager_step() noexcept { return wants_eager_step_.exchange(false); }

// --- what an op was

void Recorder::ran(const OpInfo& info, Inputs inputs, std::optional<DType> /*run_dtype*/,
                   const Outputs& outputs) {
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (generation == 0) return;
  Lock lock;
  OwnTrack& track = own(generation, lock);
  if (track.last_op < 0) return;
  Span& span = track.track.spans[static_cast<std::size_t>(std::exchange(track.last_op, -1))];
  if (span.name != info.name.value) return;
  describe(span, inputs, outputs);
  if (const auto count = nn::mult_adds(info, inputs, outputs)) span.flop = 2 * *count;
  note_memory(track, span, outputs);
}

void Recorder::describe(Span& span, Inputs inputs, const Outputs& outputs) const {
  const bool is_view = !outputs.empty() && outputs[0].defined() && outputs[0].impl().is_view;
  const auto bytes_of = [is_view](const Tensor& tensor) {
    return is_view ? 0 : tensor.numel() * size_of(tensor.dtype());
  };
  for (const Tensor& input : inputs) {
    if (!input.defined()) continue;
    span.bytes += bytes_of(input);
    if (setup_.shapes) span.shapes += (span.shapes.empty() ? "" : " ") + to_string(input.shape());
  }
  for (const Tensor& output : outputs) {
    if (output.defined()) span.bytes += bytes_of(output);
  }
  if (outputs.empty() || !outputs[0].defined()) return;
  span.is_described = true;
  span.dtype = outputs[0].dtype();
  span.from = !inputs.empty() && inputs[0]->defined() ? inputs[0]->dtype() : span.dtype;
}

void Recorder::note_memory(const OwnTrack& own, const Span& span, const Outputs& outputs) {
  const std::int64_t held = memory_stats(setup_.device).current;
  const std::scoped_lock lock(mutex_);
  if (held > recording_.peak_bytes) {
    recording_.peak_bytes = held;
    const std::string* const place =
        own.module < 0 ? nullptr : place_of_module_[static_cast<std::size_t>(own.module)];
    recording_.peak_place = std::string(span.name) + (place == nullptr ? "" : " in " + *place);
  }
  if (own.module < 0 || outputs.empty() || !outputs[0].defined() || !outputs[0].impl().grad_fn) return;
  const auto& node = static_cast<const autograd::Node&>(*outputs[0].impl().grad_fn);
  std::int64_t& kept = recording_.modules[static_cast<std::size_t>(own.module)].kept_bytes;
  const auto add = [&](const autograd::SavedTensor& saved) {
    if (!saved.tensor.defined()) return;
    const TensorImpl& impl = saved.tensor.impl();
    if (impl.requires_grad && !impl.grad_fn) return;  // a parameter
    if (kept_.insert(impl.storage.get()).second) kept += static_cast<std::int64_t>(impl.storage->bytes());
  };
  for (const autograd::SavedTensor& saved : node.saved_inputs) add(saved);
  for (const autograd::SavedTensor& saved : node.saved_outputs) add(saved);
}

}  // namespace mezzo::profile
