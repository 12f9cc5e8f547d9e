// An ONNX model in memory, and its file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::onnx {

/// The name in errors.
inline constexpr std::string_view kExport = "export_onnx";

struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<std::string>, Tensor>
      value;
};

struct Node {
  std::string op;
  std::vector<std::string> inputs;  ///< "": an optional input that is not given
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes = {};
};

/// Name, dtype and shape of an input or output of the graph. A size is a number or the name of one.
struct ValueInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::variant<std::int64_t, std::string>> shape = {};
};

struct Initializer {
  std::string name;
  Tensor value;
};

struct Model {
  std::int64_t opset = 17;
  std::string name = {};
  std::vector<Node> nodes = {};
  std::vector<Initializer> initializers = {};
  std::vector<ValueInfo> inputs = {}, outputs = {};
};

/// The number of a dtype in TensorProto.DataType.
[[nodiscard]] std::int64_t data_type(DType dtype);

/// Writes the model, all or nothing. `external_data`: whether the values of initializers stand in
/// "<path>.data" instead, a file beside it; by default where the model would reach 2 GiB, which no message of
/// protocol buffers may. Throws: IoError when it cannot be written, ValueError when external_data is false
/// and the model is too large.
/// Source: onnx.proto, https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
void write(const Model& model, const std::string& path, std::optional<bool> external_data);

}  // namespace mezzo::onnx
