// Poolings by the largest element on the CPU. One loop compares the windows, a group at a time in registers:
// the channels of a window, or neighbours along a row. The gradient adds each element of `grad` where its
// index says, image by image: no two threads have one image's channel, and the order is that of the windows.
#include <algorithm>
#include <atomic>
#include <limits>
#include <type_traits>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_rows.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

/// Whole numbers in the order of 16-bit floats: the magnitude with its sign, so that both zeros are equal,
/// and the largest one for NaN.
struct HalfOrder {
  std::int16_t infinity;  ///< as it stands in arrays

  [[nodiscard]] MEZZO_ALWAYS_INLINE bool is_nan(std::int16_t bits) const {
    return static_cast<std::int16_t>(bits & 0x7fff) > infinity;
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE std::int16_t operator()(std::int16_t bits) const {
    const auto sign = static_cast<std::int16_t>(bits >> 15);
    const auto number = static_cast<std::int16_t>((static_cast<std::int16_t>(bits & 0x7fff) ^ sign) - sign);
    return is_nan(bits) ? std::numeric_limits<std::int16_t>::max() : number;
  }
};

/// Places are counted from here on in a window. (Not from 0: the compilers make a memset of that, in stores
/// too narrow for the loads that follow.)
inline constexpr int kFirstPlace = 1;

/// The largest so far of kLanes windows, and where it is. NaN counts as larger than all before it, other NaN
/// too. Places have the width of T, so that one vector mask serves both.
template <class T, int kLanes>
struct Largest {
  using Place = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  T best[kLanes];
  Place at[kLanes];

