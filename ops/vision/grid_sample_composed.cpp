// grid_sample and its gradients in public ops: the oracle of the kernels, and what higher derivatives
// differentiate. Coordinates are [N, places] per axis, values [N, C, places].
#include "mezzo/ops/ops.h"
#include "mezzo/ops/vision/sampling_common.h"

namespace mezzo::ops {

namespace {

/// A position mirrored at both ends, which are given twice as large, until it lies between them.
Tensor mirrored(const Tensor& at, std::int64_t twice_low, std::int64_t twice_high) {
  if (twice_low == twice_high) return at * 0.0;
  const double low = static_cast<double>(twice_low) / 2;
  const double span = static_cast<double>(twice_high - twice_low) / 2;
  const Tensor before = low - at, behind = at - low, distance = where(gt(before, 0.0), before, behind);
  const Tensor turns = floor(distance / span).detach();
  const Tensor beyond = distance - turns * span;
  return where(ne(remainder(turns, 2.0), 0.0), span - beyond, beyond) + low;
}

/// A position kept within an image, without a slope where that or the edge holds it.
Tensor clipped(const Tensor& at, double last) {
  const Tensor moves = logical_and(gt(at, 0.0), lt(at, last));
  return where(moves, at, clamp(at, 0.0, last).detach());
}

/// Where a coordinate lies along an axis.
Tensor position_of(const Tensor& coordinate, std::int64_t size, const GridSampleOptions& options) {
  const auto places = static_cast<double>(size), last = places - 1;
  const Tensor at =
      options.align_corners ? (coordinate + 1.0) * (last / 2) : ((coordinate + 1.0) * places - 1.0) / 2.0;
  if (options.padding_mode == GridPadding::zeros) return at;
  if (options.padding_mode == GridPadding::border) return clipped(at, last);
  return clipped(options.align_corners ? mirrored(at, 0, 2 * (size - 1)) : mirrored(at, -1, 2 * size - 1),
                 last);
}

/// A call, and the cells that its places lie in.
class ComposedSampling {
 public:
  ComposedSampling(const Tensor& x, const Tensor& grid, const GridSampleOptions& options)
      : x_(x), nearest_(options.mode == GridSampleMode::nearest) {
    const std::int64_t axes = grid.size(-1), batch = grid.size(0);
    places_ = 1;
    for (std::int64_t d = 1; d + 1 < grid.dim(); ++d) places_ *= grid.size(d);
    for (std::int64_t a = 0; a < axes; ++a) {
      const Tensor coordinate = reshape(select(grid, -1, a), {batch, places_});
      const std::int64_t size = x.size(-1 - a);
      const Tensor at = position_of(coordinate, size, options);
      const Tensor low = (nearest_ ? round(at) : floor(at)).detach();
      // A place that is none is in no cell, and has no slope.
      cells_.push_back({low, nearest_ ? low * 0.0 : where(isfinite(low), at - low, 0.0), size});
    }
  }

  [[nodiscard]] std::size_t axes() const { return cells_.size(); }
  [[nodiscard]] std::size_t corners() const { return nearest_ ? 1 : std::size_t{1} << axes(); }

  /// Whether a corner is there; [N, 1, places].
  [[nodiscard]] Tensor inside(std::size_t corner) const {
    Tensor all;
    for (std::size_t a = 0; a < axes(); ++a) {
      const Tensor place = place_of(corner, a);
      const Tensor one = logical_and(ge(place, 0.0), lt(place, static_cast<double>(cells_[a].size)));
      all = a == 0 ? one : logical_and(all, one);
    }
    return unsqueeze(all, 1);
  }
  /// Its position in a channel, somewhere inside where it is not there; for every channel.
  [[nodiscard]] Tensor index(std::size_t corner) const {
    Tensor index;
    for (std::size_t a = axes(); a-- > 0;) {
      const std::int64_t size = cells_[a].size;
      const Tensor place = clamp(to(place_of(corner, a), DType::i64), 0, size - 1);
      index = index.defined() ? index * size + place : place;
    }
    return expand(unsqueeze(index, 1), {x_.size(0), x_.size(1), places_});
  }
  /// Its weight, 0 where it is not there; [N, 1, places].
  [[nodiscard]] Tensor weight(std::size_t corner) const {
    Tensor weight = ones({x_.size(0), places_}, options_of(x_));
    for (std::size_t a = 0; a < axes(); ++a)
      weight = weight * (is_upper(corner, a) ? cells_[a].upper : 1.0 - cells_[a].upper);
    return where(inside(corner), unsqueeze(weight, 1), 0.0);
  }
  [[nodiscard]] static bool is_upper(std::size_t corner, std::size_t axis) {
    return (corner >> axis & 1U) != 0;
  }
  /// x there, 0 where it is not; [N, C, places].
  [[nodiscard]] Tensor values(std::size_t corner) const {
    return where(inside(corner), gather(flatten(x_, 2), 2, index(corner)), 0.0);
  }

 private:
  struct Cell {
    Tensor low, upper;
    std::int64_t size;
  };
  [[nodiscard]] Tensor place_of(std::size_t corner, std::size_t axis) const {
    return is_upper(corner, axis) ? cells_[axis].low + 1.0 : cells_[axis].low;
  }
  Tensor x_;
  bool nearest_;
  std::int64_t places_ = 1;
  SmallVector<Cell, 3> cells_;
};

}  // namespace

Tensor composed_grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  const ComposedSampling sampling(x, grid, options);
  Tensor sum;
  for (std::size_t k = 0; k < sampling.corners(); ++k) {
    // A statement for each: see kl_div (ops/loss).
    const Tensor values = sampling.values(k), weight = sampling.weight(k), part = values * weight;
    sum = k == 0 ? part : sum + part;
  }
  Shape shape{x.size(0), x.size(1)};
  for (std::int64_t d = 1; d + 1 < grid.dim(); ++d) shape.push_back(grid.size(d));
  return reshape(sum, shape);
}

}  // namespace mezzo::ops
