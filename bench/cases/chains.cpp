// What fusing chains of elementwise ops could save of a training step at most.
//
//   mezzo_chains [STEPS]
//
// Every op of a step is timed (autograd/op_observer.h). Elementwise ops and casts that read one another's
// results in the same half of the step, forward or backward, are one chain. Fused, it would read and write at
// least what it has in common with the other ops, at the rate of an elementwise op on an array of that size;
// the rest of its time is what fusing could save, however it is done. Masks that are drawn and arithmetic
// count as free, so the truth is less.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cases/library.h"

namespace bench {
namespace {

/// Seconds: on one thread those that it ran, so that other programs on the machine do not count.
double now() {
  timespec time{};
  clock_gettime(get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Record {
  std::string name;
  bool elementwise = false, backward = false;
  std::vector<Tensor> inputs;
  Tensor output;
  std::vector<double> seconds;
};

/// Notes the ops of a step the first time, with their tensors, and only times them in later steps.
class Trace final : public OpObserver {
 public:
  void begin(bool with_tensors) {
    with_tensors_ = with_tensors;
    backward_ = false;
    next_ = 0;
    last_ = now();
  }
  void begin_backward() { backward_ = true; }
  void ran(const OpInfo& info, Inputs inputs, std::optional<DType> /*run_dtype*/,
           const Outputs& outputs) override {
    const double seconds = now() - last_;
    if (with_tensors_) {
      const std::string name(static_cast<std::string_view>(info.name));
      Record record{name, info.elementwise || name == "to_dtype", backward_, {}, outputs[0], {}};
      for (std::size_t i = 0; i < inputs.size(); ++i) record.inputs.push_back(inputs[i]);
      records.push_back(std::move(record));
    } else if (next_ < records.size()) {
      records[next_++].seconds.push_back(seconds);
    }
    last_ = now();
  }
  std::vector<Record> records;

 private:
  bool with_tensors_ = false, backward_ = false;
  std::size_t next_ = 0;
  double last_ = 0;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double bytes_of(const Tensor& x) {
  return x.defined() ? static_cast<double>(x.numel() * size_of(x.dtype())) : 0;
}

/// Bytes per second of an elementwise op that reads and writes arrays of so many bytes each.
double rate(double bytes) {
  static std::map<std::int64_t, double> known;
  const std::int64_t count = std::max<std::int64_t>(256, static_cast<std::int64_t>(bytes) / 4);
  double& result = known[count];
  if (result > 0) return result;
  const NoGrad no_grad;
  const Tensor x = normal({count}, kF32);
  std::vector<double> seconds;
  for (int i = 0; i < 50; ++i) {
    const double start = now();
    const Tensor y = relu(x);
    seconds.push_back(now() - start);
  }
  return result = static_cast<double>(count) * 8 / median(seconds);
}

using Storages = std::map<const void*, std::size_t>;

/// The chains of a trace: for each record the first one of its chain.
std::vector<std::size_t> chains_of(const std::vector<Record>& records) {
  std::vector<std::size_t> first(records.size());
  std::map<const void*, std::size_t> made_by;
  const auto root = [&](std::size_t i) {
    while (first[i] != i) i = first[i];
    return i;
  };
  for (std::size_t i = 0; i < records.size(); ++i) {
    first[i] = i;
    for (const Tensor& x : records[i].inputs) {
      const auto made = x.defined() ? made_by.find(x.impl().storage.get()) : made_by.end();
      if (made == made_by.end()) continue;
      const Record& producer = records[made->second];
      if (records[i].elementwise && producer.elementwise && producer.backward == records[i].backward) {
        const std::size_t a = root(made->second), b = root(i);
        first[std::max(a, b)] = std::min(a, b);
      }
    }
    if (records[i].output.defined()) made_by.emplace(records[i].output.impl().storage.get(), i);
  }
  for (std::size_t i = 0; i < records.size(); ++i) first[i] = root(i);
  return first;
}

struct Chain {
  std::string names;
  std::size_t ops = 0;
  double seconds = 0, largest = 0;
  double own_bytes = 0;  ///< read and written by its ops one by one
  double bytes = 0;      ///< in common with other ops
};

std::map<std::size_t, Chain> measured_chains(const std::vector<Record>& records) {
  const std::vector<std::size_t> first = chains_of(records);
  std::map<const void*, std::size_t> made_by;
  std::map<const void*, bool> leaves;  // results that another op reads, or nobody in the chain
  std::map<std::size_t, std::map<const void*, double>> read, written;
  std::map<std::size_t, Chain> chains;
  std::map<const void*, bool> read_inside;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const Tensor& x : records[i].inputs) {
      if (!x.defined()) continue;
      const void* const storage = x.impl().storage.get();
      const auto made = made_by.find(storage);
      const bool inside = made != made_by.end() && first[made->second] == first[i] && records[i].elementwise;
      if (inside)
        read_inside[storage] = true;
      else
        leaves[storage] = true, read[first[i]][storage] = bytes_of(x);
    }
    if (!records[i].output.defined()) continue;
    made_by.emplace(records[i].output.impl().storage.get(), i);
    written[first[i]][records[i].output.impl().storage.get()] = bytes_of(records[i].output);
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].elementwise) continue;
    Chain& chain = chains[first[i]];
    chain.names += (chain.ops > 0 ? " " : "") + records[i].name;
    ++chain.ops;
    chain.seconds += median(records[i].seconds);
    chain.largest = std::max(chain.largest, bytes_of(records[i].output));
    chain.own_bytes += bytes_of(records[i].output);
    for (const Tensor& x : records[i].inputs) chain.own_bytes += bytes_of(x);
  }
  for (auto& [start, chain] : chains) {
    for (const auto& [storage, bytes] : read[start]) chain.bytes += bytes;
    for (const auto& [storage, bytes] : written[start]) {
      if (leaves[storage] || !read_inside[storage]) chain.bytes += bytes;
    }
  }
  return chains;
}

using Loss = std::function<Tensor()>;

void report(const std::string& model, const Loss& loss, optim::Optimizer& optimizer, DType dtype, int steps) {
  Trace trace;
  std::vector<double> whole;
  for (int step = -2; step < steps + 1; ++step) {
    std::optional<OpObserverGuard> guard;
    if (step >= 0) guard.emplace(&trace);
    trace.begin(step == 0);
    const double start = now();
    Tensor value;
    {
      const amp::Autocast region(target_device, dtype, {.enabled = dtype != kF32});
      value = loss();
    }
    trace.begin_backward();
    value.backward();
    optimizer.step();
    optimizer.zero_grad();
    if (step > 0) whole.push_back(now() - start);
  }
  const double step = median(whole);
  struct Sum {
    std::size_t chains = 0;
    double seconds = 0, most = 0, traffic = 0;
    void add(double time, double at_most, double by_traffic) {
      ++chains;
      seconds += time;
      most += at_most;
      traffic += by_traffic;
    }
  };
  Sum all;
  double elementwise = 0;
  std::map<std::string, Sum> by_names;
  for (const auto& [start, chain] : measured_chains(trace.records)) {
    elementwise += chain.seconds;
    if (chain.ops < 2) continue;
    const double speed = rate(chain.largest), most = std::max(0.0, chain.seconds - chain.bytes / speed);
    const double traffic = std::min(most, (chain.own_bytes - chain.bytes) / speed);
    all.add(chain.seconds, most, traffic);
    by_names[chain.names].add(chain.seconds, most, traffic);
  }
  const auto percent = [&](double seconds) { return 100 * seconds / step; };
  std::printf(
      "%-30s %-4s step %8.2f ms, %3zu ops, elementwise %4.1f %%, in chains %4.1f %%, saved at most %4.1f %%, "
      "traffic %4.1f %%\n",
      model.c_str(), dtype == kF32 ? "f32" : "bf16", 1e3 * step, trace.records.size(), percent(elementwise),
      percent(all.seconds), percent(all.most), percent(all.traffic));
  for (const auto& [names, sum] : by_names) {
    if (percent(sum.most) < 0.2) continue;
    std::printf("    %2zu x %-80.80s %5.2f %%, at most %5.2f %%, traffic %5.2f %%\n", sum.chains,
                names.c_str(), percent(sum.seconds), percent(sum.most), percent(sum.traffic));
  }
  std::fflush(stdout);
}

// --- models

/// gelu by tanh in one op, and as users write it op by op.
Tensor tanh_gelu(const Tensor& x) { return gelu(x, GeluApproximation::tanh); }
Tensor written_gelu(const Tensor& x) {
  return x * 0.5 * (1.0 + tanh(0.7978845608 * (x + 0.044715 * pow(x, 3))));
}

struct Gpt final : nn::Layer {
  static constexpr std::int64_t kWidth = 128, kContext = 128, kVocabulary = 256;
  explicit Gpt(const nn::TransformerEncoderLayerOptions& options)
      : blocks(*this, "blocks",
               nn::TransformerEncoder(nn::TransformerEncoderLayer(kWidth, 4, options), 4,
                                      nn::LayerNorm(kWidth))) {}
  Tensor forward(const Tensor& tokens) override {
    const Tensor x = token(tokens) + place(arange(kContext));
    return head(blocks->forward(x, {.is_causal = true}));
  }
  nn::Child<nn::Embedding> token{*this, "token", nn::Embedding(kVocabulary, kWidth)};
  nn::Child<nn::Embedding> place{*this, "place", nn::Embedding(kContext, kWidth)};
  nn::Child<nn::TransformerEncoder> blocks;
  nn::Child<nn::Linear> head{*this, "head", nn::Linear(kWidth, kVocabulary)};
};

struct ConvNet final : nn::Layer {
  nn::Child<nn::Conv2d> conv1{*this, "conv1", nn::Conv2d(1, 32, 3)},
      conv2{*this, "conv2", nn::Conv2d(32, 64, 3)};
  nn::Child<nn::Dropout> dropout1{*this, "dropout1", nn::Dropout(0.25)},
      dropout2{*this, "dropout2", nn::Dropout(0.5)};
  nn::Child<nn::Linear> fc1{*this, "fc1", nn::Linear(9216, 128)}, fc2{*this, "fc2", nn::Linear(128, 10)};
  Tensor forward(const Tensor& image) override {
    Tensor x = max_pool2d(relu(conv2(relu(conv1(image)))), {.kernel_size = 2});
    x = dropout2(relu(fc1(flatten(dropout1(x), 1))));
    return log_softmax(fc2(x), 1);
  }
};

using Activation = Tensor (*)(const Tensor&);
void report_gpt(const char* what, std::int64_t batch, double dropout, Activation activation, DType dtype,
                int steps) {
  Gpt net({.dim_feedforward = 4 * Gpt::kWidth,
           .dropout = dropout,
           .activation = activation,
           .batch_first = true,
           .norm_first = true});
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  const Tensor tokens = randint(0, Gpt::kVocabulary, {batch, Gpt::kContext});
  const Tensor next = randint(0, Gpt::kVocabulary, {batch * Gpt::kContext});
  const auto loss = [&] { return cross_entropy(reshape(net(tokens), {-1, Gpt::kVocabulary}), next); };
  report("gpt, batch " + std::to_string(batch) + what, loss, optimizer, dtype, steps);
}

void report_mlp(std::int64_t batch, std::int64_t width, DType dtype, int steps) {
  nn::Sequential net{nn::Linear(width, width), nn::ReLU(), nn::Linear(width, width), nn::ReLU(),
                     nn::Linear(width, width)};
  optim::SGD optimizer(net.parameters(), {1e-3});
  const Tensor x = normal({batch, width}, kF32), target = normal({batch, width}, kF32);
  report(
      "mlp, " + std::to_string(batch) + " x " + std::to_string(width),
      [&] { return mse_loss(net.forward(x), target); }, optimizer, dtype, steps);
}

void report_conv_net(DType dtype, int steps) {
  ConvNet net;
  optim::Adadelta optimizer(net.parameters(), {.lr = 0.5});
  const Tensor image = normal({64, 1, 28, 28}, kF32), target = randint(0, 10, {64});
  report(
      "mnist convolution net, batch 64", [&] { return nll_loss(net(image), target); }, optimizer, dtype,
      steps);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 15;
  for (const mezzo::DType dtype : {bench::kF32, bench::kBF16}) {
    const auto plain_gelu = [](const mezzo::Tensor& x) { return mezzo::gelu(x); };
    bench::report_gpt("", 8, 0, plain_gelu, dtype, steps);
    bench::report_gpt("", 32, 0, plain_gelu, dtype, steps);
    bench::report_gpt(", dropout", 8, 0.1, plain_gelu, dtype, steps);
    bench::report_gpt(", tanh gelu", 8, 0, bench::tanh_gelu, dtype, steps);
    bench::report_gpt(", the same by ops", 8, 0, bench::written_gelu, dtype, steps);
    bench::report_mlp(128, 512, dtype, steps);
    bench::report_mlp(512, 1024, dtype, steps);
    bench::report_conv_net(dtype, steps);
  }
}
