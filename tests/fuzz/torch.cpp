// PyTorch's files: whole ones read the same plain and mapped; bare pickles give values that can be walked.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/torch/legacy_file.h"
#include "mezzo/io/detail/torch/unpickler.h"
#include "mezzo/io/torch_file.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/same_tensor.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

using io::TorchValue;

/// Looks at a value, and at all in it, as deep as `levels`; at most `budget` values.
void walk(const TorchValue& value, std::size_t levels, int& budget) {
  require(levels > 0, "a file nests no deeper than its limit");
  if (--budget < 0) return;
  switch (value.kind()) {
    case TorchValue::Kind::map:
      for (std::size_t i = 0; i < value.size(); ++i) {
        const auto [key, part] = value.entry(i);
        require(key.is_string() || key.is_int(), "keys are strings or integers");
        require(key.is_string() ? value.contains(key.as_string()) : value.contains(key.as_int()),
                "keys are found");
        walk(part, levels - 1, budget);
      }
      return;
    case TorchValue::Kind::list:
    case TorchValue::Kind::tuple:
      for (std::size_t i = 0; i < value.size(); ++i) walk(value[i], levels - 1, budget);
      return;
    case TorchValue::Kind::string:
      require(is_valid_utf8(value.as_string()), "strings are text");
      return;
    default:
      require(value.kind() <= TorchValue::Kind::tensor, "a value of Python's that is known");
  }
}

void check_pickle(std::span<const std::byte> bytes) {
  io::detail::Pickled pickled = io::detail::unpickle("fuzz", bytes);
  pickled.tree.tensors.resize(pickled.tensors.size());
  const std::uint32_t root = pickled.tree.root;
  const TorchValue value(std::make_shared<const io::detail::TorchTree>(std::move(pickled.tree)), root);
  int budget = 10'000;
  walk(value, io::detail::kMaxTorchDepth + 1, budget);
  static_cast<void>(value.tensors());
}

/// Every tensor, or what is refused.
std::string read(const std::string& path, bool mapped, TorchValue::NamedTensors& tensors) {
  try {
    const TorchValue value = io::load_torch(path, Device::cpu(), {.mapped = mapped});
    int budget = 10'000;
    walk(value, io::detail::kMaxTorchDepth + 1, budget);
    tensors = value.tensors();
    return {};
  } catch (const Error& error) {
    require(std::string(error.what()).size() < 2000, "a message is short");
    return error.what();
  }
}

}  // namespace

int fuzz_torch(const std::uint8_t* data, std::size_t size) {
  const auto begin = std::as_bytes(std::span(data, std::min<std::size_t>(size, 24)));
  if (size > 0 && data[0] == 0x80 && !io::detail::is_legacy_file(begin)) {
    try {
      check_pickle(std::as_bytes(std::span(data, size)));
    } catch (const Error&) {
    }
    return 0;
  }
  const MemoryFile file(data, size);
  TorchValue::NamedTensors plain, mapped;
  const std::string refused = read(file.path(), false, plain);
  require(read(file.path(), true, mapped) == refused, "plain and mapped agree: " + refused);
  require(plain.size() == mapped.size(), "plain and mapped have the same tensors");
  for (std::size_t i = 0; i < plain.size(); ++i) {
    require(plain[i].first == mapped[i].first, "of the same names");
    const Tensor &a = plain[i].second, &b = mapped[i].second;
    require(a.shape() == b.shape() && a.strides() == b.strides(), "of the same layout");
    constexpr std::int64_t kMost = 10'000;  // an expanded tensor may have 2^59 elements
    if (a.numel() <= kMost) require(same_tensor(a.contiguous(), b.contiguous()), "of the same values");
  }
  return 0;
}

}  // namespace mezzo::fuzz
