// The meaning of the calls in a pickle of torch.save. None is made: each known name has its case here.
#include "mezzo/io/detail/torch/pickle_calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::io::detail {

namespace {

struct PickleFunction {
  std::string_view module, name;
  PickleName kind;
};
constexpr std::array<PickleFunction, 16> kPickleFunctions{{
    {"collections", "OrderedDict", PickleName::ordered_dict},
    {"collections", "Counter", PickleName::counter},
    {"builtins", "set", PickleName::set},
    {"__builtin__", "set", PickleName::set},  // of protocol 2
    {"torch", "Size", PickleName::size},
    {"torch", "device", PickleName::device},
    {"torch._utils", "_rebuild_tensor", PickleName::rebuild_tensor},
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
  std::uint8_t foreign_size = 0;  ///< bytes of an element that mezzo has not
  bool is_unsigned = false;
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
    {"complex64", "ComplexFloatStorage", {}, 8},
    {"complex128", "ComplexDoubleStorage", {}, 16},
    {"complex32", "", {}, 4},
    {"qint8", "QInt8Storage", {}, 1},
    {"quint8", "QUInt8Storage", {}, 1},
    {"qint32", "QInt32Storage", {}, 4},
    {"uint16", "", DType::i16, 0, true},
    {"uint32", "", DType::i32, 0, true},
    {"uint64", "", DType::i64, 0, true},
    {"float8_e4m3fnuz", "", {}, 1},
    {"float8_e5m2fnuz", "", {}, 1},
}};

/// The meaning of "module" and "name", or nothing for a name that is not known. PyTorch spells dtypes in two
/// ways.
std::optional<KnownPickleName> known_pickle_name(std::string_view module, std::string_view name) {
  const std::string text = std::string(module) + "." + std::string(name);
  for (const PickleFunction& one : kPickleFunctions) {
    if (one.module == module && one.name == name)
      return KnownPickleName{.kind = one.kind, .dtype = {}, .text = text};
  }
  if (module != "torch" || name.empty()) return std::nullopt;
  for (const TorchDType& one : kTorchDTypes) {
    if (one.name != name && one.storage != name) continue;
    return KnownPickleName{
        .kind = one.name == name ? PickleName::dtype : PickleName::storage_type,
        .dtype = one.dtype,
        .text = text,
        .is_unsigned = one.is_unsigned,
        .foreign = one.dtype ? std::string_view() : one.name,
        .element = one.dtype ? static_cast<std::uint64_t>(size_of(*one.dtype)) : one.foreign_size};
  }
  return std::nullopt;
}

/// Longest key of a storage, which PyTorch counts, and name of a device.
constexpr std::size_t kMaxPickleKey = 64;

/// A dotted name as messages show it: as it is when it could be one.
std::string shown_name(const std::string& name) {
  constexpr std::size_t kLongest = 80;
  const bool is_plain = name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](char c) {
                          return c == '.' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                                 (c >= 'A' && c <= 'Z');
                        });
  return is_plain ? name : quote(name);
}

}  // namespace

PickledValues::PickledValues(std::string op, std::string_view pickle, Pickled& result)
    : op_(std::move(op)), pickle_(pickle), result_(result) {
  add(Kind::none);
  add(Kind::boolean);
  result_.tree.nodes[add(Kind::boolean)].integer = 1;
}

void PickledValues::fail(const std::string& expected, const std::string& got) const {
  throw IoError(op_, expected, got + " at byte " + std::to_string(place_ + 1) + " of " + pickle_,
                "save a state dict: torch.save(model.state_dict(), path)");
}

void PickledValues::fail_call(const std::string& name) const {
  fail("tensors, dicts, lists, numbers and strings", "a call of " + shown_name(name));
}

std::string PickledValues::shown(Number value) const {
  if (kind(value) == kName) return name_of(value).text;
  return kind(value) == kStorage ? "storage" : std::string(kind_name(kind(value)));
}

PickledValues::Number PickledValues::add(Kind kind) {
  std::vector<TorchTree::Node>& nodes = result_.tree.nodes;
  if (nodes.size() >= kMaxTorchValues) fail("at most " + std::to_string(kMaxTorchValues) + " values", "more");
  TorchTree::Node node;
  node.kind = kind;
  nodes.push_back(node);
  return static_cast<Number>(nodes.size() - 1);
}

PickledValues::Number PickledValues::integer(std::int64_t value) {
  const Number number = add(Kind::integer);
  result_.tree.nodes[number].integer = value;
  return number;
}

PickledValues::Number PickledValues::real(double value) {
  const Number number = add(Kind::real);
  result_.tree.nodes[number].real = value;
  return number;
}

PickledValues::Number PickledValues::text(std::string_view value) {
  if (!is_valid_utf8(value)) fail("strings in UTF-8", quote(value));
  const Number number = add(Kind::string);
  result_.tree.nodes[number].index = result_.tree.strings.size();
  result_.tree.strings.emplace_back(value);
  return number;
}

