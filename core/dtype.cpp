// Names of dtypes, and promotion of two: the higher kind wins, then the higher rank. Two dtypes of one
// rank give a wider one: f16 with bf16 gives f32, i8 with u8 gives i16.
#include "mezzo/core/dtype.h"

#include "mezzo/core/error.h"

namespace mezzo {

std::string to_string(DType dtype) { return std::string(info(dtype).name); }

DType parse_dtype(std::string_view name) {
  std::string known;
  for (const DType dtype : kAllDTypes) {
    if (info(dtype).name == name) return dtype;
    known.append(known.empty() ? "" : ", ").append(info(dtype).name);
  }
  throw ValueError("parse_dtype", "one of " + known, "\"" + std::string(name) + "\"",
                   "use one of these names");
}

void detail::refuse_float8(std::string_view op, DType dtype) {
  throw DTypeError(op, "a dtype to compute with", to_string(dtype) + ", which is for storage",
                   "cast it: x.to(DType::bf16)");
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float8(a) || is_float8(b)) {
    throw DTypeError("promote", "dtypes that promote", to_string(a) + " and " + to_string(b),
                     "cast the float8 one with to(dtype) first");
  }
  const DTypeInfo& left = info(a);
  const DTypeInfo& right = info(b);
  if (left.kind != right.kind) return left.kind > right.kind ? a : b;
  if (left.rank != right.rank) return left.rank > right.rank ? a : b;
  // Two of equal kind and rank, of which neither holds the other's values: f16 with bf16, i8 with u8.
  return left.kind == DTypeKind::floating ? DType::f32 : DType::i16;
}

}  // namespace mezzo
