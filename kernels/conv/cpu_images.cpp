// Sums that need no engine.
#include "mezzo/kernels/conv/cpu_images.h"

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"

namespace mezzo::kernels::cpu {
namespace {

template <class T>
struct AddTo {
  static void run(T* sum, const T* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
  }
};

constexpr std::int64_t kGrain = 1 << 15;

}  // namespace

template <class T>
void add_to(T* sum, const T* x, std::int64_t n) {
  run_isa<AddTo<T>>(sum, x, n);
}

template <class T>
void add_parts(T* first, std::int64_t parts, std::int64_t n, const View& result) {
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = 1; part < parts; ++part)
      add_to<T>(first + begin, first + part * n + begin, end - begin);
    convert(first + begin, dtype_of<T>, static_cast<std::byte*>(result.data) + begin * size_of(result.dtype),
            result.dtype, end - begin);
  });
}

template void add_to(float*, const float*, std::int64_t);
template void add_to(double*, const double*, std::int64_t);
template void add_parts(float*, std::int64_t, std::int64_t, const View&);
template void add_parts(double*, std::int64_t, std::int64_t, const View&);

}  // namespace mezzo::kernels::cpu