  [[nodiscard]] static MEZZO_ALWAYS_INLINE T least(HalfOrder /*order*/) {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  MEZZO_ALWAYS_INLINE void begin(int j, T value, Place place, HalfOrder /*order*/) {
    best[j] = value;
    at[j] = place;
  }
  MEZZO_ALWAYS_INLINE void take(int j, T value, Place place, HalfOrder /*order*/) {
    const T old = best[j];
    const bool take = (value > old) | (value != value);
    best[j] = take ? value : old;
    at[j] = take ? place : at[j];
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE T value(int j) const { return best[j]; }
};

/// Of 16-bit floats in their bits.
template <int kLanes>
struct Largest<std::int16_t, kLanes> {
  using Place = std::int16_t;
  std::int16_t best[kLanes], bits[kLanes];
  Place at[kLanes];

  [[nodiscard]] static MEZZO_ALWAYS_INLINE std::int16_t least(HalfOrder order) {
    return static_cast<std::int16_t>(order.infinity | std::numeric_limits<std::int16_t>::min());
  }
  MEZZO_ALWAYS_INLINE void begin(int j, std::int16_t value, Place place, HalfOrder order) {
    best[j] = order(value);
    bits[j] = value;
    at[j] = place;
  }
  MEZZO_ALWAYS_INLINE void take(int j, std::int16_t value, Place place, HalfOrder order) {
    const std::int16_t old = best[j], number = order(value);
    const bool take = (number > old) | order.is_nan(value);
    best[j] = number > old ? number : old;
    bits[j] = take ? value : bits[j];
    at[j] = take ? place : at[j];
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE std::int16_t value(int j) const { return bits[j]; }
};

/// How the windows of a row are compared, in groups: of the channels of one window; of neighbouring windows
/// of 2 by 2 places that share none; or of neighbours in rows that are copied for that.
enum class MaxGroups { channels, pairs, copies };

/// How windows lie on rows, and these in memory.
struct MaxWindows {
  explicit MaxWindows(const Pooling& pooling)
      : width(pooling.windows.input[2]),
        row(width * pooling.inner),
        inner(pooling.inner),
        step(pooling.adaptive ? Windows::Sizes{1, 1, 1} : pooling.windows.dilation) {
    const Windows& w = pooling.windows;
    if (pooling.inner > 1 || pooling.adaptive) return;
    stride = w.stride[2];
    groups = in_pairs(pooling) ? MaxGroups::pairs : MaxGroups::copies;
    if (groups == MaxGroups::pairs) return;
    phases = stride;
    pitch = w.output[2] + (w.kernel[2] - 1) * step[2] / stride + 1;
    row = phases * pitch;
  }
  /// Where place i of a copied row is.
  [[nodiscard]] MEZZO_ALWAYS_INLINE std::int64_t element(std::int64_t i) const {
    return i % phases * pitch + i / phases;
  }

  MaxGroups groups = MaxGroups::channels;
  std::int64_t width, row;  ///< places and elements of a row
  std::int64_t inner;       ///< elements of a place
  Windows::Sizes step;      ///< between the places of a window
  std::int64_t stride = 0;  ///< between the windows of a group; 0: they are one
  /// Place i of a copied row, counted from the first one of the padding, is element i / phases of run i %
  /// phases, of which each has `pitch` elements. So neighbouring windows are neighbours in memory.
  std::int64_t phases = 1, pitch = 0;
};

/// The places of windows from the first one on, by dims: how many rows of depths, of heights, and places
/// there are, of which each `step`-th one is theirs.
struct MaxReach {
  std::int64_t depths, heights, widths;
  std::int64_t depth_step, height_step, width_step;
};
/// Of windows in copied rows: where the places of the kernel are, and how many of each window lie before the
/// first one in the input.
struct MaxTables {
  const std::int32_t *elements, *outside;
};

template <class T>
struct MaxOfWindows {
  static constexpr int kMost = kMostLanes<T>;

  /// `copy` is memory for copied rows. There -inf lies where there are no places.
  static void run(RowBand<T> band, std::int64_t* indices, Pooling pooling, MaxWindows w, HalfOrder order,
                  T* copy, MaxTables tables) {
    if (w.groups == MaxGroups::copies) {
      copy_rows(band, pooling.windows.padding[2], w, order, copy);
      each_row<MaxGroups::copies>(band, copy, indices, pooling, w, order, tables);
    } else if (w.groups == MaxGroups::pairs) {
      each_row<MaxGroups::pairs>(band, band.from, indices, pooling, w, order, tables);
    } else {
      each_row<MaxGroups::channels>(band, band.from, indices, pooling, w, order, tables);
    }
  }

 private:
  template <MaxGroups kGroups>
  MEZZO_ALWAYS_INLINE static void each_row(RowBand<T> band, const T* from, std::int64_t* indices,
                                           const Pooling& pooling, const MaxWindows& w, HalfOrder order,
                                           MaxTables tables) {
    const Windows& windows = pooling.windows;
    const Windows::Sizes &in = windows.input, &out = windows.output;
    const std::int64_t row = out[2] * pooling.inner;
    T* y = band.data;
    indices += band.rows.first * row;
    RowPlace at = RowPlace::of(band.rows.first, out);
    for (std::int64_t left = band.rows.count(); left > 0; --left, at.next(out), y += row, indices += row) {
      const PlaceRange depths = pooling.places(0, at.d), heights = pooling.places(1, at.h);
      MaxReach reach{(depths.count() - 1) * in[1] + 1,
                     heights.count(),
                     w.step[2] * (windows.kernel[2] - 1) + 1,
                     w.step[0] * in[1],
                     w.step[1],
                     w.step[2]};
      const T* const x =
          from + (RowPlace{at.image, depths.first, heights.first}.row(in) - band.from_rows.first) * w.row;
      const std::int64_t first = (depths.first * in[1] + heights.first) * in[2];
      if constexpr (kGroups != MaxGroups::channels) {
        if (kGroups == MaxGroups::copies) band.fetch_ahead(out[2]);
        const bool beyond = (left - 1) * row >= kMost;  // into rows that come later
        take<kGroups>(x, reach, w, out[2], beyond, order, first - windows.padding[2], tables, y, indices);
      } else {
        for (std::int64_t o = 0; o < out[2]; ++o) {
          const PlaceRange places = pooling.places(2, o);
          reach.widths = places.count();
          take<kGroups>(x + places.first * pooling.inner, reach, w, pooling.inner, false, order,
                        first + places.first, tables, y + o * pooling.inner, indices + o * pooling.inner);
        }
      }
    }
  }
  MEZZO_ALWAYS_INLINE static void copy_rows(const RowBand<T>& band, std::int64_t padding, const MaxWindows& w,
                                            HalfOrder order, T* copy) {
    const std::int64_t rows = band.from_rows.count();
    std::fill_n(copy, rows * w.row + kMost, Largest<T, 1>::least(order));
    const auto count = [&](std::int64_t phase) {
      return std::min((w.width - phase + w.phases - 1) / w.phases, w.pitch - (padding + phase) / w.phases);
    };
    const std::int64_t pairs = w.phases == 2 ? std::min(count(0), count(1)) : 0;  // in vectors
    T *const even = copy + w.element(padding), *const odd = copy + w.element(padding + 1);
    for (std::int64_t r = 0; pairs > 0 && r < rows; ++r) {
      const T* const from = band.from + r * w.width;
      each_element(pairs, [&](std::int64_t i) {
        even[r * w.row + i] = from[2 * i];
        odd[r * w.row + i] = from[2 * i + 1];
      });
    }
    for (std::int64_t phase = 0; phase < w.phases; ++phase) {
      const T* const from = band.from + phase;
      T* const to = copy + w.element(padding + phase);
      const std::int64_t n = count(phase);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t i = pairs; i < n; ++i) to[r * w.row + i] = from[r * w.width + i * w.phases];
      }
    }
  }
  template <MaxGroups kGroups>
  MEZZO_ALWAYS_INLINE static void take(const T* x, const MaxReach& reach, const MaxWindows& w, std::int64_t n,
                                       bool beyond, HalfOrder order, std::int64_t first, MaxTables tables,
                                       T* y, std::int64_t* indices) {
    each_group<kMost>(
        n, beyond, MEZZO_GROUP_STEP(i) {
          using Place = typename Largest<T, kLanes>::Place;
          Largest<T, kLanes> found;
          if constexpr (kGroups == MaxGroups::pairs) {
            compare_pairs<kLanes>(found, x + 2 * i, w.width, order);
          } else {
            constexpr bool kCopies = kGroups == MaxGroups::copies;
            const T least = Largest<T, 1>::least(order);
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j)
              found.begin(j, least, static_cast<Place>(kFirstPlace + (kCopies ? tables.outside[i + j] : 0)),
                          order);
            // Most nets have windows of 2 by 2 and of 3 by 3, and short loops cost more.
            const bool square = !kCopies && reach.depths == 1 && reach.heights == reach.widths &&
                                reach.height_step == 1 && reach.width_step == 1;
            if (square && reach.widths == 2)
              compare<kGroups, kLanes>(found, x + i, {1, 2, 2, 1, 1, 1}, w, tables, order);
            else if (square && reach.widths == 3)
              compare<kGroups, kLanes>(found, x + i, {1, 3, 3, 1, 1, 1}, w, tables, order);
            else
              compare<kGroups, kLanes>(found, x + i, reach, w, tables, order);
          }
          const auto step = static_cast<Place>(kGroups == MaxGroups::channels ? 0 : w.stride);
          const std::int64_t start = first - kFirstPlace + i * step;
          Place at[kLanes];
          MEZZO_KEEP_LOOP
          for (int j = 0; j < kLanes; ++j)
            at[j] = static_cast<Place>(found.at[j] + static_cast<Place>(j) * step);
          MEZZO_KEEP_LOOP
          for (int j = 0; j < kLanes; ++j) y[i + j] = found.value(j);
          MEZZO_KEEP_LOOP
          for (int j = 0; j < kLanes; ++j) indices[i + j] = start + at[j];
        });
  }
  template <MaxGroups kGroups, int kLanes>
  MEZZO_ALWAYS_INLINE static void compare(Largest<T, kLanes>& found, const T* x, const MaxReach& reach,
                                          const MaxWindows& w, const MaxTables& tables, HalfOrder order) {
    using Place = typename Largest<T, kLanes>::Place;
    for (std::int64_t d = 0; d < reach.depths; d += reach.depth_step) {
      for (std::int64_t h = 0; h < reach.heights; h += reach.height_step) {
        const T* const row = x + (d + h) * w.row;
        for (std::int64_t k = 0; k < reach.widths; k += reach.width_step) {
          const T* const from = row + (kGroups == MaxGroups::copies ? tables.elements[k] : k * w.inner);
          const auto place = static_cast<Place>(kFirstPlace + (d + h) * w.width + k);
          MEZZO_KEEP_LOOP
          for (int j = 0; j < kLanes; ++j) found.take(j, from[j], place, order);
        }
      }
    }
  }
  /// Windows of 2 by 2.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE static void compare_pairs(Largest<T, kLanes>& found, const T* x, std::int64_t width,
                                                HalfOrder order) {
    using Place = typename Largest<T, kLanes>::Place;
    const auto below = static_cast<Place>(kFirstPlace + width);
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) {
      found.begin(j, x[2 * j], kFirstPlace, order);
      found.take(j, x[2 * j + 1], kFirstPlace + 1, order);
    }
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) {
      found.take(j, x[width + 2 * j], below, order);
      found.take(j, x[width + 2 * j + 1], static_cast<Place>(below + 1), order);
    }
  }
};

