// oneDNN's products as tile engines, on its matmul primitive, for oneDNN 2 and 3. Every thread keeps the
// primitives of the shapes it has met: making one costs more than a small product. Empty in a build without
// oneDNN.
#include "mezzo/kernels/gemm/cpu_tile.h"

#ifdef MEZZO_HAVE_ONEDNN

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/core/warning.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/onednn.h"
#include "mezzo/kernels/cpu/scratch.h"

namespace mezzo::kernels::cpu {
namespace {

using DataType = dnnl::memory::data_type;

/// All that a primitive is made for.
struct Key {
  std::array<std::int64_t, 6> sizes;  ///< m, n, k, lda, ldb, ldc
  bool a_transposed, b_transposed, accumulate, bf16;

  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept {
    std::size_t hash = (key.a_transposed ? 1U : 0U) | (key.b_transposed ? 2U : 0U) |
                       (key.accumulate ? 4U : 0U) | (key.bf16 ? 8U : 0U);
    for (const std::int64_t size : key.sizes) {
      hash = (hash ^ static_cast<std::size_t>(size)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t cols, std::int64_t ld, bool transposed,
                          DataType type) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1};
  return {{rows, cols}, type, strides};
}

dnnl::matmul::primitive_desc describe(const Key& key) {
  const auto [m, n, k, lda, ldb, ldc] = key.sizes;
  const DataType type = key.bf16 ? DataType::bf16 : DataType::f32;
  const dnnl::memory::desc a = matrix(m, k, lda, key.a_transposed, type);
  const dnnl::memory::desc b = matrix(k, n, ldb, key.b_transposed, type);
  const dnnl::memory::desc c = matrix(m, n, ldc, false, DataType::f32);
  dnnl::primitive_attr attributes;
  // A scratchpad of ours: oneDNN's own belongs to the thread that made the primitive.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0f);
    attributes.set_post_ops(add);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {onednn_engine(), a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, onednn_engine()};
#endif
}

/// A primitive with the memory objects it is run on, whose addresses are set at each run.
class Product {
 public:
  explicit Product(const dnnl::matmul::primitive_desc& desc)
      : primitive_(desc),
        a_(desc.src_desc(), onednn_engine(), nullptr),
        b_(desc.weights_desc(), onednn_engine(), nullptr),
        c_(desc.dst_desc(), onednn_engine(), nullptr),
        scratchpad_(desc.scratchpad_desc(), onednn_engine(), nullptr),
        scratch_bytes_(desc.scratchpad_desc().get_size()),
        holds_signals_(SignalsHeld::needed_by(desc.impl_info_str())) {}

  /// Bytes that `scratch` has to have.
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_bytes_; }

  dnnl_status_t run(const dnnl::stream& stream, const void* a, const void* b, void* c, void* scratch) {
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    scratchpad_.set_data_handle(scratch);
    // The C call: the C++ one builds a hash map per run.
    const std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, a_.get()},
                                                    {DNNL_ARG_WEIGHTS, b_.get()},
                                                    {DNNL_ARG_DST, c_.get()},
                                                    {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}}};
    const SignalsHeld held(holds_signals_);
    const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream.get(),
                                                        static_cast<int>(arguments.size()), arguments.data());
    if (!ran_) onednn_has_new_objects();
    ran_ = true;
    return status;
  }

 private:
  dnnl::matmul primitive_;
  dnnl::memory a_, b_, c_, scratchpad_;
  std::size_t scratch_bytes_;
  bool holds_signals_, ran_ = false;
};

/// The cache of one thread: its primitives and the memory they work in.
class ProductCache {
 public:
  Product& find(const Key& key) {
    if (last_ != nullptr && key == last_key_) return *last_;  // the next tile of the same product
    auto found = products_.find(key);
    if (found == products_.end()) {
      // Shapes that change with every call must not fill the memory; a training step has a few dozen.
      if (products_.size() >= kMaxProducts) products_.clear();
      last_ = nullptr;
      found = products_.try_emplace(key, describe(key)).first;
    }
    last_key_ = key;
    last_ = &found->second;
    return *last_;
  }

  void* scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      scratch_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
      scratch_bytes_ = bytes;
    }
    return scratch_.get();
  }

  [[nodiscard]] const dnnl::stream& stream() const { return stream_; }
  Scratch a, b;  ///< vectors without their gaps

 private:
  static constexpr std::size_t kMaxProducts = 512;
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };

  std::unordered_map<Key, Product, KeyHash> products_;
  Key last_key_{};
  Product* last_ = nullptr;
  std::unique_ptr<std::byte, Free> scratch_;
  std::size_t scratch_bytes_ = 0;
  dnnl::stream stream_{onednn_engine()};
};

