// State dicts of layers: names, order and shapes are those that PyTorch 2.15 lists for
// [(k, list(v.shape)) for k, v in layer.state_dict().items()], so that weights travel both ways.
#include "mezzo/nn/activation.h"
#include "mezzo/nn/bilinear.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/pooling.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

std::string state_of(const Module& module) {
  std::string text;
  for (const auto& [name, tensor] : module.state_dict())
    text += (text.empty() ? "" : ", ") + name + " " + to_string(tensor.shape());
  return text;
}

TEST(TorchState, OfConvolutions) {
  EXPECT_EQ(state_of(Conv1d(4, 6, 3, {.groups = 2})), "weight [6, 2, 3], bias [6]");
  EXPECT_EQ(state_of(Conv2d(4, 6, {3, 2})), "weight [6, 4, 3, 2], bias [6]");
  EXPECT_EQ(state_of(Conv3d(4, 6, 2, {.bias = false})), "weight [6, 4, 2, 2, 2]");
  EXPECT_EQ(state_of(ConvTranspose1d(4, 6, 3, {.groups = 2})), "weight [4, 3, 3], bias [6]");
  EXPECT_EQ(state_of(ConvTranspose2d(4, 6, {3, 2})), "weight [4, 6, 3, 2], bias [6]");
  EXPECT_EQ(state_of(ConvTranspose3d(4, 6, 2, {.bias = false})), "weight [4, 6, 2, 2, 2]");
}

TEST(TorchState, OfNorms) {
  EXPECT_EQ(state_of(LayerNorm({2, 5})), "weight [2, 5], bias [2, 5]");
  EXPECT_EQ(state_of(LayerNorm(5, {.bias = false})), "weight [5]");
  EXPECT_EQ(state_of(LayerNorm(5, {.elementwise_affine = false})), "");
  EXPECT_EQ(state_of(RMSNorm({2, 5})), "weight [2, 5]");
  EXPECT_EQ(state_of(GroupNorm(2, 4)), "weight [4], bias [4]");
  EXPECT_EQ(state_of(GroupNorm(2, 4, {.bias = false})), "weight [4]");
  const std::string running = "running_mean [3], running_var [3], num_batches_tracked []";
  EXPECT_EQ(state_of(BatchNorm1d(3)), "weight [3], bias [3], " + running);
  EXPECT_EQ(state_of(BatchNorm2d(3, {.bias = false})), "weight [3], " + running);
  EXPECT_EQ(state_of(BatchNorm2d(3, {.affine = false})), running);
  EXPECT_EQ(state_of(BatchNorm3d(3, {.track_running_stats = false})), "weight [3], bias [3]");
  EXPECT_EQ(state_of(InstanceNorm1d(3)), "");
  EXPECT_EQ(state_of(InstanceNorm2d(3, {.affine = true})), "weight [3], bias [3]");
  EXPECT_EQ(state_of(InstanceNorm3d(3, {.affine = true, .track_running_stats = true})),
            "weight [3], bias [3], " + running);
}

TEST(TorchState, OfOthers) {
  EXPECT_EQ(state_of(Bilinear(2, 3, 4)), "weight [4, 2, 3], bias [4]");
  EXPECT_EQ(state_of(PReLU(3)), "weight [3]");
  EXPECT_EQ(state_of(MaxPool2d(2)), "");
  EXPECT_EQ(state_of(Sequential{make<Conv2d>(1, 2, 3), make<BatchNorm2d>(2)}),
            "0.weight [2, 1, 3, 3], 0.bias [2], 1.weight [2], 1.bias [2], 1.running_mean [2], 1.running_var "
            "[2], 1.num_batches_tracked []");
}

}  // namespace

}  // namespace mezzo::nn
