// A bracket around a point that satisfies the conditions, then its refinement by cubic interpolation.
#include "mezzo/optim/lbfgs/strong_wolfe.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mezzo::optim::detail {

namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;  // c1 and c2
constexpr double kLeastBracket = 1e-9;  // of a bracket's length times the direction's largest part

/// The least point of the cubic through two points with their slopes, within bounds; their middle where the
/// cubic has none.
double cubic_minimum(const LinePoint& a, const LinePoint& b, double low, double high) {
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const bool in_order = a.step <= b.step;
  const LinePoint &left = in_order ? a : b, &right = in_order ? b : a;
  const double least =
      right.step - (right.step - left.step) * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
  return std::min(std::max(least, low), high);
}

/// The search's state. `bracket` has two points, or one that is the answer.
class Search {
 public:
  explicit Search(const Line& line) : line_(line) {}

  LinePoint run(double first) {
    find_bracket(first);
    while (!found_ && rounds_ < line_.most_evaluations) {
      if (std::abs(bracket_[1].step - bracket_[0].step) * line_.largest < kLeastBracket) break;
      refine();
    }
    return found_ ? answer_ : bracket_[low_];
  }

 private:
  [[nodiscard]] bool decreases(const LinePoint& point) const {
    return !(point.loss > line_.start.loss + kDecrease * point.step * line_.start.slope);
  }
  [[nodiscard]] bool is_flat(const LinePoint& point) const {
    return std::abs(point.slope) <= -kCurvature * line_.start.slope;
  }
  void set_bracket(const LinePoint& a, const LinePoint& b) {
    bracket_ = {a, b};
    sort_bracket();
  }
  void sort_bracket() { low_ = bracket_[0].loss <= bracket_[1].loss ? 0 : 1; }

  void find_bracket(double first) {
    LinePoint previous = line_.start, point = line_.at(first);
    for (; rounds_ < line_.most_evaluations; ++rounds_) {
      if (!decreases(point) || (rounds_ > 1 && point.loss >= previous.loss))
        return set_bracket(previous, point);
      if (is_flat(point)) {
        found_ = true;
        answer_ = point;
        return;
      }
      if (point.slope >= 0) return set_bracket(previous, point);
      const double next =
          cubic_minimum(previous, point, point.step + 0.01 * (point.step - previous.step), point.step * 10);
      previous = point;
      point = line_.at(next);
    }
    set_bracket(line_.start, point);
  }

  /// A step within the bracket, not too near to its ends twice in a row.
  [[nodiscard]] double trial() {
    const double low = std::min(bracket_[0].step, bracket_[1].step);
    const double high = std::max(bracket_[0].step, bracket_[1].step);
    const double step = cubic_minimum(bracket_[0], bracket_[1], low, high);
    const double margin = 0.1 * (high - low);
    if (std::min(high - step, step - low) >= margin) {
      was_near_end_ = false;
      return step;
    }
    if (!was_near_end_ && step < high && step > low) {
      was_near_end_ = true;
      return step;
    }
    was_near_end_ = false;
    return std::abs(step - high) < std::abs(step - low) ? high - margin : low + margin;
  }

  void refine() {
    const LinePoint point = line_.at(trial());
    ++rounds_;
    LinePoint &low = bracket_[low_], &high = bracket_[1 - low_];
    if (!decreases(point) || point.loss >= low.loss) {
      high = point;
      sort_bracket();
      return;
    }
    if (is_flat(point)) {
      found_ = true;
      answer_ = point;
      return;
    }
    if (point.slope * (high.step - low.step) >= 0) high = low;
    low = point;
  }

  const Line& line_;
  std::array<LinePoint, 2> bracket_;
  std::size_t low_ = 0;
  LinePoint answer_;
  bool found_ = false, was_near_end_ = false;
  std::int64_t rounds_ = 0;
};

}  // namespace

LinePoint strong_wolfe(const Line& line, double first) { return Search(line).run(first); }

}  // namespace mezzo::optim::detail
