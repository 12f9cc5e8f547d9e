// Stream capture of a function into a CUDA graph, on a stream and with a memory pool of its own. If the
// function throws, the capture is ended and its graph discarded.
#include "mezzo/core/cuda/graph.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "mezzo/core/activity.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/core/cuda/staging.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/current_op.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random/draw_recorder.h"
#include "mezzo/core/replay/recording.h"

namespace mezzo::cuda {

// Not in an anonymous namespace, as they are members of Graph::State.

class GraphRecording final : public mezzo::detail::Recording {
 public:
  explicit GraphRecording(Device device) : Recording(device), device_(device) {}
  [[nodiscard]] Ref<Storage> new_input(std::size_t bytes) override {
    const OrdinaryMemoryScope outside;
    return make_ref<Storage>(bytes, device_);
  }

 private:
  Device device_;
};

/// Random blocks that a graph draws in one replay, by generator. A captured kernel cannot be told at a replay
/// which blocks of the sequence it gets, so it reads where they begin from memory that every replay writes
/// anew; not of the graph's pool, whose blocks earlier work of the step may have used.
class GraphDraws final : public mezzo::detail::DrawRecorder {
 public:
  explicit GraphDraws(Device device) : device_(device) {}

  [[nodiscard]] RandomRange record(const Ref<mezzo::detail::Sequence>& sequence, std::uint64_t blocks,
                                   Device device) override {
    if (!(device == device_)) {
      const std::string_view op = mezzo::detail::current_op;
      throw StateError(op.empty() ? std::string_view("Generator::draw") : op,
                       "random numbers on " + to_string(device_) + ", whose work is recorded",
                       to_string(device),
                       "draw there, or before the captured step: replays would see the same numbers again");
    }
    auto source = std::find_if(sources_.begin(), sources_.end(),
                               [&](const Source& drawn) { return drawn.sequence == sequence; });
    if (source == sources_.end()) {
      const OrdinaryMemoryScope outside;  // other work of the graph must not use the place
      source = sources_.insert(source, {sequence, make_ref<Storage>(sizeof(GeneratorState), device_), 0});
    }
    const RandomRange range{{0, source->blocks}, static_cast<const GeneratorState*>(source->base->data())};
    source->blocks += blocks;
    return range;
  }

  void set_state(mezzo::detail::Sequence& /*sequence*/, const GeneratorState& /*state*/) override {
    throw StateError("Generator::set_state", "no step to be recorded on this thread", "one that is",
                     "replays would not seed again: do it before or between calls of the captured step");
  }

  /// Reserves what one replay takes of each sequence and writes where it begins, in the order of `stream` and
  /// behind `replayed`, the replay before. Throws StateError while `stream` captures.
  void before_replay(const Stream& stream, const Event& replayed) {
    if (sources_.empty()) return;
    refuse_in_capture(stream, "replaying a step that draws random numbers");
    replayed.wait(stream);
    for (const Source& source : sources_) {
      const GeneratorState base = source.sequence->advance(source.blocks);
      staging(device_.index).upload(source.base->data(), &base, sizeof(base), stream);
    }
  }

 private:
  struct Source {
    Ref<mezzo::detail::Sequence> sequence;
    Ref<Storage> base;         // a GeneratorState
    std::uint64_t blocks = 0;  // of one replay
  };

  Device device_;
  std::vector<Source> sources_;
};

struct Graph::State : mezzo::detail::NoCopy {
  explicit State(Device device) : pool(device), stream(device), draws(device), recording(device) {}
  ~State() {
    // Not for the device, which would break a recording of another thread. The pool waits for the rest.
    const DeviceGuard guard(stream.device().index, std::nothrow);
    const RelaxedCapture relaxed;
    try {
      replayed.synchronize();
    } catch (const Error&) {  // the device failed; the next checked call says so
    }
    if (executable != nullptr) static_cast<void>(cudaGraphExecDestroy(executable));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }

  MemoryPool pool;
  Stream stream;   ///< that the work was captured in
  Event replayed;  ///< behind the newest replay
  GraphDraws draws;
  GraphRecording recording;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

namespace {

/// Ends the capture of a stream whatever happens.
class Capture : mezzo::detail::NoCopy {
 public:
  explicit Capture(const Stream& stream) : stream_(stream) {
    check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  ~Capture() {
    if (ended_) return;
    cudaGraph_t broken = nullptr;
    static_cast<void>(cudaStreamEndCapture(native(stream_), &broken));
    if (broken != nullptr) static_cast<void>(cudaGraphDestroy(broken));
    static_cast<void>(cudaGetLastError());
  }

  [[nodiscard]] cudaGraph_t end() {
    ended_ = true;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(native(stream_), &graph), "cudaStreamEndCapture");
    return graph;
  }

 private:
  const Stream& stream_;
  bool ended_ = false;
};

}  // namespace

Graph::Graph(Device device, const std::function<void()>& work) : state_(std::make_unique<State>(device)) {
  const DeviceGuard guard(device.index);
  // What was started before has to be done before the first replay, which `replay` orders by its own stream.
  const StreamGuard use(state_->stream);
  const MemoryPoolScope memory(state_->pool);
  const mezzo::detail::DrawRecorderScope random(state_->draws);
  const mezzo::detail::RecordingScope host(state_->recording);
  Capture capture(state_->stream);
  work();
  state_->recording.finish();
  state_->graph = capture.end();
  check(cudaGraphInstantiate(&state_->executable, state_->graph, 0), "cudaGraphInstantiate");
}

Graph::~Graph() = default;

void Graph::replay() {
  const Phase phase("replay");
  const Stream& stream = current_stream(state_->stream.device());
  const DeviceGuard guard(stream.device().index);
  if (state_->recording.has_states()) {
    refuse_in_capture(stream, "replaying a step that uses an optimizer or 16-bit copies of weights");
    state_->recording.before_replay();
  }
  state_->draws.before_replay(stream, state_->replayed);
  check(cudaGraphLaunch(state_->executable, native(stream)), "cudaGraphLaunch");
  if (!stream.is_capturing()) state_->replayed.record(stream);
  state_->recording.after_replay();
}

}  // namespace mezzo::cuda
