// grid_sample and its gradients in public ops: the oracle of the kernels, and what higher derivatives
// differentiate. Coordinates are [N, places] per axis, values [N, C, places].
#include "mezzo/ops/ops.h"
#include "mezzo/ops/vision/sampling_common.h"

namespace mezzo::ops {

namespace {

/// A position along an axis, and its derivative by the coordinate, which is constant between kinks.
struct Position {
  Tensor at, slope;
};

Position mirrored(const Position& p, std::int64_t twice_low, std::int64_t twice_high) {
  if (twice_low == twice_high) return {p.at * 0.0, p.slope * 0.0};
  const double low = static_cast<double>(twice_low) / 2;
  const double span = static_cast<double>(twice_high - twice_low) / 2;
  const Tensor distance = abs(p.at - low), turns = floor(distance / span).detach();
  const Tensor beyond = distance - turns * span;
  const Tensor back = ne(remainder(turns, 2.0), 0.0);
  const Tensor sign = where(lt(p.at, low), -1.0, ones(p.at.shape(), options_of(p.at)));
  return {where(back, span - beyond, beyond) + low, p.slope * sign * where(back, -1.0, abs(sign))};
}

Position clipped(const Position& p, double last) {
  const Tensor moves = logical_and(gt(p.at, 0.0), lt(p.at, last));
  return {where(moves, p.at, clamp(p.at, 0.0, last).detach()), where(moves, p.slope, 0.0)};
}

Position position_of(const Tensor& coordinate, std::int64_t size, const GridSampleOptions& options) {
  const auto places = static_cast<double>(size), last = places - 1;
  const double extent = options.align_corners ? last : places;
  Position p{
      options.align_corners ? (coordinate + 1.0) * (last / 2) : ((coordinate + 1.0) * places - 1.0) / 2.0,
      full(coordinate.shape(), extent / 2, options_of(coordinate))};
  if (options.padding_mode == GridPadding::zeros) return p;
  if (options.padding_mode == GridPadding::reflection)
    p = options.align_corners ? mirrored(p, 0, 2 * (size - 1)) : mirrored(p, -1, 2 * size - 1);
  return clipped(p, last);
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
      const Position p = position_of(coordinate, size, options);
      const Tensor low = (nearest_ ? round(p.at) : floor(p.at)).detach();
      cells_.push_back({low, nearest_ ? low * 0.0 : p.at - low, p.slope, size});
    }
  }

  [[nodiscard]] std::size_t axes() const { return cells_.size(); }
  [[nodiscard]] std::size_t corners() const { return nearest_ ? 1 : std::size_t{1} << axes(); }
  [[nodiscard]] Tensor slope(std::size_t axis) const { return cells_[axis].slope; }

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
  /// Its weight along all axes but `without` (-1 for none), 0 where it is not there; [N, 1, places].
  [[nodiscard]] Tensor weight(std::size_t corner, std::int64_t without = -1) const {
    Tensor weight = ones({x_.size(0), places_}, options_of(x_));
    for (std::size_t a = 0; a < axes(); ++a) {
      if (static_cast<std::int64_t>(a) == without) continue;
      weight = weight * (is_upper(corner, a) ? cells_[a].upper : 1.0 - cells_[a].upper);
    }
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
    Tensor low, upper, slope;
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
  Tensor sum = sampling.values(0) * sampling.weight(0);
  for (std::size_t k = 1; k < sampling.corners(); ++k) sum = sum + sampling.values(k) * sampling.weight(k);
  Shape shape{x.size(0), x.size(1)};
  for (std::int64_t d = 1; d + 1 < grid.dim(); ++d) shape.push_back(grid.size(d));
  return reshape(sum, shape);
}

Outputs composed_grid_sample_backward(const Tensor& grad, const Tensor& x, const Tensor& grid,
                                      const GridSampleOptions& options, bool of_input, bool of_grid) {
  const ComposedSampling sampling(x, grid, options);
  const Tensor g = flatten(grad, 2);
  Outputs outputs;
  if (of_input) {
    Tensor sum = zeros(flatten(x, 2).shape(), options_of(x));
    for (std::size_t k = 0; k < sampling.corners(); ++k)
      sum = scatter_add(sum, 2, sampling.index(k), g * sampling.weight(k));
    outputs.push_back(reshape(sum, x.shape()));
  }
  if (!of_grid) return outputs;
  Tensors axes;
  for (std::size_t a = 0; a < sampling.axes(); ++a) {
    Tensor slope = zeros({grid.size(0), g.size(2)}, options_of(grid));
    for (std::size_t k = 0; sampling.corners() > 1 && k < sampling.corners(); ++k) {
      const Tensor part = sampling.values(k) * sampling.weight(k, static_cast<std::int64_t>(a));
      const Tensor of_corner = sum(g * part, {1});
      slope = ComposedSampling::is_upper(k, a) ? slope + of_corner : slope - of_corner;
    }
    axes.push_back(slope * sampling.slope(a));
  }
  outputs.push_back(reshape(stack(axes, -1), grid.shape()));
  return outputs;
}

}  // namespace mezzo::ops
