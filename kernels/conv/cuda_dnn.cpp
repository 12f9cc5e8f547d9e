// dnn_conv: which plan a map runs with, and how its arrays reach cuDNN. x and y go as they lie; row-major
// 16-bit images too, which cuDNN turns itself inside of its plans' workspace and whose heuristics know what
// that costs. The weight of channels-last images is turned by a copy. cuDNN has no f32 results of 16-bit
// operands (heuristics of version 9.19 for an H200), which the gradients of f32 weights are under autocast:
// they are widened to f32 and multiplied by TF32 engines, which round none of them. GPUs that do not multiply
// bf16 have TF32 neither: their results of bf16 are f32 too, and rounded by a copy. A bias is written into
// the result first and the product added to it: in one rounding, but for some engines of 16-bit results (seen
// of a transposed convolution over three dims, 9.19 on an H200).
#include "mezzo/kernels/conv/cuda_dnn.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "mezzo/core/cuda.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/core/error.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/kernels/conv/cuda_dnn_plan.h"
#include "mezzo/kernels/cuda/bf16.h"
#include "mezzo/kernels/cuda/copy.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/plans.h"

namespace mezzo::kernels::cuda {

namespace {

std::atomic<bool> use_dnn = true;
std::atomic<std::uint64_t> plans_asked = 0, plans_refused = 0, maps_run = 0;

}  // namespace

DnnConvCounts dnn_conv_counts() { return {plans_asked, plans_refused, maps_run}; }
bool conv_by_dnn() { return use_dnn; }
void set_conv_by_dnn(bool on) { use_dnn = on; }

#if MEZZO_HAVE_CUDNN
namespace {

/// With set_benchmark(true): plans that are timed, and timings of each.
constexpr std::size_t kCandidates = 5;
constexpr int kTimings = 5;
/// Convolutions that are remembered. A program with ever new sizes has them forgotten at this number, but for
/// those that are in use and those that a captured graph may run again.
constexpr std::size_t kMostPlans = 1024;

/// x, weight and y as cuDNN finds them.
using Pointers = std::array<void*, 3>;
constexpr std::size_t index_of_result(ConvMap map) {
  return map == ConvMap::input_gradient ? 0 : map == ConvMap::weight_gradient ? 1 : 2;
}

/// The largest power of two up to 16 (no engine asks for more) that divides the address.
std::int64_t alignment_of(const void* data) {
  const auto bits = reinterpret_cast<std::uintptr_t>(data) | std::uintptr_t{16};
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

/// A map on a device with the plan that it runs with. Used under the lock of the device's handle. It belongs
/// to those that remember it, to calls under way, and to the graphs that captured it.
class Convolution : public std::enable_shared_from_this<Convolution> {
 public:
  /// Throws DnnRefusal, also when there is no plan.
  Convolution(const DnnProblem& problem, cudnnHandle_t handle)
      : problem_(problem), handle_(handle), graph_(problem, handle) {
    std::vector<DnnPlan> best = dnn_plans(problem_, graph_, handle, 1);
    if (best.empty()) throw DnnRefusal{CUDNN_STATUS_NOT_SUPPORTED};
    plan_.emplace(std::move(best.front()));
  }

  /// Puts the map into the stream. Throws DnnRefusal.
  void run(const Pointers& pointers, std::int64_t result_bytes, const mezzo::cuda::Stream& stream) {
    check_dnn(dnn()->set_stream(handle_, mezzo::cuda::native(stream)));
    if (stream.is_capturing()) {
      if (auto* const graph = mezzo::detail::Recording::of(stream.device())) graph->hold(shared_from_this());
    } else if (!timed_ && !is_in_graph() && mezzo::cuda::benchmark()) {
      timed_ = true;
      take_fastest(pointers, result_bytes, stream);
    }
    // From the stream's own pool: later maps in the stream reuse it, maps in other streams do not.
    const Scratch workspace(stream.device(), plan_->workspace);
    check_dnn(start(*plan_, pointers, workspace.data()));
    mezzo::cuda::after_launch(stream);
  }
  /// The map, and the plan that it runs with.
  [[nodiscard]] std::string description() const {
    const std::string way = problem_.map == ConvMap::forward          ? "conv forward"
                            : problem_.map == ConvMap::input_gradient ? "conv input gradient"
                                                                      : "conv weight gradient";
    const Windows& w = problem_.windows;
    const auto sizes = [](std::int64_t first, std::int64_t channels, const Windows::Sizes& s) {
      return to_string(Shape{first, channels, s[0], s[1], s[2]});
    };
    const std::int64_t of_a_group = problem_.in_channels / problem_.groups;
    return way + " x " + sizes(problem_.batch, problem_.in_channels, w.input) + ", weight " +
           sizes(problem_.out_channels, of_a_group, w.kernel) +
           (problem_.channels_last ? ", channels last, " : ", ") + to_string(problem_.operands) + " to " +
           to_string(problem_.result) + (problem_.tf32 ? " in TF32" : "") +
           (problem_.accumulate ? ", with bias" : "") + ": engine " + engine_of(*plan_) + ", workspace " +
           std::to_string(plan_->workspace) + " bytes, " + (timed_ ? "fastest" : "recommended");
  }

 private:
  /// Whether a graph may run the plan again, which has to stay then: more than the cache and the call under
  /// way own it. (So do other threads for a moment: the plan is timed at a later call then.)
  [[nodiscard]] bool is_in_graph() const { return weak_from_this().use_count() > 2; }

  [[nodiscard]] cudnnStatus_t start(const DnnPlan& plan, const Pointers& pointers, void* workspace) const {
    const DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kDnnIds);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             static_cast<std::int64_t>(pointers.size()), pointers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    pack.finalize();
    return dnn()->execute(handle_, plan.plan.get(), pack.get());
  }

  /// Times the first plans, with results into memory of their own, and keeps the fastest. Where there is no
  /// memory for that, the recommended one stays.
  void take_fastest(Pointers pointers, std::int64_t result_bytes, const mezzo::cuda::Stream& stream) {
    std::vector<DnnPlan> candidates = dnn_plans(problem_, graph_, handle_, kCandidates);
    if (candidates.size() < 2) return;
    std::int64_t workspace_bytes = 0;
    for (const DnnPlan& one : candidates) workspace_bytes = std::max(workspace_bytes, one.workspace);
    try {
      const Scratch result(stream.device(), result_bytes), workspace(stream.device(), workspace_bytes);
      pointers[index_of_result(problem_.map)] = result.data();
      float least = std::numeric_limits<float>::infinity();
      for (DnnPlan& one : candidates) {
        const float time = median_ms(one, pointers, workspace.data(), stream);
        if (time >= least) continue;
        least = time;
        plan_.emplace(std::move(one));
      }
    } catch (const OutOfMemoryError&) {
    }
  }

  /// Milliseconds of a run; infinite for a plan that refuses.
  [[nodiscard]] float median_ms(const DnnPlan& plan, const Pointers& pointers, void* workspace,
                                const mezzo::cuda::Stream& stream) const {
    constexpr float kRefused = std::numeric_limits<float>::infinity();
    if (start(plan, pointers, workspace) != CUDNN_STATUS_SUCCESS) return kRefused;  // warms up too
    std::array<float, kTimings> times{};
    mezzo::cuda::Event begin(mezzo::cuda::Timing::on), end(mezzo::cuda::Timing::on);
    for (float& time : times) {
      begin.record(stream);
      if (start(plan, pointers, workspace) != CUDNN_STATUS_SUCCESS) return kRefused;
      end.record(stream);
      end.synchronize();
      time = end.elapsed_ms(begin);
    }
    std::sort(times.begin(), times.end());
    return times[kTimings / 2];
  }

  DnnProblem problem_;
  cudnnHandle_t handle_;
  DnnGraph graph_;
  std::optional<DnnPlan> plan_;
  bool timed_ = false;
};

/// All that a plan depends on.
using Key = std::array<std::int64_t, 33>;
Key key_of(const DnnProblem& p, int device_index) {
  Key key{};
  auto* at = key.begin();
  for (const std::int64_t value :
       {std::int64_t{device_index}, static_cast<std::int64_t>(p.map), static_cast<std::int64_t>(p.operands),
        static_cast<std::int64_t>(p.result), p.batch, p.in_channels, p.out_channels, p.groups,
        std::int64_t{p.channels_last}, std::int64_t{p.accumulate}, std::int64_t{p.tf32},
        dnn_workspace_limit()})
    *at++ = value;
  const Windows& w = p.windows;
  for (const auto& sizes : {w.input, w.kernel, w.output, w.stride, w.padding, w.dilation, p.alignment})
    at = std::copy(sizes.begin(), sizes.end(), at);
  return key;
}

using Known = std::map<Key, std::shared_ptr<Convolution>>;
struct KnownConvolutions {
  std::mutex mutex;
  Known known;
};
KnownConvolutions& known_convolutions() {
  static auto* const all = new KnownConvolutions;  // lives as long as CUDA, beyond static destruction
  return *all;
}

/// The convolution of a problem, nullptr when cuDNN has none, and nullopt when it may not be asked: the
/// stream captures. Under the lock of the device's handle.
std::optional<std::shared_ptr<Convolution>> convolution_for(const DnnProblem& problem, DnnHandle& handle,
                                                            const mezzo::cuda::Stream& stream) {
  KnownConvolutions& all = known_convolutions();
  const std::scoped_lock lock(all.mutex);
  const Key key = key_of(problem, stream.device().index);
  if (const auto found = all.known.find(key); found != all.known.end()) return found->second;
  if (stream.is_capturing()) return {};
  if (all.known.size() >= kMostPlans)
    std::erase_if(all.known, [](const auto& one) { return one.second.use_count() <= 1; });
  ++plans_asked;
  std::shared_ptr<Convolution>& made = all.known[key];
  try {
    handle.make();
    made = std::make_shared<Convolution>(problem, handle.handle);
  } catch (const DnnRefusal&) {
    ++plans_refused;
  }
  return made;
}

/// An array as cuDNN finds it: itself, or a copy in another dtype or, of a weight, in the order [output
/// channels, kernel positions, input channels].
class Prepared {
 public:
  Prepared(Device device, const View& given, DType dtype, bool turned) : given_(given), prepared_(given) {
    const std::int64_t channels = given.shape[1], k1 = given.shape[3], k2 = given.shape[4];
    const bool turns = turned && channels > 1 && given.shape[2] * k1 * k2 > 1;
    if (dtype == given.dtype && !turns) return;
    memory_.emplace(device, layout::numel(given.shape) * size_of(dtype));
    prepared_.data = memory_->data(), prepared_.dtype = dtype;
    if (turns) prepared_.strides = {given.strides[0], 1, k1 * k2 * channels, k2 * channels, channels};
  }
  [[nodiscard]] const View& view() const { return prepared_; }
  void read(Device device) const {
    if (memory_) copy(device, prepared_, given_);
  }
  void write_back(Device device) const {
    if (memory_) copy(device, given_, prepared_);
  }

