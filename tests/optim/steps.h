// Steps whose gradients follow from numbers, and what has to hold for them however they are run.
#pragma once

#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/remap.h"
#include "optim/optim_support.h"
#include "support/thread_guard.h"

namespace mezzo::optim {

/// Gradients that depend on the step and the parameter's number only.
inline void give_gradients(const std::vector<Tensor>& parameters, std::uint64_t step, double scale = 1) {
  const NoGrad no_grad;
  std::uint64_t seed = 100 * step;
  for (const Tensor& p : parameters) {
    const auto count = static_cast<std::size_t>(p.numel());
    p.set_grad((tensor(values_of(++seed, count), {.dtype = p.dtype()}) * scale).view(p.shape()));
  }
}

inline void run_steps(Optimizer& optimizer, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t step = from; step < to; ++step) {
    give_gradients(optimizer.parameters(), step);
    optimizer.step();
  }
}

/// Steps 1 to 6 of what `make` gives have the bits of one run also with other threads, a skipped step, a load
/// into an optimizer that has had other steps, and a parameter that becomes another tensor.
template <class Make>
void expect_same_bits_however_run(const Make& make) {
  const auto straight = make();
  run_steps(*straight, 1, 7);
  for (const int threads : {1, 8}) {
    const test::ThreadGuard guard(threads);
    const auto first = make(), second = make();
    run_steps(*first, 1, 3);
    ScalerRecord skip;
    skip.found_inf = 1;
    give_gradients(first->parameters(), 50);
    first->step({.record = &skip});
    run_steps(*first, 3, 4);
    run_steps(*second, 90, 92);
    {
      const NoGrad no_grad;
      for (std::size_t i = 0; i < first->parameters().size(); ++i)
        second->parameters()[i].copy_(first->parameters()[i]);
    }
    second->load_state_dict(saved(*first));
    EXPECT_EQ(state_bits(*second), state_bits(*first));
    const Tensor before = second->parameters()[0], after = before.detach().clone().requires_grad_();
    EXPECT_EQ(remap(*second, {{before, after}}).moved, 1U);
    run_steps(*second, 4, 7);
    EXPECT_EQ(state_bits(*second), state_bits(*straight));
    for (std::size_t i = 0; i < straight->parameters().size(); ++i)
      EXPECT_EQ(bits(second->parameters()[i]), bits(straight->parameters()[i]));
  }
}

}  // namespace mezzo::optim
