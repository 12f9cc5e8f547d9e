// expects: use of deleted function|deleted
#include "mezzo/mezzo.h"

using namespace mezzo;

int main() {
  nn::Linear layer(2, 3);
  layer.weight = nn::Linear(2, 3).weight;
}
