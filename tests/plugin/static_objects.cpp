// Objects of the library with static and thread storage: they are made before main or by a thread, use the
// library in their constructors and destructors, and end after main or with their thread. `static_objects
// WAY`: how the program ends.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "static_objects: %s\n", what);
  std::_Exit(1);
}

std::atomic<int> ended{0};

/// A training that makes a step when it begins and when it ends.
class Holder {
 public:
  explicit Holder(const char* name) : name_(name) {
    optimizer_ = std::make_unique<optim::AdamW>(net_.parameters());
    step();
  }
  ~Holder() {
    step();
    ++ended;
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  void step() {
    try {
      const autograd::DetectAnomaly watch;
      const amp::PolicyOverride in_f32("softmax", Category::fp32);
      static_cast<void>(call_op("softmax", {randn({4})}, Value(Value::Map{{"dim", 0}})));
      Tensor loss;
      {
        const amp::Autocast autocast(Device::cpu(), DType::bf16);
        loss = mse_loss(net_(x_), x_);
      }
      scaler_.scale(loss).backward();
      scaler_.step(*optimizer_);
      scaler_.update();
      optimizer_->zero_grad();
      if (!std::isfinite(loss.item())) fail(name_);
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

 private:
  const char* name_;
  Tensor x_ = full({256, 512}, 0.25);
  nn::Sequential net_{nn::make<nn::Linear>(512, 512), nn::make<nn::LayerNorm>(Shape{512}),
                      nn::make<nn::Dropout>(0.1)};
  std::unique_ptr<optim::AdamW> optimizer_;
  amp::GradScaler scaler_;
};

/// Runs last of all, as it was the first.
struct Last {
  ~Last() {
    if (ended != expected) fail("an object did not end");
  }
  int expected = 0;
} last;

/// Made in main and ended after everything that a call of the library may have made meanwhile.
std::unique_ptr<Holder> made_in_main;
Holder before_main("before main");
const Tensor constant = full({3}, 2.0);
thread_local Holder of_thread("of a thread");
std::mutex mutex;

void use_everything() {
  of_thread.step();
  const std::scoped_lock lock(mutex);  // the parameters of a model are written by one thread at a time
  static Holder in_function("in a function");
  in_function.step();
  before_main.step();
  if (sum(constant).item() != 6) fail("a constant changed");
}

}  // namespace

int main(int argc, char** argv) {
  const char* const way = argc > 1 ? argv[1] : "return";
  set_num_threads(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(use_everything);
  for (std::thread& thread : threads) thread.join();
  use_everything();
  made_in_main = std::make_unique<Holder>("made in main");
  last.expected = 3 + 4;  // of three threads; of this one, in the function, before main, in main
  if (std::strcmp(way, "detached") == 0) {
    // They compute on while the objects of the program end, with objects of their own that do not.
    for (int i = 0; i < 3; ++i) {
      std::thread([] {
        while (true) of_thread.step();
      }).detach();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (std::strcmp(way, "exit") == 0) {
    last.expected -= 1;  // that of the thread of main does not end
    std::thread([] { std::exit(0); }).join();
  }
  if (std::strcmp(way, "exit_while_computing") == 0) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::exit(0);
    }).detach();
    --last.expected;
    while (true) of_thread.step();
  }
  if (std::strcmp(way, "quick_exit") == 0) std::quick_exit(0);
  return 0;
}
