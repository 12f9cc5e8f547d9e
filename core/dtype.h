// The element types, in one table: a dtype is one row here, its storage type (core/float16.h and float8.h for
// those that C++ lacks), and nothing else. `dispatch` turns a run-time dtype into a compile-time type;
// kernels never own a switch over dtypes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "mezzo/core/float8.h"

namespace mezzo {

/// Element type of a tensor. `boolean` is stored as one byte, 0 or 1. The two of float8 are for storage: they
/// are cast, copied, viewed, saved and multiplied in float8 products; all other ops refuse them.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, boolean, f8_e4m3, f8_e5m2 };

inline constexpr std::size_t kDTypeCount = 12;

/// What kind of number a dtype holds; type promotion ranks kinds before sizes.
enum class DTypeKind : std::uint8_t { boolean, integer, floating };

/// One row of the dtype table.
struct DTypeInfo {
  std::string_view name;  ///< as printed and parsed: "f16", ..., "bool"
  std::int64_t size;      ///< bytes per element
  DTypeKind kind;
  DType compute;  ///< the type its arithmetic is done in: f32, f64 or i64
  int rank;  ///< order within the kind for promotion; f16 and bf16 share one, as do i8 and u8; float8 has -1
  double eps;  ///< distance from 1 to the next value (0 for non-floating)
};

/// The table, indexed by the enum's value.
inline constexpr std::array<DTypeInfo, kDTypeCount> kDTypes{{
    {"f16", 2, DTypeKind::floating, DType::f32, 0, 0x1p-10},
    {"bf16", 2, DTypeKind::floating, DType::f32, 0, 0x1p-7},
    {"f32", 4, DTypeKind::floating, DType::f32, 1, 0x1p-23},
    {"f64", 8, DTypeKind::floating, DType::f64, 2, 0x1p-52},
    {"i8", 1, DTypeKind::integer, DType::i64, 0, 0},
    {"i16", 2, DTypeKind::integer, DType::i64, 1, 0},
    {"i32", 4, DTypeKind::integer, DType::i64, 2, 0},
    {"i64", 8, DTypeKind::integer, DType::i64, 3, 0},
    {"u8", 1, DTypeKind::integer, DType::i64, 0, 0},
    {"bool", 1, DTypeKind::boolean, DType::i64, 0, 0},
    {"f8_e4m3", 1, DTypeKind::floating, DType::f32, -1, 0x1p-3},
    {"f8_e5m2", 1, DTypeKind::floating, DType::f32, -1, 0x1p-2},
}};

/// All dtypes, for loops over them.
inline constexpr std::array<DType, kDTypeCount> kAllDTypes{
    DType::f16, DType::bf16, DType::f32, DType::f64,     DType::i8,      DType::i16,
    DType::i32, DType::i64,  DType::u8,  DType::boolean, DType::f8_e4m3, DType::f8_e5m2};
/// Those that ops compute with: all but float8.
inline constexpr std::array<DType, kDTypeCount - 2> kComputeDTypes{
    DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8,
    DType::i16, DType::i32,  DType::i64, DType::u8,  DType::boolean};

[[nodiscard]] constexpr const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)];
}
[[nodiscard]] constexpr std::int64_t size_of(DType dtype) { return info(dtype).size; }
[[nodiscard]] constexpr bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::floating; }
[[nodiscard]] constexpr bool is_16bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
[[nodiscard]] constexpr bool is_float8(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

namespace detail {
[[noreturn, gnu::cold]] void refuse_float8(std::string_view op, DType dtype);
}
/// Throws: DTypeError, in the name of `op`, for float8.
inline void require_compute_dtype(std::string_view op, DType dtype) {
  if (is_float8(dtype)) [[unlikely]]
    detail::refuse_float8(op, dtype);
}

/// The dtype arithmetic on `dtype` is done in: f32 for float8, f16, bf16, f32; f64 for f64; i64 for integers
/// and bool.
[[nodiscard]] constexpr DType compute_dtype(DType dtype) { return info(dtype).compute; }
[[nodiscard]] std::string to_string(DType dtype);
/// The dtype with the given name ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "bool",
/// "f8_e4m3", "f8_e5m2"). Throws: ValueError listing the names otherwise.
[[nodiscard]] DType parse_dtype(std::string_view name);

/// Result dtype of an operation on two tensors of these dtypes, both with dimensions: the higher kind wins,
/// then the larger; f16 with bf16 gives f32, and i8 with u8 i16. Symmetric. (PyTorch's promotion lattice over
/// these dtypes.) Throws: DTypeError for float8 with another dtype, as PyTorch does.
[[nodiscard]] DType promote(DType a, DType b);

template <class T>
struct TypeTag {
  using type = T;
};

/// The storage type of a dtype, and back.
template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, Half>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return DType::i8;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return DType::i16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_same_v<T, Float8E4M3>)
    return DType::f8_e4m3;
  else if constexpr (std::is_same_v<T, Float8E5M2>)
    return DType::f8_e5m2;
}();

template <class T>
inline constexpr bool kIsFloat8 = std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;
/// Whether T is a floating type that C++ lacks: of 8 or 16 bits, read and written as f32.
template <class T>
inline constexpr bool kIsNarrowFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || kIsFloat8<T>;

/// Calls f(TypeTag<T>{}) with the storage type of `dtype` and returns what it returns.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16:
      return f(TypeTag<Half>{});
    case DType::bf16:
      return f(TypeTag<BFloat16>{});
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::i8:
      return f(TypeTag<std::int8_t>{});
    case DType::i16:
      return f(TypeTag<std::int16_t>{});
    case DType::i32:
      return f(TypeTag<std::int32_t>{});
    case DType::i64:
      return f(TypeTag<std::int64_t>{});
    case DType::u8:
      return f(TypeTag<std::uint8_t>{});
    case DType::f8_e4m3:
      return f(TypeTag<Float8E4M3>{});
    case DType::f8_e5m2:
      return f(TypeTag<Float8E5M2>{});
    case DType::boolean:
      break;
  }
  return f(TypeTag<bool>{});
}

/// Calls f(TypeTag<T>{}) with the compute type of `dtype`: float, double or std::int64_t.
template <class F>
decltype(auto) dispatch_compute(DType dtype, F&& f) {
  switch (compute_dtype(dtype)) {
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f64:
      return f(TypeTag<double>{});
    default:
      return f(TypeTag<std::int64_t>{});
  }
}

/// Calls f(TypeTag<T>{}) with T double where `compute` is f64, else float.
template <class F>
decltype(auto) dispatch_real(DType compute, F&& f) {
  return compute == DType::f64 ? f(TypeTag<double>{}) : f(TypeTag<float>{});
}

}  // namespace mezzo
