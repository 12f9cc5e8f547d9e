// CUDA kernels of group_norm, instance_norm and batch_norm. A row that is one stretch of memory and not too
// long is normalized by one kernel that reads it once. Others are cut into pieces of neighbours with one
// channel, as many as keep a GPU busy however few rows there are: one kernel finds mean and squares of each
// piece around the piece's own mean, one combines those of a row, and one normalizes. Backward does the same
// with the sums that gradients need. No atomics: the bits depend on sizes only.
#include "mezzo/kernels/cuda/norm.h"
#include "mezzo/kernels/cuda/norm_rows.h"
#include "mezzo/kernels/cuda/scratch.h"

namespace mezzo::kernels::cuda {

namespace {

/// place / length for the places of a row. By a product in registers, where places and lengths are below
/// 2^14: at ceil(2^31 / length) / 2^31 exceeds at / length by less than at / 2^31 < 1 / length.
struct RunOfPlace {
  std::int64_t length;
  std::uint32_t factor;
  explicit RunOfPlace(std::int64_t run_length)
      : length(run_length),
        factor(static_cast<std::uint32_t>(((std::int64_t{1} << 31) + length - 1) / length)) {}
  [[nodiscard]] __device__ std::int64_t operator()(int at) const {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(at) * factor) >> 31);
  }
  [[nodiscard]] __device__ std::int64_t operator()(std::int64_t at) const { return at / length; }
};
static_assert(kLongestRegisterRow <= 1 << 14);

/// Parameters and statistics in the compute type, as kernels see them.
template <class T>
struct RunNorm {
  RunLayout layout;
  const T* weight;
  const T* bias;
  T* mean;
  T* variance;
  bool given;
  double eps;

  [[nodiscard]] __device__ T weight_of(std::int64_t channel) const {
    return weight != nullptr ? weight[channel] : T(1);
  }
  [[nodiscard]] __device__ T bias_of(std::int64_t channel) const {
    return bias != nullptr ? bias[channel] : T(0);
  }
  __device__ void keep(std::int64_t row, const scalar::Moments<T>& moments) const {
    if (mean != nullptr) mean[row] = static_cast<T>(moments.mean());
    if (variance != nullptr) variance[row] = static_cast<T>(moments.variance);
  }
};

/// A whole row at once. Arrays: result, x, both with the row in one stretch.
template <class T>
struct RunNormRow {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  RunNorm<T> norm;
  RunOfPlace run_of;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const auto x = [&](const auto& place) { return row.template get<1>(place); };
    const scalar::Moments<T> moments = row_moments(row, x);
    if (row.leads()) norm.keep(index, moments);
    const scalar::NormalizedFn<T> normalized = moments.normalized(norm.eps);
    const std::int64_t first = norm.layout.channel(index, 0), step = norm.layout.run_channels;
    row.write([&](const auto& place) {
      const std::int64_t channel = first + run_of(place.at) * step;
      return normalized(x(place), norm.weight_of(channel), norm.bias_of(channel));
    });
  }
};

/// How rows are cut: piece k of row r is piece number index(r, k), and lies in run k / of_a_run.
struct Pieces {
  std::int64_t rows, of_a_row, of_a_run, length;
  bool rows_first;  ///< pieces of neighbouring rows, not those of one row, are neighbours

  [[nodiscard]] __device__ std::int64_t index(std::int64_t row, std::int64_t k) const {
    return rows_first ? k * rows + row : row * of_a_row + k;
  }
  [[nodiscard]] __device__ std::int64_t row_of(std::int64_t index) const {
    return rows_first ? index % rows : index / of_a_row;
  }
  [[nodiscard]] __device__ std::int64_t run_of(std::int64_t index) const {
    return (rows_first ? index / rows : index % of_a_row) / of_a_run;
  }
  [[nodiscard]] std::int64_t total() const { return rows * of_a_row; }
};

/// Mean of a piece, and the sum of the squares of what its elements differ from it.
struct PieceMoments {
  double mean, squares;
};
/// Arrays: x.
template <class T>
struct PieceMomentsRow {
  using Number = T;
  static constexpr std::size_t kResults = 0;
  PieceMoments* pieces;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const scalar::Moments<T> moments =
        row_moments(row, [&](const auto& place) { return row.template get<0>(place); });
    if (row.leads()) pieces[index] = {moments.mean(), moments.variance * static_cast<double>(row.length())};
  }
};

