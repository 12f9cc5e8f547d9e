// expects: nodiscard
#include "mezzo/mezzo.h"

using namespace mezzo;

int main() {
  const Tensor x = ones({2});
  x.add(1);
}
