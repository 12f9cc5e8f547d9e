// Sequences of different lengths, packed and padded, and recurrent layers over them: PyTorch's values, the
// layers' values and gradients against PyTorch, against each sequence by itself, and what is refused.
#include "mezzo/nn/packed_sequence.h"

#include <limits>

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/recurrent.h"
#include "mezzo/tests/nn/digests.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Lengths = std::vector<std::int64_t>;
using Floats = std::vector<float>;

/// a = [torch.arange(1., 3.), torch.arange(3., 7.), torch.tensor([7.])]
std::vector<Tensor> three() { return {tensor({2}, {1, 2}), tensor({4}, {3, 4, 5, 6}), tensor({1}, {7})}; }

TEST(PackSequence, IsTorchs) {
  // p = pack_sequence(a, enforce_sorted=False)
  const PackedSequence packed = pack_sequence(three(), false);
  EXPECT_EQ(values(packed.data), (Floats{3, 1, 7, 4, 2, 5, 6}));
  EXPECT_EQ(packed.batch_sizes, (Lengths{3, 2, 1, 1}));
  EXPECT_EQ(packed.sorted_indices, (Lengths{1, 0, 2}));
  EXPECT_EQ(packed.unsorted_indices, (Lengths{1, 0, 2}));
  EXPECT_EQ(packed.num_sequences(), 3);
  EXPECT_EQ(packed.lengths(), (Lengths{2, 4, 1}));
  // pad_packed_sequence(p, padding_value=-1, total_length=5, batch_first=True)
  const PaddedSequence padded =
      pad_packed_sequence(packed, {.batch_first = true, .padding_value = -1, .total_length = 5});
  EXPECT_EQ(padded.output.shape(), Shape({3, 5}));
  EXPECT_EQ(values(padded.output), (Floats{1, 2, -1, -1, -1, 3, 4, 5, 6, -1, 7, -1, -1, -1, -1}));
  EXPECT_EQ(padded.lengths, (Lengths{2, 4, 1}));
  EXPECT_EQ(values(pad_packed_sequence(packed).output), (Floats{1, 3, 7, 2, 4, 0, 0, 5, 0, 0, 6, 0}));
  const Tensors unpacked = unpack_sequence(packed);
  for (std::size_t n = 0; n < 3; ++n) EXPECT_EQ(values(unpacked[n]), values(three()[n]));
  // Sorted ones need no lists.
  const PackedSequence sorted = pack_sequence(std::vector<Tensor>{three()[1], three()[0], three()[2]});
  EXPECT_EQ(values(sorted.data), values(packed.data));
  EXPECT_TRUE(sorted.sorted_indices.empty() && sorted.unsorted_indices.empty());
  EXPECT_EQ(sorted.lengths(), (Lengths{4, 2, 1}));
}

TEST(PadSequence, IsTorchs) {
  // pad_sequence(a), pad_sequence(a, batch_first=True, padding_value=9., padding_side='left')
  EXPECT_EQ(values(pad_sequence(three())), (Floats{1, 3, 7, 2, 4, 0, 0, 5, 0, 0, 6, 0}));
  const Tensor left =
      pad_sequence(three(), {.batch_first = true, .padding_value = 9, .padding_side = PaddingSide::left});
  EXPECT_EQ(values(left), (Floats{9, 9, 1, 2, 3, 4, 5, 6, 9, 9, 9, 7}));
  // Empty sequences are padding only.
  const std::vector<Tensor> with_empty{tensor({0, 2}, {}), tensor({1, 2}, {1, 2})};
  EXPECT_EQ(values(pad_sequence(with_empty)), (Floats{0, 0, 1, 2}));
  const Tensors back = unpad_sequence(pad_sequence(with_empty), {0, 1});
  EXPECT_EQ(back[0].shape(), Shape({0, 2}));
  EXPECT_EQ(values(back[1]), (Floats{1, 2}));
}

