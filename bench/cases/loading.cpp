// What bench/loading.py times: batches of a DataLoader, and files that are loaded and saved. A program of one
// case and one reading, which it prints in seconds.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"

namespace {

using namespace mezzo;

/// Seconds that `work` takes.
template <class F>
double seconds_of(F work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void wait_5_ms() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

struct Rows {
  Tensor x, y;
  [[nodiscard]] std::int64_t size() const { return x.size(0); }
  [[nodiscard]] data::Example get(std::int64_t index) const {
    return {x.select(0, index), y.select(0, index)};
  }
};

/// A batch of one that takes 5 ms to be made.
struct Slow {
  [[nodiscard]] static std::int64_t size() { return 200; }
  [[nodiscard]] static float get(std::int64_t /*index*/) {
    wait_5_ms();
    return 1;
  }
};

template <class Loader>
double epoch_of(Loader loader, void (*step)() = nullptr) {
  return seconds_of([&] {
    for ([[maybe_unused]] const auto& batch : loader) {
      if (step != nullptr) step();
    }
  });
}

/// f32 in matrices of 16 MiB, `mib` in all.
nn::NamedTensors weights(std::int64_t mib) {
  nn::NamedTensors tensors;
  for (std::int64_t i = 0; i < mib / 16; ++i)
    tensors.emplace_back("layer." + std::to_string(i), full({2048, 2048}, static_cast<double>(i)));
  return tensors;
}

double reading(const std::string& name, const std::string& path) {
  constexpr std::int64_t kRows = 1'000'000, kMib = 1024;
  if (name == "batches_of_64" || name == "batches_of_64_2_workers") {
    const int workers = name == "batches_of_64" ? 0 : 2;
    return epoch_of(data::DataLoader(data::TensorDataset(ones({kRows, 4}), arange(kRows)),
                                     {.batch_size = 64, .shuffle = true, .num_workers = workers}));
  }
  if (name == "samples_one_by_one")
    return epoch_of(
        data::DataLoader(Rows{ones({kRows, 4}), arange(kRows)}, {.batch_size = 64, .shuffle = true}));
  if (name == "batches_of_1")
    return epoch_of(data::DataLoader(data::TensorDataset(ones({100'000, 4}), arange(100'000))));
  if (name == "5_ms_batches_2_workers")
    return epoch_of(data::DataLoader(Slow{}, {.num_workers = 2}), wait_5_ms);
  if (name == "save") {
    const nn::NamedTensors tensors = weights(kMib);
    return seconds_of([&] { io::save(tensors, path); });
  }
  if (name == "load" || name == "load_mapped") {
    return seconds_of(
        [&] { static_cast<void>(io::load(path, Device::cpu(), {.mapped = name == "load_mapped"})); });
  }
  std::fprintf(stderr, "loading: unknown case %s\n", name.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: loading CASE FILE\n");
    return 2;
  }
  std::printf("%.6f\n", reading(argv[1], argv[2]));
  return 0;
}
