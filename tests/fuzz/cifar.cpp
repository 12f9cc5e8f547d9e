// CIFAR: the records made of what was read are the file.
#include <algorithm>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/cifar.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

/// The records of data sets that have the same images, with a label byte of each.
std::vector<std::uint8_t> cifar_records_of(const std::vector<const data::LabelledImages*>& sets) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < sets[0]->size(); ++i) {
    for (const data::LabelledImages* const set : sets)
      bytes.push_back(static_cast<std::uint8_t>(set->get(i).target.item<int>()));
    const Tensor image = sets[0]->get(i).data;
    const std::span<const std::uint8_t> values = image.data<std::uint8_t>();
    bytes.insert(bytes.end(), values.begin(), values.end());
  }
  return bytes;
}

}  // namespace

int fuzz_cifar(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  const auto is_file = [&](const std::vector<std::uint8_t>& bytes) {
    return std::equal(bytes.begin(), bytes.end(), data, data + size);
  };
  try {
    const data::CIFAR10 set(file.path());
    require(is_file(cifar_records_of({&set})), "records of CIFAR-10 are the file");
  } catch (const IoError&) {
  }
  try {
    const data::CIFAR100 fine(file.path()), coarse(file.path(), {.coarse = true});
    require(is_file(cifar_records_of({&coarse, &fine})), "records of CIFAR-100 are the file");
  } catch (const IoError&) {
  }
  return 0;
}

}  // namespace mezzo::fuzz
