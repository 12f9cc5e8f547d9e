// The list of names, and the dtypes that PyTorch spells in two ways.
#include "mezzo/io/detail/torch/pickle_names.h"

#include <array>

namespace mezzo::io::detail {

namespace {

struct PickleFunction {
  std::string_view module, name;
  PickleName kind;
};
constexpr std::array<PickleFunction, 15> kPickleFunctions{{
    {"collections", "OrderedDict", PickleName::ordered_dict},
    {"collections", "Counter", PickleName::counter},
    {"builtins", "set", PickleName::set},
    {"__builtin__", "set", PickleName::set},  // of protocol 2
    {"torch", "Size", PickleName::size},
    {"torch", "device", PickleName::device},
    {"torch._utils", "_rebuild_tensor_v2", PickleName::rebuild_tensor_v2},
    {"torch._utils", "_rebuild_tensor_v3", PickleName::rebuild_tensor_v3},
    {"torch._utils", "_rebuild_parameter", PickleName::rebuild_parameter},
    {"torch._utils", "_rebuild_parameter_with_state", PickleName::rebuild_parameter_with_state},
    {"torch._tensor", "_rebuild_from_type_v2", PickleName::rebuild_from_type},
    {"torch", "Tensor", PickleName::tensor_type},
    {"torch.nn.parameter", "Parameter", PickleName::parameter_type},
    {"torch.storage", "UntypedStorage", PickleName::storage_type},
    {"torch", "UntypedStorage", PickleName::storage_type},
}};

struct TorchDType {
  std::string_view name, storage;
  std::optional<DType> dtype;
};
constexpr std::array<TorchDType, 23> kTorchDTypes{{
    {"float32", "FloatStorage", DType::f32},
    {"float64", "DoubleStorage", DType::f64},
    {"float16", "HalfStorage", DType::f16},
    {"bfloat16", "BFloat16Storage", DType::bf16},
    {"int64", "LongStorage", DType::i64},
    {"int32", "IntStorage", DType::i32},
    {"int16", "ShortStorage", DType::i16},
    {"int8", "CharStorage", DType::i8},
    {"uint8", "ByteStorage", DType::u8},
    {"bool", "BoolStorage", DType::boolean},
    {"float8_e4m3fn", "", DType::f8_e4m3},
    {"float8_e5m2", "", DType::f8_e5m2},
    {"complex64", "ComplexFloatStorage", {}},
    {"complex128", "ComplexDoubleStorage", {}},
    {"complex32", "", {}},
    {"qint8", "QInt8Storage", {}},
    {"quint8", "QUInt8Storage", {}},
    {"qint32", "QInt32Storage", {}},
    {"uint16", "", {}},
    {"uint32", "", {}},
    {"uint64", "", {}},
    {"float8_e4m3fnuz", "", {}},
    {"float8_e5m2fnuz", "", {}},
}};

}  // namespace

std::optional<KnownPickleName> known_pickle_name(std::string_view module, std::string_view name) {
  const std::string text = std::string(module) + "." + std::string(name);
  for (const PickleFunction& one : kPickleFunctions) {
    if (one.module == module && one.name == name) return KnownPickleName{one.kind, {}, text};
  }
  if (module != "torch" || name.empty()) return std::nullopt;
  for (const TorchDType& one : kTorchDTypes) {
    if (one.name == name) return KnownPickleName{PickleName::dtype, one.dtype, text};
    if (one.storage == name) return KnownPickleName{PickleName::storage_type, one.dtype, text};
  }
  return std::nullopt;
}

}  // namespace mezzo::io::detail
