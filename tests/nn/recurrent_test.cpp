// Recurrent cells and layers: values and gradients against PyTorch, names, beginnings, dropout, dtypes, and
// what is refused.
#include "mezzo/nn/recurrent.h"

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/tests/nn/digests.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

// The numbers are digests(m, inputs, outputs) of tests/nn/digests.h, with m, inputs and outputs as in the
// comments.

TEST(RecurrentCell, IsTorchs) {
  // m = model(nn.RNNCell(3, 2, nonlinearity='relu')); y = m(x, h)
  const Tensor x = made({2, 3}, 1), h = made({2, 2}, 2);
  RNNCell rnn(3, 2, {.dtype = DType::f64}, RNNNonlinearity::relu);
  fill(rnn);
  expect_digests(rnn, {x, h}, {rnn(x, h)},
                 {1.0927928700189558, 1.353030795127746, 1.771735506145391, 0.5328566415332987,
                  0.4176461107004218, 0.5972166024467523, 0.5972166024467523});
  // m = model(nn.GRUCell(3, 2)); y = m(x)
  GRUCell gru(3, 2, {.dtype = DType::f64});
  fill(gru);
  expect_digests(gru, {x}, {gru(x)},
                 {-0.19010344327887196, -0.3648937711238565, 0.1638202911520264, 0.0, -0.05660938933229272,
                  -0.04188611653680817});
  // m = model(nn.LSTMCell(3, 2)); y, z = m(x, (h, c)), of one sample
  const Tensor one = made({3}, 1), h1 = made({2}, 2), c1 = made({2}, 3);
  LSTMCell lstm(3, 2, {.dtype = DType::f64});
  fill(lstm);
  const LstmState next = lstm(one, {h1, c1});
  expect_digests(lstm, {one, h1, c1}, {next.h, next.c},
                 {-0.3763127984612812, -1.1160327232187524, -0.32269950188414914, -0.35167021261016723,
                  0.8947579911033825, 0.038583204585533507, -0.25978956899137556, -0.5924388673221077,
                  -0.5924388673221077});
}

TEST(RNN, IsTorchs) {
  // m = model(nn.RNN(3, 2, 2, nonlinearity='relu', batch_first=True, bidirectional=True)); y, z = m(x, h)
  RNN relu(3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true, .dtype = DType::f64},
           RNNNonlinearity::relu);
  fill(relu);
  const Tensor x = made({2, 3, 3}, 1), h = made({4, 2, 2}, 2);
  const RecurrentOutput y = relu(x, h);
  EXPECT_EQ(y.output.shape(), Shape({2, 3, 4}));
  EXPECT_EQ(y.h_n.shape(), Shape({4, 2, 2}));
  expect_digests(relu, {x, h}, {y.output, y.h_n},
                 {0.09014805216203614, 10.472892374262434,  5.058541861570099,  2.3695175554735766,
                  0.16252256051310965, 2.8580211382566674,  4.578692667159582,  4.578692667159583,
                  1.2876035665505712,  -0.7768394662598288, 2.7697890728512236, 2.7697890728512236,
                  2.077472374919356,   0.30274891969932394, 1.1867198155120062, 1.186719815512006,
                  0.07760264800819389, 0.23249236736459622, 4.428445851815086,  4.428445851815086});
  // m = model(nn.RNN(3, 2, bias=False)); y, z = m(x)
  RNN plain(3, 2, {.bias = false, .dtype = DType::f64});
  fill(plain);
  const Tensor steps = made({3, 2, 3}, 1);
  const RecurrentOutput found = plain(steps);
  expect_digests(plain, {steps}, {found.output, found.h_n},
                 {-0.5118808879059649, -0.21876473486269515, 4.898989153455183, 1.0519602496491425,
                  -0.5626000032319692});
}

TEST(GRU, IsTorchs) {
  // m = model(nn.GRU(3, 2, 2, bidirectional=True)); y, z = m(x, h)
  GRU gru(3, 2, {.num_layers = 2, .bidirectional = true, .dtype = DType::f64});
  fill(gru);
  const Tensor x = made({4, 2, 3}, 1), h = made({4, 2, 2}, 2);
  const RecurrentOutput y = gru(x, h);
  expect_digests(gru, {x, h}, {y.output, y.h_n},
                 {-0.6610413511054882,  0.35255769435631834,  0.27316282253335766, 1.4133251189028424,
                  0.12493695013479345,  -0.07113020747879273, -0.5337845600453471, -0.3840071200409693,
                  -0.2018526813976235,  0.06568893612826927,  0.15907111773760932, 0.2525128046555478,
                  0.48974120323621667,  -0.3862670337051567,  -0.2578171573758922, -0.09843458185401449,
                  0.021263373807342598, -0.07563753660578908, -0.4886376534145793, -0.33451478660818745});
  // m = model(nn.GRU(3, 2, bidirectional=True)); y, z = m(x), of one sample
  GRU one(3, 2, {.bidirectional = true, .dtype = DType::f64});
  fill(one);
  const Tensor sample = made({3, 3}, 1);
  const RecurrentOutput found = one(sample);
  EXPECT_EQ(found.output.shape(), Shape({3, 4}));
  EXPECT_EQ(found.h_n.shape(), Shape({2, 2}));
  expect_digests(one, {sample}, {found.output, found.h_n},
                 {-0.3865550430487469, -0.7650990629751209, -1.2794606250913865, -0.2784879461451264,
                  -0.15940096856112454, -0.9328199659137666, -0.4998299873204094, 0.14070678028874967,
                  0.09387584204592175, -0.006478139243829034, -0.12915501218704417});
}

