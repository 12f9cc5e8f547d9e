#include "mezzo/core/dtype.h"

#include "mezzo/core/error.h"

namespace mezzo {

DType parse_dtype(std::string_view name) {
  std::string known;
  for (const DType dtype : kAllDTypes) {
    if (info(dtype).name == name) return dtype;
    known.append(known.empty() ? "" : ", ").append(info(dtype).name);
  }
  throw ValueError("parse_dtype", "one of " + known, "\"" + std::string(name) + "\"",
                   "use one of these names");
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const DTypeInfo& left = info(a);
  const DTypeInfo& right = info(b);
  if (left.kind != right.kind) return left.kind > right.kind ? a : b;
  if (left.rank != right.rank) return left.rank > right.rank ? a : b;
  return DType::f32;  // the one pair of equal kind and rank: f16 with bf16; neither holds the other's values
}

}  // namespace mezzo
