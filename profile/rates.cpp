// What the device reaches: FLOP per second in a large matrix product of a dtype, bytes per second in a large
// copy. Each is measured once in a process, the best of a few tries.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/profile/views.h"

namespace mezzo::profile {

namespace {

/// The shortest of a few runs.
template <class F>
double seconds_of(Device device, const F& run) {
  constexpr int kTries = 4;
  double best = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    synchronize(device);
    const std::int64_t begin = nanoseconds();
    run();
    synchronize(device);
    best = std::min(best, static_cast<double>(nanoseconds() - begin) * 1e-9);
  }
  return best;
}

/// Of a product that is so large that it takes a while.
double product_rate(Device device, DType dtype) {
  constexpr double kWhile = 3e-3;
  constexpr std::int64_t kLargest = 8192;
  for (std::int64_t n = 256;; n *= 2) {
    const Tensor a = full({n, n}, 0.5, {.dtype = dtype, .device = device});
    const double seconds = seconds_of(device, [&] { static_cast<void>(matmul(a, a)); });
    if (seconds > kWhile || n == kLargest) return 2.0 * std::pow(static_cast<double>(n), 3) / seconds;
  }
}

double copy_rate(Device device) {
  const Tensor from = zeros({std::int64_t{1} << 24}, {.device = device}), to = empty_like(from);
  return 2.0 * static_cast<double>(from.numel()) * 4 / seconds_of(device, [&] { Tensor(to).copy_(from); });
}

/// By "f32", ...; "" for the copy.
std::optional<double> rate(Device device, const std::string& dtype) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::optional<double>> known;
  const std::scoped_lock lock(mutex);
  const auto [found, fresh] = known.try_emplace({mezzo::to_string(device), dtype});
  if (!fresh) return found->second;
  const PlainOps plain;
  const OpObserverGuard no_observer{nullptr};
  try {
    if (dtype.empty())
      found->second = copy_rate(device);
    else if (const DType type = parse_dtype(dtype); is_floating(type))
      found->second = product_rate(device, type);
  } catch (const Error&) {  // no memory for it
  }
  return found->second;
}

}  // namespace

void add_rates(Report& report) {
  for (OpRow& row : report.ops) {
    if (row.seconds <= 0) continue;
    const std::int64_t work = row.flop > 0 ? row.flop : row.bytes;
    if (work == 0) continue;
    if (const auto reachable = rate(report.device, row.flop > 0 ? row.dtype : ""))
      row.reached = static_cast<double>(work) / row.seconds / *reachable;
  }
}

}  // namespace mezzo::profile
