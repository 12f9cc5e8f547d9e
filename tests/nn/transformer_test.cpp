// The transformer's decoder, and encoder and decoder together: values and gradients against PyTorch, masks,
// names, dropout, dtypes, and what is refused. The encoder alone is in attention_test.cpp.
#include "mezzo/nn/transformer.h"

#include <limits>

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/init.h"
#include "mezzo/tests/nn/digests.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

Tensor bools(const Shape& shape, const std::vector<int>& values) {
  return mezzo::tensor(std::vector<std::int64_t>(values.begin(), values.end()), shape).to(DType::boolean);
}
/// True above the diagonal.
Tensor later(std::int64_t rows, std::int64_t columns) {
  return triu(ones({rows, columns}), 1).to(DType::boolean);
}
Tensor memory_mask() { return bools({3, 5}, {0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}); }
Tensor memory_padding() { return bools({2, 5}, {1, 0, 0, 0, 0, 0, 0, 0, 0, 1}); }

TransformerDecoderLayerOptions small(TransformerDecoderLayerOptions options) {
  options.dim_feedforward = 7, options.dropout = 0.25, options.dtype = DType::f64;
  return options;
}

// The numbers are digests(m, inputs, outputs) of tests/nn/digests.h, with m, inputs and outputs as in the
// comments. x = made((3, 2, 4), 1), z = made((5, 2, 4), 2), with the batch first where the layer has it so.

TEST(TransformerDecoderLayer, IsTorchs) {
  // m = model(nn.TransformerDecoderLayer(4, 2, 7, dropout=0.25)).eval(); y = m(x, z)
  TransformerDecoderLayer layer(4, 2, small({}));
  fill(layer);
  layer.eval();
  const Tensor x = made({3, 2, 4}, 1), z = made({5, 2, 4}, 2);
  expect_digests(layer, {x, z}, {layer(x, z)},
                 {-1.7659424938787707, 0.4670855485474829,    0.55503135317056,       -0.020104071558341208,
                  0.02641271871735143, 0.1640247208428207,    0.29595986214031583,    0.04554748910811424,
                  0.42933615888809007, 0.15099006058548958,   -0.2620215128553792,    0.02940899389871742,
                  0.20454926987001076, -0.001430979283800815, -0.11565839518260515,   -0.23668098909492807,
                  -0.3771016438410001, -0.2596573371805079,   -0.0029126936008078697, -0.4462164569629973,
                  2.0197776353647554});
}

TEST(TransformerDecoderLayer, IsTorchsWithNormsFirstAndAllMasks) {
  // The same with norm_first=True, activation=torch.nn.functional.gelu, batch_first=True;
  // y = m(x, z, tgt_mask=later(3), memory_mask=mm, tgt_key_padding_mask=tp, memory_key_padding_mask=mp)
  TransformerDecoderLayer layer(
      4, 2,
      small(
          {.activation = [](const Tensor& x) { return gelu(x); }, .batch_first = true, .norm_first = true}));
  fill(layer);
  layer.eval();
  for (const bool by_mask : {false, true}) {
    const Tensor x = made({2, 3, 4}, 1), z = made({2, 5, 4}, 2);
    const Tensor y = layer(x, z,
                           {.tgt_mask = by_mask ? later(3, 3) : Tensor(),
                            .memory_mask = memory_mask(),
                            .tgt_key_padding_mask = bools({2, 3}, {0, 0, 1, 0, 0, 0}),
                            .memory_key_padding_mask = memory_padding(),
                            .tgt_is_causal = !by_mask});
    expect_digests(layer, {x, z}, {y},
                   {1.60010139560485,     8.44868129881186,    -0.4275932797135553, 0.2813975276746592,
                    1.289606311725528,    0.37181107818318504, 2.062330684611608,   0.07587925933481038,
                    -1.5785521377747298,  -0.5390598468465048, 2.0376056618334095,  -0.1623096362508373,
                    -0.04794914496290321, 0.17484382621287375, 2.019777635364756,   0.8588598596921353,
                    -0.4506888576409735,  0.15749153862904564, 0.08290244061550797, 0.16943655933563984,
                    0.08931716989720823});
  }
}

