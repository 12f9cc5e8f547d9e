// From the pickle of a torch file to tensors: storages are read or mapped once each, and every view is
// checked against its storage.
#include "mezzo/io/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/file_kind.h"
#include "mezzo/io/detail/selection.h"
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/io/detail/torch/legacy_file.h"
#include "mezzo/io/detail/torch/pickle_codes.h"
#include "mezzo/io/detail/torch/unpickler.h"
#include "mezzo/io/detail/zip.h"

namespace mezzo::io {

namespace {

using detail::PickledStorage;
using detail::PickledTensor;
using detail::ZipEntry;
using detail::ZipReader;

constexpr std::string_view kPickleName = "/data.pkl";

[[noreturn]] void refuse_file(const std::string& op, const std::string& got, const std::string& fix) {
  throw IoError(op, "a zip archive of torch.save, as PyTorch writes since 1.6", got, fix);
}

/// Refuses what is no file of torch.save, by what it is. Returns whether it is one from before there were
/// archives.
bool is_legacy(const std::string& path) {
  InputFile file(path, "load_torch");
  std::array<std::byte, 24> begin{};
  file.read(
      std::span(begin).first(static_cast<std::size_t>(std::min<std::uint64_t>(begin.size(), file.size()))));
  if (detail::is_zip(begin)) return false;
  if (detail::is_legacy_file(begin)) return true;
  if (begin[0] == std::byte{0x80}) {
    refuse_file(file.op(), "a bare pickle or one of a very old torch.save",
                "write it again with PyTorch: torch.save(torch.load(path), path)");
  }
  detail::refuse_other_file(file.op(), "a file of torch.save", begin);
  refuse_file(file.op(), "another kind of file", "check the path; io::load reads safetensors");
}

/// Reads storages, each once, and makes the tensors that are views of them.
class StorageReader {
 public:
  /// Of an archive, which has each as an entry.
  StorageReader(ZipReader& archive, const std::string& root, bool is_mapped, bool is_big_endian)
      : StorageReader(archive.file(), is_mapped) {
    archive_ = &archive;
    folder_ = root + "/data/";
    is_big_endian_ = is_big_endian;
  }
  /// Of a file from before there were archives.
  StorageReader(const InputFile& file, const detail::LegacyStorages& places, bool is_mapped)
      : StorageReader(file, is_mapped) {
    places_ = &places;
  }

  [[nodiscard]] const std::string& op() const { return file_.op(); }

  Tensor tensor(const PickledTensor& pickled, const PickledStorage& pickled_storage, Device device) {
    const Known& storage = known(pickled_storage, pickled, device);
    const DType dtype = pickled.is_unsigned ? detail::wider(pickled.dtype) : pickled.dtype;
    std::int64_t last = pickled.offset;  // below 2^60, and so is each size and stride
    bool is_sound = true, is_empty = false;
    for (std::size_t d = 0; d < pickled.shape.size(); ++d) {
      is_empty = is_empty || pickled.shape[d] == 0;
      std::int64_t step = 0;
      is_sound = is_sound && !__builtin_mul_overflow(pickled.shape[d] - 1, pickled.strides[d], &step) &&
                 !__builtin_add_overflow(last, step, &last);
    }
    if (is_empty) last = pickled.offset - 1;
    const auto room = static_cast<std::int64_t>(storage.bytes / static_cast<std::uint64_t>(size_of(dtype)));
    if ((!is_sound && !is_empty) || last >= room) {
      throw IoError(op(), "tensors within their storage",
                    "shape " + to_string(pickled.shape) + ", strides " + to_string(pickled.strides) +
                        " and offset " + std::to_string(pickled.offset) + " in entry " +
                        quote(entry_name(pickled_storage)) + " of " + std::to_string(room) + " elements",
                    "fetch or write the file again");
    }
    return Tensor(
        make_ref<TensorImpl>(storage.storage, pickled.offset, pickled.shape, pickled.strides, dtype, false));
  }

