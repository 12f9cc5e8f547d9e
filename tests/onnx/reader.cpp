// A reader of protocol buffers, field by field, and of the messages of onnx.proto.
#include "onnx/reader.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>

#include "mezzo/ops/factory.h"

namespace mezzo::onnx::testing {

namespace {

[[noreturn]] void refuse_file(const std::string& what) { throw std::runtime_error("onnx: " + what); }

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_file("no file " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A field of a message: a number, or bytes.
struct Field {
  std::uint32_t number;
  std::uint64_t integer = 0;
  std::string_view bytes = {};
  bool is_bytes = false;
};

/// The fields of a message, in order.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}
  [[nodiscard]] bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field = {.number = static_cast<std::uint32_t>(key >> 3U)};
    switch (key & 7U) {
      case 0:
        field.integer = varint();
        break;
      case 2:
        field.bytes = take(varint());
        field.is_bytes = true;
        break;
      case 5: {
        std::uint32_t bits = 0;
        std::memcpy(&bits, take(4).data(), 4);
        field.integer = bits;
        break;
      }
      default:
        refuse_file("a wire type that is not written");
    }
    return true;
  }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) refuse_file("a field beyond its message");
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return result;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    refuse_file("a number of more than 64 bits");
  }
  std::string_view rest_;
};

DType dtype_of(std::uint64_t type) {
  for (const DType dtype : kAllDTypes) {
    if (data_type(dtype) == static_cast<std::int64_t>(type)) return dtype;
  }
  refuse_file("data type " + std::to_string(type));
}

Initializer tensor_of(std::string_view text, const std::string& folder) {
  Initializer result;
  std::vector<std::int64_t> sizes;
  std::string raw;
  std::map<std::string, std::string> external;
  DType dtype = DType::f32;
  Fields fields(text);
  for (Field field{}; fields.next(field);) {
    if (field.number == 1) sizes.push_back(static_cast<std::int64_t>(field.integer));
    if (field.number == 2) dtype = dtype_of(field.integer);
    if (field.number == 8) result.name = field.bytes;
    if (field.number == 9) raw = field.bytes;
    if (field.number == 13) {
      std::string key, value;
      Fields entry(field.bytes);
      for (Field part{}; entry.next(part);) (part.number == 1 ? key : value) = part.bytes;
      external[key] = value;
    }
    if (field.number == 14 && field.integer != 1) refuse_file("a data location");
  }
  if (!external.empty()) {
    const std::string all = content_of(folder + "/" + external.at("location"));
    raw = all.substr(std::stoull(external.at("offset")), std::stoull(external.at("length")));
  }
  result.value = empty(Shape(std::span<const std::int64_t>(sizes)), {.dtype = dtype});
  if (raw.size() != static_cast<std::size_t>(result.value.numel() * size_of(dtype)))
    refuse_file("values of " + result.name + " that do not fill its shape");
  std::memcpy(result.value.impl().data(), raw.data(), raw.size());
  return result;
}

Attribute attribute_of(std::string_view text, const std::string& folder) {
  Attribute result;
  std::vector<std::int64_t> integers;
  std::vector<std::string> words;
  std::uint64_t type = 0;
  Fields fields(text);
  for (Field field{}; fields.next(field);) {
    switch (field.number) {
      case 1:
        result.name = field.bytes;
        break;
      case 2:
        result.value = std::bit_cast<float>(static_cast<std::uint32_t>(field.integer));
        break;
      case 3:
        result.value = static_cast<std::int64_t>(field.integer);
        break;
      case 4:
        result.value = std::string(field.bytes);
        break;
      case 5:
        result.value = tensor_of(field.bytes, folder).value;
        break;
      case 8:
        integers.push_back(static_cast<std::int64_t>(field.integer));
        break;
      case 9:
        words.emplace_back(field.bytes);
        break;
      case 20:
        type = field.integer;
        break;
      default:
        refuse_file("a field of an attribute");
    }
  }
  if (type == 7) result.value = integers;
  if (type == 8) result.value = words;
  constexpr std::uint64_t kTypes[]{2, 1, 3, 7, 8, 4};  // of the alternatives of Attribute::value
  if (kTypes[result.value.index()] != type) refuse_file("an attribute of another type than it says");
  return result;
}

Node node_of(std::string_view text, const std::string& folder) {
  Node result;
  Fields fields(text);
  for (Field field{}; fields.next(field);) {
    switch (field.number) {
      case 1:
        result.inputs.emplace_back(field.bytes);
        break;
      case 2:
        result.outputs.emplace_back(field.bytes);
        break;
      case 3:
        break;  // its name
      case 4:
        result.op = field.bytes;
        break;
      case 5:
        result.attributes.push_back(attribute_of(field.bytes, folder));
        break;
      default:
        refuse_file("a field of a node");
    }
  }
  return result;
}

/// The one field of a message of one.
Field only_field(std::string_view text) {
  Field field{};
  Fields fields(text);
  if (!fields.next(field)) refuse_file("an empty message");
  return field;
}

ValueInfo info_of(std::string_view text) {
  ValueInfo result;
  Fields fields(text);
  for (Field field{}; fields.next(field);) {
    if (field.number == 1) result.name = field.bytes;
    if (field.number != 2) continue;
    Fields tensor(only_field(field.bytes).bytes);
    for (Field part{}; tensor.next(part);) {
      if (part.number == 1) result.dtype = dtype_of(part.integer);
      if (part.number != 2) continue;
      Fields shape(part.bytes);
      for (Field dim{}; shape.next(dim);) {
        const Field size = only_field(dim.bytes);
        if (size.is_bytes)
          result.shape.emplace_back(std::string(size.bytes));
        else
          result.shape.emplace_back(static_cast<std::int64_t>(size.integer));
      }
    }
  }
  return result;
}

void read_graph(std::string_view text, const std::string& folder, Model& model) {
  Fields fields(text);
  for (Field field{}; fields.next(field);) {
    switch (field.number) {
      case 1:
        model.nodes.push_back(node_of(field.bytes, folder));
        break;
      case 2:
        model.name = field.bytes;
        break;
      case 5:
        model.initializers.push_back(tensor_of(field.bytes, folder));
        break;
      case 11:
        model.inputs.push_back(info_of(field.bytes));
        break;
      case 12:
        model.outputs.push_back(info_of(field.bytes));
        break;
      default:
        refuse_file("a field of a graph");
    }
  }
}

}  // namespace

ReadModel read(const std::string& path) {
  ReadModel result;
  const std::string text = content_of(path), folder = std::filesystem::path(path).parent_path().string();
  Fields fields(text);
  for (Field field{}; fields.next(field);) {
    switch (field.number) {
      case 1:
        result.ir_version = static_cast<std::int64_t>(field.integer);
        break;
      case 2:
        result.producer = field.bytes;
        break;
      case 7:
        read_graph(field.bytes, folder, result.model);
        break;
      case 8: {
        Fields opset(field.bytes);
        for (Field part{}; opset.next(part);) {
          if (part.number == 2) result.model.opset = static_cast<std::int64_t>(part.integer);
        }
        break;
      }
      default:
        refuse_file("a field of a model");
    }
  }
  return result;
}

}  // namespace mezzo::onnx::testing
