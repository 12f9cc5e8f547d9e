// The messages of onnx.proto. Values of initializers go from their tensors to the file without another copy.
#include "mezzo/onnx/model.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/proto_message.h"
#include "mezzo/io/detail/tensor_bytes.h"

namespace mezzo::onnx {

namespace {

using io::detail::bytes_of;
using io::detail::ProtoMessage;

constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31U) - 1;
constexpr std::uint64_t kLeastExternal = 1024;  ///< smaller values stay in the model's file
constexpr std::uint64_t kAlignment = 4096;  ///< of values in a file of their own, so that they can be mapped

/// Field numbers, by message.
namespace model_field {
constexpr std::uint32_t ir_version = 1, producer_name = 2, graph = 7, opset_import = 8;
}
namespace graph_field {
constexpr std::uint32_t node = 1, name = 2, initializer = 5, input = 11, output = 12;
}
namespace node_field {
constexpr std::uint32_t input = 1, output = 2, name = 3, op_type = 4, attribute = 5;
}
namespace tensor_field {
constexpr std::uint32_t dims = 1, data_type = 2, name = 8, raw_data = 9, external_data = 13,
                        data_location = 14;
}

/// The oldest version of the format that knows the opset.
std::int64_t ir_version_of(std::int64_t opset) {
  return opset <= 18 ? 8 : opset <= 20 ? 9 : opset <= 22 ? 10 : 11;
}

/// A tensor's message up to its values.
ProtoMessage tensor_head(std::string_view name, const Tensor& value) {
  ProtoMessage message;
  for (const std::int64_t size : value.shape()) message.integer(tensor_field::dims, size);
  message.integer(tensor_field::data_type, data_type(value.dtype()));
  if (!name.empty()) message.bytes(tensor_field::name, name);
  return message;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ProtoMessage message_of(const Attribute& attribute) {
  enum Type : std::uint8_t { real = 1, integer = 2, string = 3, tensor = 4, integers = 7, strings = 8 };
  constexpr std::uint32_t kName = 1, kReal = 2, kInteger = 3, kString = 4, kTensor = 5, kIntegers = 8,
                          kStrings = 9, kType = 20;
  ProtoMessage message;
  message.bytes(kName, attribute.name);
  if (const auto* one = std::get_if<std::int64_t>(&attribute.value)) {
    message.integer(kInteger, *one).integer(kType, integer);
  } else if (const auto* number = std::get_if<float>(&attribute.value)) {
    message.real32(kReal, *number).integer(kType, real);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    message.bytes(kString, *text).integer(kType, string);
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
    for (const std::int64_t element : *list) message.integer(kIntegers, element);
    message.integer(kType, integers);
  } else if (const auto* words = std::get_if<std::vector<std::string>>(&attribute.value)) {
    for (const std::string& word : *words) message.bytes(kStrings, word);
    message.integer(kType, strings);
  } else {
    const Tensor value =
        io::detail::row_major_on_host(kExport, attribute.name, std::get<Tensor>(attribute.value));
    ProtoMessage content = tensor_head("", value);
    content.bytes(tensor_field::raw_data, text_of(bytes_of(value)));
    message.message(kTensor, content).integer(kType, tensor);
  }
  return message;
}

ProtoMessage message_of(const Node& node) {
  ProtoMessage message;
  for (const std::string& input : node.inputs) message.bytes(node_field::input, input);
  for (const std::string& output : node.outputs) message.bytes(node_field::output, output);
  const auto name = std::ranges::find_if(node.outputs, [](const std::string& one) { return !one.empty(); });
  message.bytes(node_field::name, *name).bytes(node_field::op_type, node.op);
  for (const Attribute& attribute : node.attributes)
    message.message(node_field::attribute, message_of(attribute));
  return message;
}

ProtoMessage message_of(const ValueInfo& info) {
  constexpr std::uint32_t kName = 1, kType = 2, kTensorType = 1, kElementType = 1, kShape = 2, kDim = 1,
                          kNumber = 1, kSizeName = 2;
  ProtoMessage shape;
  for (const auto& size : info.shape) {
    ProtoMessage dim;
    if (const auto* number = std::get_if<std::int64_t>(&size))
      dim.integer(kNumber, *number);
    else
      dim.bytes(kSizeName, std::get<std::string>(size));
    shape.message(kDim, dim);
  }
  ProtoMessage tensor, type, message;
  tensor.integer(kElementType, data_type(info.dtype)).message(kShape, shape);
  type.message(kTensorType, tensor);
  message.bytes(kName, info.name).message(kType, type);
  return message;
}

/// The pieces of a file, in order: text, then the bytes of a tensor, which may be none.
struct Piece {
  std::string text;
  std::span<const std::byte> bytes = {};
};

/// The file of values that stand apart from the model.
struct ExternalFile {
  std::string path;
  std::vector<Piece> pieces = {};
  std::uint64_t size = 0;

  /// Adds `bytes` and gives the entries that find them again.
  void add(ProtoMessage& head, std::span<const std::byte> bytes) {
    const std::uint64_t begin = (size + kAlignment - 1) / kAlignment * kAlignment;
    pieces.push_back({std::string(begin - size, '\0'), bytes});
    size = begin + bytes.size();
    const std::array<std::pair<std::string_view, std::string>, 3> entries{
        {{"location", std::filesystem::path(path).filename().string()},
         {"offset", std::to_string(begin)},
         {"length", std::to_string(bytes.size())}}};
    for (const auto& [key, text] : entries) {
      ProtoMessage entry;
      entry.bytes(1, key).bytes(2, text);
      head.message(tensor_field::external_data, entry);
    }
    constexpr std::int64_t kExternal = 1;
    head.integer(tensor_field::data_location, kExternal);
  }
};

std::vector<Piece> initializers_of(const Model& model, std::span<const Tensor> values,
                                   ExternalFile* external) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::span<const std::byte> bytes = bytes_of(values[i]);
    ProtoMessage head = tensor_head(model.initializers[i].name, values[i]);
    const bool apart = external != nullptr && bytes.size() >= kLeastExternal;
    if (apart)
      external->add(head, bytes);
    else
      head.begin_bytes(tensor_field::raw_data, bytes.size());
    const std::uint64_t size = head.text().size() + (apart ? 0 : bytes.size());
    ProtoMessage field;
    field.begin_bytes(graph_field::initializer, size);
    pieces.push_back({field.text() + head.text(), apart ? std::span<const std::byte>() : bytes});
  }
  return pieces;
}

