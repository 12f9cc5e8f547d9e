// Safetensors: a file reads the same from memory and from disk, and what was read and is written again reads
// the same.
#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

using io::SafeTensors;

bool same_entry(const SafeTensors::Entry& a, const SafeTensors::Entry& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

bool same_content(const SafeTensors& a, const SafeTensors& b) {
  return a.metadata() == b.metadata() && a.entries().size() == b.entries().size() &&
         std::all_of(a.entries().begin(), a.entries().end(), [&](const SafeTensors::Entry& entry) {
           return b.contains(entry.name) && same_entry(entry, b.at(entry.name));
         });
}

/// What a message says, without the name of the file before it.
std::string refusal_of(const IoError& error) { return error.expected() + "|" + error.got(); }

}  // namespace

int fuzz_safetensors(const std::uint8_t* data, std::size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  const MemoryFile stored(data, size);
  std::string refused;
  try {
    const SafeTensors file = SafeTensors::from_bytes({bytes, bytes + size});
    require(same_content(file, SafeTensors::open(stored.path())), "memory and disk give the same tensors");
    const std::vector<std::byte> written = io::serialize_safetensors(file.entries(), file.metadata());
    const SafeTensors again = SafeTensors::from_bytes(written);
    require(same_content(file, again) && same_content(again, file), "what is written reads back equal");
    require(io::serialize_safetensors(again.entries(), again.metadata()) == written,
            "the same content gives the same bytes");
    return 0;
  } catch (const IoError& error) {
    refused = refusal_of(error);
    require(std::string(error.what()).size() < 2000, "a message is short");
  }
  try {
    static_cast<void>(SafeTensors::open(stored.path()));
    require(false, "disk refuses what memory refuses: " + refused);
  } catch (const IoError& error) {
    require(refusal_of(error) == refused, "disk refuses for the same reason: " + refused);
  }
  return 0;
}

}  // namespace mezzo::fuzz
