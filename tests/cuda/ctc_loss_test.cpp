// ctc_loss on the device as on the CPU: targets of several lengths, with repeats, without an alignment, and
// with more states than a block has threads.
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/loss.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;

using CudaCtcLoss = CudaTwin;

void expect_same_losses(std::int64_t steps, std::int64_t classes, const IntList& input_lengths,
                        const IntList& target_lengths, std::int64_t longest, DType dtype) {
  expect_same([&](Device device, Trace& trace) {
    const auto samples = static_cast<std::int64_t>(input_lengths.size());
    const Tensor x = log_softmax(values(1, {steps, samples, classes}, dtype, device), -1).detach();
    const Tensor targets =
        remainder(arange(samples * longest).reshape({samples, longest}) * 7, classes - 1).to(device) + 1;
    for (const bool zero_infinity : {false, true}) {
      const Tensor leaf = x.clone().requires_grad_();
      const Tensor loss = ctc_loss(leaf, targets, input_lengths, target_lengths,
                                   {.reduction = Reduction::none, .zero_infinity = zero_infinity});
      trace.add("loss", loss);
      // Elements are differences of probabilities.
      trace.add("gradient", grad(loss.sum(), leaf)[0], 1);
    }
    trace.add("mean", ctc_loss(x, targets, input_lengths, target_lengths, {.zero_infinity = true}));
  });
}

TEST_F(CudaCtcLoss, OfSeveralLengths) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    expect_same_losses(9, 5, {9, 8, 3, 0, 0}, {3, 4, 4, 0, 2}, 4, dtype);
}
TEST_F(CudaCtcLoss, MoreStatesThanThreads) {
  expect_same_losses(140, 3, {140, 139}, {130, 20}, 130, DType::f32);
}
TEST_F(CudaCtcLoss, OfNoSamples) {
  expect_same([](Device device, Trace& trace) {
    const Tensor none = zeros({0, 2}, {.dtype = DType::i64, .device = device});
    trace.add("sum", ctc_loss(zeros({4, 0, 3}, {.device = device}), none, IntList{}, IntList{},
                              {.reduction = Reduction::sum}));
  });
}

}  // namespace
}  // namespace mezzo
