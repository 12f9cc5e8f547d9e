// The recorder of the process: spans of activities, on a track for each thread. Internal.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mezzo/autograd/op_observer.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/device.h"
#include "mezzo/nn/module.h"

namespace mezzo::profile {

/// Of the steady clock.
[[nodiscard]] std::int64_t nanoseconds() noexcept;
/// That the calling thread was running.
[[nodiscard]] std::int64_t thread_nanoseconds() noexcept;

/// An activity that has run. Times are nanoseconds.
struct Span {
  ActivityKind kind = ActivityKind::op;
  std::string_view name;
  std::int32_t parent = -1;  ///< on its track
  std::int32_t module = -1;  ///< that it ran in, or is a call of
  std::int64_t begin = 0, end = -1;
  std::int64_t cpu = 0;
  std::int32_t marks[2] = {-1, -1};            ///< on the device, at begin and end
  std::int64_t device_begin = 0, device = -1;  ///< from them: since the first mark, and how long
  // Of an op.
  std::int64_t bytes = 0, flop = 0;
  DType from = DType::f32, dtype = DType::f32;
  bool is_described = false;
  std::string shapes;

  [[nodiscard]] std::int64_t host() const noexcept { return end - begin; }
  /// How long it took where its work ran.
  [[nodiscard]] std::int64_t work() const noexcept { return device >= 0 ? device : host(); }
};

/// What one thread did.
struct Track {
  std::string name;
  bool makes_steps = false;
  std::vector<Span> spans;
};

struct ModuleEntry {
  std::string path, type;
  std::int32_t depth = 0, parent = -1;
  std::int64_t kept_bytes = 0;  ///< of all steps
};

struct Recording {
  Device device;
  std::vector<Track> tracks;
  std::vector<ModuleEntry> modules;
  std::int64_t begin = 0;
  std::vector<std::int64_t> step_ends;
  std::int64_t cpu = 0;  ///< of the thread that makes the steps
  std::int64_t peak_bytes = 0;
  std::string peak_place;
};

struct RecorderSetup {
  const nn::Module* model = nullptr;
  Device device;
  bool shapes = false, nvtx = false;
};

/// Is told of everything while it records. The one object of it is never destroyed, as threads may be in
/// activities that end later.
class Recorder final : public ActivityListener, public OpObserver {
 public:
  [[nodiscard]] static Recorder& instance();

  /// False when it records already. The calling thread makes the steps.
  [[nodiscard]] bool start(const RecorderSetup& setup);
  void begin_step() noexcept;
  void end_step() noexcept;
  /// Ends the recording and gives it away. Waits for the device.
  [[nodiscard]] Recording stop();

  void begin(ActivityKind kind, std::string_view name, const void* subject) noexcept override;
  void end() noexcept override;
  [[nodiscard]] bool takes_eager_step() noexcept override;
  void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
           const Outputs& outputs) override;

 private:
  /// An activity that runs; `span` is -1 for an op in another op, which is a part of that one.
  struct Open {
    std::int32_t span;
    const std::string* place;
    std::int32_t module;
    bool is_op, changes_place;
  };
  struct OwnTrack {
    const Recorder* recorder = nullptr;
    std::thread::id thread;
    std::mutex mutex;  // of what follows
    std::uint64_t generation = 0;
    Track track;
    std::vector<Open> open;
    std::vector<cuda::Event> marks;
    std::int32_t module = -1, last_op = -1;
    int ops = 0;                               // that are open
    std::int64_t sampled_at = 0, sampled = 0;  // when the thread's own clock was read, and what it said
  };
  using Lock = std::unique_lock<std::mutex>;

  void add_modules(const nn::Module& model);
  [[nodiscard]] std::int32_t module_of(const nn::Module& module);
  [[nodiscard]] std::int32_t module_at(const std::string* place);
  /// The calling thread's, ready for this recording.
  [[nodiscard]] OwnTrack& own(std::uint64_t generation, Lock& lock);
  void name_track(OwnTrack& own, ActivityKind kind, std::string_view name);
  void open_span(OwnTrack& own, ActivityKind kind, std::string_view name, const void* subject);
  [[nodiscard]] std::int32_t mark(OwnTrack& own);
  /// The thread's own clock at `now`. It costs more than an op of a few elements: soon after it was read the
  /// thread is taken to have run since.
  [[nodiscard]] static std::int64_t own_clock(OwnTrack& own, std::int64_t now, bool is_exact);
  void describe(Span& span, Inputs inputs, const Outputs& outputs) const;
  void note_memory(const OwnTrack& own, const Span& span, const Outputs& outputs);
  static void read_marks(OwnTrack& own, const cuda::Event& first);

  std::atomic<std::uint64_t> generation_{0};  // of the recording; 0: none, or it has failed
  std::atomic<bool> wants_eager_step_{false};
  std::uint64_t generations_ = 0;
  RecorderSetup setup_;
  std::mutex mutex_;  // of what follows
  bool records_ = false;
  std::deque<OwnTrack> tracks_;
  std::unordered_map<std::string_view, int> names_;
  Recording recording_;
  cuda::Event first_mark_{cuda::Timing::on};
  std::unordered_map<const nn::Module*, std::int32_t> modules_;
  std::unordered_map<const std::string*, std::int32_t> places_;
  std::vector<const std::string*> place_of_module_;
  std::unordered_set<const void*> kept_;  // storages that are saved, of this step
};

/// NVTX ranges; nothing where the headers of CUDA were not there.
[[nodiscard]] bool has_nvtx() noexcept;
void push_nvtx(std::string_view name);
void pop_nvtx() noexcept;

}  // namespace mezzo::profile
