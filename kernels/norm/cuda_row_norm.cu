// The CUDA rows of layer_norm and rms_norm and of their gradients. A row of whole packs, up to
// kLongestRegisterRow elements, is read once, forward and backward. The gradients of the parameters are sums
// over rows: blocks that stay for many rows keep them in registers, each block (or warp) writes one part, and
// the parts are added by whoever asked. No atomics: the bits depend on sizes only.
#include "mezzo/kernels/norm/norm.h"

#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/norm/cuda_rows.h"

namespace mezzo::kernels::cuda {

namespace {

/// The function that normalizes a row, which is input kArray.
template <std::size_t kArray, class Row>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE scalar::NormalizedFn<typename Row::Number> row_normalized(
    RowNorm kind, double eps, const Row& row) {
  using T = typename Row::Number;
  if (kind == RowNorm::layer) return row_moments<kArray>(row).normalized(eps);
  const scalar::SquaredDeviationFn<T> square{0};
  const double added =
      sum_row(row, [&](const auto& place) { return square(row.template get<kArray>(place)); });
  const double squares = finite_squares<kArray>(row, T(0), added);
  return {T(0), scalar::reciprocal_deviation<T>(row.mean_of(squares), eps), T(0)};
}

/// Arrays: result, x.
template <class T>
struct RowNormRow {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  RowNorm kind;
  double eps;
  Alike<T> weight, bias;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t /*index*/) const {
    const auto x = [&](const auto& place) { return row.template get<1>(place); };
    const scalar::NormalizedFn<T> normalized = row_normalized<1>(kind, eps, row);
    row.write([&](const auto& place, T w, T b) { return normalized(x(place), w, b); }, weight, bias);
  }
};

/// Arrays: result (untouched unless `writes`), gradient, x.
template <class T>
struct RowNormBackwardRow {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  RowNorm kind;
  double eps;
  Alike<T> weight;
  bool writes;
  scalar::NormalizedFn<T>* normalized_rows;  ///< where to leave what normalizes each row, or nullptr
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> operator()(Row& row, std::int64_t index) const {
    const auto grad = [&](const auto& place) { return row.template get<1>(place); };
    const auto x = [&](const auto& place) { return row.template get<2>(place); };
    const scalar::NormalizedFn<T> normalized = row_normalized<2>(kind, eps, row);
    if (normalized_rows != nullptr && row.leads()) normalized_rows[index] = normalized;
    if (!writes) return normalized;
    const TwoSums sums = gradient_sums(row, normalized, grad, x, weight);
    const T mean_grad = kind == RowNorm::layer ? static_cast<T>(row.mean_of(sums.first)) : T(0);
    const scalar::NormGradientFn<T> gradient{normalized, mean_grad, static_cast<T>(row.mean_of(sums.second))};
    row.write([&](const auto& place, T w) { return gradient(grad(place), x(place), w); }, weight);
    return normalized;
  }
};

/// Where the parts of the parameters' gradients go, [parts, n]; nullptr where they are not wanted. Row r adds
/// to part r % parts.
template <class T>
struct PartSums {
  T* weight;
  T* bias;
  std::int64_t parts;
  [[nodiscard]] bool wanted() const { return weight != nullptr || bias != nullptr; }
};

/// Threads of a block that keeps sums: with twice the registers, for twice the values.
constexpr unsigned kMostPartThreads = 512;
constexpr std::int64_t kLongestPartRow = std::int64_t{kRowSlots} * kRowPack * kMostPartThreads;

/// The rows of a part one after the other. A block has several parts only if each is a warp's, so that no
/// barrier is met.
template <int kSlots>
__global__ void __launch_bounds__(kMostPartThreads)
    row_norm_parts_kernel(RowNormBackwardRow<float> body, RowArrays<3> all, PartSums<float> sums) {
  const std::int64_t part = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (part >= sums.parts) return;
  float dots[kSlots][kPack] = {}, grads[kSlots][kPack] = {};
  for (std::int64_t r = part; r < all.rows.total(); r += sums.parts) {
    if (blockDim.x != kWarp) __syncthreads();  // scratch: the row before may still be read
    RegisterRow<3, 1, kSlots, RowPacks::packed> row(all, r);
    const scalar::GradDotFn<float> dot{body(row, r)};
    row.each([&](const auto& place) {
      const float grad = row.template get<1>(place);
      grads[place.slot][place.j] += grad;
      dots[place.slot][place.j] += dot(grad, row.template get<2>(place));
    });
  }
  const RowSlots<RowPacks::packed> slots(all.length);
  MEZZO_UNROLL
  for (int s = 0; s < kSlots; ++s) {
    if (sums.weight != nullptr) slots.store<float, 1>(sums.weight + part * all.length, s, dots[s]);
    if (sums.bias != nullptr) slots.store<float, 1>(sums.bias + part * all.length, s, grads[s]);
  }
}

/// row_norm_parts_kernel's sums for any rows, a thread per place, given `normalized`. Arrays: gradient, x.
template <class T>
__global__ void row_norm_columns(RowArrays<2> all, const scalar::NormalizedFn<T>* normalized,
                                 PartSums<T> sums) {
  const std::int64_t part = blockIdx.y;
  for (std::int64_t i = first_index(); i < all.length; i += grid_size()) {
    T dots = 0, grads = 0;
    for (std::int64_t r = part; r < all.rows.total(); r += sums.parts) {
      const Row<2> row(all, r);
      const T grad = row.get<T>(0, i);
      grads += grad;
      dots += scalar::GradDotFn<T>{normalized[r]}(grad, row.get<T>(1, i));
    }
    if (sums.weight != nullptr) sums.weight[part * all.length + i] = dots;
    if (sums.bias != nullptr) sums.bias[part * all.length + i] = grads;
  }
}

/// row_norm_columns for rows of whole packs, four places per thread.
__global__ void row_norm_pack_columns(RowArrays<2> all, const scalar::NormalizedFn<float>* normalized,
                                      PartSums<float> sums) {
  const std::int64_t part = blockIdx.y;
  for (std::int64_t pack = first_index(); pack < all.length / kPack; pack += grid_size()) {
    float dots[kPack] = {}, grads[kPack] = {};
    for (std::int64_t r = part; r < all.rows.total(); r += sums.parts) {
      std::int64_t start[2];
      all.rows.offsets(r, start);
      float grad[kPack], x[kPack];
      load_pack<float, Among::floating>(all.arrays[0].data, all.arrays[0].dtype, start[0] / kPack + pack,
                                        grad);
      load_pack<float, Among::floating>(all.arrays[1].data, all.arrays[1].dtype, start[1] / kPack + pack, x);
      const scalar::GradDotFn<float> dot{normalized[r]};
      for (int j = 0; j < kPack; ++j) {
        grads[j] += grad[j];
        dots[j] += dot(grad[j], x[j]);
      }
    }
    const std::int64_t at = part * all.length + pack * kPack;
    for (int j = 0; j < kPack; ++j) {
      if (sums.weight != nullptr) sums.weight[at + j] = dots[j];
      if (sums.bias != nullptr) sums.bias[at + j] = grads[j];
    }
  }
}

[[nodiscard]] bool takes_packs(const PartSums<float>& sums) {
  return takes_packs(Array{sums.weight, DType::f32}) && takes_packs(Array{sums.bias, DType::f32});
}

/// Everything in one kernel, if registers hold it.
bool backward_in_registers(Device device, const RowNormBackwardRow<float>& body, const RowArrays<3>& all,
                           const PartSums<float>& sums) {
  const bool packed = all.packed && takes_packs(sums);
  const RowPlan plan =
      plan_rows({all.rows.total(), all.length, 2, all.across, detail::are_narrow(all), packed, all.shifted});
  if (plan.way != RowWay::registers || all.length > kLongestPartRow) return false;
  const auto launch = [&](auto kernel) {
    mezzo::cuda::launch(kernel, dim3(static_cast<unsigned>((sums.parts + plan.rows - 1) / plan.rows)),
                        dim3(plan.threads, plan.rows), kRowScratchBytes, mezzo::cuda::current_stream(device),
                        body, all, sums);
  };
  if (plan.slots == 1)
    launch(row_norm_parts_kernel<1>);
  else
    launch(row_norm_parts_kernel<kRowSlots>);
  return true;
}

template <class T>
void backward(Device device, RowNormBackwardRow<T> body, const std::array<View, 3>& views, PartSums<T> sums) {
  const std::size_t dim = views[2].shape.size() - 1;
  const RowArrays<3> all(views, dim);
  const std::int64_t rows = all.rows.total();
  if (rows == 0 || all.length == 0) return;
  if (!sums.wanted()) return run_row_passes(device, all, body);
  sums.parts = row_norm_parts(device, rows, all.length);
  if constexpr (std::is_same_v<T, float>) {
    if (backward_in_registers(device, body, all, sums)) return;
  }
  const Scratch normalized(device, rows * std::int64_t{sizeof(scalar::NormalizedFn<T>)});
  body.normalized_rows = static_cast<scalar::NormalizedFn<T>*>(normalized.data());
  run_row_passes(device, all, body);
  const auto add_columns = [&](auto kernel, const RowArrays<2>& columns, std::int64_t items) {
    const Grid grid = grid_for(items);
    mezzo::cuda::launch(kernel, dim3(grid.blocks, static_cast<unsigned>(sums.parts)), dim3(grid.threads), 0,
                        mezzo::cuda::current_stream(device), columns, body.normalized_rows, sums);
  };
  const RowArrays<2> columns({views[1], views[2]}, dim);
  if constexpr (std::is_same_v<T, float>) {
    if (columns.packed) return add_columns(row_norm_pack_columns, columns, all.length / kPack);
  }
  add_columns(row_norm_columns<T>, columns, all.length);
}

}  // namespace

