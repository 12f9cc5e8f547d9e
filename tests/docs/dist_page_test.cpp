// The code of docs/dist.md compiles, runs, and is what the page shows.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "docs/generated.h"
#include "mezzo/data.h"
#include "mezzo/dist.h"
#include "mezzo/mezzo.h"
#include "mezzo/train.h"
#include "support/data_folder.h"

namespace mezzo {
namespace {

auto few_samples() {
  Generator generator(1);
  const Tensor x = uniform(-1, 1, {64, 8}, {}, generator);
  return data::TensorDataset(x, argmax(x.narrow(1, 0, 4), 1));
}
auto small_net() {
  manual_seed(3);
  return nn::make<nn::Sequential>(nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4));
}

// clang-format off
void with_the_trainer(const std::shared_ptr<nn::Sequential>& net, optim::AdamW& adam, data::DataLoader<>& loader) {
  // trainer begins
  train::Trainer trainer({.model = net,
                          .loss = nn::CrossEntropyLoss(),
                          .optimizer = adam,
                          .train_loader = loader,
                          .max_duration = "2ep",
                          .parallel = dist::data_parallel()});
  trainer.fit();
  // trainer ends
}

void by_hand(nn::Sequential& net) {
  const auto samples = few_samples();
  // loop begins
  const auto session = dist::init();
  dist::DataParallel parallel(net);
  optim::AdamW adam(net, {.lr = 1e-3});
  data::DataLoader loader(samples, {.batch_size = 32, .shuffle = true});
  loader.set_share(dist::rank(), dist::world_size());
  for (const auto& [x, y] : loader) {
    adam.zero_grad();
    cross_entropy(net(x), y).backward();
    adam.step();
  }
  // loop ends
}

void accumulated(nn::Sequential& net, dist::DataParallel& parallel, const data::Example& first,
                 const data::Example& second) {
  // accumulation begins
  {
    const auto hold = parallel.no_sync();
    cross_entropy(net(first.data), first.target).backward();
  }
  cross_entropy(net(second.data), second.target).backward();
  // accumulation ends
}

void with_shards(nn::Sequential& net, dist::DataParallel& parallel, data::DataLoader<>& loader) {
  // zero begins
  dist::ShardedOptimizer<optim::AdamW> optimizer(parallel, {.lr = 1e-3});
  for (const auto& [x, y] : loader) {
    optimizer.zero_grad();
    cross_entropy(net(x), y).backward();
    optimizer.clip_grad_norm_(1.0);
    optimizer.step();
  }
  // zero ends
}
// clang-format on

double loss_on(nn::Sequential& net) {
  const NoGrad no_grad;
  data::DataLoader all(few_samples(), {.batch_size = 64});
  const auto& [x, y] = *all.begin();
  return cross_entropy(net(x), y).item();
}

TEST(DistPage, ItsProgramsTrain) {
  data::DataLoader loader(few_samples(), {.batch_size = 16, .shuffle = true});
  const double before = loss_on(*small_net());
  const auto a = small_net();
  optim::AdamW adam(*a, {.lr = 1e-2});
  with_the_trainer(a, adam, loader);
  EXPECT_LT(loss_on(*a), before);
  const auto b = small_net();
  by_hand(*b);
  EXPECT_LT(loss_on(*b), before);
  const auto c = small_net();
  dist::DataParallel parallel(c);
  const auto& batch = *loader.begin();
  accumulated(*c, parallel, batch, batch);
  EXPECT_TRUE(c->parameters().front().grad().defined());
  with_shards(*c, parallel, loader);
  EXPECT_LT(loss_on(*c), before);
}

/// Lines without leading blanks.
std::string unindented(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos) result += line.substr(first) + "\n";
  }
  return result;
}
std::string block(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return {};
  return unindented(text.substr(at + begin.size(), text.find(end, at + begin.size()) - at - begin.size()));
}

TEST(DistPage, ShowsThesePrograms) {
  const std::string page = docs::read(test::data_folder() + "/../docs/dist.md");
  const std::string source = docs::read(test::data_folder() + "/docs/dist_page_test.cpp");
  for (const std::string name : {"trainer", "loop", "accumulation", "zero"}) {
    const std::string shown =
        block(page, "<!-- tests/docs/dist_page_test.cpp: " + name + " -->\n```cpp\n", "```");
    EXPECT_FALSE(shown.empty()) << name;
    EXPECT_EQ(shown, block(source, "// " + name + " begins\n", "// " + name + " ends")) << name;
  }
}

}  // namespace
}  // namespace mezzo