TEST(PackPaddedSequence, ReadsNoPadding) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor({2, 3, 1}, {1, 2, nan, 3, 4, 5});
  x.requires_grad_();
  const PackedSequence packed =
      pack_padded_sequence(x, {2, 3}, {.batch_first = true, .enforce_sorted = false});
  EXPECT_EQ(values(packed.data), (Floats{3, 1, 4, 2, 5}));
  EXPECT_EQ(values(grad(sum(packed.data * packed.data), {x})[0]), (Floats{2, 4, 0, 6, 8, 10}));
  // The other layout and a view that is not contiguous hold the same.
  const PackedSequence other = pack_padded_sequence(transpose(x, 0, 1), {2, 3}, {.enforce_sorted = false});
  EXPECT_EQ(values(other.data), values(packed.data));
  const PackedSequence again =
      pack_padded_sequence(x, {2, 3}, {.batch_first = true, .enforce_sorted = false});
  const Tensor padded = pad_packed_sequence(again, {.batch_first = true}).output;
  EXPECT_EQ(values(grad(sum(padded * padded), {x})[0]), (Floats{2, 4, 0, 6, 8, 10}));
  EXPECT_EQ(pack_padded_sequence(x.to(DType::bf16), {3, 3}, {.batch_first = true}).data.dtype(), DType::bf16);
  EXPECT_EQ(pack_padded_sequence(counting({2, 3}).to(DType::i64), {2, 2, 1}).data.dtype(), DType::i64);
}

// The numbers are digests(m, inputs, outputs) of tests/nn/digests.h, with m, inputs and outputs as in the
// comments, where
//   def run(m, x, *state, **layout):
//     p = nn.utils.rnn.pack_padded_sequence(x, [2, 4, 1], enforce_sorted=False, **layout)
//     y, s = m(p, *state); return nn.utils.rnn.pad_packed_sequence(y, **layout)[0], s

const Lengths kLengths{2, 4, 1};

PackedSequence packed_of(const Tensor& x, bool batch_first = false) {
  return pack_padded_sequence(x, kLengths, {.batch_first = batch_first, .enforce_sorted = false});
}

TEST(PackedRNN, IsTorchs) {
  // m = model(nn.RNN(3, 2, 2, nonlinearity='relu', batch_first=True, bidirectional=True))
  // x = made((3, 5, 3), 1); h = made((4, 3, 2), 2); y, s = run(m, x, h, batch_first=True)
  RNN rnn(3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true, .dtype = DType::f64},
          RNNNonlinearity::relu);
  fill(rnn);
  const Tensor x = made({3, 5, 3}, 1), h = made({4, 3, 2}, 2);
  const PackedRecurrentOutput y = rnn(packed_of(x, true), h);
  const Tensor padded = pad_packed_sequence(y.output, {.batch_first = true}).output;
  EXPECT_EQ(padded.shape(), Shape({3, 4, 4}));
  expect_digests(rnn, {x, h}, {padded, y.h_n},
                 {-2.2947663578589026,   5.855437558870261,   -0.26849693387636403, -0.11651691335427916,
                  -0.2733812394488177,   3.564711757766319,   3.146515909382298,    3.146515909382298,
                  -0.062364122271988676, 0.01800623357699292, -0.42581792039828487, -0.42581792039828487,
                  2.0308260326389345,    1.6387026634322204,  1.5774098178436762,   1.5774098178436762,
                  -1.173850799451321,    -4.580656862991825,  1.753405977407303,    1.753405977407303});
}

TEST(PackedGRU, IsTorchs) {
  // m = model(nn.GRU(3, 2, 2, bidirectional=True)); x = made((4, 3, 3), 1); h = made((4, 3, 2), 2)
  // y, s = run(m, x, h)
  GRU gru(3, 2, {.num_layers = 2, .bidirectional = true, .dtype = DType::f64});
  fill(gru);
  const Tensor x = made({4, 3, 3}, 1), h = made({4, 3, 2}, 2);
  const PackedRecurrentOutput y = gru(packed_of(x), h);
  expect_digests(gru, {x, h}, {pad_packed_sequence(y.output).output, y.h_n},
                 {-0.1906520340452471,  -0.08820235101025886, 1.1459853737360342,   2.4689445813805087,
                  0.1965108672847506,   -0.15065045286767403, -0.24415587586426304, -0.1602730873366104,
                  -0.14585134659539375, -0.04630688369753195, -0.2852129760857241,  -0.10621343456518602,
                  -0.5228777363122629,  0.47954909133038076,  -1.0099961052379767,  -0.23085276412318995,
                  -0.05047614850995115, -0.16304434373991747, 0.02502620367275867,  -0.01895473641384127});
}

