// Undefined tensors are refused by every function that takes a tensor, those included that look at it before
// bind does. (The sweep gives them to every op.)
#include <gtest/gtest.h>

#include <functional>

#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

TEST(Undefined, IsRefused) {
  const Tensor none, some = ones({2, 3});
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"to", [&] { (void)to(none, DType::f16); }},     {"to", [&] { (void)none.to(Device::cpu()); }},
      {"view", [&] { (void)view(none, {6}); }},        {"t", [&] { (void)t(none); }},
      {"sum_to", [&] { (void)sum_to(none, {3}); }},    {"split", [&] { (void)split(none, {1}, 0); }},
      {"full_like", [&] { (void)ones_like(none); }},   {"zeros_like", [&] { (void)zeros_like(none); }},
      {"empty_like", [&] { (void)empty_like(none); }}, {"add_", [&] { (void)some.add_(none); }},
      {"add_", [&] { (void)none.add_(some); }},        {"mul_", [&] { (void)some.mul_(none); }},
      {"mul_", [&] { (void)none.mul_(2); }},           {"copy_", [&] { (void)some.copy_(none); }},
      {"fill_", [&] { (void)none.fill_(2); }},         {"add", [&] { (void)(some + none); }},
      {"matmul", [&] { (void)matmul(none, some); }},   {"linear", [&] { (void)linear(some, none); }},
      {"cat", [&] { (void)cat({some, none}, 0); }},
  };
  for (const auto& [name, call] : calls) {
    try {
      call();
      ADD_FAILURE() << name << " took an undefined tensor";
    } catch (const ValueError& error) {
      EXPECT_EQ(error.op(), name);
      EXPECT_EQ(error.got(), "an undefined one");
    }
  }
}

TEST(Undefined, IsFineForOptionalInputs) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(linear(x, ones({4, 3}), Tensor()).shape(), (Shape{2, 4}));
}

}  // namespace
}  // namespace mezzo