template <class T>
void max_pool_as(const Pooling& pooling, const View& y, std::int64_t* indices, const View& x,
                 HalfOrder order = {}) {
  const Windows& windows = pooling.windows;
  const MaxWindows w(pooling);
  const bool copies = w.groups == MaxGroups::copies;
  const std::int64_t kernel = (windows.kernel[2] - 1) * w.step[2] + 1;
  const RowScratch<std::int32_t> table(copies ? kernel + windows.output[2] + kMostLanes<T> : 0);
  const MaxTables tables{table.data(), table.data() + kernel};
  for (std::int64_t k = 0; copies && k < kernel; ++k)
    table.data()[k] = static_cast<std::int32_t>(w.element(k));
  for (std::int64_t o = 0; copies && o < windows.output[2]; ++o)
    table.data()[kernel + o] =
        static_cast<std::int32_t>(pooling.places(2, o).first - windows.position(2, o, 0));
  for_bands<T>(
      as_rows(y, pooling, windows.output), windows.output, as_rows(x, pooling, windows.input), windows.input,
      copies,
      [&](std::size_t d, std::int64_t o) {
        PlaceRange range = pooling.places(d, o);
        // Dilated, a window in the padding may begin behind the next one.
        if (!pooling.adaptive) range.first = std::max<std::int64_t>(windows.position(d, o, 0), 0);
        return range;
      },
      [&](const RowBand<T>& band) {
        const RowScratch<T> copy(copies ? band.from_rows.count() * w.row + kMostLanes<T> : 0);
        run_isa<MaxOfWindows<T>>(band, indices, pooling, w, order, copy.data(), tables);
      });
}

