// A learning-rate schedule as data: a flat list of nodes. Chains and sequences are such lists too, since each
// node says for which steps it holds (optim/schedule.h makes the lists, kernels/optim/schedule.h
// evaluates them).
#pragma once

#include <cstdint>
#include <limits>

#include "mezzo/kernels/optim/optimizer.h"

namespace mezzo::kernels {

/// The function of a node on the rate it is given, at u = step - origin.
enum class ScheduleKind : std::int32_t {
  constant,  ///< lr * to
  power,     ///< lr * base^floor(u / length)
  fade,      ///< lr * (factor that goes `from` -> `to` in `length` steps, and stays)
  cosine,    ///< lr -> `to` and back along a cosine, half a period in `length` steps, for ever
  restarts,  ///< lr -> `to` along a cosine in `length` steps, again from the start in `base` times as many
  ramp,      ///< `from` -> `to` between u = start and start + length whatever lr is; momentum likewise
  table,     ///< lr * table[u], the last value beyond
};

/// How a fade or ramp falls from 1 to 0 with its progress p in [0, 1].
enum class FadeShape : std::int32_t {
  linear,          ///< 1 - p
  cosine,          ///< (1 + cos(pi p)) / 2
  one_minus_sqrt,  ///< 1 - sqrt(p)
  power,           ///< (1 - p)^base
};

/// One step of the evaluation; takes part for begin <= step < end.
struct ScheduleNode {
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;  ///< of a schedule: it counts in doubles

  ScheduleKind kind = ScheduleKind::constant;
  FadeShape shape = FadeShape::linear;
  std::int64_t begin = 0, end = kForever, origin = 0;
  double from = 1, to = 1;
  double start = 0, length = 1;
  double base = 1;
  double momentum_from = -1, momentum_to = -1;  ///< negative: the momentum is left alone
  const double* table = nullptr;                ///< `length` values, where the evaluation runs
};

/// A parameter group in the memory of the device that evaluates it.
struct ScheduledGroup {
  double base = 0;  ///< the learning rate that the schedule is applied to
  Rates* rates = nullptr;
  const ScheduleNode* nodes = nullptr;
};

}  // namespace mezzo::kernels
