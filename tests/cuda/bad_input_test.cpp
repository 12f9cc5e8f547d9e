// Mistakes of a user with tensors on a device: each is an error that names op and cure, leaves the parameters
// as they were, and lets the next step work.
#include <functional>
#include <limits>
#include <string>

#include "cuda/twin.h"
#include "mezzo/amp/captured_step.h"
#include "mezzo/core/error.h"
#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

const Device kDevice = Device::cuda(0);

class CudaBadInput : public twin::CudaTwin {
 protected:
  void SetUp() override {
    CudaTwin::SetUp();
    if (IsSkipped()) return;
    manual_seed(1);
    net = std::make_unique<nn::Sequential>(nn::make<nn::Linear>(6, 4));
    net->to(kDevice);
    optimizer = std::make_unique<optim::AdamW>(net->parameters(), optim::AdamWOptions{.lr = 0.1});
    input = randn({3, 6}, {.device = kDevice});
    classes = tensor({0, 3, 1}, {.dtype = DType::i64, .device = kDevice});
  }
  Tensor step() {
    optimizer->zero_grad();
    const Tensor loss = cross_entropy(net->forward(input), classes);
    loss.backward();
    optimizer->step();
    return loss;
  }
  [[nodiscard]] std::vector<double> parameters() const {
    std::vector<double> all;
    for (const Tensor& p : net->parameters()) {
      for (const double value : p.detach().to_vector<double>()) all.push_back(value);
    }
    return all;
  }
  /// Expects E from `mistake`, the parameters untouched, and a step after it that trains.
  template <class E>
  E refused(const std::function<void()>& mistake) {
    const std::vector<double> before = parameters();
    E caught("", "", "", "");
    try {
      mistake();
      ADD_FAILURE() << "nothing was refused";
    } catch (const E& error) {
      caught = error;
      EXPECT_FALSE(error.fix().empty()) << error.what();
    }
    EXPECT_EQ(parameters(), before);
    static_cast<void>(step());
    EXPECT_NE(parameters(), before);
    return caught;
  }
  std::unique_ptr<nn::Sequential> net;
  std::unique_ptr<optim::AdamW> optimizer;
  Tensor input, classes;
};

TEST_F(CudaBadInput, AValueReadInACapturedStepIsNamed) {
  const std::vector<std::pair<std::string, std::function<void(const Tensor&)>>> reads{
      {"item", [](const Tensor& x) { static_cast<void>(x.item<float>()); }},
      {"to_vector", [](const Tensor& x) { static_cast<void>(x.to_vector<float>()); }},
      {"to_device", [](const Tensor& x) { static_cast<void>(x.to(Device::cpu())); }},
  };
  for (const auto& [op, read] : reads) {
    amp::CapturedStep captured(
        kDevice,
        [&] {
          Tensor loss = step();
          read(loss);
          return loss;
        },
        1);
    static_cast<void>(captured());
    const auto error = refused<StateError>([&] { static_cast<void>(captured()); });
    EXPECT_EQ(error.op(), op);
    EXPECT_NE(error.got().find("read back to the host"), std::string::npos) << error.what();
    EXPECT_NE(error.fix().find("when it has run"), std::string::npos) << error.what();
    EXPECT_FALSE(captured.is_recorded());
  }
}

TEST_F(CudaBadInput, WaitingInACapturedStepIsRefused) {
  amp::CapturedStep captured(
      kDevice,
      [&] {
        Tensor loss = step();
        synchronize(kDevice);
        return loss;
      },
      1);
  static_cast<void>(captured());
  const auto error = refused<StateError>([&] { static_cast<void>(captured()); });
  EXPECT_NE(error.got().find("waiting for the device"), std::string::npos) << error.what();
}

TEST_F(CudaBadInput, TensorsOfTwoDevices) {
  const Tensor on_host = randn({3, 6});
  for (const auto& [op, call] : std::vector<std::pair<std::string, std::function<void()>>>{
           {"add", [&] { static_cast<void>(input + on_host); }},
           {"linear", [&] { static_cast<void>(net->forward(on_host)); }},
           {"mse_loss", [&] { static_cast<void>(mse_loss(input, on_host)); }},
           {"nll_loss",
            [&] {
              static_cast<void>(nll_loss(input, tensor({0, 1, 2}, {.dtype = DType::i64})));
            }},
           {"cat", [&] {
              static_cast<void>(cat({input, on_host}, 0));
            }}}) {
    const auto error = refused<DeviceError>(call);
    EXPECT_EQ(error.op(), op);
    EXPECT_NE(error.got().find("cuda:0"), std::string::npos) << error.what();
    EXPECT_NE(error.got().find("cpu"), std::string::npos) << error.what();
  }
  const auto error = refused<DeviceError>([&] { input.add_(on_host); });
  EXPECT_EQ(error.op(), "add_");
}