/// What normalizes each row, from its pieces, all of one length, or from given statistics; a block per row.
template <class T>
__global__ void finish_moments(RunNorm<T> norm, Pieces pieces, const PieceMoments* moments,
                               scalar::NormalizedFn<T>* normalized) {
  const BlockTeam team;
  for (std::int64_t row = blockIdx.x; row < pieces.rows; row += gridDim.x) {
    if (norm.given) {
      const auto known = static_cast<double>(norm.variance[row]);
      if (team.rank() == 0)
        normalized[row] = {norm.mean[row], scalar::reciprocal_deviation<T>(known, norm.eps), T(0)};
      continue;
    }
    const auto length = static_cast<double>(pieces.length);
    double sum = 0;
    for (std::int64_t k = team.rank(); k < pieces.of_a_row; k += team.size())
      sum += moments[pieces.index(row, k)].mean;
    const T shift = static_cast<T>(team.reduce(sum, AddTerms{}) / static_cast<double>(pieces.of_a_row));
    TwoSums around{0, 0};
    for (std::int64_t k = team.rank(); k < pieces.of_a_row; k += team.size()) {
      const PieceMoments piece = moments[pieces.index(row, k)];
      const double rest = piece.mean - static_cast<double>(shift);
      around.first += rest * length;
      around.second += piece.squares + rest * rest * length;
    }
    around = team.reduce(around, AddTwoSums{});
    const scalar::Moments<T> whole(shift, around.first, around.second, norm.layout.count());
    if (team.rank() != 0) continue;
    norm.keep(row, whole);
    normalized[row] = whole.normalized(norm.eps);
  }
}

/// Arrays: result, x.
template <class T>
struct NormalizePiece {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  RunNorm<T> norm;
  Pieces pieces;
  const scalar::NormalizedFn<T>* normalized_rows;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const std::int64_t r = pieces.row_of(index), channel = norm.layout.channel(r, pieces.run_of(index));
    const scalar::NormalizedFn<T> normalized = normalized_rows[r];
    const T weight = norm.weight_of(channel), bias = norm.bias_of(channel);
    row.write([&](const auto& place) { return normalized(row.template get<1>(place), weight, bias); });
  }
};

/// Sums of grad, and of grad times the normalized x, over a piece. Arrays: grad, x.
template <class T>
struct PieceSumsRow {
  using Number = T;
  static constexpr std::size_t kResults = 0;
  Pieces pieces;
  const scalar::NormalizedFn<T>* normalized_rows;
  TwoSums* sums;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const auto grad = [&](const auto& place) { return row.template get<0>(place); };
    const auto x = [&](const auto& place) { return row.template get<1>(place); };
    const TwoSums of_piece = gradient_sums(row, normalized_rows[pieces.row_of(index)], grad, x);
    if (row.leads()) sums[index] = of_piece;
  }
};

/// Gradients of weight and bias, in the compute type; nullptr where they are not wanted.
template <class T>
struct ChannelSums {
  T* weight;
  T* bias;
  __device__ void store(std::int64_t at, const TwoSums& sums) const {
    if (bias != nullptr) bias[at] = static_cast<T>(sums.first);
    if (weight != nullptr) weight[at] = static_cast<T>(sums.second);
  }
};

/// The gradients of the parameters, and what makes that of x in each row, from the sums of pieces; a block
/// per row. A thread has whole runs, unless the row is of one channel.
template <class T>
__global__ void finish_sums(RunNorm<T> norm, Pieces pieces, const TwoSums* of_pieces,
                            const scalar::NormalizedFn<T>* normalized, ChannelSums<T> channels,
                            scalar::NormGradientFn<T>* gradients) {
  const BlockTeam team;
  const bool one = norm.layout.one_channel();
  const std::int64_t runs = one ? pieces.of_a_row : norm.layout.runs, of_a_run = one ? 1 : pieces.of_a_run;
  for (std::int64_t row = blockIdx.x; row < pieces.rows; row += gridDim.x) {
    TwoSums total{0, 0};
    for (std::int64_t run = team.rank(); run < runs; run += team.size()) {
      TwoSums sums{0, 0};
      for (std::int64_t k = run * of_a_run; k < (run + 1) * of_a_run; ++k) {
        sums = AddTwoSums{}(sums, of_pieces[pieces.index(row, k)]);
      }
      if (!one) {
        channels.store(row * runs + run, sums);
        const auto weight = static_cast<double>(norm.weight_of(norm.layout.channel(row, run)));
        sums = {sums.first * weight, sums.second * weight};
      }
      total = AddTwoSums{}(total, sums);
    }
    total = team.reduce(total, AddTwoSums{});
    if (team.rank() != 0) continue;
    if (one) channels.store(row, total);
    const double weight = one ? static_cast<double>(norm.weight_of(norm.layout.channel(row, 0))) : 1.0;
    const double scale = norm.given ? 0.0 : weight / static_cast<double>(norm.layout.count());
    gradients[row] = {normalized[row], static_cast<T>(total.first * scale),
                      static_cast<T>(total.second * scale)};
  }
}