 private:
  View given_, prepared_;
  std::optional<Scratch> memory_;
};

/// The dtype that operands are multiplied in; nullopt for what cuDNN is not asked. It has only operands of
/// one dtype and results of the same, so others are widened for a result that is as wide.
std::optional<DType> operand_dtype(DType a, DType b, DType result) {
  if (a == b && a == result) return a;
  const bool narrower = result == DType::f32 && (a == DType::f64 || b == DType::f64);
  return narrower || is_16bit(result) ? std::nullopt : std::optional(result);
}

/// Whether TF32 engines, which GPUs since 8.0 have, may take f32 operands: where that is allowed, and where
/// they were 16 bits wide, of which TF32 keeps all.
bool takes_tf32(Device device, DType a, DType b) {
  return mezzo::cuda::compute_capability(device.index) >= 80 &&
         (mezzo::cuda::allow_tf32() || (is_16bit(a) && is_16bit(b)));
}

/// Bytes that widened copies of operands may take; convolutions that need more are left to our own
/// algorithms, which walk over the batch.
constexpr std::int64_t kMostCopies = std::int64_t{4} << 30;

/// A call of dnn_conv: its arrays, and which of them are read.
struct Call {
  std::array<const View*, 3> arrays;  ///< x, weight, y
  std::size_t result;                 ///< which of them is written
  DType operands, written;            ///< what cuDNN reads and writes

