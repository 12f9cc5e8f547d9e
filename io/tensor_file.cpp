// Saving and loading of TensorFile: one file or several.
#include "mezzo/io/tensor_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/safetensors_header.h"
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/io/json.h"

namespace mezzo::io {

namespace {

using namespace detail;

// --- tensors and one file. Saving copies tensors to the CPU first; loading reads a file right into them, or
// maps it.

/// "F32": the format spells dtypes as this library does, in capitals.
std::string format_name(DType dtype) {
  std::string name = to_string(dtype);
  for (char& letter : name) letter = letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 32) : letter;
  return name;
}

DType dtype_of_entry(const std::string& op, const SafeTensors::Entry& entry) {
  std::string known;
  for (const DType dtype : kAllDTypes) {
    const std::string name = format_name(dtype);
    if (name == entry.dtype) return dtype;
    known += (known.empty() ? "" : ", ") + name;
  }
  throw IoError(op, "tensors of dtype " + known, quote(entry.dtype) + " in tensor " + quote(entry.name),
                "convert it, or read the file with io::SafeTensors");
}

Shape shape_of_entry(const std::string& op, const SafeTensors::Entry& entry) {
  if (entry.shape.size() <= static_cast<std::size_t>(kMaxDims))
    return {std::span<const std::int64_t>(entry.shape)};
  throw IoError(op, "at most " + std::to_string(kMaxDims) + " dims",
                std::to_string(entry.shape.size()) + " in tensor " + quote(entry.name), "reshape it");
}

/// The tensors of a file, in the order of its header.
class TensorReader {
 public:
  TensorReader(const std::string& op, const InputFile& file, const FileHeader& header,
               const LoadOptions& options)
      : file_(file), header_(header) {
    // All are looked at before memory is taken for one.
    for (const SafeTensors::Entry& entry : header.header.entries) {
      dtypes_.push_back(dtype_of_entry(op, entry));
      shapes_.push_back(shape_of_entry(op, entry));
    }
    if (options.mapped) map_ = make_ref<MappedFile>(file, MappedFile::Access::copy_on_write);
  }

  [[nodiscard]] std::vector<Tensor> read(Device device) const {
    std::vector<Tensor> tensors;
    tensors.reserve(dtypes_.size());
    std::vector<FilePiece> pieces;
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      Tensor tensor = mapped(i);
      if (!tensor.defined()) {
        tensor = empty(shapes_[i], {.dtype = dtypes_[i]});
        pieces.push_back({bytes_of(tensor), begin_of(i)});
      }
      tensors.push_back(std::move(tensor));
      // On its way to another device each tensor is on the CPU for itself.
      if (device.is_cpu()) continue;
      read_pieces(file_, pieces);
      pieces.clear();
      make_sound(i, tensors.back());
      tensors.back() = tensors.back().to(device);
    }
    read_pieces(file_, pieces);
    for (std::size_t i = 0; i < tensors.size() && device.is_cpu(); ++i) make_sound(i, tensors[i]);
    return tensors;
  }

 private:
  [[nodiscard]] std::uint64_t begin_of(std::size_t i) const {
    return header_.data_begin + header_.header.places[i].begin;
  }

  /// A tensor in the mapped file, or none where it cannot be there.
  [[nodiscard]] Tensor mapped(std::size_t i) const {
    const auto bytes = header_.header.places[i].end - header_.header.places[i].begin;
    if (!map_ || bytes == 0 || begin_of(i) % static_cast<std::uint64_t>(size_of(dtypes_[i])) != 0) return {};
    std::byte* const data = map_->writable_bytes().data() + begin_of(i);
    return Tensor(make_ref<TensorImpl>(make_ref<Storage>(data, bytes, Device::cpu(), map_), 0, shapes_[i],
                                       layout::contiguous_strides(shapes_[i]), dtypes_[i], false));
  }

  /// A bool of another byte than 0 and 1 is none.
  void make_sound(std::size_t i, const Tensor& tensor) const {
    if (dtypes_[i] == DType::boolean) make_bools(bytes_of(tensor));
  }

