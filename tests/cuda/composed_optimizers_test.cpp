// What is made of ops around or beside the update kernels, on a CUDA device against the CPU: Muon, SAM,
// LBFGS, and averages of weights, with steps that a scaler skips on the device.
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/cuda.h"
#include "mezzo/optim/averaged_weights.h"
#include "mezzo/optim/lbfgs.h"
#include "mezzo/optim/muon.h"
#include "mezzo/optim/sam.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo::optim {
namespace {

using twin::expect_same;
using twin::leaf;
using twin::Trace;
using twin::values;

class CudaComposedOptimizer : public twin::CudaTwin {};

TEST_F(CudaComposedOptimizer, Muon) {
  // Directions are of bf16 products, whose orders differ: three steps of lr times a few units of 2^-8, which
  // is 5e-5, or 2^-14.
  expect_same(
      [](Device device, Trace& trace) {
        const std::vector<Tensor> p{leaf(1, {3, 4}, DType::f32, device), leaf(2, {5, 2}, DType::f32, device)};
        optim::Muon optimizer(p, {.lr = 1e-3});
        amp::GradScaler scaler({.init_scale = 16});
        for (int step = 0; step < 3; ++step) {
          for (const Tensor& one : p) one.set_grad({});
          Tensor loss = zeros({}, device);
          for (const Tensor& one : p)
            loss = loss + (one * values(step + 3, one.shape(), DType::f32, device)).sum();
          scaler.scale(step == 1 ? loss * twin::kInf : loss).backward();
          scaler.step(optimizer);
          scaler.update();
        }
        for (const Tensor& one : p) trace.add("parameter", one, 1);
      },
      64);
}

/// A loss with one minimum, and its gradient in w.
Tensor bowl(const Tensor& w) { return (square(w - 0.5) * 3 + sin(w)).sum(); }

TEST_F(CudaComposedOptimizer, SamAndAverages) {
  expect_same(
      [](Device device, Trace& trace) {
        const Tensor w = leaf(1, {6}, DType::f32, device);
        SGD sgd({w}, {.lr = 0.05, .momentum = 0.9});
        SAM sam(sgd);
        EMA ema(NamedTensors{{"w", w}}, {.decay = 0.5});
        SWA swa(NamedTensors{{"w", w}});
        amp::GradScaler scaler({.init_scale = 16});
        for (int step = 0; step < 4; ++step) {
          const auto backward = [&] {
            sgd.zero_grad();
            scaler.scale(step == 2 ? bowl(w) * twin::kInf : bowl(w)).backward();
          };
          backward();
          sam.ascend();
          backward();
          sam.restore();
          const auto outcome = scaler.step(sgd);
          ema.update(outcome);
          swa.update(outcome);
          scaler.update();
        }
        trace.add("w", w);
        trace.add("ema", ema.averages()[0].second);
        trace.add("swa", swa.averages()[0].second);
        trace.add("updates", ema.state_dict()[0].second.item());
      },
      16);
}

TEST_F(CudaComposedOptimizer, Lbfgs) {
  expect_same(
      [](Device device, Trace& trace) {
        const Tensor w = leaf(1, {6}, DType::f64, device);
        LBFGS optimizer({w}, {.max_iter = 4, .line_search_fn = LineSearch::strong_wolfe});
        for (int step = 0; step < 2; ++step) {
          const Tensor loss = optimizer.step([&] {
            optimizer.zero_grad();
            Tensor value = bowl(w);
            value.backward();
            return value;
          });
          trace.add("loss", loss);
        }
        trace.add("w", w);
      },
      256);
}

}  // namespace
}  // namespace mezzo::optim
