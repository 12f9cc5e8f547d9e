// The dtypes that ops run in, and the cost of autocast: each op with the dtypes it got and gave, and the
// casts that autocast made for it.
//   const auto trace = amp::trace();
//   { amp::Autocast region(device, DType::f16);  loss = net(x); }
//   loss.backward();
//   std::cout << trace.report();
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/autograd/op.h"
#include "mezzo/core/value.h"

namespace mezzo::amp {

/// Casts. The bytes of one are those it reads and those it writes: 6 per element from f32 to f16.
struct CastCounts {
  std::int64_t casts = 0;  ///< that were made
  std::int64_t bytes = 0;
  std::int64_t weights = 0;  ///< casts of weights among them, whose copies are kept (Autocast's cache)
  std::int64_t spared = 0;   ///< casts that were not made, as such a copy was there
  std::int64_t spared_bytes = 0;
};

/// Calls of an op with the same dtypes.
struct TraceDTypes {
  std::vector<DType> inputs;  ///< of each input that was given, after autocast
  std::vector<DType> outputs;
  std::int64_t calls = 0;
};

struct TraceRow {
  std::string op;
  bool in_backward = false;
  /// The category by which autocast chose the dtype. Empty outside of an enabled region, and in backward,
  /// which runs outside.
  std::optional<Category> policy = {};
  std::int64_t calls = 0;
  std::vector<TraceDTypes> dtypes = {};  ///< in order of their first calls
  /// The casts that autocast made for this op. In rows of to_dtype, whose calls are casts by the program, by
  /// gradient functions and by the engine: these calls.
  CastCounts casts = {};
};

struct TraceReport {
  /// Forward first; then by policy, none last; then by name.
  std::vector<TraceRow> rows;
  [[nodiscard]] CastCounts casts() const;  ///< of all rows
  [[nodiscard]] std::int64_t calls() const;
  /// {"rows": [{"op", "in_backward", "policy", "calls", "dtypes": [{"inputs", "outputs", "calls"}], "casts",
  /// "cast_bytes", "weights", "spared", "spared_bytes"}, ...]} and the same five sums and "calls" of all
  /// rows.
  [[nodiscard]] Value to_value() const;
};
/// A table with totals.
[[nodiscard]] std::string to_string(const TraceReport& report);
std::ostream& operator<<(std::ostream& stream, const TraceReport& report);

/// Counts the ops of this thread while it lives, backward's ops too. Ops that an op calls in its own forward
/// are not counted apart from it; in-place writes and optimizers are not seen. Traces and anomaly detection
/// nest: outer traces and observers go on watching. A thread without a trace pays nothing. Traces may end in
/// any order, inside of a hook or observer, on another thread while no op runs on the thread that they watch
/// (the one that made them), and after that thread.
class Trace : mezzo::detail::NoCopy {
 public:
  Trace();
  ~Trace();
  /// The ops and casts since the trace was made or reset.
  [[nodiscard]] TraceReport report() const;
  void reset();

 private:
  class Recorder;
  Ref<Recorder> recorder_;  // it may be at work when this ends
};

[[nodiscard]] inline Trace trace() { return {}; }

}  // namespace mezzo::amp