 private:
  struct Known {
    Ref<Storage> storage;
    DType dtype;
    bool is_unsigned;
    std::uint64_t bytes;
  };

  StorageReader(const InputFile& file, bool is_mapped) : file_(file) {
    if (is_mapped) map_ = make_ref<MappedFile>(file, MappedFile::Access::copy_on_write);
  }

  [[nodiscard]] std::string entry_name(const PickledStorage& storage) const { return folder_ + storage.key; }

  const Known& known(const PickledStorage& pickled, const PickledTensor& tensor, Device device) {
    const DType dtype = tensor.dtype;
    const auto found = storages_.find(pickled.key);
    if (found == storages_.end())
      return storages_.emplace(pickled.key, read(pickled, tensor, device)).first->second;
    // Bytes of two dtypes are as they are, unless one of them asks for a change of the bytes.
    const bool is_other = found->second.dtype != dtype || found->second.is_unsigned != tensor.is_unsigned;
    if (is_other && (is_big_endian_ || tensor.is_unsigned || found->second.is_unsigned ||
                     dtype == DType::boolean || found->second.dtype == DType::boolean)) {
      throw IoError(op(), "one dtype for entry " + quote(entry_name(pickled)),
                    to_string(found->second.dtype) + " and " + to_string(dtype),
                    "save copies: tensor.clone()");
    }
    return found->second;
  }

  [[nodiscard]] const ZipEntry* find(const std::string& name) const {
    if (archive_ != nullptr) return archive_->find(name);
    const auto found = places_->find(name);
    return found == places_->end() ? nullptr : &found->second;
  }

  Known read(const PickledStorage& pickled, const PickledTensor& tensor, Device device) {
    const DType dtype = tensor.dtype;
    const std::string name = entry_name(pickled);
    const ZipEntry* const entry = find(name);
    if (entry == nullptr)
      throw IoError(op(), "an entry " + quote(name), "none", "fetch or write the file again");
    if (pickled.bytes > entry->size || entry->size - pickled.bytes >= 8) {
      throw IoError(op(), std::to_string(pickled.bytes) + " bytes in entry " + quote(name),
                    std::to_string(entry->size), "fetch or write the file again");
    }
    auto size = static_cast<std::size_t>(entry->size);
    Ref<Storage> storage = mapped(*entry, dtype);
    if (!storage) {
      storage = make_ref<Storage>(size, Device::cpu());
      const std::span<std::byte> bytes(static_cast<std::byte*>(storage->data()), size);
      if (entry->method == detail::ZipMethod::stored) {
        const detail::FilePiece piece{bytes, entry->begin};
        detail::read_pieces(file_, {&piece, 1});
      } else {
        const std::unique_ptr<detail::ByteSource> source = archive_->open(*entry);
        source->read(bytes);
        source->expect_end(size);
      }
    }
    const std::span<std::byte> values(static_cast<std::byte*>(storage->data()), size);
    if (is_big_endian_) {
      const auto element = static_cast<std::size_t>(size_of(dtype));
      detail::reverse_elements(values.first(size / element * element), element);
    }
    if (dtype == DType::boolean) detail::make_bools(values);
    const auto all_of = [&storage](std::size_t count, DType of) {
      return Tensor(
          make_ref<TensorImpl>(storage, 0, Shape{static_cast<std::int64_t>(count)}, Dims{1}, of, false));
    };
    if (tensor.is_unsigned) {
      const Tensor bits = all_of(size / static_cast<std::size_t>(size_of(dtype)), dtype);
      const Tensor wide = detail::widened(op(), " in entry " + quote(name), bits);
      storage = wide.impl().storage;
      size = detail::bytes_of(wide).size();
    }
    if (!device.is_cpu() && size > 0) {
      const Tensor all = all_of(size, DType::u8);
      storage = all.to(device).impl().storage;
    } else if (!device.is_cpu()) {
      storage = make_ref<Storage>(0, device);
    }
    return {std::move(storage), dtype, tensor.is_unsigned, size};
  }