PickledValues::Number PickledValues::container(Kind kind, std::vector<Number> parts) {
  const Number number = add(kind);
  result_.tree.nodes[number].index = result_.tree.parts.size();
  result_.tree.parts.push_back(std::move(parts));
  return number;
}

void PickledValues::append(Number to, Kind kind_in, const std::vector<Number>& values) {
  if (kind(to) != kind_in)
    fail(std::string("a ") + std::string(kind_name(kind_in)) + " to add to", shown(to));
  std::vector<Number>& parts = result_.tree.parts[result_.tree.nodes[to].index];
  parts.insert(parts.end(), values.begin(), values.end());
}

const std::string& PickledValues::text_of(Number value) const {
  if (kind(value) != Kind::string) fail("a string", shown(value));
  return result_.tree.strings[result_.tree.nodes[value].index];
}

PickledValues::Number PickledValues::name(const std::string& module, const std::string& name) {
  std::optional<KnownPickleName> known = known_pickle_name(module, name);
  if (!known) fail_call(module + "." + name);
  const Number number = add(kName);
  result_.tree.nodes[number].index = names_.size();
  names_.push_back(std::move(*known));
  return number;
}

const KnownPickleName& PickledValues::name_of(Number value) const {
  if (kind(value) != kName) fail("a name of PyTorch's", shown(value));
  return names_[result_.tree.nodes[value].index];
}

const PickledValues::Parts& PickledValues::parts_of(Number value, Kind kind_in,
                                                    const std::string& what) const {
  if (kind(value) != kind_in) fail(what + " as a " + std::string(kind_name(kind_in)), shown(value));
  return result_.tree.parts[result_.tree.nodes[value].index];
}

std::int64_t PickledValues::integer_of(Number value, const std::string& what) const {
  if (kind(value) != Kind::integer) fail(what + " as an int", shown(value));
  const std::int64_t number = result_.tree.nodes[value].integer;
  if (number < 0 || number >= layout::kMaxElements) fail(what + " from 0 to 2^60", std::to_string(number));
  return number;
}

Dims PickledValues::dims_of(Number value, const std::string& what) const {
  const Parts& parts = parts_of(value, Kind::tuple, what);
  if (parts.size() > static_cast<std::size_t>(kMaxDims))
    fail("at most " + std::to_string(kMaxDims) + " dims", std::to_string(parts.size()));
  Dims dims;
  for (const Number part : parts) dims.push_back(integer_of(part, what));
  return dims;
}

PickledValues::Number PickledValues::storage(Number id) {
  const Parts& parts = parts_of(id, Kind::tuple, "a storage");
  // Before PyTorch 1.6 a sixth one says which part of a storage is meant; None: all of it.
  const bool is_whole = parts.size() == 5 || (parts.size() == 6 && kind(parts[5]) == Kind::none);
  if (!is_whole || kind(parts[0]) != Kind::string || text_of(parts[0]) != "storage")
    fail("a storage as ('storage', type, key, location, size)", "another tuple");
  // A tuple that is shared may be named in three bytes, so what is copied of it must be short.
  if (text_of(parts[2]).size() > kMaxPickleKey)
    fail("a key of at most " + std::to_string(kMaxPickleKey) + " bytes", quote(text_of(parts[2])));
  const KnownPickleName& type = name_of(parts[1]);
  if (type.kind != PickleName::storage_type) fail("a type of storage", type.text);
  const bool is_bytes = type.text.ends_with("UntypedStorage");
  const DType dtype = type.dtype.value_or(DType::u8);
  const auto count = static_cast<std::uint64_t>(integer_of(parts[4], "the size of a storage"));
  PickledStorage made{.key = text_of(parts[2]),
                      .dtype = dtype,
                      .has_dtype = !is_bytes,
                      .foreign = type.foreign,
                      .bytes = count * type.element,
                      .element = type.element};
  const Number number = add(kStorage);
  result_.tree.nodes[number].index = result_.storages.size();
  result_.storages.push_back(std::move(made));
  return number;
}