TEST(TransformerDecoderLayer, IsTorchsForOneSample) {
  // The same with bias=False, layer_norm_eps=0.5; x = made((3, 4), 1); z = made((5, 4), 2)
  // y = m(x, z, memory_mask=torch.ones(3, 5).triu(1).bool())
  TransformerDecoderLayer layer(4, 2, small({.layer_norm_eps = 0.5, .bias = false}));
  fill(layer);
  layer.eval();
  for (const bool by_mask : {false, true}) {
    const Tensor x = made({3, 4}, 1), z = made({5, 4}, 2);
    const Tensor y =
        layer(x, z, {.memory_mask = by_mask ? later(3, 5) : Tensor(), .memory_is_causal = !by_mask});
    EXPECT_EQ(y.shape(), x.shape());
    expect_digests(layer, {x, z}, {y},
                   {0.06518452722811738, 0.11666273805608221, 0.03330073697496132, 0.0017724976779614392,
                    -0.0014950538596091405, 0.10187731066321416, 0.045509560545138404, -0.007694040528354657,
                    -0.00027527134593161376, -0.06642801208865932, 0.09142264068184702, 0.2452980532554748});
  }
}

TEST(TransformerDecoder, IsTorchs) {
  // m = model(nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 7), 2, nn.LayerNorm(4))).eval()
  // y = m(x, z, tgt_mask=causal, memory_key_padding_mask=mp, tgt_is_causal=True)
  TransformerDecoder decoder(TransformerDecoderLayer(4, 2, small({})), 2,
                             LayerNorm(4, {.dtype = DType::f64}));
  fill(decoder);
  decoder.eval();
  const Tensor x = made({3, 2, 4}, 1), z = made({5, 2, 4}, 2);
  expect_digests(decoder, {x, z},
                 {decoder(x, z, {.memory_key_padding_mask = memory_padding(), .tgt_is_causal = true})},
                 {-0.39846802021201205,  0.04807865073245144,   -0.06968971003648065, 0.005416208853927311,
                  0.007475334408706442,  0.009857713166652885,  0.030591995928703628, -0.024815831808056462,
                  -0.16298202172841336,  0.35072014517942646,   0.051100506076100526, -0.06398662723179198,
                  -0.03167607648524952,  9.305579942033709e-05, 0.04653748855461588,  0.26328124941409475,
                  0.07520773328427649,   0.08048213113097843,   0.0289909131857724,   -0.1123789940692836,
                  -0.07024631390625659,  -0.019519058487405833, -0.04412013881593202, 0.7059047982081694,
                  -0.15047593617329344,  -0.013478131580968309, -0.03048813241623367, 0.1956265910102662,
                  -0.1084013045062194,   -0.01063687633076719,  -0.1699335462742741,  -0.00019889114278050235,
                  -0.052267659683051505, 0.2114015207947656,    -0.1164162421389478,  0.14752409481076767,
                  -0.02231820970545405,  2.0838431111235827,    -4.337257598864737,   1.1480286048738704,
                  2.0197776353647554});
}

TEST(Transformer, IsTorchs) {
  // m = model(nn.Transformer(4, 2, 1, 1, 7)).eval(); s = made((5, 2, 4), 1); t = made((3, 2, 4), 2)
  // y = m(s, t, tgt_mask=nn.Transformer.generate_square_subsequent_mask(3), src_key_padding_mask=padding,
  //       memory_key_padding_mask=padding, tgt_key_padding_mask=torch.zeros(2, 3)), of floating masks
  const auto infinity = [](const Tensor& mask) {
    return where(mask, -std::numeric_limits<double>::infinity(), zeros(mask.shape(), kF64));
  };
  Transformer net(
      4, 2, {.num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 7, .dtype = DType::f64});
  fill(net);
  net.eval();
  const Tensor padding = infinity(memory_padding());
  for (const bool by_mask : {false, true}) {
    const Tensor s = made({5, 2, 4}, 1), t = made({3, 2, 4}, 2);
    const Tensor mask = Transformer::generate_square_subsequent_mask(3, kF64);
    const Tensor y = net(s, t,
                         {.tgt_mask = by_mask ? mask : Tensor(),
                          .src_key_padding_mask = padding,
                          .tgt_key_padding_mask = zeros({2, 3}, kF64),
                          .memory_key_padding_mask = padding,
                          .tgt_is_causal = !by_mask});
    EXPECT_EQ(y.shape(), t.shape());
    expect_digests(
        net, {s, t}, {y},
        {1.235006342456242,      -0.01128447450044724,   0.5883244562991767,    -0.0014058145790768525,
         0.0059511392915109085,  -0.0035292825223714507, 0.014297016134692864,  0.0006415015866567282,
         -0.0074196403535278874, -6.516914966362916e-05, 0.009961510273428184,  -0.002665676424010316,
         0.012398594186479466,   -0.005237084318972563,  -0.007571398920184402, -0.04815168296757238,
         0.012548377378839955,   -0.18522004185750235,   0.198787576134244,     -0.5031219405684102,
         -0.06257910123613258,   -0.01399088820723269,   -0.15260425630774693,  0.14605894298197442,
         -0.06637816953918783,   0.20123157372237244,    -0.045212335342484034, 0.018722663058344816,
         -1.6742285668721115,    0.07352185762106447,    -0.06642967309250657,  -0.8056576634278096,
         -1.2891429459237824,    1.2182188073214906,     3.4168056401535356,    -1.0724325062552105,
         2.0197776353647554});
  }
}

