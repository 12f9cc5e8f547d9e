// Finds a case's metadata and tensors by the names that the goldens give them, "case0.name". Tensors are
// moved to the device that the cases run on.
#include "golden/case_file.h"

#include <array>
#include <cstring>

#include "mezzo/io/json.h"

namespace mezzo::golden {

namespace {

Device g_run_device;

constexpr std::array<std::pair<std::string_view, DType>, 8> kNames{{{"F16", DType::f16},
                                                                    {"BF16", DType::bf16},
                                                                    {"F32", DType::f32},
                                                                    {"F64", DType::f64},
                                                                    {"I32", DType::i32},
                                                                    {"I64", DType::i64},
                                                                    {"U8", DType::u8},
                                                                    {"BOOL", DType::boolean}}};

DType dtype_named(const std::string& name) {
  for (const auto& [known, dtype] : kNames) {
    if (known == name) return dtype;
  }
  throw NotSupported("dtype " + name);
}

std::string case_key(std::size_t index, std::string_view name) {
  return "case" + std::to_string(index) + "." + std::string(name);
}

}  // namespace

Device run_device() { return g_run_device; }
void set_run_device(Device device) { g_run_device = device; }

CaseFile::CaseFile(const std::string& path) : file_(io::SafeTensors::open(path)) {
  const auto text = [&](const char* key) {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? std::string() : found->second;
  };
  kind_ = text("kind");
  op_ = text("op");
  expr_ = text("expr");
  if (const std::string list = text("cases"); !list.empty()) {
    cases_ = io::parse_json(list).as_list();
    return;
  }
  const std::string count = text("num_cases");
  const std::size_t cases = !count.empty() ? std::stoul(count) : kind_.empty() ? 0 : 1;
  for (std::size_t i = 0; i < cases; ++i) {
    // A file of one case without settings (convert) has no metadata for it, and may not count it.
    const std::string json = text(("case" + std::to_string(i)).c_str());
    cases_.push_back(json.empty() ? Value(Value::Map{}) : io::parse_json(json));
  }
}

bool CaseFile::has(std::size_t index, std::string_view name) const {
  return file_.contains(case_key(index, name));
}

std::vector<std::string> CaseFile::names_after(std::size_t index, std::string_view prefix) const {
  const std::string beginning = case_key(index, prefix);
  std::vector<std::string> names;
  for (const io::SafeTensors::Entry& entry : file_.entries()) {
    if (entry.name.starts_with(beginning)) names.push_back(entry.name.substr(beginning.size()));
  }
  return names;
}

Tensor CaseFile::tensor(std::size_t index, std::string_view name) const {
  return tensor_of(file_.at(case_key(index, name)));
}

std::vector<std::string> strings(const Value& meta, std::string_view key) {
  std::vector<std::string> names;
  const Value* list = meta.find(key);
  if (list == nullptr || list->is_null()) return names;
  for (const Value& name : list->as_list()) names.push_back(name.as_string());
  return names;
}

Tensor tensor_of(const io::SafeTensors::Entry& entry) {
  const DType dtype = dtype_named(entry.dtype);
  const Tensor tensor = empty(Shape(std::span<const std::int64_t>(entry.shape)), {.dtype = dtype});
  if (!entry.bytes.empty()) std::memcpy(tensor.impl().data(), entry.bytes.data(), entry.bytes.size());
  return tensor.to(run_device());
}

}  // namespace mezzo::golden