PickledValues::Number PickledValues::rebuild_tensor(const Parts& arguments, PickleName function) {
  const bool has_dtype = function == PickleName::rebuild_tensor_v3;
  const std::size_t count = has_dtype ? 7 : function == PickleName::rebuild_tensor_v2 ? 6 : 4;
  if (arguments.size() != count && arguments.size() != count + 1)
    fail(std::to_string(count) + " arguments for a tensor", std::to_string(arguments.size()));
  if (kind(arguments[0]) != kStorage) fail("the storage of a tensor", shown(arguments[0]));
  PickledTensor tensor{.storage = result_.tree.nodes[arguments[0]].index,
                       .dtype = DType::f32,
                       .offset = integer_of(arguments[1], "the offset of a tensor"),
                       .shape = dims_of(arguments[2], "the size of a tensor"),
                       .strides = dims_of(arguments[3], "the stride of a tensor")};
  const PickledStorage& storage = result_.storages[tensor.storage];
  if (has_dtype) {
    const KnownPickleName& dtype = name_of(arguments[6]);
    if (dtype.kind != PickleName::dtype) fail("the dtype of a tensor", dtype.text);
    tensor.dtype = dtype.dtype.value_or(DType::u8);
    tensor.is_unsigned = dtype.is_unsigned;
    tensor.foreign = dtype.foreign;
  } else {
    if (!storage.has_dtype) fail("a dtype of a tensor", "a storage without one");
    tensor.dtype = storage.dtype;
    tensor.foreign = storage.foreign;
  }
  if (tensor.shape.size() != tensor.strides.size() || checked_count(tensor.shape) < 0) {
    fail("sizes and strides of a tensor of fewer than 2^60 elements",
         to_string(tensor.shape) + " and " + to_string(tensor.strides));
  }
  const Number number = add(Kind::tensor);
  result_.tree.nodes[number].index = result_.tensors.size();
  result_.tensors.push_back(tensor);
  return number;
}

/// (rebuild function, type, its arguments, attributes of Python's, which are left out)
PickledValues::Number PickledValues::rebuild_from_type(const Parts& arguments) {
  if (arguments.size() != 4) fail("4 arguments for a tensor", std::to_string(arguments.size()));
  const PickleName function = name_of(arguments[0]).kind;
  const KnownPickleName& type = name_of(arguments[1]);
  if (type.kind != PickleName::tensor_type && type.kind != PickleName::parameter_type) fail_call(type.text);
  if (function != PickleName::rebuild_tensor_v2 && function != PickleName::rebuild_tensor_v3 &&
      function != PickleName::rebuild_parameter)
    fail_call(name_of(arguments[0]).text);
  return call(arguments[0], arguments[2]);
}

PickledValues::Number PickledValues::device(const Parts& arguments) {
  if (arguments.empty() || arguments.size() > 2)
    fail("a device", std::to_string(arguments.size()) + " arguments");
  if (text_of(arguments[0]).size() > kMaxPickleKey)
    fail("a device of at most " + std::to_string(kMaxPickleKey) + " bytes", quote(text_of(arguments[0])));
  std::string name = text_of(arguments[0]);
  if (arguments.size() == 2) name += ":" + std::to_string(integer_of(arguments[1], "the index of a device"));
  return text(name);
}

/// Python 2 makes one of a list of pairs, which becomes the dict: a copy for each time that a list is named
/// could take any amount of memory.
PickledValues::Number PickledValues::ordered_dict(const Parts& arguments) {
  if (arguments.empty()) return container(Kind::map, {});
  Parts entries;
  for (const Number pair : parts_of(arguments[0], Kind::list, "the entries of an OrderedDict")) {
    const Parts& entry = parts_of(pair, kind(pair) == Kind::tuple ? Kind::tuple : Kind::list, "an entry");
    if (entry.size() != 2) fail("a key and a value", std::to_string(entry.size()) + " values");
    entries.insert(entries.end(), entry.begin(), entry.end());
  }
  TorchTree::Node& node = result_.tree.nodes[arguments[0]];
  node.kind = Kind::map;
  result_.tree.parts[node.index] = std::move(entries);
  return arguments[0];
}

PickledValues::Number PickledValues::call(Number function, Number arguments_in) {
  const KnownPickleName& called = name_of(function);
  const std::string what = "arguments of " + called.text;
  const Parts& arguments = parts_of(arguments_in, Kind::tuple, what);
  const auto expect = [&](std::size_t least, std::size_t most) {
    if (arguments.size() < least || arguments.size() > most)
      fail(what + ", " + std::to_string(most) + " at the most", std::to_string(arguments.size()));
  };
  switch (called.kind) {
    case PickleName::ordered_dict:
      expect(0, 1);
      return ordered_dict(arguments);
    case PickleName::counter:
      expect(0, 1);
      if (arguments.empty()) return container(Kind::map, {});
      static_cast<void>(parts_of(arguments[0], Kind::map, what));
      return arguments[0];
    case PickleName::set:
      expect(1, 1);
      static_cast<void>(parts_of(arguments[0], Kind::list, what));
      return arguments[0];
    case PickleName::size:
      expect(1, 1);
      static_cast<void>(parts_of(arguments[0], Kind::tuple, what));
      return arguments[0];
    case PickleName::device:
      return device(arguments);
    case PickleName::rebuild_tensor:
    case PickleName::rebuild_tensor_v2:
    case PickleName::rebuild_tensor_v3:
      return rebuild_tensor(arguments, called.kind);
    case PickleName::rebuild_parameter:
    case PickleName::rebuild_parameter_with_state:
      expect(3, 4);
      if (kind(arguments[0]) != Kind::tensor) fail("the tensor of a parameter", shown(arguments[0]));
      return arguments[0];
    case PickleName::rebuild_from_type:
      return rebuild_from_type(arguments);
    default:
      fail_call(called.text);
  }
}

}  // namespace mezzo::io::detail