TEST(Transformer, IsTorchsWithNormsFirst) {
  // m = model(nn.Transformer(4, 2, 1, 2, 7, batch_first=True, norm_first=True, bias=False)).eval()
  // s = made((2, 5, 4), 1); t = made((2, 3, 4), 2); y = m(s, t, src_mask=later(5), memory_mask=mm)
  Transformer net(4, 2,
                  {.num_encoder_layers = 1,
                   .num_decoder_layers = 2,
                   .dim_feedforward = 7,
                   .batch_first = true,
                   .norm_first = true,
                   .bias = false,
                   .dtype = DType::f64});
  fill(net);
  net.eval();
  const Tensor s = made({2, 5, 4}, 1), t = made({2, 3, 4}, 2);
  expect_digests(net, {s, t}, {net(s, t, {.memory_mask = memory_mask(), .src_is_causal = true})},
                 {0.0331032949108923,   -0.1829643294187237,  6.107297756452299,    -0.041677018838718716,
                  -0.03965605476356129, -0.13364676311124768, 0.002377919050847916, -0.018559897481529378,
                  0.20994186907605455,  0.4355203737893225,   0.10974771410098888,  0.02163922178017926,
                  0.03192667424689097,  0.03067238700499239,  0.37372455717877073,  0.004208843278801888,
                  0.3415996508676596,   0.015555887882047117, -1.6449407392794249,  -0.1736412671034362,
                  0.1067931926321583,   0.022580804602558447, -0.12150337569980227, 0.38110524572247645,
                  0.002569962698602102, -0.15551752106273167, 0.00598541428009611,  -0.817110173846572,
                  0.5374920992256009});
}

TEST(Transformer, HasTorchsNames) {
  const Transformer net(4, 2, {.num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 7});
  Names expected;
  const auto add = [&](const std::string& prefix, const Names& parts) {
    for (const std::string& part : parts) {
      for (const char* what : {"weight", "bias"}) expected.push_back(prefix + part + what);
    }
  };
  add("encoder.layers.0.",
      {"self_attn.in_proj_", "self_attn.out_proj.", "linear1.", "linear2.", "norm1.", "norm2."});
  add("encoder.norm.", {""});
  add("decoder.layers.0.",
      {"self_attn.in_proj_", "self_attn.out_proj.", "multihead_attn.in_proj_", "multihead_attn.out_proj.",
       "linear1.", "linear2.", "norm1.", "norm2.", "norm3."});
  add("decoder.norm.", {""});
  EXPECT_EQ(names(net.state_dict()), expected);
}

TEST(Transformer, BeginsAsTorchs) {
  Generator generator(3);
  Transformer net(
      4, 2,
      {.num_encoder_layers = 2, .num_decoder_layers = 1, .dim_feedforward = 7, .generator = &generator});
  const auto weight = [&](std::size_t i) { return values((*net.encoder->layers)[i]->linear1->weight); };
  EXPECT_NE(weight(0), weight(1));  // other than in an encoder of its own
  Generator oracle(9);
  net.reset_parameters(oracle);
  Generator same(9);
  for (const Tensor& parameter : net.parameters()) {
    if (parameter.dim() < 2) continue;
    EXPECT_EQ(values(parameter), values(init::xavier_uniform_(empty(parameter.shape()), 1, same)));
  }
  const Transformer torchs;  // 512, 8, 6 layers each
  EXPECT_EQ(torchs.encoder->layers->size(), 6U);
  EXPECT_EQ(torchs.decoder->layers->size(), 6U);
  EXPECT_EQ(torchs.num_parameters(), 44140544);  // sum(p.numel() for p in nn.Transformer().parameters())
}

TEST(Transformer, MakesTorchsMask) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(values(Transformer::generate_square_subsequent_mask(3)),
            (std::vector<float>{0, -inf, -inf, 0, 0, -inf, 0, 0, 0}));
  EXPECT_EQ(Transformer::generate_square_subsequent_mask(2, {.dtype = DType::bf16}).dtype(), DType::bf16);
  EXPECT_EQ(Transformer::generate_square_subsequent_mask(0).shape(), Shape({0, 0}));
  EXPECT_TRUE(
      contains(message_of<ValueError>([] { (void)Transformer::generate_square_subsequent_mask(-1); }),
               "Transformer::generate_square_subsequent_mask: expected a size of at least 0, got -1"));
}

