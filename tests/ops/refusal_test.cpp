// Compositions refuse shapes and dims in their own name, not in that of the op inside which would notice.
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

/// The name in the error that f throws.
template <class F>
std::string refused_by(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.op();
  }
  return "nobody";
}

TEST(Refusals, NameTheFunctionThatWasCalled) {
  const Tensor x = zeros({2, 3}), other = zeros({2, 4}), batch = zeros({5, 2, 3}), vector = zeros({4});
  EXPECT_EQ(refused_by([&] { (void)x.dist(other); }), "dist");
  EXPECT_EQ(refused_by([&] { (void)softmin(x, 2); }), "softmin");
  EXPECT_EQ(refused_by([&] { (void)triplet_margin_loss(x, x, other); }), "triplet_margin_loss");
  EXPECT_EQ(refused_by([&] { (void)cosine_embedding_loss(x, other, zeros({2})); }), "cosine_embedding_loss");
  EXPECT_EQ(refused_by([&] { (void)cosine_embedding_loss(x, x, zeros({3})); }), "cosine_embedding_loss");
  EXPECT_EQ(refused_by([&] { (void)addmm(other, x, zeros({3, 3})); }), "addmm");
  EXPECT_EQ(refused_by([&] { (void)addmv(vector, x, zeros({3})); }), "addmv");
  EXPECT_EQ(refused_by([&] { (void)addr(x, vector, vector); }), "addr");
  EXPECT_EQ(refused_by([&] { (void)addbmm(other, batch, zeros({5, 3, 3})); }), "addbmm");
  EXPECT_EQ(refused_by([&] { (void)baddbmm(other, batch, zeros({5, 3, 3})); }), "baddbmm");
}

}  // namespace
}  // namespace mezzo
