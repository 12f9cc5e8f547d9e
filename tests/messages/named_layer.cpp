// expects: a module with a name of its own cannot become a part of another one
#include "mezzo/mezzo.h"

using namespace mezzo;

int main() {
  nn::Linear first(2, 3);
  nn::Sequential net{first, nn::ReLU()};
}
