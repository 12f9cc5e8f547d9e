// A small training with its checkpoint, and what a fault must leave as it was.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/faults/faults.h"
#include "mezzo/tests/support/sanitizer.h"
#include "mezzo/train.h"

namespace mezzo::test {

struct Training {
  /// One step of mixed precision; the loss before it.
  double step() {
    Tensor loss;
    {
      const amp::Autocast autocast(Device::cpu(), DType::bf16);
      loss = mse_loss(net(ones({4, 8})), ones({4, 8}));
    }
    optimizer.zero_grad();
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    return loss.item();
  }
  /// Ends an iteration that a fault ended between the optimizer's step and update().
  void settle() {
    try {
      scaler.update();
    } catch (const StateError&) {  // no step yet
    }
  }
  [[nodiscard]] train::Parts parts() {
    return {{"model", net}, {"optimizer", optimizer}, {"scaler", scaler}, {"random", default_generator()}};
  }
  // Without gradients, as those are of the step before.
  void save(const std::string& path) { train::save_checkpoint(path, parts(), {.gradients = false}); }
  void load(const std::string& path) { train::load_checkpoint(path, parts()); }

  nn::Sequential net{nn::make<nn::Linear>(8, 16), nn::make<nn::ReLU>(), nn::make<nn::LayerNorm>(Shape{16}),
                     nn::make<nn::Linear>(16, 8)};
  optim::AdamW optimizer{net.parameters()};
  amp::GradScaler scaler;
};

enum class End { success, refused, no_memory };

/// Runs it with faults and says how it ended: in success, one clear line, or bad_alloc. Anything else escapes
/// and is a failure of the test.
template <class F>
End run_with(const FaultPlan& plan, std::uint64_t& calls, std::string& message, F action) {
  message.clear();
  message.reserve(4000);
  Faults faults(plan);
  End end = End::success;
  try {
    action();
  } catch (const Error& error) {
    message.assign(error.what(), std::min<std::size_t>(std::string_view(error.what()).size(), 3900));
    end = End::refused;
  } catch (const std::bad_alloc&) {
    end = End::no_memory;
  }
  calls = faults.calls();
  return end;
}

inline std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::ptrdiff_t entries_of(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

inline std::ptrdiff_t open_files() { return entries_of("/proc/self/fd"); }

/// One clear line: "op: expected ..., got ...; fix".
inline void expect_clear(const std::string& message) {
  EXPECT_NE(message.find(": expected "), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 500U) << message;
}

/// Skips where the faults cannot be; a folder of its own.
class FaultTest : public testing::Test {
 protected:
  void SetUp() override {
    if (under_sanitizer()) GTEST_SKIP() << "a sanitizer has a malloc of its own";
    ASSERT_NE(arm_faults(), nullptr) << "libmezzo_faults.so does not lie beside the program";
    std::filesystem::create_directories(folder_);
    manual_seed(0);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::string path() const { return (folder_ / "run.safetensors").string(); }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("mezzo_faults_" + std::to_string(::getpid()));
};

}  // namespace mezzo::test
