// A learning-rate schedule as a value: a pure function of the step and of the base rate. Options of every
// kind (optim/schedules.h) turn into one, chains and sequences are made of others, and optim/lr_scheduler.h
// drives an optimizer by one.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/kernels/optim/schedule_node.h"

namespace mezzo::optim {

namespace detail {
/// Whether it can be a learning rate or a factor of one: finite and >= 0.
[[nodiscard]] bool is_rate(double value);
}  // namespace detail

/// An option that is the same for all parameter groups, or a list with one value per group.
template <class T>
class PerGroup {
 public:
  PerGroup() noexcept = default;
  template <std::convertible_to<T> U>
  PerGroup(U&& one) : PerGroup(One{}, T(std::forward<U>(one))) {}
  PerGroup(std::initializer_list<T> values);
  PerGroup(std::vector<T> values);

  [[nodiscard]] const std::vector<T>& values() const& noexcept { return values_; }
  [[nodiscard]] std::vector<T> values() && { return std::move(values_); }
  [[nodiscard]] const T& of(std::size_t group) const;
  /// Throws: ValueError in the name of `op` unless there is one value or one for each of `groups`.
  void require_groups(std::string_view op, std::string_view option, std::size_t groups) const;

 private:
  struct One {};
  PerGroup(One, T one);

  std::vector<T> values_;
};

/// Throws: ValueError in the name of `op` for a list `option` of `values` values for `groups` groups.
void require_group_values(std::string_view op, std::string_view option, std::size_t values,
                          std::size_t groups);

// --- definitions. Not in the class, where they would be inline: every file with options of a schedule would
// instantiate the bodies that the library has (extern template).

template <class T>
PerGroup<T>::PerGroup(One, T one) : values_{std::move(one)} {}
template <class T>
PerGroup<T>::PerGroup(std::initializer_list<T> values) : values_(values) {}
template <class T>
PerGroup<T>::PerGroup(std::vector<T> values) : values_(std::move(values)) {}
template <class T>
const T& PerGroup<T>::of(std::size_t group) const {
  return values_[values_.size() == 1 ? 0 : group];
}

template <class T>
void PerGroup<T>::require_groups(std::string_view op, std::string_view option, std::size_t groups) const {
  require_group_values(op, option, values_.size(), groups);
}

/// A factor by the number of the step, computed on the host.
using LrLambda = mezzo::detail::Function<double(std::int64_t)>;

extern template class PerGroup<double>;
extern template class PerGroup<LrLambda>;
extern template class PerGroup<kernels::ScheduleNode>;

/// lr(step, base), and momentum for schedules that drive it. A value: copies share nothing that changes.
class Schedule {
 public:
  /// The part of a schedule for some of the steps, in the order of application. Its nodes are one for all
  /// groups or one per group, and differ in their numbers only.
  struct Piece {
    PerGroup<kernels::ScheduleNode> nodes = {};
    /// Instead of a table: `node.to` of a constant node, asked for every step.
    PerGroup<LrLambda> lambdas = {};
    /// Memory of the nodes' tables.
    std::vector<std::shared_ptr<const std::vector<double>>> tables = {};
    /// The largest step - origin that the schedule has been made for.
    std::int64_t last = kernels::ScheduleNode::kForever;
    std::string_view option = {};  ///< what may be given per group
    /// Groups that it tells apart; 1: none.
    [[nodiscard]] std::size_t groups() const;
  };

  Schedule(std::string name, std::vector<Piece> pieces);
  /// From the options of any schedule. Throws: what Options::schedule() throws.
  template <class Options>
  requires requires(const Options& options) {
    { options.schedule() } -> std::same_as<Schedule>;
  }
  Schedule(const Options& options) : Schedule(options.schedule()) {}

  /// All of them at once: the rate that one makes is the base of the next.
  [[nodiscard]] static Schedule chain(std::string_view name, const std::vector<Schedule>& schedules);
  /// One after the other: schedule i + 1 begins, with its step 0, at milestones[i].
  [[nodiscard]] static Schedule sequence(std::string_view name, const std::vector<Schedule>& schedules,
                                         const std::vector<std::int64_t>& milestones);

  /// "StepLR"; "SequentialLR(LinearLR, StepLR)".
  [[nodiscard]] const std::string& name() const& noexcept { return name_; }
  [[nodiscard]] std::string name() && { return std::move(name_); }
  /// The learning rate at a step (>= 0).
  [[nodiscard]] double lr(std::int64_t step, double base, std::size_t group = 0) const {
    return rates(step, {base, 0}, group).lr;
  }
  /// lr() together with the momentum, which stays as given unless drives_momentum(). Throws: IndexError for a
  /// group that options given per group do not have.
  [[nodiscard]] kernels::Rates rates(std::int64_t step, kernels::Rates base, std::size_t group = 0) const;

  [[nodiscard]] bool drives_momentum() const;
  /// Whether a function that only the host can call has a say.
  [[nodiscard]] bool needs_host() const;
  /// Whether the schedule has been made for this step; false beyond a cycle's total_steps.
  [[nodiscard]] bool covers(std::int64_t step) const;
  /// Throws: ValueError when an option was given per group and not for as many as `groups`.
  void require_groups(std::size_t groups) const;
  [[nodiscard]] const std::vector<Piece>& pieces() const& noexcept { return pieces_; }
  [[nodiscard]] std::vector<Piece> pieces() && { return std::move(pieces_); }

 private:
  /// Appends the pieces of another schedule for begin <= step < end, its step 0 being `begin`.
  void append(const Schedule& other, std::int64_t begin, std::int64_t end);

  std::string name_;
  std::vector<Piece> pieces_;
};

}  // namespace mezzo::optim