  const InputFile& file_;
  const FileHeader& header_;
  std::vector<DType> dtypes_;
  std::vector<Shape> shapes_;
  Ref<MappedFile> map_;
};

/// The tensors of a file as entries, whose bytes are on the CPU.
struct HostEntries {
  explicit HostEntries(const TensorFile& file) {
    for (const auto& [name, tensor] : file.tensors) {
      const Tensor& host = on_host.emplace_back(row_major_on_host("TensorFile.save", name, tensor));
      entries.push_back({.name = name,
                         .dtype = format_name(host.dtype()),
                         .shape = {host.shape().begin(), host.shape().end()},
                         .bytes = bytes_of(host)});
    }
  }
  std::vector<Tensor> on_host;
  std::vector<SafeTensors::Entry> entries;
};

void write_one_file(const TensorFile& file, const std::string& path) {
  const HostEntries host(file);
  write_safetensors(path, host.entries, file.metadata);
}

/// Into a file that is open, which is still to be committed.
void write_one_file(const TensorFile& file, AtomicFile& to) {
  const HostEntries host(file);
  write_safetensors(to, host.entries, file.metadata);
}

TensorFile read_one_file(const std::string& path, Device device, const LoadOptions& options) {
  InputFile file(path, "safetensors");
  FileHeader header = read_file_header(file);
  const TensorReader reader("load tensors '" + path + "'", file, header, options);
  std::vector<Tensor> loaded = reader.read(device);
  TensorFile result{.tensors = {}, .metadata = std::move(header.header.metadata)};
  result.tensors.reserve(loaded.size());
  for (std::size_t i = 0; i < loaded.size(); ++i)
    result.tensors.emplace_back(std::move(header.header.entries[i].name), std::move(loaded[i]));
  return result;
}

// --- several files with an index beside them: Hugging Face's layout

constexpr std::string_view kSuffix = ".safetensors", kIndexSuffix = ".safetensors.index.json";
/// Names in an index, with the files they are in.
constexpr std::size_t kMaxIndexValues = std::size_t{1} << 22U;
constexpr std::uint64_t kMaxIndexBytes = 100'000'000;

std::string five_digits(std::size_t number) {
  std::string text = std::to_string(number);
  return text.insert(0, text.size() < 5 ? 5 - text.size() : 0, '0');
}

std::filesystem::path beside(const std::string& path, const std::string& name) {
  return std::filesystem::path(path).parent_path() / name;
}

std::uint64_t bytes_in(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel() * size_of(tensor.dtype()));
}

/// Tensors in their order, each in the shard before while there is room; one that is too large has its own.
std::vector<TensorFile> shards_of(const TensorFile& file, std::uint64_t max_shard_size) {
  std::vector<TensorFile> shards;
  std::uint64_t size = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const std::uint64_t bytes = bytes_in(tensor);
    if (shards.empty() || (size + bytes > max_shard_size && !shards.back().tensors.empty())) {
      shards.push_back({.tensors = {}, .metadata = file.metadata});
      size = 0;
    }
    shards.back().tensors.emplace_back(name, tensor);
    size += bytes;
  }
  return shards;
}

/// The index's map from names to files, checked: plain names of files in its own folder.
std::vector<std::pair<std::string, std::string>> read_weight_map(const std::string& op,
                                                                 const std::string& path) {
  const std::uint64_t size = InputFile(path, "load shards").size();
  if (size > kMaxIndexBytes) {
    throw IoError(op, "an index of at most " + std::to_string(kMaxIndexBytes) + " bytes",
                  std::to_string(size), "check the path");
  }
  const Value index = read_json_file(path, {.max_depth = 8, .max_values = kMaxIndexValues});
  const Value* const map = index.is_map() ? index.find("weight_map") : nullptr;
  if (map == nullptr || !map->is_map())
    throw IoError(op, "a weight_map in the index",
                  map == nullptr ? "none" : std::string(to_string(map->kind())), "check the path");
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [name, file] : map->as_map()) {
    const bool is_name = file.is_string() && !file.as_string().empty() && file.as_string() != "." &&
                         file.as_string() != ".." &&
                         file.as_string().find_first_of(std::string("/\0", 2)) == std::string::npos;
    if (!is_name) {
      throw IoError(op, "names of files beside the index in weight_map",
                    (file.is_string() ? quote(file.as_string()) : std::string(to_string(file.kind()))) +
                        " for " + quote(name),
                    "write the index again");
    }
    result.emplace_back(name, file.as_string());
  }
  return result;
}

