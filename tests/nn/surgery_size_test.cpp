// Surgery on models of 10,000 modules: time in proportion to their number, whatever their shape.
#include <algorithm>
#include <ctime>
#include <limits>

#include "mezzo/tests/nn/surgery_support.h"
#include "mezzo/tests/support/sanitizer.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

#ifdef NDEBUG
constexpr bool kOptimised = true;
#else
constexpr bool kOptimised = false;
#endif
/// Whether the library runs at its own speed: compiled for it, and without a sanitizer.
const bool full_speed = kOptimised && !test::under_sanitizer();
const double bound = full_speed ? 20 : 100;          // twice what the slowest takes
const int chain_length = full_speed ? 10000 : 1000;  // destroyed by recursion, whose frames else are large

/// Time of the processor, so that a machine that does other things too does not count.
template <class F>
double milliseconds(const F& action) {
  const std::clock_t start = std::clock();
  action();
  return 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// `surgery` tells how many milliseconds it took. It may take `bound` times as long as making 10,000 modules,
/// so that the bound holds on slow processors too. The best of several counts: what else a machine does makes
/// caches cold.
template <class F>
void expect_quick(const F& surgery) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10 && best >= bound; ++i) {
    const double took = surgery();
    const double making = milliseconds([] {
      std::vector<std::shared_ptr<Layer>> modules;
      for (int j = 0; j < 10000; ++j) modules.push_back(make<Gain>());
    });
    best = std::min(best, took / making);
  }
  EXPECT_LT(best, bound);
}

/// Replaces all Gains, in 5000 places or so, undoes that, and tells how long the slower of both took.
double surgery_time(Module& root, std::size_t expected) {
  Report report;
  const double there =
      milliseconds([&] { report = surgery::replace<Gain>(root, [](Gain&) { return make<LowGain>(); }); });
  EXPECT_EQ(report.replaced().size(), expected);
  EXPECT_EQ(report.parameter_pairs().size(), expected);
  EXPECT_EQ(surgery::count<LowGain>(root), expected);
  const double back = milliseconds([&] { static_cast<void>(report.undo()); });
  EXPECT_EQ(surgery::count<Gain>(root), expected);
  return std::max(there, back);
}

TEST(SurgerySize, Flat) {
  std::vector<std::shared_ptr<Layer>> layers;
  for (int i = 0; i < 5000; ++i) {
    layers.push_back(make<Gain>());
    layers.push_back(make<ReLU>());
  }
  Sequential net(layers);
  expect_quick([&] { return surgery_time(net, 5000); });
}

TEST(SurgerySize, HundredTimesHundred) {
  Sequential net;
  for (int i = 0; i < 100; ++i) {
    const auto row = make<Sequential>();
    for (int j = 0; j < 100; ++j) row->push_back(make<Gain>());
    net.push_back(row);
  }
  expect_quick([&] { return surgery_time(net, 10000); });
}

TEST(SurgerySize, DeepWithOneMatch) {
  std::shared_ptr<Layer> chain = make<Gain>();
  for (int i = 0; i < chain_length; ++i) chain = make<Wrapper<>>(chain);
  Sequential net(chain);
  expect_quick([&] { return surgery_time(net, 1); });
}

TEST(SurgerySize, DeepWithAMatchAtEveryLevel) {
  std::shared_ptr<Layer> chain = make<Gain>();
  for (int i = 0; i < chain_length / 10; ++i) chain = make<Sequential>(make<Gain>(), chain);
  Sequential net(chain);
  expect_quick([&] { return surgery_time(net, chain_length / 10 + 1); });
}

TEST(SurgerySize, OneModuleInManyPlaces) {
  const auto gain = make<Gain>();
  const std::vector<std::shared_ptr<Layer>> layers(10000, gain);
  Sequential net(layers);
  expect_quick([&] { return surgery_time(net, 1); });
}

TEST(SurgerySize, WrappingAndReplacingEveryLevelOfAChain) {
  std::shared_ptr<Layer> chain = make<ReLU>();
  for (int i = 0; i < chain_length / 5; ++i) chain = make<Wrapper<>>(chain);
  Sequential net(chain);
  expect_quick([&] {
    Report report;
    const double time = milliseconds([&] {
      report = surgery::replace<Wrapper<>>(
          net, [](Wrapper<>& old) { return make<Wrapper<1>>(make<Wrapper<2>>(old.inner.get())); });
    });
    EXPECT_EQ(report.replaced().size(), chain_length / 5U);
    EXPECT_EQ(surgery::count<Wrapper<2>>(net), chain_length / 5U);
    static_cast<void>(report.undo());
    EXPECT_EQ(surgery::count<Wrapper<>>(net), chain_length / 5U);
    return time;
  });
}

}  // namespace

}  // namespace mezzo::nn
