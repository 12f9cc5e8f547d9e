// Memory that was there before a recording and is freed in it: it belongs to the graph from then on, as
// replays read and write it.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/device_fixture.h"
#include "mezzo/core/cuda/graph.h"
#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::cuda {
namespace {

const Device kDevice = Device::cuda(0);
constexpr std::int64_t kCount = 5000;

Tensor filled(double value) { return full({kCount}, value, {.device = kDevice}); }
std::vector<float> all(float value) { return std::vector<float>(kCount, value); }
const void* memory_of(const Tensor& x) { return x.impl().storage->data(); }

class CudaGraphMemory : public test::CudaCacheTest {
 protected:
  /// A step that adds what the temporary holds to `sum`, doubles the temporary, and drops it.
  Graph record() {
    return Graph(kDevice, [&] {
      sum.add_(temporary);
      temporary.mul_(2);
      temporary = Tensor();
    });
  }
  void SetUp() override {
    CudaCacheTest::SetUp();
    if (IsSkipped()) return;
    sum = filled(1);
    temporary = filled(3);
    block = memory_of(temporary);
  }
  Tensor sum, temporary;
  const void* block = nullptr;
};

TEST_F(CudaGraphMemory, WhatAStepDropsIsUsedByNobodyElse) {
  Graph graph = record();
  const Tensor other = filled(100);
  EXPECT_NE(memory_of(other), block);
  graph.replay();
  EXPECT_EQ(sum.to_vector<float>(), all(4));
  EXPECT_EQ(other.to_vector<float>(), all(100)) << "a replay wrote into it";
  graph.replay();
  EXPECT_EQ(sum.to_vector<float>(), all(10)) << "the temporary lives on in the graph";
}

TEST_F(CudaGraphMemory, ItIsEverybodysAgainAfterTheGraph) {
  {
    Graph graph = record();
    graph.replay();
    EXPECT_EQ(memory_stats(kDevice).current, kCount * 4) << "no tensor holds it";
  }
  EXPECT_EQ(memory_of(filled(0)), block);
  sum = Tensor();
  empty_cache(kDevice);
  EXPECT_EQ(memory_stats(kDevice).reserved, 0);
}

TEST_F(CudaGraphMemory, ItIsEverybodysAgainAfterAFailedRecording) {
  EXPECT_THROW(Graph(kDevice,
                     [&] {
                       sum.add_(temporary);
                       temporary = Tensor();
                       static_cast<void>(sum.to_vector<float>());
                     }),
               StateError);
  EXPECT_EQ(memory_of(filled(0)), block);
  EXPECT_EQ(sum.to_vector<float>(), all(1));
}

// The gradients of the step before, say: a graph that cannot use them shall not keep them.
TEST_F(CudaGraphMemory, WhatIsDroppedBeforeAnythingIsRecordedIsNotKept) {
  Graph graph(kDevice, [&] {
    temporary = Tensor();
    sum.add_(1);
  });
  EXPECT_EQ(memory_of(filled(0)), block);
  graph.replay();
  EXPECT_EQ(sum.to_vector<float>(), all(2));
}

TEST_F(CudaGraphMemory, AGraphThatEndsWhileAnotherIsRecordedFreesItLater) {
  auto pool = std::make_unique<MemoryPool>(kDevice);
  Graph other(kDevice, [&] {
    {
      const MemoryPoolScope scope(*pool);
      sum.add_(temporary);
      temporary = Tensor();
    }
    pool.reset();
    EXPECT_NE(memory_of(filled(5)), block) << "that comes from the graph's own pool";
  });
  EXPECT_EQ(memory_of(filled(0)), block);
}

TEST_F(CudaGraphMemory, AGraphThatEndsLeavesARecordingAlone) {
  for (const bool by_another_thread : {false, true}) {
    std::optional<Graph> ends(std::in_place, kDevice, [&] { sum.add_(1); });
    ends->replay();
    Graph recorded(kDevice, [&] {
      sum.add_(2);
      if (by_another_thread)
        std::thread([&] { ends.reset(); }).join();
      else
        ends.reset();
      sum.add_(4);
    });
    recorded.replay();
  }
  EXPECT_EQ(sum.to_vector<float>(), all(1 + 2 * 7));
}

TEST_F(CudaGraphMemory, WaitingForTheDeviceIsRefusedWhileAnotherThreadRecords) {
  Graph recorded(kDevice, [&] {
    sum.add_(2);
    std::thread([] {
      const std::string message = test::message_of<StateError>([] { synchronize(kDevice); });
      EXPECT_NE(message.find("no recording on cuda:0"), std::string::npos) << message;
    }).join();
  });
  recorded.replay();
  EXPECT_EQ(sum.to_vector<float>(), all(3));
  synchronize(kDevice);
}

TEST_F(CudaGraphMemory, GradientsOfTheStepBeforeAreNotWritten) {
  const Tensor p = full({kCount}, 1, {.device = kDevice, .requires_grad = true});
  optim::SGD sgd(std::vector<Tensor>{p}, {.lr = 0.5});
  const auto step = [&] {
    mezzo::sum(p * sum).backward();
    sgd.step();
    sgd.zero_grad();
  };
  step();
  mezzo::sum(p * sum).backward();  // a gradient that the recorded step adds to
  const void* const gradient = memory_of(p.grad());
  Graph graph(kDevice, step);
  std::vector<Tensor> others;  // more than the first step left behind
  for (int i = 0; i < 20; ++i) others.push_back(filled(100));
  graph.replay();
  for (const Tensor& other : others) {
    EXPECT_NE(memory_of(other), gradient);
    EXPECT_EQ(other.to_vector<float>(), all(100));
  }
}

}  // namespace
}  // namespace mezzo::cuda