using Shards = std::map<std::string, std::vector<std::string>>;  // files to names, sorted

Shards by_file(const std::vector<std::pair<std::string, std::string>>& weight_map) {
  Shards shards;
  for (const auto& [name, file] : weight_map) shards[file].push_back(name);
  for (auto& [file, names] : shards) std::sort(names.begin(), names.end());
  return shards;
}

/// Refuses a shard that has other tensors than the index says. `owner` is the file of each name.
void check_shard(const std::string& op, const std::string& file, const std::vector<std::string>& expected,
                 const TensorFile& shard, const std::map<std::string, std::string>& owner) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : shard.tensors) names.push_back(name);
  std::sort(names.begin(), names.end());
  if (names == expected) return;
  for (const std::string& name : names) {
    const auto found = owner.find(name);
    if (found == owner.end())
      throw IoError(op, "only tensors of the index in " + quote(file), quote(name),
                    "fetch or write the files again");
    if (found->second != file) {
      throw IoError(op, "each tensor in one file",
                    quote(name) + " in " + quote(found->second) + " and in " + quote(file),
                    "fetch or write the files again");
    }
  }
  const auto missing = std::find_if(expected.begin(), expected.end(), [&](const std::string& name) {
    return !std::binary_search(names.begin(), names.end(), name);
  });
  throw IoError(op, "tensor " + quote(*missing) + " in " + quote(file), "none of that name",
                "fetch or write the files again");
}

/// The index of shards that are in `files`.
std::string index_text(const std::vector<TensorFile>& shards, const std::vector<std::string>& files) {
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const auto& [name, tensor] : shards[i].tensors) {
      weight_map.emplace_back(name, files[i]);
      total += bytes_in(tensor);
    }
  }
  std::sort(weight_map.begin(), weight_map.end());
  std::vector<std::string_view> names;
  for (const auto& [name, file] : weight_map) names.push_back(name);
  require_distinct("write safetensors", std::move(names));
  Value::Map map;
  for (auto& [name, file] : weight_map) map.emplace_back(std::move(name), std::move(file));
  return Value(Value::Map{{"metadata", Value::Map{{"total_size", total}}}, {"weight_map", std::move(map)}})
             .to_string(2) +
         "\n";
}

