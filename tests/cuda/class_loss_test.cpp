// Classification losses of no rows on the device, whose array of class indices is then a nullptr.
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/loss.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;

using CudaClassLoss = CudaTwin;

TEST_F(CudaClassLoss, OfNoRows) {
  expect_same([](Device device, Trace& trace) {
    const Tensor target = zeros({0}, {.dtype = DType::i64, .device = device});
    for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
      const Tensor x = zeros({0, 3}, {.device = device}).requires_grad_();
      const Tensor loss = cross_entropy(x, target, {.reduction = reduction});
      trace.add("cross_entropy", loss);
      trace.add("its gradient", grad({&loss, 1}, {&x, 1}, {&loss, 1})[0]);
      trace.add("nll_loss", nll_loss(x, target, {.reduction = reduction}));
    }
    trace.add("finished", 1);
  });
}

}  // namespace
}  // namespace mezzo