TEST(PackedLSTM, IsTorchs) {
  // m = model(nn.LSTM(3, 2, 2, bidirectional=True)); c = made((4, 3, 2), 3); y, (s, z) = run(m, x, (h, c))
  LSTM lstm(3, 2, {.num_layers = 2, .bidirectional = true, .dtype = DType::f64});
  fill(lstm);
  const Tensor x = made({4, 3, 3}, 1), h = made({4, 3, 2}, 2), c = made({4, 3, 2}, 3);
  const PackedLSTMOutput y = lstm(packed_of(x), {h, c});
  expect_digests(lstm, {x, h, c}, {pad_packed_sequence(y.output).output, y.state.h, y.state.c},
                 {-0.05114522084855298, -0.2130073492200248, -0.1287901004271496,    1.4645725091875337,
                  0.6392850414900425,   4.292167364828648,   -0.06338404952535971,   -0.22332714942493032,
                  0.20586807479081207,  0.2058680747908121,  -0.0039813238667485845, 0.5115898772124392,
                  0.2474759334697618,   0.2474759334697617,  -0.25391404571395476,   0.33196749291317074,
                  -0.9599757332902837,  -0.9599757332902839, -0.6065968707351943,    -0.35381478155653895,
                  -0.2899729366721061,  -0.28997293667210605});
  // m = model(nn.LSTM(3, 2, bias=False)); y, (s, z) = run(m, x)
  LSTM plain(3, 2, {.bias = false, .dtype = DType::f64});
  fill(plain);
  const PackedLSTMOutput found = plain(packed_of(x));
  expect_digests(plain, {x}, {pad_packed_sequence(found.output).output, found.state.h, found.state.c},
                 {-0.19029552850915013, -0.002999911894142228, 0.009135015707955909, -0.29405797954476637,
                  0.21629121731779347, -0.0892337570252379});
}

TEST(ProjectedLSTM, IsTorchs) {
  // m = model(nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)); x = made((4, 2, 3), 1)
  // h = made((4, 2, 2), 2); c = made((4, 2, 4), 3); y, (s, z) = m(x, (h, c))
  LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true, .proj_size = 2, .dtype = DType::f64});
  fill(lstm);
  const Tensor x = made({4, 2, 3}, 1), h = made({4, 2, 2}, 2), c = made({4, 2, 4}, 3);
  const LSTMOutput y = lstm(x, {h, c});
  EXPECT_EQ(y.output.shape(), Shape({4, 2, 4}));
  expect_digests(lstm, {x, h, c}, {y.output, y.state.h, y.state.c},
                 {-0.23274534194871596,   1.0291577736466673,   -0.4412886314154276,   0.7038772801647082,
                  0.10413432548150012,    0.9610678135953796,   -0.009101674045830883, 0.2494867101752759,
                  -0.1192000671484791,    -0.11920006714847908, -0.6922401551339246,   -0.20459851908019439,
                  -0.0016987390209899783, 0.2680458943811882,   0.2680458943811881,    -0.12483712784942813,
                  0.04118717132637458,    0.1259150559875174,   1.0289481797725788,    1.0289481797725788,
                  0.5948460208324121,     0.03340837487207146,  -0.15317367570440188,  0.2734737071738792,
                  0.2734737071738792,     0.3059232783179212});
  // m = model(nn.LSTM(3, 4, bias=False, proj_size=2, batch_first=True)); x = made((3, 3), 1)
  LSTM plain(3, 4, {.bias = false, .batch_first = true, .proj_size = 2, .dtype = DType::f64});
  fill(plain);
  const Tensor one = made({3, 3}, 1);
  const LSTMOutput found = plain(one);
  EXPECT_EQ(found.state.h.shape(), Shape({1, 2}));
  EXPECT_EQ(found.state.c.shape(), Shape({1, 4}));
  expect_digests(plain, {one}, {found.output, found.state.h, found.state.c},
                 {-0.11841015519005889, 0.020259761145717935, 0.11602534515800161, 0.19116530757711533,
                  0.014977511897310808, -0.011136642632387173, -0.07787740899208019});
}

