// Convolution, attention, norms, dropout, f16 and bf16, an overflow every 41st step.
#include "mezzo/tests/soak/training.h"

#include "mezzo/io/json.h"
#include "mezzo/io/tensor_file.h"

namespace mezzo::soak {

namespace {

constexpr std::int64_t kBatch = 32, kLength = 12, kFeatures = 64;

}  // namespace

Training::Training(std::uint64_t seed)
    : seed_(seed),
      net_{nn::make<nn::Linear>(kFeatures, kFeatures),
           nn::make<nn::TransformerEncoderLayer>(
               kFeatures, 4,
               nn::TransformerEncoderLayerOptions{
                   .dim_feedforward = 256, .dropout = 0.1, .batch_first = true}),
           nn::make<nn::Conv1d>(kLength, kLength, 3, nn::ConvLayerOptions{.padding = 1}),
           nn::make<nn::GroupNorm>(3, kLength),
           nn::make<nn::GELU>(),
           nn::make<nn::Dropout>(0.1),
           nn::make<nn::Linear>(kFeatures, 8)},
      optimizer_(net_.named_parameters(), {.lr = 1e-3}),
      scaler_({.growth_interval = 16}) {
  amp::apply_low_precision_groupnorm(net_);
}

bool Training::overflows(std::int64_t step) const {
  return (static_cast<std::uint64_t>(step) * 2654435761U + seed_) % 41 == 0;
}

void Training::step(std::int64_t step) {
  Generator generator(seed_ + static_cast<std::uint64_t>(step));
  const Tensor x = randn({kBatch, kLength, kFeatures}, {}, generator);
  // Two parts, whose gradients add up.
  for (int part = 0; part < 2; ++part) {
    const amp::Autocast autocast(Device::cpu(), step % 3 == 0 ? DType::bf16 : DType::f16);
    Tensor loss = mse_loss(net_(x), sin(narrow(x, 2, 8 * part, 8))) * 0.5;
    if (overflows(step)) loss = loss * 1e30;
    scaler_.scale(loss).backward();
  }
  scaler_.unscale_(optimizer_);
  optim::clip_grad_norm_(net_.parameters(), 1.0);
  scaler_.step(optimizer_);
  scaler_.update();
  optimizer_.zero_grad();
}

void Training::save(const std::string& path) const {
  const optim::OptimizerState state = optimizer_.state_dict();
  io::TensorFile file;
  file.add("model.", net_.state_dict());
  file.add("optimizer.", state.tensors);
  file.metadata["optimizer"] = io::dump_json(state.options);
  file.metadata["scaler"] = io::dump_json(scaler_.state_dict());
  const GeneratorState random = default_generator().state();
  file.metadata["seed"] = std::to_string(random.seed);
  file.metadata["offset"] = std::to_string(random.offset);
  file.save(path);
}

void Training::load(const std::string& path) {
  const io::TensorFile file = io::TensorFile::load(path);
  net_.load_state_dict(file.with_prefix("model."));
  optimizer_.load_state_dict(
      {.options = io::parse_json(file.metadata.at("optimizer")), .tensors = file.with_prefix("optimizer.")});
  scaler_.load_state_dict(io::parse_json(file.metadata.at("scaler")));
  default_generator().set_state(
      {std::stoull(file.metadata.at("seed")), std::stoull(file.metadata.at("offset"))});
}

void Training::abandon_step() {
  try {
    scaler_.update();
  } catch (const StateError&) {  // no step yet
  }
  optimizer_.zero_grad();
}

}  // namespace mezzo::soak
