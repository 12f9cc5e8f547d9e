// A training that is stopped, interrupted, moved to other processors or given other clocks in its middle has
// the bits of one that is left alone; memory that a cgroup does not grant is refused by one line.
#include <sched.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "mezzo/tests/faults/support.h"
#include "mezzo/tests/support/system_root.h"
#include "mezzo/tests/support/thread_guard.h"

namespace mezzo::test {
namespace {

/// The bytes of a checkpoint after steps whose loops several threads share, with `disturb(step)` before each.
std::string checkpoint_of_training(const std::string& path, const std::function<void(int)>& disturb) {
  const ThreadGuard threads(3);
  manual_seed(7);
  const Tensor x = randn({96, 256}), y = randn({96, 64});
  nn::Sequential net{nn::make<nn::Linear>(256, 256), nn::make<nn::GELU>(),
                     nn::make<nn::LayerNorm>(Shape{256}), nn::make<nn::Dropout>(0.2),
                     nn::make<nn::Linear>(256, 64)};
  optim::AdamW optimizer(net.parameters());
  amp::GradScaler scaler;
  for (int step = 0; step < 40; ++step) {
    disturb(step);
    optimizer.zero_grad();
    Tensor loss;
    {
      const amp::Autocast autocast(Device::cpu(), step % 2 == 0 ? DType::bf16 : DType::f16);
      loss = mse_loss(net(x), y);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    if (step % 10 == 9) {
      io::TensorFile file;
      file.add("model.", net.state_dict());
      file.add("optimizer.", optimizer.state_dict().tensors);
      file.save(path);
      net.load_state_dict(io::TensorFile::load(path).with_prefix("model."));
    }
  }
  return content_of(path);
}

class Disturbed : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return (folder_ / "run.safetensors").string(); }
  [[nodiscard]] std::string alone() const {
    return checkpoint_of_training(path(), [](int /*step*/) {});
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("mezzo_disturbed_" + std::to_string(::getpid()));
};

TEST_F(Disturbed, AProcessThatIsStoppedAndGoesOn) {
  const std::string expected = alone();
  std::mt19937 random(3);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(120);
    ::_exit(checkpoint_of_training(path(), [](int /*step*/) { ::usleep(500); }) == expected ? 0 : 1);
  }
  int status = 0, stops = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    ::usleep(random() % 3000);
    stops += ::kill(child, SIGSTOP) == 0 ? 1 : 0;
    ::usleep(random() % 3000);
    ::kill(child, SIGCONT);
  }
  EXPECT_GT(stops, 5);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "other bits";
}

TEST_F(Disturbed, SignalsThatInterruptCallsOfTheSystem) {
  const std::string expected = alone();
  static std::atomic<int> caught{0};
  caught = 0;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { ++caught; };  // without SA_RESTART
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 700}, {0, 700}}, never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  const std::string disturbed = alone();
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(caught, 5);
  EXPECT_TRUE(disturbed == expected);
}

// A handler's frame is written to the stack of the thread. Some of oneDNN's kernels let the stack pointer
// point at memory of the heap meanwhile.
TEST_F(Disturbed, SignalsDuringProductsOfEveryLayout) {
  static std::atomic<int> caught{0};
  caught = 0;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { ++caught; };  // on the thread's own stack: without SA_ONSTACK
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const ThreadGuard one(1);
  manual_seed(2);
  const itimerval often{{0, 100}, {0, 100}}, never{};
  // Rows with gaps between them go to other kernels.
  const auto in_rows = [](const Tensor& x, std::int64_t gap) {
    const Tensor rows = zeros({x.size(0), x.size(1) + gap});
    rows.slice(1, 0, x.size(1)).copy_(x);
    return rows.slice(1, 0, x.size(1));
  };
  const auto in_columns = [&](const Tensor& x, std::int64_t gap) {
    return transpose(in_rows(transpose(x, 0, 1), gap), 0, 1);
  };
  for (const std::int64_t k : {64, 100, 129, 256, 700}) {
    const Tensor a = randn({96, k}), b = randn({k, 64}), c = matmul(a, b);
    const Tensors lefts{a, in_columns(a, 0), in_rows(a, 16), in_columns(a, 16)},
        rights{b, in_columns(b, 0), in_rows(b, 16), in_columns(b, 16)};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    for (int turn = 0; turn < 150; ++turn) {
      for (const Tensor& left : lefts) {
        for (const Tensor& right : rights) {
          const std::vector<std::byte> neighbour(16400);  // of what a kernel takes from the heap
          static_cast<void>(matmul(left, right));
        }
      }
    }
    ::setitimer(ITIMER_REAL, &never, nullptr);
    EXPECT_TRUE(matmul(a, b).to_vector<float>() == c.to_vector<float>()) << "k " << k;
  }
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(caught, 5);
}

/// Lets every thread of the process run on these processors only.
void run_on(const cpu_set_t& processors) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ::sched_setaffinity(std::stoi(task.path().filename()), sizeof processors, &processors);
}

TEST_F(Disturbed, ProcessorsThatGoAndComeBack) {
  const std::string expected = alone();
  cpu_set_t all, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int i = 0; CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  const std::string disturbed =
      checkpoint_of_training(path(), [&](int step) { run_on(step % 4 < 2 ? one : all); });
  run_on(all);
  EXPECT_TRUE(disturbed == expected);
}

TEST_F(Disturbed, ClocksThatJump) {
  if (under_sanitizer()) GTEST_SKIP() << "the clocks jump in a library that is loaded before libc";
  const std::string expected = alone();
  const auto before = std::chrono::steady_clock::now();
  const std::string disturbed = checkpoint_of_training(path(), [](int step) {
    std::thread([step] {
      jump_clocks(step % 2 == 0 ? 86400 : -172800);
    }).detach();  // in the midst of the step
  });
  EXPECT_GT(std::chrono::steady_clock::now() - before, std::chrono::hours(24)) << "the clocks did jump";
  EXPECT_TRUE(disturbed == expected);
}

TEST_F(Disturbed, MemoryThatACgroupDoesNotGrantIsRefused) {
  if (under_sanitizer()) GTEST_SKIP() << "the files are redirected by a library that is loaded before libc";
  constexpr std::int64_t kMiB = std::int64_t{1} << 20U;
  empty_cache(Device::cpu());
  const std::int64_t granted = memory_stats(Device::cpu()).reserved + 400 * kMiB;
  SystemRoot root;
  root.write("/proc/self/cgroup", "0::/\n").write("/sys/fs/cgroup/memory.max", std::to_string(granted));
  redirect_system_files(root.path().c_str());
  std::vector<Tensor> held;
  std::string message;
  try {
    for (int i = 0; i < 100; ++i) held.push_back(empty({100 * kMiB / 4}));
  } catch (const OutOfMemoryError& error) {
    message = error.what();
  }
  EXPECT_EQ(held.size(), 4U);
  expect_clear(message);
  EXPECT_NE(message.find("of " + std::to_string(granted) + " granted by the cgroup"), std::string::npos)
      << message;
  for (const char* const said : {"bytes held by tensors", "reserved", "cached", "in use of"})
    EXPECT_NE(message.find(said), std::string::npos) << message;
  held.resize(2);
  EXPECT_NO_THROW(held.push_back(empty({150 * kMiB / 4}))) << "what is cached is given back first";
  held.clear();
  EXPECT_FALSE(alone().empty()) << "the process trains on";
  redirect_system_files(nullptr);
  EXPECT_NO_THROW(static_cast<void>(empty({1000 * kMiB / 4})));
}

}  // namespace
}  // namespace mezzo::test
