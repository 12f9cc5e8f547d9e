// Eigen's matrix product, compiled once per instruction set: CMake sets MEZZO_ISA to base, v3 or v4, and
// renames the namespace Eigen with it, so that no inline function of one set can stand in for another set's.
// For the same reason no container of std appears here; the objects are checked for weak symbols of other
// namespaces.
#ifndef MEZZO_ISA
#error "gemm_eigen.cpp is compiled with -DMEZZO_ISA=base, v3 or v4 (see cmake/Library.cmake)"
#endif

#include "mezzo/kernels/gemm/cpu_tile.h"

#define EIGEN_DONT_PARALLELIZE  // the caller's tiles are the threads' work
#define EIGEN_MPL2_ONLY
#ifndef EIGEN_NO_DEBUG
#define EIGEN_NO_DEBUG  // its assertions would bring std::ostream into the object
#endif
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes the undefined vectors inside its own AVX-512 intrinsics for a mistake (GCC PR 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <Eigen/Core>

#define MEZZO_JOIN_(a, b, c) a##b##c
#define MEZZO_JOIN(a, b, c) MEZZO_JOIN_(a, b, c)
#define MEZZO_TEXT_(x) #x
#define MEZZO_TEXT(x) MEZZO_TEXT_(x)

namespace mezzo::kernels::cpu {
namespace {

template <class T, int Order>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>;
template <class T, int Order>
using ConstMap = Eigen::Map<const Matrix<T, Order>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using RowMap = Eigen::Map<Matrix<T, Eigen::RowMajor>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T, class A, class B>
void multiply(const GemmTile<T>& tile, const A& a, const B& b) {
  RowMap<T> c(tile.c, tile.m, tile.n, Eigen::OuterStride<>(tile.ldc));
  if (tile.accumulate)
    c.noalias() += a * b;
  else
    c.noalias() = a * b;
}

template <class T, class A>
void choose_b(const GemmTile<T>& tile, const A& a) {
  const Eigen::OuterStride<> stride(tile.ldb);
  if (tile.b_transposed)
    multiply(tile, a, ConstMap<T, Eigen::ColMajor>(tile.b, tile.k, tile.n, stride));
  else
    multiply(tile, a, ConstMap<T, Eigen::RowMajor>(tile.b, tile.k, tile.n, stride));
}

template <class T>
void choose_a(const GemmTile<T>& tile) {
  // Fixed instead of asked from the processor: they set the block sizes, hence the order of the sums, which
  // must not differ between two machines. Measured within 2 % of the processor's own sizes.
  static const bool sizes_set = (Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20), true);
  static_cast<void>(sizes_set);
  const Eigen::OuterStride<> stride(tile.lda);
  if (tile.a_transposed)
    choose_b(tile, ConstMap<T, Eigen::ColMajor>(tile.a, tile.m, tile.k, stride));
  else
    choose_b(tile, ConstMap<T, Eigen::RowMajor>(tile.a, tile.m, tile.k, stride));
}

}  // namespace

void MEZZO_JOIN(gemm_eigen_, MEZZO_ISA, _f32)(const GemmTile<float>& tile) { choose_a(tile); }
void MEZZO_JOIN(gemm_eigen_, MEZZO_ISA, _f64)(const GemmTile<double>& tile) { choose_a(tile); }

const char* MEZZO_JOIN(gemm_eigen_, MEZZO_ISA, _version)() {
  return MEZZO_TEXT(EIGEN_WORLD_VERSION) "." MEZZO_TEXT(EIGEN_MAJOR_VERSION) "." MEZZO_TEXT(
      EIGEN_MINOR_VERSION);
}

}  // namespace mezzo::kernels::cpu
