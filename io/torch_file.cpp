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
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/io/detail/torch/pickle_codes.h"
#include "mezzo/io/detail/torch/unpickler.h"
#include "mezzo/io/detail/zip.h"

namespace mezzo::io {

namespace {

using detail::PickledStorage;
using detail::PickledTensor;
using detail::ZipEntry;
using detail::ZipReader;

/// A pickle takes a few hundred bytes for a tensor.
constexpr std::uint64_t kMaxPickleBytes = 100'000'000;
constexpr std::string_view kPickleName = "/data.pkl";

[[noreturn]] void refuse_file(const std::string& op, const std::string& got, const std::string& fix) {
  throw IoError(op, "a zip archive of torch.save, as PyTorch writes since 1.6", got, fix);
}

/// Refuses what is no zip archive, by what it is.
void check_is_archive(const std::string& path) {
  InputFile file(path, "load_torch");
  std::array<std::byte, 24> begin{};
  file.read(
      std::span(begin).first(static_cast<std::size_t>(std::min<std::uint64_t>(begin.size(), file.size()))));
  if (detail::is_zip(begin)) return;
  if (begin[0] == std::byte{0x80}) {
    refuse_file(file.op(), "a file of an older torch.save, or a bare pickle",
                "write it again with a PyTorch since 1.6: torch.save(torch.load(path), path)");
  }
  detail::refuse_other_file(file.op(), "a file of torch.save", begin);
  refuse_file(file.op(), "another kind of file", "check the path; io::load reads safetensors");
}

/// Reads storages, each once, and makes the tensors that are views of them.
class StorageReader {
 public:
  StorageReader(ZipReader& archive, std::string root, bool is_mapped, bool is_big_endian)
      : archive_(archive), root_(std::move(root)), is_big_endian_(is_big_endian) {
    if (is_mapped) map_ = make_ref<MappedFile>(archive.file(), MappedFile::Access::copy_on_write);
  }

  Tensor tensor(const PickledTensor& pickled, const PickledStorage& pickled_storage, Device device) {
    const Known& storage = known(pickled_storage, pickled.dtype, device);
    std::int64_t last = pickled.offset;  // below 2^60, and so is each size and stride
    bool is_sound = true, is_empty = false;
    for (std::size_t d = 0; d < pickled.shape.size(); ++d) {
      is_empty = is_empty || pickled.shape[d] == 0;
      std::int64_t step = 0;
      is_sound = is_sound && !__builtin_mul_overflow(pickled.shape[d] - 1, pickled.strides[d], &step) &&
                 !__builtin_add_overflow(last, step, &last);
    }
    if (is_empty) last = pickled.offset - 1;
    const auto room =
        static_cast<std::int64_t>(storage.bytes / static_cast<std::uint64_t>(size_of(pickled.dtype)));
    if ((!is_sound && !is_empty) || last >= room) {
      throw IoError(archive_.op(), "tensors within their storage",
                    "shape " + to_string(pickled.shape) + ", strides " + to_string(pickled.strides) +
                        " and offset " + std::to_string(pickled.offset) + " in entry " +
                        quote(entry_name(pickled_storage)) + " of " + std::to_string(room) + " elements",
                    "fetch or write the file again");
    }
    return Tensor(make_ref<TensorImpl>(storage.storage, pickled.offset, pickled.shape, pickled.strides,
                                       pickled.dtype, false));
  }

 private:
  struct Known {
    Ref<Storage> storage;
    DType dtype;
    std::uint64_t bytes;
  };

  [[nodiscard]] std::string entry_name(const PickledStorage& storage) const {
    return root_ + "/data/" + storage.key;
  }

  const Known& known(const PickledStorage& pickled, DType dtype, Device device) {
    const auto found = storages_.find(pickled.key);
    if (found == storages_.end())
      return storages_.emplace(pickled.key, read(pickled, dtype, device)).first->second;
    // Bytes of two dtypes are as they are, unless one of them asks for a change of the bytes.
    if (found->second.dtype != dtype &&
        (is_big_endian_ || dtype == DType::boolean || found->second.dtype == DType::boolean)) {
      throw IoError(archive_.op(), "one dtype for entry " + quote(entry_name(pickled)),
                    to_string(found->second.dtype) + " and " + to_string(dtype),
                    "save copies: tensor.clone()");
    }
    return found->second;
  }

  Known read(const PickledStorage& pickled, DType dtype, Device device) {
    const std::string name = entry_name(pickled);
    const ZipEntry* const entry = archive_.find(name);
    if (entry == nullptr)
      throw IoError(archive_.op(), "an entry " + quote(name), "none", "fetch or write the file again");
    if (pickled.bytes > entry->size || entry->size - pickled.bytes >= 8) {
      throw IoError(archive_.op(), std::to_string(pickled.bytes) + " bytes in entry " + quote(name),
                    std::to_string(entry->size), "fetch or write the file again");
    }
    const auto size = static_cast<std::size_t>(entry->size);
    Ref<Storage> storage = mapped(*entry, dtype);
    if (!storage) {
      storage = make_ref<Storage>(size, Device::cpu());
      const std::span<std::byte> bytes(static_cast<std::byte*>(storage->data()), size);
      if (entry->method == detail::ZipMethod::stored) {
        const detail::FilePiece piece{bytes, entry->begin};
        detail::read_pieces(archive_.file(), {&piece, 1});
      } else {
        const std::unique_ptr<detail::ByteSource> source = archive_.open(*entry);
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
    if (!device.is_cpu() && size > 0) {
      const Tensor all(make_ref<TensorImpl>(storage, 0, Shape{static_cast<std::int64_t>(size)}, Dims{1},
                                            DType::u8, false));
      storage = all.to(device).impl().storage;
    } else if (!device.is_cpu()) {
      storage = make_ref<Storage>(0, device);
    }
    return {std::move(storage), dtype, entry->size};
  }

  /// The entry's pages in the mapped file, or nothing where they cannot serve.
  Ref<Storage> mapped(const ZipEntry& entry, DType dtype) {
    if (!map_ || entry.method != detail::ZipMethod::stored || entry.size == 0) return {};
    if (entry.begin % static_cast<std::uint64_t>(size_of(dtype)) != 0) return {};
    const std::span<std::byte> bytes = map_->writable_bytes().subspan(static_cast<std::size_t>(entry.begin),
                                                                      static_cast<std::size_t>(entry.size));
    return make_ref<Storage>(bytes.data(), bytes.size(), Device::cpu(), map_);
  }

  ZipReader& archive_;
  std::string root_;
  bool is_big_endian_;
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

}  // namespace

TorchValue load_torch(const std::string& path, Device device, const LoadOptions& options) {
  check_is_archive(path);
  ZipReader archive(path, "load_torch");
  const std::string root = root_of(archive);
  const std::vector<std::byte> pickle =
      content(archive, *archive.find(root + std::string(kPickleName)), kMaxPickleBytes);
  detail::Pickled pickled = detail::unpickle(archive.op(), pickle);
  StorageReader reader(archive, root, options.mapped, is_big_endian(archive, root));
  pickled.tree.tensors.reserve(pickled.tensors.size());
  for (const PickledTensor& tensor : pickled.tensors)
    pickled.tree.tensors.push_back(reader.tensor(tensor, pickled.storages[tensor.storage], device));
  const std::uint32_t number = pickled.tree.root;
  return {std::make_shared<const detail::TorchTree>(std::move(pickled.tree)), number};
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
