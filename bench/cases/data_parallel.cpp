// Training steps of several processes, and the all-reduces that they are made of. Started by mpirun; rank 0
// reads the commands of bench/worker.h and tells the others.
//   all_reduce/BYTES               one sum of f32, of all ranks
//   NET/DTYPE/WAY[/PARTS]          a step of a network, each rank with the same number of samples
// The ways are: alone (no process waits for another), parallel (DataParallel), deterministic, compressed,
// sharded (ZeRO-1). PARTS: "forward_backward", without the optimizer.
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cases/models.h"
#include "mezzo/dist.h"

namespace bench {
namespace {

using Body = std::function<void()>;

struct Net {
  std::shared_ptr<nn::Layer> net;
  Tensor input, target;
  bool with_adamw = false;
};

Net mlp(std::int64_t width, std::int64_t batch) {
  auto net = std::make_shared<nn::Sequential>(nn::Linear(width, width), nn::ReLU(), nn::Linear(width, width),
                                              nn::ReLU(), nn::Linear(width, width));
  return {std::move(net), randn({batch, width}), randn({batch, width})};
}

Net make_net(const std::string& name) {
  if (name == "mlp_1024") return mlp(1024, 256);
  if (name == "mlp_2048") return mlp(2048, 256);
  if (name == "gpt_4x128") {
    return {std::make_shared<Gpt>(GptSizes{.layers = 4, .width = 128, .heads = 4, .context = 128}),
            randint(0, 256, {8, 128}), randint(0, 256, {8 * 128}), true};
  }
  if (name == "resnet18_w16") {
    return {std::make_shared<nn::Sequential>(models::resnet18(16)), randn({16, 3, 32, 32}),
            randint(0, 10, {16})};
  }
  throw ValueError("bench", "mlp_1024, mlp_2048, gpt_4x128 or resnet18_w16", name, "name one of them");
}

/// One rank's training.
class Training {
 public:
  Training(const std::string& name, const std::string& dtype, const std::string& way) : net_(make_net(name)) {
    if (dtype == "bf16") dtype_ = DType::bf16;
    if (way != "alone") {
      dist::DataParallelOptions options;
      if (way == "deterministic") options.virtual_parts = dist::world_size();
      if (way == "compressed") options.reduce_dtype = DType::bf16;
      parallel_.emplace(*net_.net, options);
    }
    const optim::AdamWOptions adamw{.lr = 1e-3};
    const optim::SGDOptions sgd{.lr = 1e-3, .momentum = 0.9};
    const auto parameters = net_.net->named_parameters();
    if (way == "sharded" && net_.with_adamw)
      optimizer_ = std::make_shared<dist::ShardedOptimizer<optim::AdamW>>(*parallel_, adamw);
    else if (way == "sharded")
      optimizer_ = std::make_shared<dist::ShardedOptimizer<optim::SGD>>(*parallel_, sgd);
    else if (net_.with_adamw)
      optimizer_ = std::make_shared<optim::AdamW>(parameters, adamw);
    else
      optimizer_ = std::make_shared<optim::SGD>(parameters, sgd);
  }
  void forward_backward() {
    optimizer_->zero_grad();
    loss().backward();
  }
  void step() {
    forward_backward();
    optimizer_->step();
  }

 private:
  [[nodiscard]] Tensor loss() const {
    std::optional<amp::Autocast> autocast;
    if (dtype_) autocast.emplace(Device::cpu(), *dtype_);
    const Tensor y = net_.net->forward(net_.input);
    if (net_.target.dtype() != DType::i64) return mse_loss(y, net_.target);
    return cross_entropy(y.reshape({-1, y.size(-1)}), net_.target);
  }

  Net net_;
  std::optional<DType> dtype_;
  std::optional<dist::DataParallel> parallel_;
  std::shared_ptr<optim::Optimizer> optimizer_;
};

Body make(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream text(name);
  for (std::string word; std::getline(text, word, '/');) words.push_back(word);
  if (words.size() == 2 && words[0] == "all_reduce") {
    const Tensor values = ones({std::stoll(words[1]) / 4});
    return [values] { dist::all_reduce(values, dist::ReduceOp::max); };
  }
  if (words.size() < 3) throw ValueError("bench", "NET/DTYPE/WAY", name, "see the head of data_parallel.cpp");
  auto training = std::make_shared<Training>(words[0], words[1], words[2]);
  if (words.size() == 4) return [training] { training->forward_backward(); };
  return [training] { training->step(); };
}

double seconds_of(const Body& body, std::int64_t calls) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < calls; ++i) body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Nanoseconds of one call, by rank 0's clock.
double time(const std::string& name, double seconds) {
  static std::map<std::string, Body> bodies;
  if (!bodies.contains(name)) {
    if (bodies.size() == 2) bodies.clear();
    bodies[name] = make(name);
    static_cast<void>(seconds_of(bodies[name], 3));
  }
  const Body& body = bodies[name];
  dist::barrier();
  const double first = seconds_of(body, 2) / 2;
  const std::string calls = std::to_string(1 + static_cast<std::int64_t>(seconds / first));
  const std::int64_t agreed = std::stoll(dist::broadcast_text(calls));
  dist::barrier();
  return seconds_of(body, agreed) / static_cast<double>(agreed) * 1e9;
}

void serve() {
  const bool is_first = dist::rank() == 0;
  while (true) {
    std::string line;
    if (is_first && !std::getline(std::cin, line)) line = "end";
    line = dist::broadcast_text(line);
    std::istringstream words(line);
    std::string command, name;
    double seconds = 0;
    words >> command >> name >> seconds;
    if (command == "end") return;
    if (command == "about" && is_first)
      std::cout << "mezzo over MPI, " << dist::world_size() << " ranks" << std::endl;
    if (command == "list" && is_first) std::cout << std::endl;
    if (command != "time") continue;
    const double nanoseconds = time(name, seconds);
    if (is_first) std::cout << nanoseconds << std::endl;
  }
}

}  // namespace
}  // namespace bench

int main() {
  const auto session = mezzo::dist::init();
  bench::serve();
  return 0;
}