TEST(ProjectedLSTM, IsTorchsPacked) {
  // The first of these; x = made((4, 3, 3), 1); h = made((4, 3, 2), 2); c = made((4, 3, 4), 3)
  // y, (s, z) = run(m, x, (h, c))
  LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true, .proj_size = 2, .dtype = DType::f64});
  fill(lstm);
  const Tensor x = made({4, 3, 3}, 1), h = made({4, 3, 2}, 2), c = made({4, 3, 4}, 3);
  const PackedLSTMOutput y = lstm(packed_of(x), {h, c});
  expect_digests(lstm, {x, h, c}, {pad_packed_sequence(y.output).output, y.state.h, y.state.c},
                 {-0.6526585942454681,   0.06410598591714167,  -1.9476412351721775,   1.402291512598303,
                  -0.4611164185040829,   6.430131807465949,    0.5655625151967592,    0.1718297583895508,
                  0.43623113709048744,   0.43623113709048744,  -0.061128476718939326, 0.26244528128788736,
                  -0.2249046855931474,   -0.18923656720627316, -0.18923656720627316,  0.007757789548913069,
                  0.16931226864777382,   0.5874323962857739,   0.25185585248802483,   0.25185585248802494,
                  -0.14498750511156394,  -0.0191611048561151,  0.08670399271484677,   0.0019704571400471493,
                  0.0019704571400471493, -0.19382532740943226});
}

TEST(ProjectedLSTM, HasTorchsNamesAndBeginsAsTorchs) {
  Generator generator(3), oracle(3);
  const LSTM lstm(3, 4, {.bidirectional = true, .proj_size = 2, .generator = &generator});
  EXPECT_EQ(names(lstm.state_dict()),
            (std::vector<std::string>{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
                                      "weight_hr_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse",
                                      "bias_ih_l0_reverse", "bias_hh_l0_reverse", "weight_hr_l0_reverse"}));
  const std::vector<Tensor> parameters = lstm.parameters();
  EXPECT_EQ(parameters[1].shape(), Shape({16, 2}));
  EXPECT_EQ(parameters[4].shape(), Shape({2, 4}));
  for (const Tensor& parameter : parameters)
    EXPECT_EQ(values(parameter), values(uniform_(empty(parameter.shape()), -0.5, 0.5, oracle)));
  EXPECT_EQ(lstm.output_size(), 2);
  EXPECT_EQ(LSTM(3, 4).output_size(), 4);
  EXPECT_EQ(to_string(lstm), "LSTM(3, 4, bidirectional=true, proj_size=2)");
}

TEST(PackedSequences, GiveWhatEachSequenceGivesByItself) {
  const Tensor x = made({5, 4, 3}, 1);
  const Lengths lengths{3, 5, 3, 2};
  const auto check = [&](auto& layer) {
    fill(layer);
    const auto packed = layer(pack_padded_sequence(x, lengths, {.enforce_sorted = false}));
    const Tensors outputs = unpack_sequence(packed.output);
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      const auto own = layer(narrow(select(x, 1, static_cast<std::int64_t>(n)), 0, 0, lengths[n]));
      EXPECT_TRUE(allclose(outputs[n], own.output, 0, 1e-14)) << layer.type_name() << n;
    }
  };
  const RecurrentOptions options{.num_layers = 2, .bidirectional = true, .dtype = DType::f64};
  RNN rnn(3, 2, options);
  GRU gru(3, 2, options);
  LSTM lstm(3, 2, options);
  check(rnn);
  check(gru);
  check(lstm);
}

