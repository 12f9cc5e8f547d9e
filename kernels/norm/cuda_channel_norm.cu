// CUDA kernels of group_norm, instance_norm and batch_norm. A row that is contiguous and that registers hold
// is normalized by one kernel, which reads it once. All other rows are cut into pieces of one channel:
// contiguous ones, or parts of a column where channels are innermost. There are enough pieces to keep the GPU
// busy with few long rows. One kernel computes mean and squared deviations of each piece, a second one
// combines the pieces of a row, a third one normalizes. Each cache line of a channels-last array, which holds
// several groups, is then read by one block; a block per group would use 4 of the 32 bytes that it fetches
// for two channels in f16. Backward has the same kernels for the sums that gradients need. No atomics: the
// bits depend on sizes only.
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/norm/cuda_channel_rows.h"
#include "mezzo/kernels/norm/cuda_channels_last.h"
#include "mezzo/kernels/norm/norm.h"

namespace mezzo::kernels::cuda {

namespace {

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
[[nodiscard]] bool fits_registers(const ChannelLayout& layout) {
  return !layout.channels_last && (layout.runs == 1 || layout.run_step == layout.length) &&
         layout.count() <= kLongestRegisterRow;
}
/// Elements of the equal pieces of a column, a thread each: around 64, if the length has such a divisor.
[[nodiscard]] std::int64_t column_piece(std::int64_t length) {
  constexpr std::int64_t kUsual = 64, kLeast = 16, kMost = 4096;
  for (std::int64_t piece = std::min(length, kUsual); piece >= kLeast; --piece) {
    if (length % piece == 0) return piece;
  }
  for (std::int64_t piece = kUsual + 1; piece <= std::min(length, kMost); ++piece) {
    if (length % piece == 0) return piece;
  }
  return length;
}

/// Elements of a piece where a thread has four columns, of `columns` in all: as few pieces as keep a GPU
/// busy, since one block per row combines all its pieces. 0 where no length near that divides the column.
[[nodiscard]] std::int64_t long_column_piece(std::int64_t length, std::int64_t columns) {
  constexpr std::int64_t kBusyThreads = 132 * 512, kLeast = 64;  // what is kept of a piece takes memory
  const std::int64_t most =
      std::max<std::int64_t>(std::min(length / kLeast, kBusyThreads * kPack / columns), 1);
  for (std::int64_t parts = most; parts >= 1 && parts > most / 4; --parts) {
    if (length % parts == 0) return length / parts;
  }
  return 0;
}

/// Whether a thread has four neighbouring columns of all of these arrays. That decides how sums are added up,
/// so it asks for sizes and dtypes and not for addresses.
template <std::size_t N>
[[nodiscard]] bool takes_column_packs(const ChannelLayout& layout, const std::array<View, N>& arrays) {
  bool takes = layout.channels_last && layout.channels() % kPack == 0;
  for (const View& array : arrays) takes = takes && (is_16_bit(array.dtype) || array.dtype == DType::f32);
  return takes;
}

/// packs: takes_column_packs().
[[nodiscard]] Pieces pieces_of(const ChannelLayout& layout, bool packs) {
  if (layout.channels_last) {
    const std::int64_t samples = layout.rows / layout.row_period;
    const std::int64_t longer = packs ? long_column_piece(layout.length, samples * layout.channels()) : 0;
    const std::int64_t piece = longer != 0 ? longer : column_piece(layout.length),
                       parts = layout.length / piece;
    return {layout.rows, layout.runs * parts, parts, piece, layout.channels(), layout.runs};
  }
  const std::int64_t parts = equal_parts(layout.length, kPieceLength);
  return {layout.rows, layout.runs * parts, parts, layout.length / parts};
}
/// An array as one row per piece, in the order of their numbers.
[[nodiscard]] View as_pieces(const View& array, const ChannelLayout& layout, const Pieces& pieces) {
  if (layout.channels_last) {
    return {array.data,
            array.dtype,
            {layout.rows / layout.row_period, pieces.of_a_run, pieces.columns, pieces.length},
            {layout.length * pieces.columns, pieces.length * pieces.columns, 1, pieces.columns}};
  }
  return {array.data,
          array.dtype,
          {layout.rows, pieces.of_a_row / pieces.of_a_run, pieces.of_a_run, pieces.length},
          {layout.row_step, layout.run_step, pieces.length, 1}};
}
template <std::size_t N>
[[nodiscard]] RowArrays<N> rows_of_pieces(std::array<View, N> views, const ChannelLayout& layout,
                                          const Pieces& pieces) {
  for (View& view : views) view = as_pieces(view, layout, pieces);
  return {views, views[0].shape.size() - 1};
}

/// Blocks and threads for a block per row that looks at `count` pieces.
[[nodiscard]] Grid grid_of_rows(const Pieces& pieces) {
  return {static_cast<unsigned>(std::min(pieces.rows, kMostBlocks)), grid_for(pieces.of_a_row).threads};
}

/// The pieces whose moments are taken: whole rows where registers hold them.
[[nodiscard]] Pieces pieces_for_moments(const ChannelLayout& layout, const Pieces& pieces) {
  if (!fits_registers(layout)) return pieces;
  return {layout.rows, 1, 1, layout.count()};
}

/// Starts a kernel of cuda_channels_last.h.
template <class... Params, class... Args>
void run_columns(Device device, void (*kernel)(ColumnPacks, Params...), const Pieces& pieces, Args... args) {
  const ColumnPacks all{pieces};
  const unsigned threads = grid_for(all.total()).threads;
  const auto blocks = static_cast<unsigned>((all.total() + threads - 1) / threads);
  mezzo::cuda::launch(kernel, dim3(blocks), dim3(threads), 0, mezzo::cuda::current_stream(device), all,
                      args...);
}

/// Fills `normalized`, one per row.
template <class T>
void normalize_rows(Device device, const ChannelNorm<T>& norm, const Pieces& any, bool packs, const View& x,
                    scalar::NormalizedFn<T>* normalized) {
  const Pieces pieces = pieces_for_moments(norm.layout, any);
  const Scratch moments(device, norm.given ? 0 : pieces.total() * std::int64_t{sizeof(PieceMoments)});
  PieceMoments* const of_pieces = static_cast<PieceMoments*>(moments.data());
  if (!norm.given && packs)
    run_columns(device, column_moments, pieces, array_of(x), of_pieces);
  else if (!norm.given)
    run_row_passes(device, rows_of_pieces<1>({x}, norm.layout, pieces), PieceMomentsRow<T>{of_pieces});
  const Grid grid = grid_of_rows(pieces);
  mezzo::cuda::launch(finish_moments<T>, dim3(grid.blocks), dim3(grid.threads), kRowScratchBytes,
                      mezzo::cuda::current_stream(device), norm, pieces,
                      static_cast<const PieceMoments*>(of_pieces), normalized);
}

template <class T>
void forward(Device device, const ChannelNorm<T>& norm, const View& out, const View& x) {
  const ChannelLayout& layout = norm.layout;
  if (!norm.given && fits_registers(layout)) {
    const auto stretch = [&](const View& array) {
      return View{array.data, array.dtype, {layout.rows, layout.count()}, {layout.row_step, 1}};
    };
    return run_row_passes(device, RowArrays<2>({stretch(out), stretch(x)}, 1),
                          ChannelNormRow<T>{norm, ChannelOfPlace(layout.length)});
  }
  const bool packs = std::is_same_v<T, float> && takes_column_packs<2>(layout, {out, x});
  const Pieces pieces = pieces_of(layout, packs);
  const Scratch normalized(device, layout.rows * std::int64_t{sizeof(scalar::NormalizedFn<T>)});
  auto* const of_rows = static_cast<scalar::NormalizedFn<T>*>(normalized.data());
  normalize_rows(device, norm, pieces, packs, x, of_rows);
  if constexpr (std::is_same_v<T, float>) {
    if (packs)
      return run_columns(device, normalize_columns, pieces, norm, array_of(out), array_of(x), of_rows);
  }
  run_row_passes(device, rows_of_pieces<2>({out, x}, layout, pieces),
                 NormalizePiece<T>{norm, pieces, of_rows});
}

template <class T>
void backward(Device device, const ChannelNorm<T>& norm, const View* out, const View& grad, const View& x,
              const ChannelSums<T>& channels) {
  const ChannelLayout& layout = norm.layout;
  const bool packs =
      std::is_same_v<T, float> && takes_column_packs<3>(layout, {out != nullptr ? *out : x, grad, x});
  const Pieces pieces = pieces_of(layout, packs);
  // With given statistics sums are gradients of parameters and nothing else, and x has no part in its own.
  const bool takes_sums = !norm.given || channels.weight != nullptr || channels.bias != nullptr;
  const View& for_input = norm.given ? grad : x;
  const Scratch normalized(device, layout.rows * std::int64_t{sizeof(scalar::NormalizedFn<T>)});
  const Scratch gradients(device, layout.rows * std::int64_t{sizeof(scalar::NormGradientFn<T>)});
  const Scratch sums(device, takes_sums ? pieces.total() * std::int64_t{sizeof(TwoSums)} : 0);
  auto* const of_rows = static_cast<scalar::NormalizedFn<T>*>(normalized.data());
  auto* const gradients_of_rows = static_cast<scalar::NormGradientFn<T>*>(gradients.data());
  TwoSums* const of_pieces = static_cast<TwoSums*>(sums.data());
  const auto sum_pieces = [&] {
    normalize_rows(device, norm, pieces, packs, x, of_rows);
    if constexpr (std::is_same_v<T, float>) {
      if (packs)
        return run_columns(device, column_sums, pieces, array_of(grad), array_of(x), of_rows, of_pieces);
    }
    run_row_passes(device, rows_of_pieces<2>({grad, x}, layout, pieces),
                   PieceSumsRow<T>{pieces, of_rows, of_pieces});
  };
  if (takes_sums) sum_pieces();
  const Grid grid = grid_of_rows(pieces);
  mezzo::cuda::launch(finish_sums<T>, dim3(grid.blocks), dim3(grid.threads), kRowScratchBytes,
                      mezzo::cuda::current_stream(device), norm, pieces,
                      static_cast<const TwoSums*>(of_pieces),
                      static_cast<const scalar::NormalizedFn<T>*>(of_rows), channels, gradients_of_rows);
  if (out == nullptr) return;
  if constexpr (std::is_same_v<T, float>) {
    if (packs)
      return run_columns(device, column_gradients, pieces, norm, array_of(*out), array_of(grad),
                         array_of(for_input), gradients_of_rows);
  }
  run_row_passes(device, rows_of_pieces<3>({*out, grad, for_input}, layout, pieces),
                 GradientPiece<T>{norm, pieces, gradients_of_rows});
}

}  // namespace

void channel_norm(Device device, const ChannelLayout& layout, const View& out, const View& x,
                  const NormParameters& parameters, const ChannelStatistics& statistics, double eps,
                  DType compute) {
  if (layout.rows == 0 || layout.count() == 0) return;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    forward(device, ChannelNorm<T>{{parameters.weight, parameters.bias, statistics}, layout, eps}, out, x);
  });
}

void channel_norm_backward(Device device, const ChannelLayout& layout, const ChannelNormGradients& out,
                           const View& grad, const View& x, const void* weight,
                           const ChannelStatistics& statistics, double eps, DType compute) {
  if (layout.rows == 0 || layout.count() == 0) return;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    // Backward computes the statistics again and does not store them.
    const ChannelStatistics known = statistics.given ? statistics : ChannelStatistics{};
    backward(device, ChannelNorm<T>{{weight, nullptr, known}, layout, eps}, out.input, grad, x,
             ChannelSums<T>{static_cast<T*>(out.weight), static_cast<T*>(out.bias)});
  });
}

}  // namespace mezzo::kernels::cuda
