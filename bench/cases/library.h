// The names in which the cases are written, for mezzo or, with BENCH_LIBTORCH, for LibTorch: one source, so
// that both do the same work. Only what differs between the two is here.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#ifdef BENCH_LIBTORCH

#include <torch/torch.h>

namespace bench {

using torch::Tensor;
using DType = torch::ScalarType;
inline constexpr DType kF32 = torch::kFloat32, kF16 = torch::kFloat16, kBF16 = torch::kBFloat16;
inline constexpr DType kU8 = torch::kUInt8, kI32 = torch::kInt32, kI64 = torch::kInt64;
using NoGrad = torch::NoGradGuard;
namespace nn = torch::nn;
using SGD = torch::optim::SGD;

using torch::matmul;
using torch::mse_loss;
using torch::softmax;
using torch::sum;
using torch::nn::functional::cross_entropy;

inline std::string about() {
  return std::string("LibTorch ") + TORCH_VERSION + ", " + std::to_string(torch::get_num_threads()) +
         " thread(s)";
}
inline bool on_cpu() { return true; }
inline void manual_seed(std::uint64_t seed) { torch::manual_seed(seed); }
inline Tensor normal(const std::vector<std::int64_t>& shape, DType dtype) {
  return torch::randn(shape).to(dtype);
}
inline Tensor integers(std::int64_t high, std::int64_t count) { return torch::randint(high, {count}); }
inline Tensor gradient(const Tensor& output, const Tensor& input, const Tensor& grad_output = {}) {
  return torch::autograd::grad({output}, {input}, {grad_output})[0];
}
inline std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& inputs,
                                     const Tensor& grad_output) {
  return torch::autograd::grad({output}, inputs, {grad_output});
}
inline Tensor element_at(const Tensor& x, const Tensor& index) { return x.index({index}); }
inline Tensor batch_norm_in_training(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return torch::batch_norm(x, weight, bias, {}, {}, true, 0.1, 1e-5, false);
}
struct LstmState {
  Tensor h, c;
};
inline LstmState lstm_cell(const Tensor& x, const LstmState& state, const Tensor& w_ih, const Tensor& w_hh,
                           const Tensor& b_ih, const Tensor& b_hh) {
  const auto [h, c] = torch::lstm_cell(x, {state.h, state.c}, w_ih, w_hh, b_ih, b_hh);
  return {h, c};
}
/// A recurrent layer: nn::LSTM, nn::GRU.
template <class Layer>
Layer recurrent_layer(std::int64_t size) {
  return Layer(size, size);
}
template <class Layer>
Tensor output_of(Layer& layer, const Tensor& x) {
  return std::get<0>(layer->forward(x));
}
/// LibTorch 1.13 has no op for it.
inline Tensor rms_norm(const Tensor& x, const std::vector<std::int64_t>& /*shape*/, const Tensor& weight) {
  return x * torch::rsqrt(torch::mean(x * x, -1, true) + 1e-6) * weight;
}
inline Tensor channels_last(const Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }
inline Tensor rounded_quotient(const Tensor& a, const Tensor& b, bool floor) {
  return torch::div(a, b, floor ? "floor" : "trunc");
}
inline Tensor max_pool_3x3(const Tensor& x) { return torch::max_pool2d(x, 3, 2, 1); }
inline Tensor max_pool_2x2(const Tensor& x) { return torch::max_pool2d(x, 2); }
inline Tensor avg_pool_2x2(const Tensor& x) { return torch::avg_pool2d(x, 2); }
/// Twice as many places in each dim.
inline Tensor enlarged(const Tensor& x) {
  return nn::functional::interpolate(x, nn::functional::InterpolateFuncOptions()
                                            .scale_factor(std::vector<double>{2.0, 2.0})
                                            .mode(torch::kBilinear)
                                            .align_corners(false));
}
inline Tensor sampled(const Tensor& x, const Tensor& grid) {
  return torch::grid_sampler(x, grid, 0, 0, false);
}
/// LibTorch 1.13 has no op for it.
inline Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  Tensor scores = torch::matmul(q, k.transpose(-2, -1)) * (1 / std::sqrt(static_cast<double>(q.size(-1))));
  if (causal) {
    const Tensor taken = torch::ones({q.size(-2), k.size(-2)}, torch::kBool).tril();
    scores = scores.masked_fill(taken.logical_not(), -std::numeric_limits<double>::infinity());
  }
  return torch::matmul(torch::softmax(scores, -1), v);
}
inline Tensor padded_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t padding,
                            std::int64_t groups) {
  return torch::conv2d(x, weight, bias, 1, padding, 1, groups);
}
inline void push_linear(nn::Sequential& net, std::int64_t in, std::int64_t out) {
  net->push_back(nn::Linear(in, out));
}
inline void push_relu(nn::Sequential& net) { net->push_back(nn::ReLU()); }
inline void to_target(nn::Sequential& /*net*/) {}
inline Tensor forward(nn::Sequential& net, const Tensor& x) { return net->forward(x); }
inline std::vector<Tensor> parameters(nn::Sequential& net) { return net->parameters(); }
inline void give_gradient(const Tensor& parameter, const Tensor& gradient) {
  parameter.mutable_grad() = gradient;
}
inline auto adamw(const std::vector<Tensor>& parameters) {
  return std::make_shared<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-3));
}
inline auto sgd_with_momentum(const std::vector<Tensor>& parameters) {
  return std::make_shared<SGD>(parameters, torch::optim::SGDOptions(1e-3).momentum(0.9));
}
inline void clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm) {
  nn::utils::clip_grad_norm_(parameters, max_norm);
}

}  // namespace bench