  /// The entry's pages in the mapped file, or nothing where they cannot serve.
  Ref<Storage> mapped(const ZipEntry& entry, DType dtype) {
    if (!map_ || entry.method != detail::ZipMethod::stored || entry.size == 0) return {};
    if (entry.begin % static_cast<std::uint64_t>(size_of(dtype)) != 0) return {};
    const std::span<std::byte> bytes = map_->writable_bytes().subspan(static_cast<std::size_t>(entry.begin),
                                                                      static_cast<std::size_t>(entry.size));
    return make_ref<Storage>(bytes.data(), bytes.size(), Device::cpu(), map_);
  }

  const InputFile& file_;
  ZipReader* archive_ = nullptr;
  const detail::LegacyStorages* places_ = nullptr;
  std::string folder_;
  bool is_big_endian_ = false;
  Ref<MappedFile> map_;
  std::map<std::string, Known, std::less<>> storages_;
};

/// All bytes of an entry that is text or a pickle.
std::vector<std::byte> content(ZipReader& archive, const ZipEntry& entry, std::uint64_t limit) {
  if (entry.size > limit) {
    throw IoError(archive.op(), "at most " + std::to_string(limit) + " bytes in entry " + quote(entry.name),
                  std::to_string(entry.size), "save tensors and not lists of numbers");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.size));
  const std::unique_ptr<detail::ByteSource> source =
      archive.open(entry, entry.method == detail::ZipMethod::deflated);
  source->read(bytes);
  source->expect_end(entry.size);
  return bytes;
}

/// The folder of the archive that holds all of it.
std::string root_of(const ZipReader& archive) {
  std::string root;
  bool found = false;
  for (const ZipEntry& entry : archive.entries()) {
    const std::size_t slash = entry.name.find('/');
    if (slash == std::string::npos) continue;
    const std::string_view rest = std::string_view(entry.name).substr(slash);
    if (rest == "/constants.pkl" || rest.starts_with("/code/")) {
      refuse_file(archive.op(), "a TorchScript archive",
                  "save its weights: torch.save(torch.jit.load(path).state_dict(), other_path)");
    }
    if (rest != kPickleName) continue;
    if (std::exchange(found, true))
      refuse_file(archive.op(), "an archive with two pickles", "write it again");
    root = entry.name.substr(0, slash);
  }
  if (!found) {
    refuse_file(archive.op(), "a zip archive without data.pkl",
                "check the path; io::read_npz reads NumPy's archives");
  }
  return root;
}

bool is_big_endian(ZipReader& archive, const std::string& root) {
  const ZipEntry* const entry = archive.find(root + "/byteorder");
  if (entry == nullptr) return false;  // before PyTorch 2.1
  const std::vector<std::byte> bytes = content(archive, *entry, 16);
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order != "little" && order != "big")
    throw IoError(archive.op(), "byteorder little or big", quote(order), "fetch or write the file again");
  return order == "big";
}

/// Refuses tensor `i`, which is of a dtype that mezzo has not.
[[noreturn]] void refuse_dtype(const std::string& op, const detail::Pickled& pickled, std::size_t i) {
  std::string where;
  for (const auto& [name, node] : detail::named_tensors(pickled.tree, pickled.tree.root)) {
    if (pickled.tree.nodes[node].index == i) where = " in tensor " + quote(name);
  }
  throw IoError(
      op,
      "tensors of float32, float64, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8 to int64, "
      "uint8 to uint64 or bool",
      "torch." + std::string(pickled.tensors[i].foreign) + where,
      "convert it before it is saved, as tensor.to(torch.float32) does, or leave it out by .names or "
      ".prefix");
}