void row_norm(Device device, RowNorm kind, const View& out, const View& x, const NormParameters& parameters,
              double eps, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    run_row_passes(device, RowArrays<2>({out, x}, x.shape.size() - 1),
                   RowNormRow<T>{kind,
                                 eps,
                                 {static_cast<const T*>(parameters.weight), T(1)},
                                 {static_cast<const T*>(parameters.bias), T(0)}});
  });
}

void row_norm_backward(Device device, RowNorm kind, const RowNormGradients& out, const View& grad,
                       const View& x, const void* weight, double eps, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    const bool writes = out.input != nullptr;
    backward<T>(device, {kind, eps, {static_cast<const T*>(weight), T(1)}, writes, nullptr},
                {writes ? *out.input : x, grad, x},
                {static_cast<T*>(out.weight), static_cast<T*>(out.bias), 0});
  });
}

/// For as many threads as a large GPU has at work with 128 registers each; at least two rows per part.
std::int64_t row_norm_parts(Device /*device*/, std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t kBusyThreads = 132 * 512, kMostParts = 1056;
  const RowPlan plan = plan_rows({1, n < kLongestPartRow ? n : kLongestPartRow, 2, false, true, true, true});
  const std::int64_t most =
      kBusyThreads / plan.threads < kMostParts ? kBusyThreads / plan.threads : kMostParts;
  const std::int64_t wanted = (rows + 1) / 2;
  return wanted < most ? wanted : most;
}

}  // namespace mezzo::kernels::cuda
