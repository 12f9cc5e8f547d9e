// Stopping a training and going on later: model, optimizer and scaler go into one file, and a program that
// reads it continues with the bits of one that was never stopped.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <random>
#include <string>

#include <mezzo/mezzo.h>
#include <mezzo/train.h>

using namespace mezzo;

namespace {

struct Training {
  explicit Training(Device on) : device(on), optimizer(net.to(on).named_parameters(), {.lr = 1e-2}) {}
  void step(int i) {
    Generator generator(static_cast<std::uint64_t>(i));  // the data of this step
    const Tensor input = randn({32, 16}, {.device = device}, generator);
    Tensor loss;
    {
      const amp::Autocast autocast(device, DType::f16);
      loss = mse_loss(net(input), sin(narrow(input, 1, 0, 8))) * (i == 5 ? 1e6 : 1.0);  // step 5 overflows
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  }
  /// All that goes on: whoever draws from the default generator, for dropout say, has it among the parts.
  [[nodiscard]] train::Parts parts() {
    return {{"model", net}, {"optimizer", optimizer}, {"scaler", scaler}, {"random", default_generator()}};
  }

  Device device;
  nn::Sequential net{nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 8)};
  optim::AdamW optimizer;
  amp::GradScaler scaler{{.growth_interval = 4}};
};

int run(Device device) {
  manual_seed(0);
  Training whole(device);
  for (int i = 0; i < 20; ++i) whole.step(i);
  std::printf("never stopped: %s\n", whole.scaler.report().c_str());

  manual_seed(0);
  Training first(device);
  for (int i = 0; i < 10; ++i) first.step(i);
  std::printf("saved: %s\n", first.scaler.report().c_str());
  const std::string name = "mezzo_resume_" + std::to_string(std::random_device{}()) + ".safetensors";
  const std::string path = std::filesystem::temp_directory_path() / name;
  train::save_checkpoint(path,
                         first.parts());  // all or nothing: a crash in between leaves the file that was there

  Training second(device);  // as in another program: other weights and no state
  train::load_checkpoint(path, second.parts());
  std::filesystem::remove(path);
  for (int i = 10; i < 20; ++i) second.step(i);
  std::printf("resumed: %s\n", second.scaler.report().c_str());

  double differing = 0;
  for (std::size_t i = 0; i < whole.net.parameters().size(); ++i)
    differing += sum(ne(second.net.parameters()[i], whole.net.parameters()[i])).item();
  std::printf("weights that differ: %.0f\n", differing);
  if (differing == 0 && second.scaler.state_dict() == whole.scaler.state_dict()) return 0;
  std::fprintf(stderr, "resume: expected the weights and the scale of the training that was not stopped\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("resume", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
