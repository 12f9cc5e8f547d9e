// What the programs of this folder share with their twins in Python (twin.py): flags, random numbers that
// both draw alike, first values of parameters, and pictures of digits. So both train on the same numbers from
// the same start.
#pragma once

#include <mezzo/mezzo.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace twin {

using namespace mezzo;

/// What the flags say: where to run, and in which precision autocast runs where `amp` is on.
struct Args {
  int steps;
  bool mixed = false;  ///< whether the program knows --bf16 and --f16
  Device device = Device::cpu();
  bool amp = false;
  DType dtype = DType::bf16;
};

[[noreturn]] inline void refuse(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(2);
}

/// Reads `[--cuda] [--steps N]` and, if `args.mixed`, `[--bf16 | --f16]`.
inline Args parse(int argc, char** argv, Args args) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--cuda" && cuda::is_available()) {
      args.device = Device::cuda();
    } else if (flag == "--cuda") {
      refuse(cuda::why_unavailable());
    } else if (flag == "--steps" && i + 1 < argc) {
      args.steps = std::atoi(argv[++i]);
    } else if (args.mixed && (flag == "--bf16" || flag == "--f16")) {
      args.amp = true;
      args.dtype = flag == "--f16" ? DType::f16 : DType::bf16;
    } else {
      refuse("expected --cuda, --steps N" + std::string(args.mixed ? ", --bf16 or --f16" : "") + ", got " +
             flag);
    }
  }
  return args;
}

/// The next 32 bits of a sequence that is the same in both languages: its position, hashed.
inline std::uint32_t next_bits() {
  static std::uint32_t position = 0;
  std::uint32_t x = ++position;
  for (int round = 0; round < 2; ++round) x = ((x >> 16) ^ x) * 0x45D9F3BU;
  return (x >> 16) ^ x;
}

/// The next number in [0, 1), a multiple of 2^-24.
inline double next() { return (next_bits() >> 8) * 0x1p-24; }

/// Numbers that `draw` gives, as a tensor.
template <class T, class Draw>
Tensor drawn(const Shape& shape, Draw draw) {
  std::vector<T> values(static_cast<std::size_t>(layout::numel(shape)));
  for (T& value : values) value = draw();
  return tensor(values, shape);
}

/// Uniform in [0, 1).
inline Tensor rand(const Shape& shape) { return drawn<double>(shape, next); }
/// Close to normal: a sum of four.
inline Tensor randn(const Shape& shape) {
  return drawn<double>(shape, [] { return (next() + next() + next() + next() - 2) * std::sqrt(3.0); });
}
/// Integers in [0, high).
inline Tensor randint(std::int64_t high, const Shape& shape) {
  const auto draw = [high] { return static_cast<std::int64_t>(next_bits()) % high; };
  return drawn<std::int64_t>(shape, draw);
}

/// Gives all parameters the values that the twin's have: matrices and kernels uniform within 1/sqrt(fan in)
/// of 0, biases 0, weights of norms 1.
inline void init(nn::Module& net) {
  const NoGrad no_grad;
  for (const auto& [name, parameter] : net.named_parameters()) {
    if (parameter.dim() > 1) {
      const double fan_in = static_cast<double>(parameter.numel() / parameter.size(0));
      const auto draw = [fan_in] { return (2 * next() - 1) / std::sqrt(fan_in); };
      parameter.copy_(drawn<double>(parameter.shape(), draw));
    } else {
      parameter.fill_(name.find("bias") == std::string::npos ? 1 : 0);
    }
  }
}

/// nn::Dropout with masks of the same random numbers.
class Dropout final : public nn::Layer {
 public:
  explicit Dropout(double p = 0.5) : p_(p) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override {
    if (!is_training()) return x;
    return dropout(x, (twin::rand(x.shape()) >= p_).to(x.device()), p_);
  }

 private:
  double p_;
};

/// Pictures [n, 1, 28, 28] of digits as seven segments show them, shifted by up to 3 pixels, with noise.
inline Tensor digits(const Tensor& labels) {
  struct Segment {
    int top, bottom, left, right;
  };
  constexpr Segment kSegments[] = {{5, 7, 9, 19},   {5, 15, 9, 11},   {5, 15, 17, 19}, {13, 15, 9, 19},
                                   {13, 23, 9, 11}, {13, 23, 17, 19}, {21, 23, 9, 19}};
  constexpr int kLit[] = {0b1110111, 0b0100100, 0b1011101, 0b1101101, 0b0101110,
                          0b1101011, 0b1111011, 0b0100101, 0b1111111, 0b1101111};
  const Tensor shifts = randint(7, {labels.numel(), 2}) - 3;
  Tensor images = zeros({labels.numel(), 1, 28, 28});
  for (int i = 0; i < labels.numel(); ++i) {
    Tensor image = zeros({28, 28});
    for (int s = 0; s < 7; ++s) {
      const auto [top, bottom, left, right] = kSegments[s];
      if (kLit[labels[i].item<int>()] >> s & 1) image[{Slice(top, bottom), Slice(left, right)}] = 1;
    }
    images[{i, 0}] = image.roll(shifts[{i, 0}].item<int>(), 0).roll(shifts[{i, 1}].item<int>(), 1);
  }
  return images * 0.75 + twin::rand(images.shape()) * 0.25;
}

}  // namespace twin
