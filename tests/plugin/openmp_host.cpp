// A program with loops of OpenMP that trains by mezzo between them, inside them and beside them: the same
// bits as without OpenMP, and the host's own loops and numbers of threads as it left them.
#include <omp.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "mezzo/mezzo.h"

namespace {

using namespace mezzo;

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
#pragma omp critical(report)
  {
    std::fprintf(stderr, "openmp_host: expected %s\n", what);
    ++failures;
  }
}

/// Weights and last loss of a small convolution net after ten steps under autocast. The products and
/// convolutions are large enough for several threads, and for oneDNN where the library has it.
std::vector<float> train() {
  nn::Sequential net(nn::make<nn::Conv2d>(4, 8, 3, nn::ConvLayerOptions{.padding = 1}), nn::make<nn::ReLU>(),
                     nn::make<nn::Flatten>(), nn::make<nn::Linear>(8 * 16 * 16, 64));
  for (const Tensor& parameter : net.parameters()) {  // no random numbers: threads share their generator
    const Tensor values = sin(arange(parameter.numel())) * 0.05;
    parameter.detach().copy_(reshape(values, parameter.shape()));
  }
  optim::SGD sgd(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  amp::GradScaler scaler({.init_scale = 1024});
  const Tensor x = reshape(arange(32 * 4 * 16 * 16), {32, 4, 16, 16}) * 1e-5, target = full({32, 64}, 0.5);
  std::vector<float> result;
  for (int step = 0; step < 10; ++step) {
    sgd.zero_grad();
    Tensor loss;
    {
      const amp::Autocast autocast(Device::cpu(), DType::bf16);
      loss = mse_loss(net.forward(x), target);
    }
    scaler.scale(loss).backward();
    static_cast<void>(scaler.step(sgd));
    scaler.update();
    result.assign(1, loss.item<float>());
  }
  for (const Tensor& parameter : net.parameters()) {
    const std::vector<float> values = parameter.detach().to_vector<float>();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

/// 1 + 2 + ... + n by the host's own loop; the number of threads that took part in it.
struct HostLoop {
  std::int64_t sum = 0;
  int threads = 0;
};
HostLoop host_loop(std::int64_t n) {
  std::int64_t sum = 0;
  int threads = 0;
#pragma omp parallel reduction(+ : sum)
  {
#pragma omp single
    threads = omp_get_num_threads();
#pragma omp for
    for (std::int64_t i = 1; i <= n; ++i) sum += i;
  }
  return {sum, threads};
}

void expect_host_loop(int threads) {
  const HostLoop loop = host_loop(100'000);
  expect(loop.sum == 5'000'050'000, "the host's loop to be right");
  expect(loop.threads == threads, "the host's loop to have the threads that it asked for");
  expect(omp_get_max_threads() == threads, "the host's number of threads to be left alone");
}

void run() {
  omp_set_dynamic(0);
  omp_set_num_threads(3);
  const std::vector<float> expected = train();
  expect_host_loop(3);  // between two trainings
  expect(train() == expected, "the same bits behind a loop of OpenMP");

  std::vector<std::vector<float>> inside(4);
#pragma omp parallel num_threads(4)
  {
    inside[static_cast<std::size_t>(omp_get_thread_num())] = train();
    expect(omp_get_num_threads() == 4 && omp_get_max_threads() == 3,
           "the settings inside a loop to be left alone");
  }
  for (const std::vector<float>& one : inside)
    expect(one == expected, "the same bits inside a parallel region");
  expect_host_loop(3);

  std::vector<std::vector<float>> tasks(6);
#pragma omp parallel num_threads(2)
#pragma omp single
  for (std::vector<float>& one : tasks) {
#pragma omp task shared(one)
    one = train();
  }
  for (const std::vector<float>& one : tasks) expect(one == expected, "the same bits inside tasks");

  for (const int host_threads : {1, 2, 5}) {
    omp_set_num_threads(host_threads);
    set_num_threads(host_threads);
    expect(train() == expected, "the same bits for any number of threads of the host");
    expect(get_num_threads() == host_threads, "mezzo's number of threads to be its own");
    expect_host_loop(host_threads);
  }
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "openmp_host: %s\n", error.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}
