// Images of any dtype as a convolution's parts see them: some images and channels, in the compute type and in
// the order that the engine reads, in place where they lie so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/kernels/conv/cpu_part.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cpu {

/// Images [image, image + images) and channels [channel, channel + channels) of a dense array of images of
/// `all_channels` channels and `places` places each.
struct ImageSlice {
  const View& view;
  bool channels_last;
  std::int64_t all_channels, image, images, channel, channels, places;

  [[nodiscard]] std::int64_t batch_stride() const { return all_channels * places; }
  [[nodiscard]] std::int64_t channel_stride() const { return channels_last ? 1 : places; }
  [[nodiscard]] std::int64_t place_stride() const { return channels_last ? all_channels : 1; }
  [[nodiscard]] std::byte* data() const {
    return static_cast<std::byte*>(view.data) +
           (image * batch_stride() + channel * channel_stride()) * size_of(view.dtype);
  }
};

/// A slice in type T, channels-last or not.
template <class T>
class PartImages {
 public:
  PartImages(const ImageSlice& slice, bool channels_last)
      : slice_(slice),
        channels_last_(channels_last),
        in_place_(slice.view.dtype == dtype_of<T> && slice.channels_last == channels_last),
        scratch_(in_place_ ? 0 : slice.images * slice.channels * slice.places) {}

  [[nodiscard]] ConvImages<T> images() const {
    if (in_place_)
      return {reinterpret_cast<T*>(slice_.data()), slice_.batch_stride(), slice_.channel_stride(),
              slice_.place_stride()};
    return {scratch_.data(), slice_.channels * slice_.places, channels_last_ ? 1 : slice_.places,
            channels_last_ ? slice_.channels : 1};
  }
  void load() const {
    if (in_place_) return;
    for_runs([&](std::byte* there, std::int64_t stride, T* here, std::int64_t n) {
      gather(there, slice_.view.dtype, stride, here, dtype_of<T>, n);
    });
  }
  void store() const {
    if (in_place_) return;
    for_runs([&](std::byte* there, std::int64_t stride, T* here, std::int64_t n) {
      scatter(here, dtype_of<T>, there, slice_.view.dtype, stride, n);
    });
  }

 private:
  /// f(there, stride, here, n): runs of the slice, and where they are in the scratch memory.
  template <class F>
  void for_runs(const F& f) const {
    const std::int64_t size = size_of(slice_.view.dtype), channels = slice_.channels, places = slice_.places;
    const bool kept = slice_.channels_last == channels_last_;
    for (std::int64_t n = 0; n < slice_.images; ++n) {
      std::byte* const there = slice_.data() + n * slice_.batch_stride() * size;
      T* const here = scratch_.data() + n * channels * places;
      if (kept && (!channels_last_ || channels == slice_.all_channels)) {
        f(there, 1, here, channels * places);
      } else if (kept) {
        for (std::int64_t p = 0; p < places; ++p)
          f(there + p * slice_.all_channels * size, 1, here + p * channels, channels);
      } else {  // from channels-last, in blocks of places whose channels stay in the cache
        constexpr std::int64_t kBlock = 64;
        for (std::int64_t p = 0; p < places; p += kBlock) {
          for (std::int64_t c = 0; c < channels; ++c)
            f(there + (p * slice_.all_channels + c) * size, slice_.all_channels, here + c * places + p,
              std::min(kBlock, places - p));
        }
      }
    }
  }

  ImageSlice slice_;
  bool channels_last_, in_place_;
  RowScratch<T> scratch_;
};

/// sum[i] += x[i]
template <class T>
void add_to(T* sum, const T* x, std::int64_t n);

/// The sums of `parts` arrays of n elements each, one after the other from `first` on, in that order, as
/// `result`. Overwrites the first.
template <class T>
void add_parts(T* first, std::int64_t parts, std::int64_t n, const View& result);

}  // namespace mezzo::kernels::cpu
