// ConvNet is three stages of Conv2d, GroupNorm and ReLU. RowTransformer embeds each row of pixels, adds
// learned positions and runs a TransformerEncoder.
#include "models.h"

namespace norm_surgery {

using namespace mezzo;

namespace {

/// Convolution, norm, ReLU. Padding keeps the size, which the stride divides.
void add_stage(nn::Sequential& net, std::int64_t in, std::int64_t out, std::int64_t stride) {
  net.push_back(nn::Conv2d(in, out, 3, {.stride = stride, .padding = 1}));
  net.push_back(nn::GroupNorm(8, out));
  net.push_back(nn::ReLU());
}

std::shared_ptr<nn::Sequential> stages(std::int64_t width) {
  auto net = nn::make<nn::Sequential>();
  add_stage(*net, 1, width, 1);
  add_stage(*net, width, 2 * width, 2);
  add_stage(*net, 2 * width, 2 * width, 2);
  return net;
}

}  // namespace

ConvNet::ConvNet(std::int64_t width)
    : features(*this, "features", stages(width)), head(*this, "head", nn::Linear(2 * width, kClasses)) {}

Tensor ConvNet::forward(const Tensor& images) { return head(mean(features(images), {2, 3})); }

RowTransformer::RowTransformer(std::int64_t side, std::int64_t width)
    : embed(*this, "embed", nn::Linear(side, width)),
      positions(*this, "positions", randn({side, width}) * 0.02),
      encoder(*this, "encoder",
              nn::make<nn::TransformerEncoder>(
                  nn::make<nn::TransformerEncoderLayer>(
                      width, 4,
                      nn::TransformerEncoderLayerOptions{
                          .dim_feedforward = 2 * width, .dropout = 0, .batch_first = true}),
                  2)),
      head(*this, "head", nn::Linear(width, kClasses)) {}

Tensor RowTransformer::forward(const Tensor& images) {
  const Tensor tokens = embed(squeeze(images, 1)) + positions.get();
  return head(mean(encoder(tokens), {1}));
}

std::shared_ptr<nn::Layer> make_model(const std::string& name, std::int64_t side) {
  if (name == "conv") return nn::make<ConvNet>();
  if (name == "transformer") return nn::make<RowTransformer>(side);
  throw ValueError("norm_surgery", "--model conv or transformer", "\"" + name + "\"", "choose one");
}

}  // namespace norm_surgery