TEST(TransformerDecoderLayer, DropsOutInTraining) {
  Generator own(5);
  TransformerDecoderLayer layer(4, 2, {.dim_feedforward = 3, .dropout = 1, .dropout_generator = &own});
  const Tensor x = counting({3, 2, 4});
  // Nothing is left of the three branches.
  EXPECT_EQ(values(layer(x, x)), values(layer.norm3(layer.norm2(layer.norm1(x)))));
  layer.eval();
  EXPECT_NE(values(layer(x, x)), values(layer.norm3(layer.norm2(layer.norm1(x)))));
}

TEST(Transformer, RunsUnderAutocastAndClones) {
  Transformer net(4, 2,
                  {.num_encoder_layers = 1,
                   .num_decoder_layers = 1,
                   .dim_feedforward = 3,
                   .dropout = 0,
                   .norm_first = true});
  const Tensor s = counting({3, 2, 4}) * 0.1, t = counting({2, 2, 4}) * 0.1;
  EXPECT_EQ(values(clone(net)->forward(s, t)), values(net(s, t)));
  Tensor y;
  {
    const amp::Autocast region(Device::cpu(), DType::bf16);
    y = net(s, t);
  }
  EXPECT_EQ(y.dtype(), DType::f32);
  sum(y).backward();
  for (const Tensor& parameter : net.parameters()) EXPECT_EQ(parameter.grad().dtype(), DType::f32);
  net.to(DType::f16);
  EXPECT_EQ(net(s.to(DType::f16), t.to(DType::f16)).dtype(), DType::f16);
}

TEST(Transformer, IsTheSameOnADevice) {
  const Device device = Device::best();
  if (device.is_cpu()) GTEST_SKIP() << "no device";
  Transformer net(4, 2,
                  {.num_encoder_layers = 1,
                   .num_decoder_layers = 1,
                   .dim_feedforward = 7,
                   .dropout = 0,
                   .dtype = DType::f64});
  fill(net);
  const Tensor s = made({5, 2, 4}, 1), t = made({3, 2, 4}, 2);
  const std::vector<double> wanted = net(s, t, {.tgt_is_causal = true}).to_vector<double>();
  net.to(device);
  const std::vector<double> got =
      net(s.to(device), t.to(device), {.tgt_is_causal = true}).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-13);
}

TEST(TransformerDecoder, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(
      contains(message_of<ValueError>([] { TransformerDecoder(nullptr, 2); }),
               "TransformerDecoder: expected a layer, got nullptr; pass make<TransformerDecoderLayer>"));
  EXPECT_THROW(TransformerDecoder(TransformerDecoderLayer(4, 2, {.dim_feedforward = 3}), 0), ValueError);
  EXPECT_THROW(TransformerDecoderLayer(4, 3), ValueError);
  EXPECT_THROW(TransformerDecoderLayer(4, 2, {.dropout = 2}), ValueError);
  EXPECT_TRUE(contains(message_of<ValueError>([] { TransformerDecoderLayer(4, 2, {.activation = nullptr}); }),
                       "TransformerDecoderLayer: expected an activation"));
  EXPECT_THROW(Transformer(4, 2, {.num_decoder_layers = 0}), ValueError);
  EXPECT_TRUE(
      contains(message_of<ValueError>([] { Transformer(4, 2, {.num_encoder_layers = 1 << 20}); }),
               "TransformerEncoder: expected num_layers of at least 1 and at most 65536, got 1048576"));
  Transformer net(4, 2, {.num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 3});
  const Tensor s = zeros({5, 2, 4}), t = zeros({3, 2, 4});
  const auto message = [&](const Tensor& a, const Tensor& b, const EncoderDecoderMasks& masks = {}) {
    return message_of<ShapeError>([&] { (void)net(a, b, masks); });
  };
  EXPECT_TRUE(contains(message(s, zeros({3, 2, 5})), "'decoder.layers.0.self_attn': expected a query"));
  EXPECT_TRUE(
      contains(message(s, zeros({3, 1, 4})), "'decoder.layers.0.multihead_attn': expected query, key"));
  EXPECT_TRUE(contains(message(s, t, {.memory_mask = zeros({5, 3})}),
                       "'decoder.layers.0.multihead_attn': expected an attn_mask [3, 5]"));
  EXPECT_THROW((void)net(s, Tensor()), ValueError);
}

}  // namespace
}  // namespace mezzo::nn
