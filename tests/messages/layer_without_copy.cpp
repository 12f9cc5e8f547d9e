// expects: this module cannot become a part of another one, as it has no copy constructor
#include "mezzo/mezzo.h"

using namespace mezzo;

struct Own final : nn::Layer {
  Own() = default;
  Own(const Own&) = delete;
  [[nodiscard]] Tensor forward(const Tensor& x) override { return x; }
};
int main() { nn::Sequential net{Own(), nn::ReLU()}; }
