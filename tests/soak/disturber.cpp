// The noise: busy threads with pauses, and a timer whose signals interrupt calls of the system.
#include "mezzo/tests/soak/disturber.h"

#include <signal.h>
#include <sys/time.h>

#include <chrono>
#include <random>

namespace mezzo::soak {

namespace {

void set_signals_every(int microseconds) {
  struct sigaction action {};
  action.sa_handler = [](int /*signal*/) {};  // without SA_RESTART: calls of the system are interrupted
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval timer{{0, microseconds}, {0, microseconds}};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

Disturber::Disturber(std::uint64_t seed) {
  for (std::uint64_t i = 0; i < 2; ++i) {
    threads_.emplace_back([this, seed, i] {
      std::mt19937_64 random(seed + i);
      while (!ending_) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 3000);
        while (!ending_ && std::chrono::steady_clock::now() < end) {
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      }
    });
  }
  set_signals_every(1500);
}

Disturber::~Disturber() {
  set_signals_every(0);
  ending_ = true;
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace mezzo::soak
