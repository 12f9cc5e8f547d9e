// Saving and loading of TensorFile: one file or several.
#include "mezzo/io/tensor_file.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/safetensors_header.h"
#include "mezzo/io/detail/selection.h"
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

/// The dtype that the bytes of an entry are read as, and whether they are of unsigned integers as large.
struct EntryDType {
  DType dtype;
  bool is_unsigned = false;
};

EntryDType dtype_of_entry(const std::string& op, const SafeTensors::Entry& entry) {
  if (entry.dtype == "U16") return {DType::i16, true};
  if (entry.dtype == "U32") return {DType::i32, true};
  if (entry.dtype == "U64") return {DType::i64, true};
  std::string known;
  for (const DType dtype : kAllDTypes) {
    const std::string name = format_name(dtype);
    if (name == entry.dtype) return {dtype};
    known += name + ", ";
  }
  throw IoError(op, "tensors of dtype " + known + "U16, U32 or U64",
                quote(entry.dtype) + " in tensor " + quote(entry.name),
                "convert it, leave it out by .names or .prefix, or read the file with io::SafeTensors");
}

Shape shape_of_entry(const std::string& op, const SafeTensors::Entry& entry) {
  if (entry.shape.size() <= static_cast<std::size_t>(kMaxDims))
    return {std::span<const std::int64_t>(entry.shape)};
  throw IoError(op, "at most " + std::to_string(kMaxDims) + " dims",
                std::to_string(entry.shape.size()) + " in tensor " + quote(entry.name), "reshape it");
}

/// The tensors of a file that are asked for, in the order of its header.
class TensorReader {
 public:
  explicit TensorReader(const std::string& path)
      : file_(path, "safetensors"), header_(read_file_header(file_)), op_("load tensors '" + path + "'") {}

  [[nodiscard]] FileHeader& header() noexcept { return header_; }

  /// All are looked at before memory is taken for one.
  void select(const std::vector<bool>& selected, std::size_t first, bool is_mapped) {
    for (std::size_t i = 0; i < header_.header.entries.size(); ++i) {
      if (!selected[first + i]) continue;
      numbers_.push_back(i);
      dtypes_.push_back(dtype_of_entry(op_, header_.header.entries[i]));
      shapes_.push_back(shape_of_entry(op_, header_.header.entries[i]));
    }
    if (is_mapped) map_ = make_ref<MappedFile>(file_, MappedFile::Access::copy_on_write);
  }

  /// Appends them. To be called once, last.
  void read(Device device, TensorFile::NamedTensors& result) {
    std::vector<Tensor> tensors;
    tensors.reserve(dtypes_.size());
    std::vector<FilePiece> pieces;
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      Tensor tensor = mapped(i);
      if (!tensor.defined()) {
        tensor = empty(shapes_[i], {.dtype = dtypes_[i].dtype});
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
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (device.is_cpu()) make_sound(i, tensors[i]);
      result.emplace_back(std::move(header_.header.entries[numbers_[i]].name), std::move(tensors[i]));
    }
  }

 private:
  [[nodiscard]] const Place& place_of(std::size_t i) const { return header_.header.places[numbers_[i]]; }
  [[nodiscard]] std::uint64_t begin_of(std::size_t i) const { return header_.data_begin + place_of(i).begin; }

  /// A tensor in the mapped file, or none where it cannot be there.
  [[nodiscard]] Tensor mapped(std::size_t i) const {
    const auto bytes = place_of(i).end - place_of(i).begin;
    const DType dtype = dtypes_[i].dtype;
    if (!map_ || bytes == 0 || begin_of(i) % static_cast<std::uint64_t>(size_of(dtype)) != 0) return {};
    std::byte* const data = map_->writable_bytes().data() + begin_of(i);
    return Tensor(make_ref<TensorImpl>(make_ref<Storage>(data, bytes, Device::cpu(), map_), 0, shapes_[i],
                                       layout::contiguous_strides(shapes_[i]), dtype, false));
  }

  /// A bool of another byte than 0 and 1 is none; unsigned integers become wider ones.
  void make_sound(std::size_t i, Tensor& tensor) const {
    if (dtypes_[i].dtype == DType::boolean) make_bools(bytes_of(tensor));
    if (dtypes_[i].is_unsigned)
      tensor = widened(op_, " in tensor " + quote(header_.header.entries[numbers_[i]].name), tensor);
  }

  InputFile file_;
  FileHeader header_;
  std::string op_;
  std::vector<std::size_t> numbers_;  ///< of the entries
  std::vector<EntryDType> dtypes_;
  std::vector<Shape> shapes_;
  Ref<MappedFile> map_;
};

/// The tensors of files that belong together.
TensorFile read_files(const std::string& op, const std::vector<std::string>& paths, Device device,
                      const LoadOptions& options) {
  std::vector<std::unique_ptr<TensorReader>> readers;
  std::vector<std::string_view> names;
  for (const std::string& path : paths) {
    TensorReader& reader = *readers.emplace_back(std::make_unique<TensorReader>(path));
    for (const SafeTensors::Entry& entry : reader.header().header.entries) names.push_back(entry.name);
  }
  require_distinct(op, names, "each tensor in one file", "fetch or write the files again");
  const std::vector<bool> selected = select(op, options.names, options.prefix, names);
  std::size_t first = 0;
  for (const auto& reader : readers) {
    reader->select(selected, first, options.mapped);
    first += reader->header().header.entries.size();
  }
  TensorFile result;
  for (const auto& reader : readers) {
    reader->read(device, result.tensors);
    result.metadata.merge(reader->header().header.metadata);
  }
  return result;
}

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

/// The files in the index's map of names, checked: plain names of files in its own folder.
std::set<std::string> files_of_index(const std::string& op, const std::string& path) {
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
  std::set<std::string> result;
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
    result.insert(file.as_string());
  }
  return result;
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
    for (const std::string& file : files_of_index("save shards", index)) {
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
  const std::set<std::string> files = files_of_index(op, path);
  std::vector<std::string> paths;
  for (const std::string& file : files) {
    std::error_code ignored;
    paths.push_back(beside(path, file).string());
    if (!std::filesystem::exists(paths.back(), ignored)) {
      throw IoError(op, "the " + std::to_string(files.size()) + " files of the index beside it",
                    "no " + quote(file), "fetch it too");
    }
  }
  return read_files(op, paths, device, options);
}

}  // namespace

void TensorFile::add(std::string_view prefix, const NamedTensors& named) {
  for (auto& one : named.add_prefix(prefix)) tensors.push_back(std::move(one));
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
  return read_files("load tensors '" + path + "'", {path}, device, options);
}

void save(const TensorFile::NamedTensors& tensors, const std::string& path, const SaveOptions& options) {
  TensorFile{.tensors = tensors, .metadata = {}}.save(path, options);
}

TensorFile::NamedTensors load(const std::string& path, Device device, const LoadOptions& options) {
  return TensorFile::load(path, device, options).tensors;
}

}  // namespace mezzo::io