std::uint64_t size_of_all(std::span<const Piece> pieces) {
  std::uint64_t size = 0;
  for (const Piece& piece : pieces) size += piece.text.size() + piece.bytes.size();
  return size;
}

/// The whole file.
std::vector<Piece> pieces_of(const Model& model, std::span<const Tensor> values, ExternalFile* external) {
  ProtoMessage graph;
  for (const Node& node : model.nodes) graph.message(graph_field::node, message_of(node));
  graph.bytes(graph_field::name, model.name);
  for (const ValueInfo& input : model.inputs) graph.message(graph_field::input, message_of(input));
  for (const ValueInfo& output : model.outputs) graph.message(graph_field::output, message_of(output));
  std::vector<Piece> pieces = initializers_of(model, values, external);
  ProtoMessage opset, head;
  opset.bytes(1, "").integer(2, model.opset);
  head.integer(model_field::ir_version, ir_version_of(model.opset))
      .bytes(model_field::producer_name, "mezzo")
      .message(model_field::opset_import, opset)
      .begin_bytes(model_field::graph, graph.text().size() + size_of_all(pieces));
  pieces.insert(pieces.begin(), {head.text() + graph.text()});
  return pieces;
}

void write_pieces(io::AtomicFile& file, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    file.write(piece.text);
    file.write(piece.bytes);
  }
}

}  // namespace

std::int64_t data_type(DType dtype) {
  constexpr std::array<std::int64_t, kDTypeCount> kTypes{10, 16, 1, 11, 3, 5, 6, 7, 2, 9, 17, 19};
  return kTypes[static_cast<std::size_t>(dtype)];
}

void write(const Model& model, const std::string& path, std::optional<bool> external_data) {
  std::vector<Tensor> values;
  for (const Initializer& one : model.initializers)
    values.push_back(io::detail::row_major_on_host(kExport, one.name, one.value));
  ExternalFile external{.path = path + ".data"};
  std::vector<Piece> pieces = pieces_of(model, values, external_data.value_or(false) ? &external : nullptr);
  if (const std::uint64_t size = size_of_all(pieces); size > kMostBytes) {
    if (external_data.has_value()) {
      throw ValueError(kExport, "a model below 2 GiB", std::to_string(size) + " bytes",
                       "leave external_data to the library, so that its values stand in a file beside it");
    }
    pieces = pieces_of(model, values, &external);
  }
  io::AtomicFile file(path);
  write_pieces(file, pieces);
  if (external.pieces.empty()) return file.commit();
  io::AtomicFile data(external.path);
  write_pieces(data, external.pieces);
  file.flush();  // so that nothing but a name is left to be written once the values are there
  data.commit();
  file.commit();
}

}  // namespace mezzo::onnx