/// Arrays: result, grad, x.
template <class T>
struct GradientPiece {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  RunNorm<T> norm;
  Pieces pieces;
  const scalar::NormGradientFn<T>* gradients;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const std::int64_t r = pieces.row_of(index);
    const scalar::NormGradientFn<T> gradient = gradients[r];
    const T weight = norm.weight_of(norm.layout.channel(r, pieces.run_of(index)));
    row.write([&](const auto& place) {
      return gradient(row.template get<1>(place), row.template get<2>(place), weight);
    });
  }
};

/// Elements of a piece: what a block of 256 threads keeps in registers.
constexpr std::int64_t kPieceLength = std::int64_t{kThreads} * kRowSlots * kRowPack;

/// The smallest number of equal parts of `count` elements, of at most `most` each; 1 if there is none below
/// 1024.
[[nodiscard]] std::int64_t equal_parts(std::int64_t count, std::int64_t most) {
  for (std::int64_t parts = 1; parts <= 1024; ++parts) {
    if (count % parts == 0 && count / parts <= most) return parts;
  }
  return 1;
}

/// Whether a row is one stretch of memory that registers hold.
[[nodiscard]] bool fits_registers(const RunLayout& layout) {
  return (layout.runs == 1 || layout.run_step == layout.length) && layout.count() <= kLongestRegisterRow;
}
/// Whether a row is a column of a matrix: batch_norm of [N, C].
[[nodiscard]] bool is_column(const RunLayout& layout) { return layout.length == 1 && layout.one_channel(); }

[[nodiscard]] Pieces pieces_of(const RunLayout& layout) {
  if (is_column(layout)) {
    constexpr std::int64_t kColumnPiece = 64;  // a thread each
    const std::int64_t parts = equal_parts(layout.runs, kColumnPiece);
    return {layout.rows, parts, 1, layout.runs / parts, true};
  }
  const std::int64_t parts = equal_parts(layout.length, kPieceLength);
  return {layout.rows, layout.runs * parts, parts, layout.length / parts, false};
}
/// An array as one row per piece, in the order of their numbers.
[[nodiscard]] View as_pieces(const View& array, const RunLayout& layout, const Pieces& pieces) {
  if (pieces.rows_first) {
    return {array.data,
            array.dtype,
            {pieces.of_a_row, pieces.rows, pieces.length},
            {pieces.length * layout.run_step, layout.row_step, layout.run_step}};
  }
  return {array.data,
          array.dtype,
          {layout.rows, pieces.of_a_row / pieces.of_a_run, pieces.of_a_run, pieces.length},
          {layout.row_step, layout.run_step, pieces.length, 1}};
}
template <std::size_t N>
[[nodiscard]] RowArrays<N> rows_of_pieces(std::array<View, N> views, const RunLayout& layout,
                                          const Pieces& pieces) {
  for (View& view : views) view = as_pieces(view, layout, pieces);
  return {views, views[0].shape.size() - 1};
}

template <class T>
[[nodiscard]] RunNorm<T> run_norm_of(const RunLayout& layout, const void* weight, const void* bias,
                                     const RunStatistics& statistics, double eps) {
  return {layout,
          static_cast<const T*>(weight),
          static_cast<const T*>(bias),
          static_cast<T*>(statistics.mean),
          static_cast<T*>(statistics.variance),
          statistics.given,
          eps};
}

/// Blocks and threads for a block per row that looks at `count` pieces.
[[nodiscard]] Grid grid_of_rows(const Pieces& pieces) {
  return {static_cast<unsigned>(std::min(pieces.rows, kMostBlocks)), grid_for(pieces.of_a_row).threads};
}

/// The pieces whose moments are taken: whole rows where registers hold them.
[[nodiscard]] Pieces pieces_for_moments(const RunLayout& layout, const Pieces& pieces) {
  if (!fits_registers(layout)) return pieces;
  return {layout.rows, 1, 1, layout.count(), false};
}