  [[nodiscard]] const View& array(std::size_t after_result) const {
    return *arrays[(result + after_result) % 3];
  }
  [[nodiscard]] DType dtype(std::size_t which) const { return which == result ? written : operands; }
  [[nodiscard]] std::int64_t copied_bytes() const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < arrays.size(); ++i)
      if (arrays[i]->dtype != dtype(i)) bytes += layout::numel(arrays[i]->shape) * size_of(dtype(i));
    return bytes;
  }
};

/// See dnn_conv. Throws DnnRefusal.
bool compute(Device device, ConvMap map, const ConvShape& shape, const Call& call, const void* bias) {
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  const auto prepared = [&](std::size_t which) {
    return Prepared(device, *call.arrays[which], call.dtype(which), which == 1 && shape.channels_last);
  };
  const Prepared x = prepared(0), weight = prepared(1), y = prepared(2);
  const std::array<const Prepared*, 3> all{&x, &weight, &y};
  const Pointers pointers{x.view().data, weight.view().data, y.view().data};
  const View& result = all[call.result]->view();
  const DnnProblem problem{
      map,
      call.operands,
      result.dtype,
      shape.batch,
      shape.in_channels,
      shape.out_channels,
      shape.groups,
      shape.channels_last,
      shape.windows,
      {alignment_of(pointers[0]), alignment_of(pointers[1]), alignment_of(pointers[2])},
      bias != nullptr,
      call.operands == DType::f32 && takes_tf32(device, call.array(1).dtype, call.array(2).dtype)};
  DnnHandle& handle = dnn_handle(device.index);
  const std::scoped_lock lock(handle.mutex);
  const auto found = convolution_for(problem, handle, stream);
  if (!found || *found == nullptr) return false;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != call.result) all[i]->read(device);
  if (bias != nullptr)
    copy(device, result, {const_cast<void*>(bias), call.array(0).dtype, result.shape, {0, 1, 0, 0, 0}});
  (*found)->run(pointers, layout::numel(result.shape) * size_of(result.dtype), stream);
  all[call.result]->write_back(device);
  return true;
}

}  // namespace

