// Every public free function with arguments drawn from good and bad ones (functions.inc). Calls by name with
// bent samples are the registry sweep's (tests/sweep/bad_input.cpp).
#include <gtest/gtest.h>

#include "misuse/misuse.h"

namespace mezzo::misuse {
namespace {

#define MISUSE_UNWRAP(...) __VA_ARGS__
#define MISUSE(space, name, result, arguments)                                          \
  functions.push_back([] {                                                              \
    using namespace space;                                                              \
    return Caller<MISUSE_UNWRAP result arguments>::of(#space "::" #name, &space::name); \
  }());

TEST(Misuse, OfEveryFunctionEndsInSuccessOrOneLine) {
  std::vector<Function> functions;
#include "misuse/functions.inc"
  sweep(functions, 400);
}

#undef MISUSE
#undef MISUSE_UNWRAP

}  // namespace
}  // namespace mezzo::misuse