/// Fills `normalized`, one per row.
template <class T>
void normalize_rows(Device device, const RunNorm<T>& norm, const Pieces& any, const View& x,
                    scalar::NormalizedFn<T>* normalized) {
  const Pieces pieces = pieces_for_moments(norm.layout, any);
  const Scratch moments(device, norm.given ? 0 : pieces.total() * std::int64_t{sizeof(PieceMoments)});
  PieceMoments* const of_pieces = static_cast<PieceMoments*>(moments.data());
  if (!norm.given) {
    run_row_passes(device, rows_of_pieces<1>({x}, norm.layout, pieces), PieceMomentsRow<T>{of_pieces});
  }
  const Grid grid = grid_of_rows(pieces);
  mezzo::cuda::launch(finish_moments<T>, dim3(grid.blocks), dim3(grid.threads), kRowScratchBytes,
                      mezzo::cuda::current_stream(device), norm, pieces,
                      static_cast<const PieceMoments*>(of_pieces), normalized);
}

template <class T>
void forward(Device device, const RunNorm<T>& norm, const View& out, const View& x) {
  const RunLayout& layout = norm.layout;
  if (!norm.given && fits_registers(layout)) {
    const auto stretch = [&](const View& array) {
      return View{array.data, array.dtype, {layout.rows, layout.count()}, {layout.row_step, 1}};
    };
    return run_row_passes(device, RowArrays<2>({stretch(out), stretch(x)}, 1),
                          RunNormRow<T>{norm, RunOfPlace(layout.length)});
  }
  const Pieces pieces = pieces_of(layout);
  const Scratch normalized(device, layout.rows * std::int64_t{sizeof(scalar::NormalizedFn<T>)});
  auto* const of_rows = static_cast<scalar::NormalizedFn<T>*>(normalized.data());
  normalize_rows(device, norm, pieces, x, of_rows);
  run_row_passes(device, rows_of_pieces<2>({out, x}, layout, pieces),
                 NormalizePiece<T>{norm, pieces, of_rows});
}

template <class T>
void backward(Device device, const RunNorm<T>& norm, const View* out, const View& grad, const View& x,
              const ChannelSums<T>& channels) {
  const RunLayout& layout = norm.layout;
  const Pieces pieces = pieces_of(layout);
  const Scratch normalized(device, layout.rows * std::int64_t{sizeof(scalar::NormalizedFn<T>)});
  const Scratch gradients(device, layout.rows * std::int64_t{sizeof(scalar::NormGradientFn<T>)});
  const Scratch sums(device, pieces.total() * std::int64_t{sizeof(TwoSums)});
  auto* const of_rows = static_cast<scalar::NormalizedFn<T>*>(normalized.data());
  auto* const gradients_of_rows = static_cast<scalar::NormGradientFn<T>*>(gradients.data());
  TwoSums* const of_pieces = static_cast<TwoSums*>(sums.data());
  normalize_rows(device, norm, pieces, x, of_rows);
  run_row_passes(device, rows_of_pieces<2>({grad, x}, layout, pieces),
                 PieceSumsRow<T>{pieces, of_rows, of_pieces});
  const Grid grid = grid_of_rows(pieces);
  mezzo::cuda::launch(finish_sums<T>, dim3(grid.blocks), dim3(grid.threads), kRowScratchBytes,
                      mezzo::cuda::current_stream(device), norm, pieces,
                      static_cast<const TwoSums*>(of_pieces),
                      static_cast<const scalar::NormalizedFn<T>*>(of_rows), channels, gradients_of_rows);
  if (out == nullptr) return;
  run_row_passes(device, rows_of_pieces<3>({*out, grad, x}, layout, pieces),
                 GradientPiece<T>{norm, pieces, gradients_of_rows});
}

}  // namespace

void run_norm(Device device, const RunLayout& layout, const View& out, const View& x,
              const NormParameters& parameters, const RunStatistics& statistics, double eps, DType compute) {
  if (layout.rows == 0 || layout.count() == 0) return;
  const auto run = [&](auto number) {
    using T = decltype(number);
    forward(device, run_norm_of<T>(layout, parameters.weight, parameters.bias, statistics, eps), out, x);
  };
  compute == DType::f64 ? run(double{}) : run(float{});
}

void run_norm_backward(Device device, const RunLayout& layout, const RunNormGradients& out, const View& grad,
                       const View& x, const void* weight, const RunStatistics& statistics, double eps,
                       DType compute) {
  if (layout.rows == 0 || layout.count() == 0) return;
  const auto run = [&](auto number) {
    using T = decltype(number);
    // What backward computes of the statistics again is stored nowhere.
    const RunStatistics known = statistics.given ? statistics : RunStatistics{};
    backward(device, run_norm_of<T>(layout, weight, nullptr, known, eps), out.input, grad, x,
             ChannelSums<T>{static_cast<T*>(out.weight), static_cast<T*>(out.bias)});
  };
  compute == DType::f64 ? run(double{}) : run(float{});
}

}  // namespace mezzo::kernels::cuda
