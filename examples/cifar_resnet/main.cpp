// Tells what is on small colour images: ResNet-9 or ResNet-18, channels-last, on CIFAR-10. Without files it
// learns images that it makes itself.
#include <memory>
#include <string>

#include "../model_program.h"
#include "images.h"
#include "model.h"

namespace {

using namespace mezzo;

struct Options : examples::ModelOptions {
  Options() {
    duration = "3ep";
    lr = 0.01;
  }
  std::string model = "resnet9", layout = "channels_last";
  std::int64_t width = 0, images = 2000;
};

void add_options(CLI::App& app, Options& o) {
  examples::add_model_options(app, o, "folder of CIFAR-10's binary version (cifar-10-batches-bin)");
  app.add_option("--model", o.model, "resnet9 or resnet18")
      ->check(CLI::IsMember({"resnet9", "resnet18"}))
      ->capture_default_str();
  app.add_option("--width", o.width, "channels of the first stage; default: 64, without files 16")
      ->check(CLI::Range(1, 1024));
  app.add_option("--layout", o.layout, "channels_last or contiguous")
      ->check(CLI::IsMember({"channels_last", "contiguous"}))
      ->capture_default_str();
  app.add_option("--images", o.images, "images that are made where there are no files")
      ->check(CLI::Range(10, 1 << 24))
      ->capture_default_str();
}

struct ImageSets {
  data::Dataset<data::Example> learned, held_out;
};

ImageSets images_of(const Options& o) {
  if (o.data.empty()) return {examples::Stripes{o.images, 1}, examples::Stripes{o.images / 4, 2}};
  return {data::CIFAR10(o.data), data::CIFAR10(o.data, {.train = false})};
}

void run(const Options& o) {
  manual_seed(o.seed);
  const Device device = examples::device_of(o);
  const bool made = o.data.empty();
  const auto [learned, held_out] = images_of(o);
  const auto prepare =
      data::Compose(data::ToDType(DType::f32), data::Normalize({0.491, 0.482, 0.447}, {0.247, 0.243, 0.262}));
  // Images made are all different: only those of the files are shifted and mirrored.
  const auto varied = [prepare, made](const Tensor& image, data::Random& random) {
    static const data::Compose kVary(data::RandomCrop({32, 32}, {.padding = 4}),
                                     data::RandomHorizontalFlip());
    return prepare(made ? image : kVary(image, random), random);
  };
  const MemoryFormat layout =
      o.layout == "contiguous" ? MemoryFormat::contiguous : MemoryFormat::channels_last;
  const auto laid_out = [layout](data::Example&& batch) {
    return data::Example{batch.data.contiguous(layout), batch.target};
  };
  data::DataLoader train_loader(data::transform(learned, varied),
                                {.batch_size = o.batch,
                                 .shuffle = true,
                                 .drop_last = true,
                                 .seed = o.seed,
                                 .num_workers = o.workers,
                                 .device = device},
                                laid_out);
  data::DataLoader test_loader(data::transform(held_out, prepare),
                               {.batch_size = 250, .num_workers = o.workers, .device = device}, laid_out);

  const std::int64_t width = o.width != 0 ? o.width : made ? 16 : 64;
  const auto net = o.model == "resnet9" ? models::resnet9(width) : models::resnet18(width);
  net->to(device);
  optim::SGD optimizer(*net, {.lr = o.lr, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  const auto speed = std::make_shared<train::callbacks::SpeedMonitor>();
  auto callbacks = examples::callbacks_of(
      o, {{"model", fmt::format("{} {}", o.model, width)}, {"label_smoothing", "0.1"}});
  callbacks.emplace_back(speed);
  train::Trainer trainer({.model = net,
                          .loss = nn::CrossEntropyLoss({.label_smoothing = 0.1}),
                          .optimizer = optimizer,
                          .schedule = examples::warmup_cosine(o, train_loader.size()),
                          .train_loader = train_loader,
                          .eval_loader = test_loader,
                          .metrics = {{"accuracy", train::Accuracy()}},
                          .max_duration = o.duration,
                          .eval_interval = o.eval_interval,
                          .precision = examples::precision_of(o),
                          .callbacks = callbacks,
                          .sinks = examples::sinks_of(o, "cifar_resnet"),
                          .save = examples::save_of(o),
                          .resume = !o.resume.empty(),
                          .profile = examples::profile_of(o),
                          .parallel = dist::data_parallel()});
  trainer.fit();
  if (dist::rank() == 0)
    fmt::print("{:.0f} images per second\n", speed->throughput().total_samples_per_second());
  examples::finish(o, {.wanted = made ? std::optional(95.0) : std::nullopt}, "accuracy", trainer.state());
}

}  // namespace

int main(int argc, char** argv) {
  return run_program<Options>(argc, argv, "cifar_resnet", "Trains a residual net on small colour images.",
                              add_options, run, examples::end_processes);
}
