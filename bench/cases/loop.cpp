// The smallest program that trains: what compiling one file and starting one program cost (footprint).
#include "cases/mlp.h"

int main() {
  bench::Mlp mlp({8, 16, 1}, 4);
  for (int i = 0; i < 2; ++i) mlp.step();
}