#else

#include <mezzo/mezzo.h>

#include "mezzo/core/backend.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace bench {

using namespace mezzo;
/// Where the cases run; set by main before it makes them.
inline Device target_device = Device::cpu();
inline bool on_cpu() { return target_device.is_cpu(); }
inline constexpr DType kF32 = DType::f32, kF16 = DType::f16, kBF16 = DType::bf16;
inline constexpr DType kU8 = DType::u8, kI32 = DType::i32, kI64 = DType::i64;
using optim::SGD;

inline std::string about() {
  if (!on_cpu()) return "mezzo on " + to_string(target_device) + ": " + backend(target_device).description();
  return "mezzo, " + kernels::cpu::isa_name() + " kernels, GEMM by " + kernels::cpu::gemm_description() +
         ", bf16 products " + kernels::cpu::bf16_gemm_description();
}
inline Tensor normal(const std::vector<std::int64_t>& shape, DType dtype) {
  Shape dims;
  for (const std::int64_t size : shape) dims.push_back(size);
  return randn(dims, {.device = target_device}).to(dtype);
}
inline Tensor integers(std::int64_t high, std::int64_t count) {
  return randint(0, high, {count}, {.device = target_device});
}
inline Tensor gradient(const Tensor& output, const Tensor& input, const Tensor& grad_output = {}) {
  return grad({&output, 1}, {&input, 1}, {&grad_output, grad_output.defined() ? 1U : 0U})[0];
}
inline auto gradients(const Tensor& output, const std::vector<Tensor>& inputs, const Tensor& grad_output) {
  return grad({&output, 1}, inputs, {&grad_output, 1});
}
inline Tensor element_at(const Tensor& x, const Tensor& at) { return index(x, {at}); }
inline Tensor batch_norm_in_training(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return batch_norm(x, {}, {}, weight, bias, true);
}
/// A recurrent layer: nn::LSTM, nn::GRU.
template <class Layer>
std::shared_ptr<Layer> recurrent_layer(std::int64_t size) {
  return nn::make<Layer>(size, size, nn::RecurrentOptions{.device = target_device});
}
template <class Layer>
Tensor output_of(const std::shared_ptr<Layer>& layer, const Tensor& x) {
  return layer->forward(x).output;
}
inline Tensor channels_last(const Tensor& x) { return x.contiguous(MemoryFormat::channels_last); }
inline Tensor rounded_quotient(const Tensor& a, const Tensor& b, bool floor) {
  return div(a, b, floor ? RoundingMode::floor : RoundingMode::trunc);
}
inline Tensor max_pool_3x3(const Tensor& x) {
  return max_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1});
}
inline Tensor max_pool_2x2(const Tensor& x) { return max_pool2d(x, 2); }
inline Tensor avg_pool_2x2(const Tensor& x) { return avg_pool2d(x, {.kernel_size = 2}); }
inline Tensor enlarged(const Tensor& x) {
  return interpolate(x, {.scale_factor = 2.0, .mode = mezzo::InterpolateMode::bilinear});
}
inline Tensor sampled(const Tensor& x, const Tensor& grid) { return grid_sample(x, grid); }
inline Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return scaled_dot_product_attention(q, k, v, {.is_causal = causal});
}
inline Tensor padded_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t padding,
                            std::int64_t groups) {
  return conv2d(x, weight, bias, {.padding = padding, .groups = groups});
}
inline void push_linear(nn::Sequential& net, std::int64_t in, std::int64_t out) {
  net.push_back(nn::make<nn::Linear>(in, out));
}
inline void push_relu(nn::Sequential& net) { net.push_back(nn::make<nn::ReLU>()); }
inline void to_target(nn::Sequential& net) { net.to(target_device); }
inline Tensor forward(nn::Sequential& net, const Tensor& x) { return net.forward(x); }
inline std::vector<Tensor> parameters(nn::Sequential& net) { return net.parameters(); }
inline void give_gradient(const Tensor& parameter, const Tensor& gradient) { parameter.set_grad(gradient); }
inline auto adamw(const std::vector<Tensor>& parameters) {
  return std::make_shared<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 1e-3});
}
inline auto sgd_with_momentum(const std::vector<Tensor>& parameters) {
  return std::make_shared<SGD>(parameters, optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
}
inline void clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm) {
  static_cast<void>(optim::clip_grad_norm_(parameters, max_norm));
}

}  // namespace bench

#endif

namespace bench {

struct NamedDType {
  const char* name;
  DType dtype;
};
inline constexpr NamedDType kF32Named = {"f32", kF32}, kF16Named = {"f16", kF16},
                            kBF16Named = {"bf16", kBF16};
inline constexpr NamedDType kU8Named = {"u8", kU8};
inline constexpr NamedDType kIntegers[] = {{"i32", kI32}, {"i64", kI64}};
inline constexpr NamedDType kFloats[] = {kF32Named, kF16Named, kBF16Named};

inline Tensor leaf(Tensor x) { return x.detach().requires_grad_(true); }

}  // namespace bench
