// Two threads with a stream each under autocast and one model: the 16-bit copy of a weight is cast in the
// stream of the thread that comes first, and the other one's products wait for it.
#include <thread>
#include <vector>

#include "cuda/device_fixture.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/mezzo.h"

#if defined(MEZZO_CUDA_EMULATED)
#include <emulated_cuda/control.h>
#endif

namespace mezzo::cuda {
namespace {

const Device kDevice = Device::cuda(0);

/// Work that the first stream has to do before the cast. It makes the race likely on a GPU; the emulated
/// device runs nothing of a stream for which nobody waits.
void keep_busy() {
  const Tensor memory = zeros({1 << 14}, {.device = kDevice});
  for (int i = 0; i < 50; ++i) memory.fill_(1);
}

class CudaStreamCopies : public test::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    Generator generator(5);
    w = uniform(-1, 1, {64, 64}, {}, generator).to(kDevice).detach().requires_grad_();
    x = uniform(-1, 1, {8, 64}, {}, generator).to(kDevice);
    const NoGrad no_grad;
    expected = linear(x.to(DType::f16), w.detach().to(DType::f16)).to(DType::f32).to_vector<float>();
    synchronize(kDevice);
  }
  [[nodiscard]] Tensor forward() const {
    const NoGrad no_grad;
    return linear(x, w);
  }
  /// Memory and kernels for the stream's work: to get them later waits for the device.
  void warm_up(const Stream& stream) const {
    const StreamGuard guard(stream);
    const NoGrad no_grad;
    keep_busy();
    static_cast<void>(read(linear(x.to(DType::f16), w.detach().to(DType::f16))));
    synchronize(kDevice);
  }
  /// Says what the product is when the host waits for the current stream alone.
  static std::vector<float> read(const Tensor& y) { return y.to(DType::f32).to_vector<float>(); }

  Tensor w, x;
  std::vector<float> expected;
};

TEST_F(CudaStreamCopies, AnotherStreamWaitsForTheCast) {
  const Stream first, second;
  for (const Stream* stream : {&first, &second}) warm_up(*stream);
  const amp::Autocast region(kDevice, DType::f16);
  Tensor y;
  {
    const StreamGuard guard(first);
    keep_busy();
    y = forward();
  }
  std::thread([&] {
    const amp::Autocast own_region(kDevice, DType::f16);
    const StreamGuard guard(second);
    EXPECT_EQ(read(forward()), expected);
  }).join();
  const StreamGuard guard(first);
  EXPECT_EQ(read(y), expected);
}

TEST_F(CudaStreamCopies, AnotherStreamWaitsForTheDefaultStream) {
  const Stream other;
  warm_up(other);
  const amp::Autocast region(kDevice, DType::f16);
  keep_busy();
  const Tensor y = forward();
  {
    const StreamGuard guard(other);
    EXPECT_EQ(read(forward()), expected);
  }
  EXPECT_EQ(read(y), expected);
}

TEST_F(CudaStreamCopies, TheDefaultStreamWaitsForAnother) {
  const Stream other;
  warm_up(other);
  const amp::Autocast region(kDevice, DType::f16);
  Tensor y;
  {
    const StreamGuard guard(other);
    keep_busy();
    y = forward();
  }
  EXPECT_EQ(read(forward()), expected);
  const StreamGuard guard(other);
  EXPECT_EQ(read(y), expected);
}

TEST_F(CudaStreamCopies, AStreamThatIsGoneIsNotWaitedFor) {
  const amp::Autocast region(kDevice, DType::f16);
  {
    const Stream gone;
    const StreamGuard guard(gone);
    static_cast<void>(forward());
  }
  EXPECT_EQ(read(forward()), expected);
}

// The copy goes at the end of the region, when work of the second stream has not read it yet.
TEST_F(CudaStreamCopies, ItsMemoryIsNotUsedAgainBeforeTheReaderHasDone) {
  const Stream first, second;
  for (const Stream* stream : {&first, &second}) warm_up(*stream);
  Tensor y;
  {
    const amp::Autocast region(kDevice, DType::f16);
    {
      const StreamGuard guard(first);
      static_cast<void>(forward());
    }
    const StreamGuard guard(second);
    keep_busy();
    y = forward();
  }
  {
    const StreamGuard guard(first);
    std::vector<Tensor> others;
    for (int i = 0; i < 20; ++i)
      others.push_back(full({64, 64}, 9, {.dtype = DType::f16, .device = kDevice}));
    first.synchronize();
  }
  const StreamGuard guard(second);
  EXPECT_EQ(read(y), expected);
}

#if defined(MEZZO_CUDA_EMULATED)

// The queue of a stream holds casts, products and marks: one more would be an event.
TEST_F(CudaStreamCopies, OneStreamPaysNothing) {
  const auto entries = [&] {
    synchronize(kDevice);
    const std::size_t before = emulated_cuda::pending(native(current_stream()));
    const amp::Autocast region(kDevice, DType::f16);
    const Tensor y = forward(), z = forward();
    return emulated_cuda::pending(native(current_stream())) - before;
  };
  const NoGrad no_grad;
  const auto by_hand = [&] {
    synchronize(kDevice);
    const Tensor low = w.detach().to(DType::f16);
    const Tensor y = linear(x.to(DType::f16), low), z = linear(x.to(DType::f16), low);
    return emulated_cuda::pending(native(current_stream()));
  };
  EXPECT_EQ(entries(), by_hand());
}

#endif

}  // namespace
}  // namespace mezzo::cuda