TEST(LSTM, IsTorchs) {
  // m = model(nn.LSTM(3, 2, 2, bidirectional=True)); y, (z, w) = m(x, (h, c))
  LSTM lstm(3, 2, {.num_layers = 2, .bidirectional = true, .dtype = DType::f64});
  fill(lstm);
  const Tensor x = made({4, 2, 3}, 1), h = made({4, 2, 2}, 2), c = made({4, 2, 2}, 3);
  const LSTMOutput y = lstm(x, {h, c});
  expect_digests(lstm, {x, h, c}, {y.output, y.state.h, y.state.c},
                 {-0.05444308498347075,  -0.025075212275588066, -0.17437048539582523, 1.0283697539317616,
                  -0.009836749123387323, 1.3342306365916956,    -0.18522219525963696, -0.18035241491502674,
                  -0.7453978351006763,   -0.7453978351006763,   -0.06652687761532047, 0.1299482249925289,
                  0.16208197009476033,   0.1620819700947604,    0.2420950035048128,   -0.10910340008183497,
                  0.19080996545059917,   0.1908099654505991,    -0.6661214444708194,  0.21034298934404322,
                  -1.2852091123774592,   -1.2852091123774594});
  // m = model(nn.LSTM(3, 2, bias=False, batch_first=True)); y, (z, w) = m(x)
  LSTM plain(3, 2, {.bias = false, .batch_first = true, .dtype = DType::f64});
  fill(plain);
  const Tensor steps = made({2, 3, 3}, 1);
  const LSTMOutput found = plain(steps);
  expect_digests(plain, {steps}, {found.output, found.state.h, found.state.c},
                 {0.07133008709968547, 0.05528068559065716, 0.09852027575122473, -0.769996408904666,
                  0.16397383905228105, 0.12241226433376964});
}

TEST(LSTM, TakesOneSample) {
  // m = model(nn.LSTM(3, 2, 2)); y, (z, w) = m(x, (h, c))
  LSTM lstm(3, 2, {.num_layers = 2, .dtype = DType::f64});
  fill(lstm);
  const Tensor x = made({3, 3}, 1), h = made({2, 2}, 2), c = made({2, 2}, 3);
  const LSTMOutput y = lstm(x, {h, c});
  EXPECT_EQ(y.output.shape(), Shape({3, 2}));
  EXPECT_EQ(y.state.c.shape(), Shape({2, 2}));
  expect_digests(lstm, {x, h, c}, {y.output, y.state.h, y.state.c},
                 {-0.5359220766989974, -0.5556314868673583, -1.542658340633845, -0.9688974822983869,
                  0.005605042806998847, 0.5212496896241305, -0.17344091542160844, 0.03397320389478582,
                  -0.5660560562476615, -0.5660560562476613, -0.4877115578317407, 0.2238468552304228,
                  -0.16957375410264452, -0.16957375410264447});
}

TEST(RecurrentLayer, HasTorchsNamesAndShapes) {
  const LSTM lstm(3, 2, {.num_layers = 2, .bidirectional = true});
  EXPECT_EQ(names(lstm.state_dict()),
            (Names{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
                   "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse", "weight_ih_l1",
                   "weight_hh_l1", "bias_ih_l1", "bias_hh_l1", "weight_ih_l1_reverse", "weight_hh_l1_reverse",
                   "bias_ih_l1_reverse", "bias_hh_l1_reverse"}));
  const std::vector<Tensor> parameters = lstm.parameters();
  EXPECT_EQ(parameters[0].shape(), Shape({8, 3}));
  EXPECT_EQ(parameters[5].shape(), Shape({8, 2}));
  EXPECT_EQ(parameters[8].shape(), Shape({8, 4}));
  EXPECT_EQ(parameters[11].shape(), Shape({8}));
  GRU gru(3, 2, {.num_layers = 2, .bias = false, .bidirectional = true});
  EXPECT_EQ(names(GRU(3, 2, {.bias = false}).state_dict()), (Names{"weight_ih_l0", "weight_hh_l0"}));
  EXPECT_TRUE(gru.params(1, true).weight_hh.get().is_same(gru.parameters()[7]));
  EXPECT_EQ(gru.params(1).weight_ih->shape(), Shape({6, 4}));
  EXPECT_THROW((void)gru.params(2), IndexError);
  EXPECT_THROW((void)RNN(3, 2).params(0, true), IndexError);
  const GRUCell cell(3, 2);
  EXPECT_EQ(names(cell.state_dict()), (Names{"weight_ih", "weight_hh", "bias_ih", "bias_hh"}));
  EXPECT_EQ(cell.weight_ih->shape(), Shape({6, 3}));
  EXPECT_EQ(names(RNNCell(3, 2, {.bias = false}).state_dict()), (Names{"weight_ih", "weight_hh"}));
}

