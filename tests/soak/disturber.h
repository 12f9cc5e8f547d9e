// Noise beside a training: threads that take processors for a while, and signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace mezzo::soak {

/// Disturbs while it lives.
class Disturber {
 public:
  explicit Disturber(std::uint64_t seed);
  ~Disturber();
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;

 private:
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace mezzo::soak