std::string conv_plans() {
  KnownConvolutions& all = known_convolutions();
  std::unique_lock lock(all.mutex);
  const Known known = all.known;  // a handle's lock is taken first, so not under this one
  lock.unlock();
  std::string text;
  for (const auto& [key, convolution] : known) {
    if (convolution == nullptr) continue;
    const int device = static_cast<int>(key[0]);
    const std::scoped_lock used(dnn_handle(device).mutex);
    text += to_string(Device::cuda(device)) + " " + convolution->description() + "\n";
  }
  return text;
}

bool dnn_conv(Device device, ConvMap map, const ConvShape& shape, const View& x, const View& weight,
              const View& y, const void* bias) {
  if (!conv_by_dnn() || dnn() == nullptr) return false;
  Call call{{&x, &weight, &y}, index_of_result(map), {}, {}};
  call.written = call.array(0).dtype;
  if (call.written == DType::bf16 && !multiplies_bf16(device, "conv")) call.written = DType::f32;
  const auto operands = operand_dtype(call.array(1).dtype, call.array(2).dtype, call.written);
  if (!operands) return false;
  call.operands = *operands;
  if (call.copied_bytes() > kMostCopies) return false;
  const mezzo::cuda::DeviceGuard guard(device.index);
  // The first use of a kernel loads it: allowed in a capture too.
  const mezzo::cuda::RelaxedCapture relaxed;
  try {
    if (!compute(device, map, shape, call, bias)) return false;
  } catch (const DnnRefusal&) {
    return false;
  } catch (const OutOfMemoryError&) {
    return false;  // for copies and workspace: our own way does with less
  }
  ++maps_run;
  return true;
}

#else

std::string conv_plans() { return {}; }

bool dnn_conv(Device /*device*/, ConvMap /*map*/, const ConvShape& /*shape*/, const View& /*x*/,
              const View& /*weight*/, const View& /*y*/, const void* /*bias*/) {
  return false;
}

#endif

}  // namespace mezzo::kernels::cuda