/// The value with the tensors that are asked for, and None in place of the others.
TorchValue value_of(detail::Pickled&& pickled, StorageReader&& reader, Device device,
                    const LoadOptions& options) {
  detail::TorchTree& tree = pickled.tree;
  const bool all = options.names.empty() && options.prefix.empty();
  std::vector<bool> wanted(pickled.tensors.size(), all);
  if (!all) {
    const auto named = detail::named_tensors(tree, tree.root);
    std::vector<std::string_view> names;
    for (const auto& [name, node] : named) names.push_back(name);
    const std::vector<bool> selected = detail::select(reader.op(), options.names, options.prefix, names);
    for (std::size_t i = 0; i < named.size(); ++i) {
      if (selected[i]) wanted[tree.nodes[named[i].second].index] = true;
    }
    for (detail::TorchTree::Node& node : tree.nodes) {
      if (node.kind == TorchKind::tensor && !wanted[node.index]) node.kind = TorchKind::none;
    }
  }
  tree.tensors.resize(pickled.tensors.size());
  for (std::size_t i = 0; i < pickled.tensors.size(); ++i) {
    const PickledTensor& tensor = pickled.tensors[i];
    if (!wanted[i]) continue;
    if (!tensor.foreign.empty()) refuse_dtype(reader.op(), pickled, i);
    tree.tensors[i] = reader.tensor(tensor, pickled.storages[tensor.storage], device);
  }
  const std::uint32_t number = tree.root;
  return {std::make_shared<const detail::TorchTree>(std::move(tree)), number};
}

}  // namespace

TorchValue load_torch(const std::string& path, Device device, const LoadOptions& options) {
  if (is_legacy(path)) {
    const InputFile file(path, "load_torch");
    detail::LegacyFile legacy = detail::read_legacy_file(file);
    return value_of(std::move(legacy.pickled), StorageReader(file, legacy.storages, options.mapped), device,
                    options);
  }
  ZipReader archive(path, "load_torch");
  const std::string root = root_of(archive);
  const std::vector<std::byte> pickle =
      content(archive, *archive.find(root + std::string(kPickleName)), detail::kMaxPickleBytes);
  return value_of(detail::unpickle(archive.op(), pickle),
                  StorageReader(archive, root, options.mapped, is_big_endian(archive, root)), device,
                  options);
}

// --- writing: a pickle that rebuilds a dict of tensors, and an entry for each storage

namespace {

using detail::PickleCode;

constexpr std::string_view kTorchRoot = "archive/";
/// The alignment that PyTorch gives storages, so that they can be mapped.
constexpr std::size_t kTorchAlignment = 64;

/// The type of PyTorch's storages of the dtype; float8 has none, and is named itself.
std::string_view storage_name(DType dtype) {
  constexpr std::array<std::string_view, kDTypeCount> names{
      "HalfStorage", "BFloat16Storage", "FloatStorage", "DoubleStorage", "CharStorage",   "ShortStorage",
      "IntStorage",  "LongStorage",     "ByteStorage",  "BoolStorage",   "float8_e4m3fn", "float8_e5m2"};
  return names[static_cast<std::size_t>(dtype)];
}

class Pickler {
 public:
  Pickler() {
    put(PickleCode::proto);
    text_ += '\x02';
    put(PickleCode::empty_dict);
    put(PickleCode::mark);
  }

