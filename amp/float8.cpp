// Which products a region's float8 options leave out, and the table of options that regions were opened with.
#include "mezzo/amp/float8.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/nn/call.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

namespace {

/// Written under the lock, read without.
struct Table {
  std::mutex mutex;
  std::array<std::atomic<const Fp8*>, detail::kMostFloat8Options + 1> rows{};
};
Table& table() {
  static auto* const made = new Table;  // regions may be open while statics end
  return *made;
}

void check(const Fp8& options) {
  if (!is_float8(options.gradients)) {
    throw DTypeError("amp::Fp8", "gradients in f8_e5m2 or f8_e4m3", to_string(options.gradients),
                     "name one of them");
  }
  if (options.max_n < 0 || options.max_k < 0)
    throw ValueError("amp::Fp8", "max_n and max_k of 0 or more",
                     std::to_string(options.max_n) + " and " + std::to_string(options.max_k),
                     "leave them out");
}

/// The paths that a thread has checked last.
struct Checked {
  const Fp8* options = nullptr;
  const nn::Module* root = nullptr;
};
constinit mezzo::detail::PerThread<Checked> last_checked;

/// Throws when a path of `skip` is none of the model's.
void check_paths(const Fp8& options, const nn::Module& root) {
  Checked& last = last_checked.get();
  if (last.options == &options && last.root == &root) return;
  const auto modules = root.named_modules();
  for (const std::string& path : options.skip) {
    const bool known = !path.empty() && std::any_of(modules.begin(), modules.end(),
                                                    [&](const auto& named) { return named.first == path; });
    if (known) continue;
    throw ValueError("amp::Fp8", "in skip: paths of modules of " + root.type_name(), "\"" + path + "\"",
                     "named_modules() lists them");
  }
  last = {&options, &root};
}

/// Whether the innermost module at work, or one that it is in, is in `skip`.
bool is_skipped(const Fp8& options) {
  const nn::Module* const innermost = nn::detail::innermost_call();
  if (options.skip.empty() || innermost == nullptr) return false;
  check_paths(options, *nn::detail::outermost_call());
  const std::string path = innermost->path();
  return std::any_of(options.skip.begin(), options.skip.end(), [&](const std::string& skipped) {
    return path.starts_with(skipped) && (path.size() == skipped.size() || path[skipped.size()] == '.');
  });
}

}  // namespace

std::uint64_t detail::number_of(const Fp8& options) {
  check(options);
  Table& known = table();
  const std::scoped_lock lock(known.mutex);
  for (std::uint64_t i = 1; i <= kMostFloat8Options; ++i) {
    const Fp8* const row = known.rows[i].load(std::memory_order_relaxed);
    if (row == nullptr) known.rows[i].store(new Fp8(options), std::memory_order_release);
    if (row == nullptr || *row == options) return i;
  }
  throw ValueError("Autocast",
                   "at most " + std::to_string(kMostFloat8Options) + " different fp8 options in a process",
                   "one more", "make the options once and use them for all regions");
}

const Fp8* detail::float8_options(std::uint64_t number) noexcept {
  return number == 0 ? nullptr : table().rows[number].load(std::memory_order_acquire);
}

std::string detail::why_not_float8(const Fp8& options, std::int64_t n, std::int64_t k) {
  std::string reason = mezzo::why_not_float8(n, k);
  if (!reason.empty()) return reason;
  if (n <= options.max_n && k <= options.max_k)
    return "small: N = " + std::to_string(n) + ", K = " + std::to_string(k);
  return is_skipped(options) ? "skipped" : "";
}

}  // namespace mezzo::amp
