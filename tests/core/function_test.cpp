// Function behaves as std::function does where the library's signatures need it.
#include "mezzo/core/function.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

namespace mezzo::detail {
namespace {

struct Counter {
  int steps = 0;
  [[nodiscard]] bool is_at_two() const { return steps == 2; }
};
int twice(int x) { return 2 * x; }

TEST(Function, CallsWhatItHolds) {
  const Function<int(int)> of_pointer = twice;
  EXPECT_EQ(of_pointer(21), 42);
  std::string seen;
  const Function<void(const std::string&)> of_lambda = [&](const std::string& text) {
    seen = text;
    return text.size();  // a result that nobody takes
  };
  of_lambda("hello");
  EXPECT_EQ(seen, "hello");
  const Function<bool(const Counter&)> of_member = &Counter::is_at_two;
  EXPECT_TRUE(of_member(Counter{2}));
  EXPECT_FALSE(of_member(Counter{3}));
}

TEST(Function, IsEmptyWithoutSomethingToCall) {
  int (*const no_pointer)(int) = nullptr;
  for (const Function<int(int)>& f :
       {Function<int(int)>(), Function<int(int)>(nullptr), Function<int(int)>(no_pointer),
        Function<int(int)>(std::function<int(int)>())}) {
    EXPECT_FALSE(f);
    EXPECT_TRUE(f == nullptr);
    EXPECT_THROW(static_cast<void>(f(1)), std::bad_function_call);
  }
  EXPECT_TRUE(Function<int(int)>(std::function<int(int)>(twice)));
}

TEST(Function, CopiesHoldCopiesAndMovesLeaveNothing) {
  Function<int()> count = [steps = 0]() mutable { return ++steps; };
  EXPECT_EQ(count(), 1);
  const Function<int()> copy = count;
  EXPECT_EQ(count(), 2);
  EXPECT_EQ(count(), 3);
  EXPECT_EQ(copy(), 2);
  const Function<int()> moved = std::move(count);
  EXPECT_EQ(moved(), 4);
  EXPECT_FALSE(count);  // NOLINT(bugprone-use-after-move)
  count = copy;
  EXPECT_EQ(count(), 3);
  EXPECT_EQ(copy(), 3);
}

TEST(Function, TakesOnlyWhatFitsItsSignature) {
  EXPECT_TRUE((std::is_constructible_v<Function<int(int)>, long (*)(long)>));
  EXPECT_FALSE((std::is_constructible_v<Function<int(int)>, int (*)(const std::string&)>));
  EXPECT_FALSE((std::is_constructible_v<Function<int(int)>, int>));
}

}  // namespace
}  // namespace mezzo::detail
