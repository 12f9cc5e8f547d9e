// Writing torch files: a pickle that rebuilds a dict of tensors, and an entry for each storage.
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/io/detail/torch/pickle_codes.h"
#include "mezzo/io/detail/zip.h"
#include "mezzo/io/torch_file.h"

namespace mezzo::io {

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
using Place =
    std::tuple<const void*, std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>, DType>;

Place place_of(const Tensor& tensor) {
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
  std::map<Place, std::size_t> keys;
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
