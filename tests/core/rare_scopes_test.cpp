// Scopes that are rarely open: each thread finds its own, the newest first, and none after their end.
#include "mezzo/core/memory/rare_scopes.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace mezzo::detail {
namespace {

class NumberScope {
 public:
  explicit NumberScope(int number);
  ~NumberScope();
  NumberScope(const NumberScope&) = delete;
  NumberScope& operator=(const NumberScope&) = delete;
  /// The newest number of this thread below `limit`; 0: none.
  static int newest_below(int limit);

 private:
  friend class RareScopes<NumberScope>;
  int number_;
  NumberScope* older_ = nullptr;
  pthread_t thread_ = {};
};

constinit RareScopes<NumberScope> number_scopes;

NumberScope::NumberScope(int number) : number_(number) { number_scopes.begin(*this); }
NumberScope::~NumberScope() { number_scopes.end(*this); }
int NumberScope::newest_below(int limit) {
  const NumberScope* const found =
      number_scopes.find([&](const NumberScope& scope) { return scope.number_ < limit; });
  return found == nullptr ? 0 : found->number_;
}

TEST(RareScopes, TheNewestThatFitsIsFound) {
  EXPECT_EQ(NumberScope::newest_below(10), 0);
  const NumberScope one(1);
  {
    const NumberScope two(2);
    EXPECT_EQ(NumberScope::newest_below(10), 2);
    EXPECT_EQ(NumberScope::newest_below(2), 1);
    EXPECT_EQ(NumberScope::newest_below(1), 0);
  }
  EXPECT_EQ(NumberScope::newest_below(10), 1);
}

TEST(RareScopes, ThoseOfOtherThreadsAreNotFoundAndMayEndBefore) {
  std::optional<NumberScope> here(1);
  std::thread([] {
    EXPECT_EQ(NumberScope::newest_below(10), 0);
    const NumberScope two(2);
    std::thread([] {
      const NumberScope three(3);
      EXPECT_EQ(NumberScope::newest_below(10), 3);
    }).join();
    EXPECT_EQ(NumberScope::newest_below(10), 2);
  }).join();
  EXPECT_EQ(NumberScope::newest_below(10), 1);
  here.reset();
  EXPECT_EQ(NumberScope::newest_below(10), 0);
}

}  // namespace
}  // namespace mezzo::detail