TEST(PackedSequences, AStateOfReluDoesNotGrowBehindItsEnd) {
  RNN rnn(1, 1, {.bias = false}, RNNNonlinearity::relu);
  {
    const NoGrad no_grad;
    rnn.params(0).weight_ih.fill_(1);
    rnn.params(0).weight_hh.fill_(10);
  }
  // The first sequence stays 0 for 60 steps, in which the other one would go beyond f32.
  const Tensor x = stack({zeros({60, 1}), full({60, 1}, 2)}, 1);
  const PackedRecurrentOutput found = rnn(pack_padded_sequence(x, {60, 3}));
  EXPECT_EQ(values(found.h_n), (std::vector<float>{0, 222}));
  sum(found.output.data).backward();
  // 2, 22, 222: what follows the 10 are 2 (in the second step) and 2 + 22, and 2 again in the third.
  EXPECT_EQ(values(rnn.params(0).weight_hh.grad()), std::vector<float>{2 + 22 + 2 * 10});
}

TEST(PackedSequences, OfOneLengthAreABatch) {
  const Tensor x = made({3, 2, 3}, 1);
  GRU gru(3, 2, {.bidirectional = true, .dtype = DType::f64});
  const PackedRecurrentOutput packed = gru(pack_padded_sequence(x, {3, 3}));
  const RecurrentOutput plain = gru(x);
  EXPECT_EQ(pad_packed_sequence(packed.output).output.to_vector<double>(), plain.output.to_vector<double>());
  EXPECT_EQ(packed.h_n.to_vector<double>(), plain.h_n.to_vector<double>());
}

TEST(PackedSequences, HaveSecondGradients) {
  const Tensor x = made({4, 3, 3}, 1);
  const auto check = [&](auto& layer) {
    fill(layer);
    const auto loss = [&] { return digest(layer(packed_of(x)).output.data); };
    const auto squares = [&] {
      const Tensor first = grad(loss(), {x}, {.create_graph = true})[0];
      return sum(first * first);
    };
    const Tensor second = grad(squares(), {x})[0];
    const Tensor direction = fill(empty(x.shape(), kF64), 5);
    const double step = 1e-5;
    double sides[2];
    for (const int side : {0, 1}) {
      const NoGrad no_grad;
      x.add_(direction * (side == 0 ? step : -step));
      {
        const EnableGrad enabled;
        sides[side] = squares().item();
      }
      x.add_(direction * (side == 0 ? -step : step));
    }
    const double want = sum(second * direction).item();
    EXPECT_NEAR((sides[0] - sides[1]) / (2 * step), want, 1e-8 * (1 + std::abs(want)));
  };
  GRU gru(3, 2, {.bidirectional = true, .dtype = DType::f64});
  LSTM lstm(3, 2, {.bidirectional = true, .dtype = DType::f64});
  LSTM projected(3, 4, {.bidirectional = true, .proj_size = 2, .dtype = DType::f64});
  check(gru);
  check(lstm);
  check(projected);
}

TEST(PackedSequences, RunIn16Bits) {
  const Tensor x = counting({4, 3, 3}, -12) * 0.1;
  const auto check = [&](auto& layer) {
    Tensor y;
    {
      const amp::Autocast region(Device::cpu(), DType::bf16);
      y = layer(packed_of(x)).output.data;
    }
    EXPECT_EQ(y.dtype(), DType::bf16);
    sum(y.to(DType::f32)).backward();
    for (const Tensor& parameter : layer.parameters()) EXPECT_EQ(parameter.grad().dtype(), DType::f32);
    layer.to(DType::f16);
    EXPECT_EQ(layer(packed_of(x.to(DType::f16))).output.data.dtype(), DType::f16);
  };
  GRU gru(3, 2, {.bidirectional = true});
  LSTM lstm(3, 2, {.bidirectional = true});
  LSTM projected(3, 4, {.bidirectional = true, .proj_size = 2});
  check(gru);
  check(lstm);
  check(projected);
}

TEST(PackedSequences, AreTheSameOnADevice) {
  const Device device = Device::best();
  if (device.is_cpu()) GTEST_SKIP() << "no device";
  LSTM lstm(3, 2, {.bidirectional = true, .dtype = DType::f64});
  const Tensor x = made({4, 3, 3}, 1);
  const Tensor wanted = lstm(packed_of(x)).output.data;
  lstm.to(device);
  const Tensor got = lstm(packed_of(x.to(device))).output.data.to(Device::cpu());
  EXPECT_TRUE(allclose(got, wanted, 0, 1e-13));
}