TEST(RecurrentLayer, PrintsAsTorch) {
  EXPECT_EQ(to_string(LSTM(3, 4, {.num_layers = 2, .dropout = 0.5, .bidirectional = true})),
            "LSTM(3, 4, num_layers=2, dropout=0.5, bidirectional=true)");
  EXPECT_EQ(to_string(RNN(3, 4, {.bias = false, .batch_first = true})),
            "RNN(3, 4, bias=false, batch_first=true)");
  EXPECT_EQ(to_string(GRUCell(3, 4, {.bias = false})), "GRUCell(3, 4, bias=false)");
  EXPECT_EQ(to_string(RNNCell(3, 4, {}, RNNNonlinearity::relu)), "RNNCell(3, 4, nonlinearity=relu)");
}

TEST(RecurrentLayer, BeginsUniformInTheOrderOfItsNames) {
  Generator generator(3), oracle(3);
  const double bound = 1 / std::sqrt(5.0);
  const GRU gru(4, 5, {.num_layers = 2, .bidirectional = true, .generator = &generator});
  for (const Tensor& parameter : gru.parameters())
    EXPECT_EQ(values(parameter), values(uniform(-bound, bound, parameter.shape(), {}, oracle)));
  LSTMCell cell(4, 5, {.generator = &generator});
  for (const Tensor& parameter : cell.parameters())
    EXPECT_EQ(values(parameter), values(uniform(-bound, bound, parameter.shape(), {}, oracle)));
  const std::vector<float> before = values(cell.bias_hh);
  cell.reset_parameters();
  EXPECT_NE(values(cell.bias_hh), before);
}

TEST(RecurrentLayer, DropsOutBetweenLayersInTraining) {
  Generator own(5), same(5);
  LSTM lstm(3, 4, {.num_layers = 2, .dropout = 0.5, .dropout_generator = &own});
  const Tensor x = counting({6, 2, 3}, -5);
  // The two layers by hand.
  const auto layer = [&](std::int64_t k, const Tensor& input) {
    const RecurrentParams& p = lstm.params(k);
    const Tensor none = zeros({2, 4});
    return lstm_sequence(input, {none, none}, p.weight_ih, p.weight_hh, p.bias_ih, p.bias_hh).output;
  };
  const Tensor inner = layer(0, x);
  EXPECT_EQ(values(lstm(x).output), values(layer(1, dropout(inner, 0.5, true, same))));
  lstm.eval();
  EXPECT_EQ(values(lstm(x).output), values(layer(1, inner)));
  GRU single(3, 4, {.dropout = 1});  // of no layer but the last
  const Tensor trained = single(x).output;
  single.eval();
  EXPECT_EQ(values(trained), values(single(x).output));
}

TEST(RecurrentLayer, RunsUnderAutocastWithUnroundedGradients) {
  GRU gru(3, 4, {.bidirectional = true});
  LSTM lstm(3, 4, {.num_layers = 2});
  const Tensor x = counting({5, 2, 3}, -8) * 0.1;
  const auto expect_half = [&](const Module& module, const auto& run) {
    Tensor y;
    {
      const amp::Autocast region(Device::cpu(), DType::bf16);
      y = run();
    }
    EXPECT_EQ(y.dtype(), DType::bf16);
    sum(y.to(DType::f32)).backward();
    for (const Tensor& parameter : module.parameters()) {
      EXPECT_EQ(parameter.grad().dtype(), DType::f32);
      EXPECT_NE(values(parameter.grad()), values(parameter.grad().to(DType::bf16).to(DType::f32)));
    }
  };
  expect_half(gru, [&] { return gru(x).output; });
  expect_half(lstm, [&] { return lstm(x).output; });
  lstm.to(DType::f16);
  EXPECT_EQ(lstm(x.to(DType::f16)).state.c.dtype(), DType::f16);
}