  void add(const std::string& name, const Tensor& tensor, std::size_t key) {
    const bool is_typed = !is_float8(tensor.dtype());
    put_string(name);
    put_name("torch._utils", is_typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    put(PickleCode::mark);
    put(PickleCode::mark);
    put_string("storage");
    if (is_typed)
      put_name("torch", storage_name(tensor.dtype()));
    else
      put_name("torch.storage", "UntypedStorage");
    put_string(std::to_string(key));
    put_string("cpu");
    put_integer(tensor.numel());  // of a storage without a type the bytes, of which float8 has one each
    put(PickleCode::tuple);
    put(PickleCode::binpersid);
    put_integer(0);
    put_integers(tensor.shape());
    put_integers(layout::contiguous_strides(tensor.shape()));
    put(PickleCode::newfalse);
    put_name("collections", "OrderedDict");
    put(PickleCode::empty_tuple);
    put(PickleCode::reduce);
    if (!is_typed) put_name("torch", storage_name(tensor.dtype()));
    put(PickleCode::tuple);
    put(PickleCode::reduce);
  }

  std::string finish() {
    put(PickleCode::setitems);
    put(PickleCode::stop);
    return std::move(text_);
  }

 private:
  void put(PickleCode code) { text_ += static_cast<char>(code); }
  template <class T>
  void put_bytes(T number) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &number, sizeof(T));
    text_.append(bytes, sizeof(T));
  }
  void put_string(std::string_view text) {
    put(PickleCode::binunicode);
    put_bytes(static_cast<std::uint32_t>(text.size()));
    text_ += text;
  }
  void put_name(std::string_view module, std::string_view name) {
    put(PickleCode::global);
    text_.append(module).append("\n").append(name).append("\n");
  }
  void put_integer(std::int64_t number) {
    if (number <= std::numeric_limits<std::int32_t>::max()) {
      put(PickleCode::binint);
      put_bytes(static_cast<std::int32_t>(number));
    } else {
      put(PickleCode::long1);
      text_ += '\x08';
      put_bytes(number);
    }
  }
  void put_integers(const Dims& numbers) {
    put(PickleCode::mark);
    for (const std::int64_t number : numbers) put_integer(number);
    put(PickleCode::tuple);
  }

  std::string text_;
};

/// The key of tensors with the same values: the storage and the place in it.
using TensorPlace =
    std::tuple<const void*, std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>, DType>;

TensorPlace place_of(const Tensor& tensor) {
  const TensorImpl& impl = tensor.impl();
  return {impl.storage.get(),
          impl.offset,
          {impl.shape.begin(), impl.shape.end()},
          {impl.strides.begin(), impl.strides.end()},
          impl.dtype};
}

void check_torch_names(const std::string& op, const TensorFile::NamedTensors& tensors) {
  constexpr std::size_t kLongest = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (!is_valid_utf8(name) || name.size() > kLongest)
      throw IoError(op, "a tensor's name in UTF-8", quote(name), "use another name");
    names.push_back(name);
  }
  detail::require_distinct(op, std::move(names));
}

}  // namespace

void save_torch(const TensorFile::NamedTensors& tensors, const std::string& path) {
  const std::string op = "save_torch '" + path + "'";
  check_torch_names(op, tensors);
  Pickler pickler;
  std::map<TensorPlace, std::size_t> keys;
  std::vector<Tensor> on_host;
  for (const auto& [name, tensor] : tensors) {
    const Tensor host = detail::row_major_on_host("save_torch", name, tensor);
    const auto [place, is_new] = keys.emplace(place_of(tensor), on_host.size());
    if (is_new) on_host.push_back(host);
    pickler.add(name, host, place->second);
  }
  const std::string pickle = pickler.finish();
  AtomicFile file(path);
  detail::ZipWriter archive(file);
  const auto add = [&](const std::string& name, std::span<const std::byte> bytes) {
    archive.add(op, std::string(kTorchRoot) + name, {&bytes, 1}, detail::ZipMethod::stored, kTorchAlignment);
  };
  const auto add_text = [&](const std::string& name, std::string_view text) {
    add(name, std::as_bytes(std::span(text)));
  };
  add_text("data.pkl", pickle);
  add_text(".format_version", "1");
  add_text(".storage_alignment", std::to_string(kTorchAlignment));
  add_text("byteorder", "little");
  for (std::size_t i = 0; i < on_host.size(); ++i)
    add("data/" + std::to_string(i), detail::bytes_of(on_host[i]));
  add_text("version", "3\n");
  archive.finish();
  file.commit();
}

}  // namespace mezzo::io