TEST(PackedSequences, RefuseWhatDoesNotFit) {
  const Tensor x = zeros({4, 3, 2});
  const auto message = [](const auto& call) { return message_of<ValueError>(call); };
  EXPECT_TRUE(contains(message([&] {
                         (void)pack_padded_sequence(x, {2, 4, 1});
                       }),
                       "pack_padded_sequence: expected lengths that do not rise, got [2, 4, 1]; sort the"));
  EXPECT_TRUE(contains(message([&] { (void)pack_padded_sequence(x, {2, 1}); }), "a length for each of 3"));
  EXPECT_TRUE(contains(message([&] {
                         (void)pack_padded_sequence(x, {5, 1, 1});
                       }),
                       "lengths in [1, 4], got 5"));
  EXPECT_TRUE(contains(message([&] {
                         (void)pack_padded_sequence(x, {3, 1, 0});
                       }),
                       "lengths in [1, 4], got 0"));
  EXPECT_THROW((void)pack_padded_sequence(zeros({4, 0, 2}), {}), ValueError);
  EXPECT_THROW((void)pack_padded_sequence(zeros({4}), {4}), ShapeError);
  EXPECT_THROW((void)pack_padded_sequence(Tensor(), {4}), ValueError);
  EXPECT_THROW((void)pack_sequence(std::vector<Tensor>{}), ValueError);
  EXPECT_THROW((void)pack_sequence(std::vector<Tensor>{zeros({0, 2})}), ValueError);
  EXPECT_TRUE(
      contains(message_of<ShapeError>([&] {
                 (void)pad_sequence(std::vector<Tensor>{zeros({2, 3}), zeros({2, 4})});
               }),
               "pad_sequence: expected sequences [L, ..] of one shape but for L, got [2, 3] and [2, 4]"));
  EXPECT_THROW((void)pad_sequence(std::vector<Tensor>{zeros({})}), ShapeError);
  const PackedSequence packed = pack_padded_sequence(x, {4, 2, 1});
  EXPECT_TRUE(contains(message([&] { (void)pad_packed_sequence(packed, {.total_length = 3}); }),
                       "a total_length of at least 4, got 3"));
  EXPECT_THROW((void)unpad_sequence(x, {5, 1, 1}), ValueError);
  EXPECT_THROW((void)pad_packed_sequence({}), ValueError);
  GRU gru(2, 2);
  const auto refused = [&](const auto& change) {
    PackedSequence broken = packed;
    change(broken);
    return message([&] { (void)gru(broken); });
  };
  EXPECT_TRUE(contains(refused([](PackedSequence& p) { p.batch_sizes = {1, 3, 3}; }), "do not rise"));
  EXPECT_TRUE(contains(refused([](PackedSequence& p) { p.batch_sizes = {3, 2}; }), "add up to the rows"));
  EXPECT_TRUE(contains(refused([](PackedSequence& p) { p.batch_sizes = {}; }), "add up to the rows"));
  EXPECT_TRUE(contains(refused([](PackedSequence& p) { p.sorted_indices = {0, 0, 5}; }), "an order of"));
  EXPECT_THROW((void)GRU(3, 2)(packed), ShapeError);
  EXPECT_THROW((void)gru(packed, zeros({1, 2, 2})), ShapeError);
  EXPECT_THROW((void)LSTM(2, 2)(packed, {zeros({1, 3, 2}), Tensor()}), ValueError);
  EXPECT_TRUE(contains(message([] { GRU(3, 4, {.proj_size = 2}); }), "GRU: expected no proj_size, got 2"));
  EXPECT_TRUE(
      contains(message([] { LSTM(3, 4, {.proj_size = 4}); }), "a proj_size in [0, hidden_size), got 4 of 4"));
  EXPECT_THROW(LSTM(3, 4, {.proj_size = -1}), ValueError);
}

}  // namespace
}  // namespace mezzo::nn