TEST(RecurrentLayer, ClonesAndSitsInModels) {
  struct Tagger final : Layer {
    Child<LSTM> lstm{*this, "lstm", make<LSTM>(3, 4, RecurrentOptions{.num_layers = 2})};
    Tensor forward(const Tensor& x) override { return lstm(x).output; }
  };
  Sequential net(make<Tagger>());
  const Tensor x = counting({2, 1, 3});
  const auto copy = clone(net);
  EXPECT_EQ(values(copy->forward(x)), values(net(x)));
  EXPECT_EQ(names(copy->state_dict())[0], "0.lstm.weight_ih_l0");
  fill(*copy);
  EXPECT_NE(values(copy->forward(x)), values(net(x)));
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)net(counting({2, 1, 4}));
                       }),
                       "LSTM '0.lstm': expected an input [L, N, I] or [L, I] with I = 3, got [2, 1, 4]"));
}

TEST(RecurrentLayer, IsTheSameOnADevice) {
  const Device device = Device::best();
  if (device.is_cpu()) GTEST_SKIP() << "no device";
  Generator generator(3);
  const auto expect_same = [&](auto& layer) {
    const Tensor x = made({4, 2, 3}, 1);
    const auto run = [&](const Tensor& input) {
      layer.zero_grad();
      const Tensor output = layer(input).output;
      sum(output * output).backward();
      std::vector<double> all = output.to_vector<double>();
      for (const Tensor& parameter : layer.parameters())
        for (const double g : parameter.grad().to_vector<double>()) all.push_back(g);
      return all;
    };
    const std::vector<double> wanted = run(x);
    layer.to(device);
    const std::vector<double> got = run(x.to(device));
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-13);
  };
  const RecurrentOptions options{
      .num_layers = 2, .bidirectional = true, .dtype = DType::f64, .generator = &generator};
  LSTM lstm(3, 4, options);
  expect_same(lstm);
  GRU gru(3, 4, options);
  expect_same(gru);
}

TEST(RecurrentLayer, TakesNoSamples) {
  LSTM lstm(3, 4);
  EXPECT_EQ(lstm(zeros({2, 0, 3})).output.shape(), Shape({2, 0, 4}));
  EXPECT_EQ(GRU(3, 4)(zeros({2, 0, 3})).h_n.shape(), Shape({1, 0, 4}));
}

TEST(RecurrentLayer, RefusesBadSizes) {
  EXPECT_TRUE(
      contains(message_of<ValueError>([] { LSTM(3, 0); }), "LSTM: expected hidden_size of at least 1"));
  EXPECT_THROW(GRU(0, 3), ValueError);
  EXPECT_THROW(RNN(3, 3, {.num_layers = 0}), ValueError);
  EXPECT_THROW(RNN(3, 3, {.dropout = 1.5}), ValueError);
  EXPECT_THROW(LSTMCell(3, -1), ValueError);
  EXPECT_THROW(GRUCell(0, 1), ValueError);
  EXPECT_THROW(LSTM(3, std::int64_t{1} << 60), ShapeError);
}

TEST(RecurrentLayer, RefusesInputsThatDoNotFit) {
  LSTM lstm(3, 4, {.batch_first = true});
  const auto message = [&](const Tensor& x, const LstmState& state = {}) {
    return message_of<ShapeError>([&] { (void)lstm(x, state); });
  };
  EXPECT_TRUE(
      contains(message(zeros({3})), "LSTM: expected an input [N, L, I] or [L, I] with I = 3, got [3]"));
  EXPECT_TRUE(contains(message(zeros({2, 0, 3})), "at least one step"));
  const Tensor x = zeros({2, 5, 3}), good = zeros({1, 2, 4});
  EXPECT_TRUE(contains(message(x, {zeros({2, 4}), good}), "a state [1, 2, 4], got [2, 4]"));
  EXPECT_TRUE(contains(message(x, {good, zeros({1, 5, 4})}), "a state [1, 2, 4], got [1, 5, 4]"));
  EXPECT_TRUE(contains(message(zeros({5, 3}), {good, good}), "a state [1, 4], got [1, 2, 4]"));
  EXPECT_TRUE(contains(message_of<ValueError>([&] { (void)lstm(x, {good, {}}); }), "both h and c"));
  EXPECT_THROW((void)lstm(Tensor()), ValueError);
  EXPECT_THROW((void)lstm(x.to(DType::i64)), DTypeError);
  EXPECT_THROW((void)lstm(x.to(DType::f64)), DTypeError);
  RNNCell cell(3, 4);
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)cell(zeros({2, 4}));
                       }),
                       "RNNCell: expected an input [N, I] or [I] with I = 3"));
  EXPECT_THROW((void)cell(zeros({2, 3}), zeros({3, 4})), ShapeError);
  EXPECT_THROW((void)LSTMCell(3, 4)(zeros({2, 3}), {{}, zeros({2, 4})}), ValueError);
}

}  // namespace
}  // namespace mezzo::nn
