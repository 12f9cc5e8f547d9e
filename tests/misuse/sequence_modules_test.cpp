// The modules of sequences and the reverse of poolings: CTCLoss and MaxUnpool with bad sizes and bad input.
#include <gtest/gtest.h>

#include "misuse/members.h"
#include "misuse/misuse.h"

namespace mezzo::misuse {
namespace {

using namespace nn;

template <class M>
Function unpool_of(const char* name) {
  return {name, [](Draw& draw) {
            const auto use = [&draw](SpatialSizes& kernel, MaxUnpoolLayerOptions& options) {
              M module(kernel, options);
              static_cast<void>(nn::to_string(module));
              if (draw.once_in(2)) use_members(module, draw);
              const Tensor x = draw_tensor(draw), indices = draw_tensor(draw);
              if (draw.once_in(2)) static_cast<void>(module.forward(x, indices));
              static_cast<void>(module.forward(x, indices, draw_dims(draw)));
            };
            WithArguments<SpatialSizes, MaxUnpoolLayerOptions>{use, kept<SpatialSizes>(draw),
                                                               kept<MaxUnpoolLayerOptions>(draw)};
          }};
}

Function ctc_loss_module() {
  return {"CTCLoss", [](Draw& draw) {
            const auto use = [&draw](CtcLossAttrs& options) {
              CTCLoss module(options);
              static_cast<void>(nn::to_string(module));
              if (draw.once_in(2)) use_members(module, draw);
              const Tensor x = draw_tensor(draw), targets = draw_tensor(draw);
              if (draw.once_in(2)) {
                const auto frames = Drawn<IntList>::from(draw), counts = Drawn<IntList>::from(draw);
                static_cast<void>(module.forward(x, targets, frames, counts));
              }
              static_cast<void>(module.forward(x, targets, draw_tensor(draw), draw_tensor(draw)));
            };
            WithArguments<CtcLossAttrs>{use, kept<CtcLossAttrs>(draw)};
          }};
}

TEST(Misuse, OfSequenceModules) {
  sweep({unpool_of<MaxUnpool1d>("MaxUnpool1d"), unpool_of<MaxUnpool2d>("MaxUnpool2d"),
         unpool_of<MaxUnpool3d>("MaxUnpool3d"), ctc_loss_module()},
        120);
}

}  // namespace
}  // namespace mezzo::misuse
