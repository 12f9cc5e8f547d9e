// A checkpoint: loaded into model, optimizer and scaler part by part, and trained on. What
// a part took it gives again.
#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/io/json.h"
#include "mezzo/io/tensor_file.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

/// Bits of both: NaN equals itself.
bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor left = a.detach().contiguous(), right = b.detach().contiguous();
  const auto bytes = static_cast<std::size_t>(a.numel() * size_of(a.dtype()));
  return bytes == 0 || std::memcmp(left.impl().data(), right.impl().data(), bytes) == 0;
}

struct Training {
  void step() {
    Tensor loss;
    {
      const amp::Autocast autocast(Device::cpu(), DType::bf16);
      loss = mse_loss(net(ones({2, 3})), ones({2, 2}));
    }
    optimizer.zero_grad();
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
  }

  void load_model(const io::TensorFile& file) {
    const auto state = file.with_prefix("model.");
    std::vector<Tensor> before;
    for (const auto& [name, tensor] : net.state_dict()) before.push_back(tensor.detach().clone());
    try {
      net.load_state_dict(state, {.strict = false, .cast = true});
    } catch (const Error&) {
      std::size_t i = 0;
      for (const auto& [name, tensor] : net.state_dict())
        require(same_bits(tensor, before[i++]), "a model that refuses a state is as before");
      return;
    }
    for (const auto& [name, tensor] : net.state_dict()) {
      for (const auto& [key, value] : state) {
        if (key == name && value.dtype() == tensor.dtype())
          require(same_bits(tensor, value), "a loaded parameter has the file's bits");
      }
    }
  }
  void load_optimizer(const io::TensorFile& file) {
    if (!file.metadata.contains("optimizer")) return;
    optimizer.load_state_dict({.options = io::parse_json(file.metadata.at("optimizer")),
                               .tensors = file.with_prefix("optimizer.")});
  }
  void load_scaler(const io::TensorFile& file) {
    if (file.metadata.contains("scaler")) scaler.load_state_dict(io::parse_json(file.metadata.at("scaler")));
  }

  nn::Sequential net{nn::make<nn::Linear>(3, 4), nn::make<nn::ReLU>(), nn::make<nn::Linear>(4, 2)};
  optim::AdamW optimizer{net.parameters()};
  amp::GradScaler scaler;
};

}  // namespace

int fuzz_checkpoint(const std::uint8_t* data, std::size_t size) {
  const MemoryFile stored(data, size);
  io::TensorFile file;
  try {
    file = io::TensorFile::load(stored.path());
  } catch (const Error&) {
    return 0;
  }
  manual_seed(0);
  Training training;
  // One part refuses for itself.
  for (const auto& load : {&Training::load_model, &Training::load_optimizer, &Training::load_scaler}) {
    try {
      (training.*load)(file);
    } catch (const Error&) {
    }
  }
  training.step();
  training.step();
  return 0;
}

}  // namespace mezzo::fuzz