/// `width` of the `inner` channels of all places = 0.
template <class T>
void clear(T* dx, std::int64_t inner, std::int64_t width, std::int64_t places) {
  if (width == inner) {
    std::fill_n(dx, places * inner, T{0});
    return;
  }
  for (std::int64_t i = 0; i < places; ++i) std::fill_n(dx + i * inner, width, T{0});
}

/// Adds `width` channels of grad to dx where the indices say; all three point to the first of them. Returns
/// the element whose index is not a place, or -1.
template <class T>
std::int64_t add_at(T* dx, const T* grad, const std::int64_t* indices, const Pooling& pooling,
                    std::int64_t width) {
  const auto places = static_cast<std::uint64_t>(pooling.windows.inputs());
  const std::int64_t outputs = pooling.windows.outputs();
  if (pooling.inner == 1) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      const std::int64_t place = indices[o];
      if (static_cast<std::uint64_t>(place) >= places) return o;
      dx[place] += grad[o];
    }
    return -1;
  }
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t place = indices[o * pooling.inner + c];
      if (static_cast<std::uint64_t>(place) >= places) return o * pooling.inner + c;
      dx[place * pooling.inner + c] += grad[o * pooling.inner + c];
    }
  }
  return -1;
}

/// `found` = the smaller of both, where -1 is none.
void keep_first(std::atomic<std::int64_t>& found, std::int64_t position) {
  std::int64_t known = found.load();
  while ((known < 0 || position < known) && !found.compare_exchange_weak(known, position)) {
  }
}

