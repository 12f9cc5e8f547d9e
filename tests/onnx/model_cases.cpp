// Whole models, with sizes that vary beside the batch, and each opset.
#include "mezzo/examples/char_gpt/model.h"
#include "mezzo/examples/cifar_resnet/model.h"
#include "onnx/cases.h"
#include "onnx/models.h"

namespace mezzo::onnx::testing {

std::vector<Case> model_cases() {
  manual_seed(3);
  Cases list;
  for (const std::int64_t opset : {18, 20, 21, 22, 23}) {
    const io::OnnxOptions options{.opset = opset};
    const std::string at = "_opset_" + std::to_string(opset);
    list.add("group_norm" + at, nn::make<nn::GroupNorm>(2, 4), {randn({2, 4, 8, 8})}, options);
    list.add("rms_norm" + at, nn::make<nn::RMSNorm>(6), {randn({2, 6})}, options);
    list.add("unet" + at, nn::make<UNet>(), {randn({2, 3, 8, 8})}, options);
    list.add("vit" + at, nn::make<ViT>(), {randn({2, 3, 8, 8})}, options);
    list.add("gpt" + at, nn::make<models::Gpt>(models::GptSizes{2, 16, 2, 12, 20}), {randint(0, 20, {2, 7})},
             options);
  }
  list.add("unet", nn::make<UNet>(), {randn({2, 3, 8, 8})});
  list.add("vit", nn::make<ViT>(), {randn({2, 3, 8, 8})});
  list.add("tagger", nn::make<Tagger>(), {randint(0, 20, {2, 7})});
  list.add("experts", nn::make<Experts>(), {randn({2, 8})});
  list.add("gpt", nn::make<models::Gpt>(models::GptSizes{2, 16, 2, 12, 20}), {randint(0, 20, {2, 7})});
  list.add("resnet18", models::resnet18(8), {randn({2, 3, 16, 16})});
  list.add("resnet9", models::resnet9(8), {randn({2, 3, 16, 16})});
  list.add("gpt_len", nn::make<models::Gpt>(models::GptSizes{2, 16, 2, 12, 20}), {randint(0, 20, {2, 7})},
           {.second_example = {randint(0, 20, {3, 9})}});
  list.add("tagger_len", nn::make<Tagger>(), {randint(0, 20, {2, 7})},
           {.second_example = {randint(0, 20, {3, 9})}});
  list.add("unet_size", nn::make<UNet>(), {randn({2, 3, 8, 8})}, {.second_example = {randn({3, 3, 12, 16})}});
  // The result's height goes from 2 to 3, as the batch does.
  list.add("sizes_alike", nn::make<FunctionLayer>([](const Tensor& x) {
             const Tensor y = avg_pool2d(x, {.kernel_size = 4});
             const Tensor rows = y.permute({0, 2, 3, 1}).reshape({y.size(0), y.size(2), y.size(3) * 3});
             return rows.reshape({y.size(0), y.size(2) * y.size(3), 3}) + y.flatten(2).transpose(1, 2);
           }),
           {randn({2, 3, 8, 20})}, {.second_example = {randn({3, 3, 12, 28})}});
  list.add("external", nn::make<nn::Linear>(64, 64), {randn({2, 64})}, {.external_data = true});
  list.add("fixed", models::resnet9(8), {randn({2, 3, 16, 16})}, {.fixed_sizes = true});
  return list.all;
}

}  // namespace mezzo::onnx::testing