// A 0-dim tensor on the CPU is a number to tensors elsewhere, as in PyTorch, and gets its gradient where it
// is.
TEST_F(CudaBadInput, ANumberMayComeFromTheHost) {
  const std::vector<double> x = input.to_vector<double>();
  const auto each = [&](double (*f)(double)) {
    std::vector<double> all;
    for (const double value : x) all.push_back(f(value));
    return all;
  };
  EXPECT_EQ((input * tensor(2.0F)).to_vector<double>(), each([](double v) { return 2 * v; }));
  EXPECT_EQ(where(lt(input, 0), tensor(1.0F), tensor(-1.0F)).to_vector<double>(),
            each([](double v) { return v < 0 ? 1.0 : -1.0; }));
  const Tensor factor = tensor(4.0F, {.requires_grad = true});
  sum(input * factor).backward();
  ASSERT_TRUE(factor.grad().defined());
  EXPECT_TRUE(factor.grad().device().is_cpu());
  EXPECT_EQ(factor.grad().item<float>(), sum(input).item<float>());
  {
    const amp::Autocast autocast(kDevice, DType::f16);
    EXPECT_EQ((tensor(0.5F) * input).to_vector<double>(), each([](double v) { return v / 2; }));
  }
  input.mul_(tensor(-4.0F));
  EXPECT_EQ(input.to_vector<double>(), each([](double v) { return -4 * v; }));
}

TEST_F(CudaBadInput, ADeviceThatIsNotThere) {
  const Device beyond = Device::cuda(cuda::device_count());
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { static_cast<void>(zeros({2}, {.device = beyond})); },
           [&] { static_cast<void>(input.to(beyond)); }, [&] { static_cast<void>(memory_stats(beyond)); },
           [&] { amp::CapturedStep nowhere(beyond, [&] { return step(); }); }}) {
    const auto error = refused<DeviceError>(call);
    EXPECT_EQ(error.got(), to_string(beyond));
  }
}

TEST_F(CudaBadInput, ATooLargeTensorInAStep) {
  const auto error = refused<OutOfMemoryError>(
      [&] { static_cast<void>(zeros({std::int64_t{1} << 45}, {.device = kDevice})); });
  EXPECT_NE(error.got().find("held by tensors"), std::string::npos) << error.what();
}

TEST_F(CudaBadInput, AClassOutOfRange) {
  classes = tensor({0, 4, 1}, {.dtype = DType::i64, .device = kDevice});
  const auto error = refused<IndexError>([&] {
    const Tensor loss = step();
    classes = tensor({0, 3, 1}, {.dtype = DType::i64, .device = kDevice});
    static_cast<void>(loss.item<float>());
  });
  EXPECT_NE(error.expected().find("[0, 4)"), std::string::npos) << error.what();
  EXPECT_NE(error.got().find("4 at position 1"), std::string::npos) << error.what();
}

TEST_F(CudaBadInput, AClassOutOfRangeInAReplay) {
  amp::CapturedStep captured(
      kDevice, [&] { return step(); }, 1);
  for (int i = 0; i < 3; ++i) static_cast<void>(captured());
  ASSERT_TRUE(captured.is_recorded());
  const std::vector<double> before = parameters();
  classes.copy_(tensor({0, 1, -1}, {.dtype = DType::i64}).to(kDevice));
  const Tensor loss = captured();
  EXPECT_THROW(static_cast<void>(loss.item<float>()), IndexError);
  EXPECT_EQ(parameters(), before);
  classes.copy_(tensor({0, 1, 2}, {.dtype = DType::i64}).to(kDevice));
  EXPECT_TRUE(std::isfinite(captured().item<float>()));
  EXPECT_NE(parameters(), before);
}

TEST_F(CudaBadInput, ATokenOutOfRange) {
  const Tensor table = randn({4, 6}, {.device = kDevice}).requires_grad_();
  Tensor tokens = tensor({0, 3, 4}, {.dtype = DType::i64, .device = kDevice});
  const auto error = refused<IndexError>([&] {
    input = embedding(tokens, table);
    const Tensor loss = step();  // of which the optimizer must not believe anything
    input = randn({3, 6}, {.device = kDevice});
    static_cast<void>(loss.item<float>());
  });
  EXPECT_EQ(error.op(), "embedding");
  EXPECT_NE(error.expected().find("[0, 4)"), std::string::npos) << error.what();
  EXPECT_NE(error.got().find("4 at position 2"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace mezzo