template <class T>
std::int64_t max_pool_backward_as(const Pooling& pooling, const View& dx, const View& grad,
                                  const std::int64_t* indices) {
  constexpr std::int64_t kChannels = 64;  // of a chunk: a few images may have many
  const std::int64_t inner = pooling.inner;
  const std::int64_t inputs = pooling.windows.inputs() * inner, outputs = pooling.windows.outputs() * inner;
  const RowOperand to(View{dx.data, dx.dtype, {pooling.outer, inputs}, {inputs, 1}}, 1);
  const RowOperand from(View{grad.data, grad.dtype, {pooling.outer, outputs}, {outputs, 1}}, 1);
  const bool in_place = to.in_place<T>() && from.in_place<T>();
  const std::int64_t width = in_place ? std::min(inner, kChannels) : inner;
  const std::int64_t parts = (inner + width - 1) / width;
  std::atomic<std::int64_t> wrong = -1;
  parallel_for(pooling.outer * parts, pool_grain(pooling.windows.inputs() * width, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 const RowScratch<T> sums(to.in_place<T>() ? 0 : inputs);
                 const RowScratch<T> widened(from.in_place<T>() ? 0 : outputs);
                 for (std::int64_t p = begin; p < end; ++p) {
                   const std::int64_t image = p / parts, channel = p % parts * width;
                   const std::int64_t count = std::min(width, inner - channel);
                   T* const total = to.target<T>(image, sums.data()).data + channel;
                   const T* const g = from.read<T>(image, 1, widened.data()).data + channel;
                   clear(total, inner, count, pooling.windows.inputs());
                   const std::int64_t first = image * outputs + channel;
                   const std::int64_t found = add_at(total, g, indices + first, pooling, count);
                   if (found >= 0) keep_first(wrong, first + found);
                   to.finish(image, 1, sums.data());
                 }
               });
  return wrong;
}

}  // namespace

void max_pool(const Pooling& pooling, const View& y, std::int64_t* indices, const View& x) {
  const Windows& windows = pooling.windows;
  const auto bits_of = [](const View& view) { return View{view.data, DType::i16, view.shape, view.strides}; };
  const HalfOrder order{static_cast<std::int16_t>(x.dtype == DType::f16 ? 0x7c00 : 0x7f80)};
  // From the first place of a group of windows to its last one.
  const std::int64_t reach =
      (windows.kernel[0] * windows.dilation[0] * windows.input[1] + windows.kernel[1] * windows.dilation[1]) *
          windows.input[2] +
      windows.kernel[2] * windows.dilation[2] + kMostLanes<std::int16_t> * windows.stride[2];
  if ((x.dtype == DType::f16 || x.dtype == DType::bf16) && !pooling.adaptive &&
      reach < std::numeric_limits<std::int16_t>::max())
    return max_pool_as<std::int16_t>(pooling, bits_of(y), indices, bits_of(x), order);
  dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, float>) {
      if (windows.inputs() >= std::numeric_limits<std::int32_t>::max())
        return max_pool_as<double>(pooling, y, indices, x);
    }
    max_pool_as<T>(pooling, y, indices, x);
  });
}

std::int64_t max_pool_backward(const Pooling& pooling, const View& dx, const View& grad,
                               const std::int64_t* indices) {
  const DType compute = promote(compute_dtype(dx.dtype), compute_dtype(grad.dtype));
  if (compute == DType::f64) return max_pool_backward_as<double>(pooling, dx, grad, indices);
  return max_pool_backward_as<float>(pooling, dx, grad, indices);
}

}  // namespace mezzo::kernels::cpu