void remove_file(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

/// Files of a former save that the new one has not: those its index names, and have the form of shards.
std::vector<std::string> former_shards(const std::string& index, const std::string& stem) {
  std::vector<std::string> files;
  try {
    if (!std::filesystem::exists(index)) return files;
    for (const auto& [file, names] : by_file(read_weight_map("save shards", index))) {
      if (file.starts_with(stem + "-") && file.ends_with(kSuffix)) files.push_back(file);
    }
  } catch (const Error&) {  // not one of ours
  }
  return files;
}

/// Whether a path is an index: "name.safetensors.index.json".
bool is_shard_index(const std::string& path) noexcept { return path.ends_with(kIndexSuffix); }

/// The index of the files that `path` was saved as.
std::string shard_index_of(const std::string& path) { return path + ".index.json"; }

/// Whether there is one, and no file at `path` itself.
bool is_saved_in_shards(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(kSuffix) && !std::filesystem::exists(path, ignored) &&
         std::filesystem::exists(shard_index_of(path), ignored);
}

/// Shards are written whole before the first one gets its name; the index, which readers begin with, is taken
/// away before and put there after. The file's data exceed `max_shard_size`.
void save_shards(const TensorFile& file, const std::string& path, std::uint64_t max_shard_size) {
  if (!path.ends_with(kSuffix)) {
    throw ValueError("TensorFile.save", "a path that ends with .safetensors, for several files", quote(path),
                     "give the path such an end");
  }
  const std::string name = std::filesystem::path(path).filename().string();
  const std::string stem = name.substr(0, name.size() - kSuffix.size());
  const std::vector<TensorFile> shards = shards_of(file, max_shard_size);
  const std::string index = shard_index_of(path);
  const std::vector<std::string> former = former_shards(index, stem);
  std::vector<std::string> files;
  for (std::size_t i = 0; i < shards.size(); ++i)
    files.push_back(stem + "-" + five_digits(i + 1) + "-of-" + five_digits(shards.size()) +
                    std::string(kSuffix));
  const std::string text = index_text(shards, files);
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    written.push_back(std::make_unique<AtomicFile>(beside(path, files[i]).string()));
    write_one_file(shards[i], *written.back());
    written.back()->flush();
  }
  AtomicFile index_file(index);
  index_file.write(text);
  index_file.flush();
  // From here on until the last line a reader of the index finds none, and never old and new files together.
  remove_file(index);
  for (const std::unique_ptr<AtomicFile>& one : written) one->commit();
  index_file.commit();
  remove_file(path);
  for (const std::string& one : former) {
    if (std::find(files.begin(), files.end(), one) == files.end()) remove_file(beside(path, one));
  }
}

/// `path`: the index.
TensorFile load_shards(const std::string& path, Device device, const LoadOptions& options) {
  const std::string op = "load shards '" + path + "'";
  const auto weight_map = read_weight_map(op, path);
  const std::map<std::string, std::string> owner(weight_map.begin(), weight_map.end());
  TensorFile result;
  const Shards shards = by_file(weight_map);
  for (const auto& [file, names] : shards) {
    std::error_code ignored;
    if (!std::filesystem::exists(beside(path, file), ignored)) {
      throw IoError(op, "the " + std::to_string(shards.size()) + " files of the index beside it",
                    "no " + quote(file), "fetch it too");
    }
  }
  for (const auto& [file, names] : shards) {
    TensorFile shard = read_one_file(beside(path, file).string(), device, options);
    check_shard(op, file, names, shard, owner);
    std::move(shard.tensors.begin(), shard.tensors.end(), std::back_inserter(result.tensors));
    result.metadata.merge(shard.metadata);
  }
  return result;
}

}  // namespace

void TensorFile::add(std::string_view prefix, const NamedTensors& named) {
  for (const auto& [name, tensor] : named) tensors.emplace_back(std::string(prefix) + name, tensor);
}

TensorFile::NamedTensors TensorFile::with_prefix(std::string_view prefix) const {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
  }
  return result;
}

void TensorFile::save(const std::string& path, const SaveOptions& options) const {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    check_defined("TensorFile.save", name, tensor);
    bytes += static_cast<std::uint64_t>(tensor.numel() * size_of(tensor.dtype()));
  }
  if (options.max_shard_size && bytes > *options.max_shard_size) {
    save_shards(*this, path, *options.max_shard_size);
  } else {
    write_one_file(*this, path);
  }
}

TensorFile TensorFile::load(const std::string& path, Device device, const LoadOptions& options) {
  if (is_shard_index(path)) return load_shards(path, device, options);
  if (is_saved_in_shards(path)) return load_shards(shard_index_of(path), device, options);
  return read_one_file(path, device, options);
}

void save(const TensorFile::NamedTensors& tensors, const std::string& path, const SaveOptions& options) {
  TensorFile{.tensors = tensors, .metadata = {}}.save(path, options);
}

TensorFile::NamedTensors load(const std::string& path, Device device, const LoadOptions& options) {
  return TensorFile::load(path, device, options).tensors;
}

}  // namespace mezzo::io