/// `tile` by Eigen, after oneDNN has refused it and done nothing. Says so once.
template <class In>
void multiply_without(const GemmTile<In, float>& tile, const std::string& why) {
  static constinit WarningSite site("onednn_refuses");
  if (site.is_fresh())
    site.warn("oneDNN matmul", "success", why, "slower from here on, by Eigen; report this");
  if constexpr (std::is_same_v<In, float>) {
    gemm_eigen_f32(tile);
  } else {
    const auto widened = [](const BFloat16* from, std::int64_t lines, std::int64_t length, std::int64_t ld) {
      std::vector<float> to(static_cast<std::size_t>(lines * length));
      gather_matrix(from, DType::bf16, ld, 1, to.data(), DType::f32, lines, length);
      return to;
    };
    const auto [m, n, k] = std::array{tile.m, tile.n, tile.k};
    const auto a = tile.a_transposed ? widened(tile.a, k, m, tile.lda) : widened(tile.a, m, k, tile.lda);
    const auto b = tile.b_transposed ? widened(tile.b, n, k, tile.ldb) : widened(tile.b, k, n, tile.ldb);
    gemm_eigen_f32({m, n, k, a.data(), tile.a_transposed ? m : k, tile.a_transposed, b.data(),
                    tile.b_transposed ? k : n, tile.b_transposed, tile.c, tile.ldc, tile.accumulate});
  }
}

/// Packs a matrix of one row or column that has gaps between its elements: oneDNN's AVX-512 products read the
/// only row of A without gaps, whatever its strides say (3.7.2: treat_A_as_plain, brgemm_matmul_utils.cpp).
template <class T>
void close_gaps(const T*& data, std::int64_t rows, std::int64_t cols, std::int64_t& ld, bool& transposed,
                Scratch& buffer) {
  const bool one_row = rows == 1 && transposed, one_col = cols == 1 && !transposed;
  if (!(one_row || one_col) || ld == 1) return;
  T* const copy = buffer.get<T>(rows * cols);
  gather(data, dtype_of<T>, ld, copy, dtype_of<T>, rows * cols);
  data = copy;
  transposed = false;
  ld = cols;
}

/// By oneDNN: success, or what kept it from the product, of which nothing is done. Throws Error where some
/// may be.
template <class In>
dnnl_status_t try_multiply(GemmTile<In, float> tile) {
  const OnednnCall call;
  try {
    static constinit mezzo::detail::PerThread<ProductCache> caches;
    ProductCache& cache = caches.get();
    close_gaps(tile.a, tile.m, tile.k, tile.lda, tile.a_transposed, cache.a);
    close_gaps(tile.b, tile.k, tile.n, tile.ldb, tile.b_transposed, cache.b);
    Product& product = cache.find({{tile.m, tile.n, tile.k, tile.lda, tile.ldb, tile.ldc},
                                   tile.a_transposed,
                                   tile.b_transposed,
                                   tile.accumulate,
                                   std::is_same_v<In, BFloat16>});
    void* const scratch = cache.scratch(product.scratch_bytes());
    const dnnl_status_t status = product.run(cache.stream(), tile.a, tile.b, tile.c, scratch);
    if (status == dnnl_runtime_error && tile.accumulate)
      throw Error("oneDNN matmul", "success", "a runtime error", "set MEZZO_CPU_GEMM=eigen and report this");
    return status;
  } catch (const dnnl::error& error) {  // no primitive for the sizes
    return error.status;
  }
}

template <class In>
void multiply(const GemmTile<In, float>& tile) {
  const dnnl_status_t status = try_multiply(tile);
  if (status != dnnl_success) multiply_without(tile, "status " + std::to_string(static_cast<int>(status)));
}

}  // namespace

void gemm_onednn_f32(const GemmTile<float>& tile) { multiply(tile); }
void gemm_onednn_bf16(const GemmTile<BFloat16, float>& tile) { multiply(tile); }

// The value of an instruction set has the bits of all that it contains.
bool onednn_has_native_bf16() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

bool onednn_needs_spaced_lines() {
  static const bool needs =
      (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core;
  return needs;
}

std::string gemm_onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace mezzo::kernels::cpu

#endif  // MEZZO_HAVE_ONEDNN
