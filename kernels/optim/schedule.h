// Learning-rate schedules, for every device: rates as a pure function of the step, node by node; and the
// kernel that counts steps and writes rates in device memory, so that a training loop or a captured step
// follows its schedule without the host. For .cpp files: headers that users include take
// kernels/optim/schedule_node.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/optim/schedule_node.h"
#include "mezzo/kernels/scaler/scaler_record.h"

namespace mezzo::kernels {

/// The rates at a step. f64; cos and pow are the device's, which may differ in the last bits.
struct ScheduleFn {
  /// `rates`: the base rate and the momentum as it is.
  MEZZO_HD Rates operator()(const ScheduleNode* nodes, std::int64_t count, std::int64_t step,
                            Rates rates) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const ScheduleNode& node = nodes[i];
      if (node.begin <= step && step < node.end) apply(node, static_cast<double>(step - node.origin), rates);
    }
    return rates;
  }

 private:
  /// Exactly `from` at weight 1 and `to` at 0.
  MEZZO_HD static double mix(double from, double to, double weight) {
    return weight * from + (1.0 - weight) * to;
  }
  MEZZO_HD static double cosine(double p) {
    constexpr double kPi = 3.14159265358979323846;
    return 0.5 * (1.0 + math::cos(kPi * p));
  }
  MEZZO_HD static double weight(const ScheduleNode& node, double p) {
    switch (node.shape) {
      case FadeShape::cosine:
        return cosine(p);
      case FadeShape::one_minus_sqrt:
        return 1.0 - math::sqrt(p);
      case FadeShape::power:
        return math::pow(1.0 - p, node.base);
      case FadeShape::linear:
        break;
    }
    return 1.0 - p;
  }
  /// How much of a fade or ramp has passed, from 0 to 1. With length 0 it is 0 at its first step and 1 after
  /// it.
  MEZZO_HD static double progress(const ScheduleNode& node, double u) {
    const double done = u - node.start;
    if (done <= 0) return 0.0;
    return done < node.length ? done / node.length : 1.0;
  }
  /// The part of the present cycle that is over. Cycles that grow are fewer than the bits of the step.
  MEZZO_HD static double cycle_progress(const ScheduleNode& node, double u) {
    if (node.base == 1.0) return std::fmod(u, node.length) / node.length;
    double length = node.length;
    while (u >= length) {
      u -= length;
      length *= node.base;
    }
    return u / length;
  }
  MEZZO_HD static void ramp(const ScheduleNode& node, double u, Rates& rates) {
    const double part = weight(node, progress(node, u));
    rates.lr = mix(node.from, node.to, part);
    if (node.momentum_to >= 0) rates.momentum = mix(node.momentum_from, node.momentum_to, part);
  }
  MEZZO_HD static void apply(const ScheduleNode& node, double u, Rates& rates) {
    switch (node.kind) {
      case ScheduleKind::constant:
        rates.lr *= node.to;
        break;
      case ScheduleKind::power:
        rates.lr *= math::pow(node.base, std::floor(u / node.length));
        break;
      case ScheduleKind::fade:
        rates.lr *= mix(node.from, node.to, weight(node, progress(node, u)));
        break;
      case ScheduleKind::cosine:
        rates.lr = mix(rates.lr, node.to, cosine(std::fmod(u, 2.0 * node.length) / node.length));
        break;
      case ScheduleKind::restarts:
        rates.lr = mix(rates.lr, node.to, cosine(cycle_progress(node, u)));
        break;
      case ScheduleKind::ramp:
        ramp(node, u, rates);
        break;
      case ScheduleKind::table:
        rates.lr *= node.table[static_cast<std::int64_t>(u < node.length ? u : node.length - 1.0)];
        break;
    }
  }
};

/// See kernels::advance_schedule.
struct AdvanceScheduleFn {
  const ScheduledGroup* groups;
  std::int64_t num_groups, num_nodes;
  std::int64_t* step;
  std::int64_t by;
  const ScalerRecord* record;

  MEZZO_HD void operator()() const {
    if (record != nullptr && record->found_inf != 0) return;
    *step += by;
    for (std::int64_t g = 0; g < num_groups; ++g) {
      const ScheduledGroup& group = groups[g];
      *group.rates = ScheduleFn{}(group.nodes, num_nodes, *step, {group.base, group.rates->momentum});
    }
  }
};

/// Unless `record` (may be null) says skip: *step += by, and every group's rates become what its schedule
/// says of that step. All pointers, those in the groups too, are memory of `device`; each group has
/// `num_nodes` nodes. One thread; nothing is read back.
MEZZO_KERNEL(advance_schedule, void(const AdvanceScheduleFn& advance));

}  // namespace mezzo::kernels
