// expects: paddin
#include "mezzo/mezzo.h"

using namespace mezzo;

int main() { nn::Conv2d conv(1, 2, 3, nn::Conv2d::Options{.paddin = 1}); }
