// einsum's notation, the shapes of the products by index, and what they refuse.
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

/// Whole numbers, so that every order of a sum gives the same.
Tensor whole(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  Generator generator(seed);
  return randint(-4, 5, shape, {}, generator).to(dtype);
}

// --- einsum

TEST(Einsum, SaysWhatOtherFunctionsSay) {
  const Tensor a = whole(1, {3, 4}), b = whole(2, {4, 5}), square = whole(3, {3, 3});
  EXPECT_EQ(list(einsum("ij,jk->ik", {a, b})), list(matmul(a, b)));
  EXPECT_EQ(list(einsum("ij,jk->ki", {a, b})), list(t(matmul(a, b))));
  EXPECT_EQ(list(einsum(" i j -> j i ", {a})), list(t(a)));
  EXPECT_EQ(list(einsum("ij->", {a})), list(sum(a)));
  EXPECT_EQ(list(einsum("ii", {square})), list(sum(mul(square, eye(3, {}, {.dtype = DType::f64})))));
  EXPECT_EQ(list(einsum("ij,ij->ij", {a, a})), list(mul(a, a)));
  EXPECT_EQ(list(einsum("i,j->ij", {select(a, 0, 0), select(b, 0, 1)})),
            list(outer(select(a, 0, 0), select(b, 0, 1))));
  EXPECT_EQ(einsum("", {sum(a)}).shape(), Shape{});
  EXPECT_EQ(list(einsum(",ij", {sum(a), b})), list(mul(sum(a), b)));
}

TEST(Einsum, OrdersAnImplicitResultWithCapitalsFirst) {
  const Tensor x = whole(1, {2, 3, 4});
  EXPECT_EQ(list(einsum("abC", {x})), list(permute(x, {2, 0, 1})));
  EXPECT_EQ(list(einsum("ba...", {x})), list(permute(x, {2, 1, 0})));
  EXPECT_EQ(einsum("ij,j", {whole(1, {3, 4}), whole(2, {4})}).shape(), Shape{3});
}

TEST(Einsum, BroadcastsEllipsesAndSizesOfOne) {
  const Tensor a = whole(1, {5, 1, 2, 3}), b = whole(2, {4, 3, 2});
  EXPECT_EQ(list(einsum("...ij,...jk->...ik", {a, b})), list(matmul(a, b)));
  EXPECT_EQ(einsum("...ij,...jk->ik", {a, b}).shape(), (Shape{2, 2}));
  EXPECT_EQ(list(einsum("...ij,...jk->ik", {a, b})), list(sum(matmul(a, b), {0, 1})));
  const Tensor row = whole(3, {1, 3}), column = whole(4, {3, 1});
  EXPECT_EQ(list(einsum("ij,ij->ij", {row, column})), list(mul(row, column)));
  EXPECT_EQ(list(einsum("ij,ij->", {row, column})), list(sum(mul(row, column))));
  EXPECT_EQ(list(einsum("i...->...", {b})), list(sum(b, {0})));
  EXPECT_EQ(list(einsum("ij...->ij", {whole(1, {2, 3})})), list(whole(1, {2, 3})));
}

TEST(Einsum, TakesManyOperandsAndRoundsOnce) {
  const Tensor a = whole(1, {3, 4}), b = whole(2, {4, 5}), c = whole(3, {5, 3});
  EXPECT_EQ(list(einsum("ij,jk,ki->", {a, b, c})), list(sum(mul(matmul(a, b), t(c)))));
  EXPECT_EQ(list(einsum("ij,jk,kl->l", {a, b, c})), list(sum(matmul(matmul(a, b), c), {0})));
  const Tensor x = full({1, 2}, 300.0, {.dtype = DType::f16}),
               tiny = full({2, 1}, 0x1p-10, {.dtype = DType::f16});
  // 300 * 300 * 2 is beyond f16, and multiplied with a small number is not.
  EXPECT_EQ(list(einsum("ij,kj,jk->i", {x, x, tiny})), Doubles{175.75});
}

TEST(Einsum, KeepsIntegersAndHasMemoryOfItsOwn) {
  const Tensor a = whole(1, {2, 3}, DType::i32);
  EXPECT_EQ(einsum("ij->j", {a}).dtype(), DType::i32);
  const Tensor y = einsum("ij", {a});
  const Doubles before = list(a);
  y.fill_(7);
  EXPECT_EQ(list(a), before);
}

TEST(Einsum, RefusesWhatIsNoEquationOfItsOperands) {
  const Tensor a = whole(1, {3, 4}), b = whole(2, {4, 5});
  for (const char* eq : {"ij,jk->il", "ij,jk->ii", "ij,jk->i->k", "i1,jk", "ij", "ij,jk,kl", "i.j,jk",
                         "....,jk", "i......,jk", "ij,jk->i-", "ij;jk"}) {
    EXPECT_THROW((void)einsum(eq, {a, b}), ValueError) << eq;
  }
  for (const char* eq : {"i,jk", "ijk,jk", "ijk...,jk", "ij,ik", "ij,jj"})
    EXPECT_THROW((void)einsum(eq, {a, b}), ShapeError) << eq;
  EXPECT_THROW((void)einsum("ij,jk", {a, b.to(DType::f32)}), DTypeError);
  EXPECT_THROW((void)einsum("ab,cd,ef,gh,ij->abcdefghij", {a, a, a, a, a}), ShapeError);
}

// --- tensordot

TEST(Tensordot, PairsDims) {
  const Tensor a = whole(1, {2, 3, 4}), b = whole(2, {3, 4, 5});
  EXPECT_EQ(list(tensordot(a, b)), list(matmul(reshape(a, {2, 12}), reshape(b, {12, 5}))));
  EXPECT_EQ(list(tensordot(a, b, {-1, 1}, {1, 0})), list(tensordot(a, b, 2)));
  EXPECT_EQ(tensordot(a, b, 0).shape(), (Shape{2, 3, 4, 3, 4, 5}));
  EXPECT_EQ(list(tensordot(whole(1, {2, 1}), whole(2, {3, 2}), {1}, {0})),
            list(mul(whole(1, {2, 1}), sum(whole(2, {3, 2}), {0}))));
  EXPECT_THROW((void)tensordot(a, b, 4), ValueError);
  EXPECT_THROW((void)tensordot(a, b, -1), ValueError);
  EXPECT_THROW((void)tensordot(a, b, {0}, {0, 1}), ValueError);
  EXPECT_THROW((void)tensordot(a, b, {0}, {0}), ShapeError);
  EXPECT_THROW((void)tensordot(a, b, {3}, {0}), IndexError);
  EXPECT_THROW((void)tensordot(a, b, {1, 1}, {0, 0}), IndexError);
}

// --- bilinear, cross

TEST(Bilinear, IsTheSumOverPairs) {
  const Tensor a = whole(1, {2, 3, 4}), b = whole(2, {2, 3, 5}), w = whole(3, {6, 4, 5}),
               bias = whole(4, {6});
  EXPECT_EQ(list(bilinear(a, b, w, bias)), list(add(einsum("bni,oij,bnj->bno", {a, w, b}), bias)));
  EXPECT_THROW((void)bilinear(b, a, w, bias), ShapeError);
  EXPECT_THROW((void)bilinear(a, select(b, 0, 0), w), ShapeError);
  EXPECT_THROW((void)bilinear(a, b, w, whole(4, {5})), ShapeError);
  EXPECT_THROW((void)bilinear(a, b, w.to(DType::f32)), DTypeError);
}

TEST(Cross, FollowsTheRightHand) {
  const Tensor x = make<double>({3}, {1, 0, 0}), y = make<double>({3}, {0, 1, 0});
  EXPECT_EQ(list(cross(x, y)), (Doubles{0, 0, 1}));
  EXPECT_EQ(list(cross(y, x)), (Doubles{0, 0, -1}));
  const Tensor a = whole(1, {3, 3, 2}), b = whole(2, {3, 3, 2});
  EXPECT_EQ(list(cross(a, b)), list(cross(a, b, 0)));
  EXPECT_EQ(list(cross(transpose(a, 0, 1), transpose(b, 0, 1), 1)), list(transpose(cross(a, b, 0), 0, 1)));
  EXPECT_EQ(cross(whole(1, {3}, DType::i32), whole(2, {3}, DType::f16)).dtype(), DType::f16);
  EXPECT_EQ(cross(whole(1, {3, 0}), whole(2, {3, 0})).shape(), (Shape{3, 0}));
  EXPECT_THROW((void)cross(a, b, 2), ShapeError);
  EXPECT_THROW((void)cross(a, x), ShapeError);
  EXPECT_THROW((void)cross(whole(1, {2}), whole(2, {2})), ShapeError);
  EXPECT_THROW((void)cross(x.to(DType::boolean), y.to(DType::boolean)), DTypeError);
}

// --- sums and chains of matrices

TEST(MatmulSums, DoNotReadWhatBetaLeavesOut) {
  const double nan = std::nan("");
  const Tensor a = whole(1, {2, 3, 4}), b = whole(2, {2, 4, 5}), x = full({5}, nan, {.dtype = DType::f64});
  EXPECT_EQ(list(baddbmm(x, a, b, 0, 2)), list(mul(matmul(a, b), 2.0)));
  EXPECT_EQ(list(addbmm(x, a, b, 0)), list(sum(matmul(a, b), {0})));
  const Tensor v = whole(3, {4}), u = whole(4, {3}), one = full({}, nan, {.dtype = DType::f64});
  EXPECT_EQ(list(addmv(one, select(a, 0, 0), v, 0)), list(mv(select(a, 0, 0), v)));
  EXPECT_EQ(list(addr(one, u, v, 0, -1)), list(neg(outer(u, v))));
}

TEST(MatmulSums, RefuseShapesAndFractionsOfIntegers) {
  const Tensor a = whole(1, {2, 3, 4}), b = whole(2, {2, 4, 5}), x = whole(3, {3, 5});
  EXPECT_THROW((void)baddbmm(x, a, whole(2, {3, 4, 5})), ShapeError);
  EXPECT_THROW((void)addbmm(x, a, a), ShapeError);
  EXPECT_THROW((void)addbmm(whole(3, {2, 3, 5}), a, b), ShapeError);
  EXPECT_THROW((void)addmv(x, select(a, 0, 0), whole(2, {3})), ShapeError);
  EXPECT_THROW((void)addr(x, a, b), ShapeError);
  EXPECT_THROW((void)addbmm(x.to(DType::f32), a, b), DTypeError);
  const auto i64 = [](const Tensor& y) { return y.to(DType::i64); };
  EXPECT_THROW((void)addbmm(i64(x), i64(a), i64(b), 1, 0.5), ValueError);
  EXPECT_EQ(list(addbmm(i64(x), i64(a), i64(b), 2, 3)), list(addbmm(x, a, b, 2, 3)));
  EXPECT_EQ(list(addbmm(x, whole(1, {0, 3, 4}), whole(1, {0, 4, 5}))), list(x));
}

TEST(MatmulChain, MultipliesInTheCheapestOrder) {
  // From the left, the first product alone would be a 4000 x 4000 matrix.
  const Tensor column = whole(1, {4000, 1}), row = whole(2, {1, 4000});
  EXPECT_EQ(list(chain_matmul({row, column, row, column})), list(square(matmul(row, column))));
  EXPECT_EQ(list(multi_dot({select(row, 0, 0), column, row, select(column, 1, 0)})),
            list(square(dot(select(row, 0, 0), select(column, 1, 0)))));
  EXPECT_EQ(list(chain_matmul({row})), list(row));
  EXPECT_THROW((void)chain_matmul({row, row}), ShapeError);
  EXPECT_THROW((void)chain_matmul({select(row, 0, 0), column}), ShapeError);
  EXPECT_THROW((void)chain_matmul(std::span<const Tensor>()), ShapeError);
  EXPECT_THROW((void)multi_dot({row}), ShapeError);
  EXPECT_THROW((void)multi_dot({row, select(column, 1, 0), row}), ShapeError);
}

TEST(Outer, GivesAGradientBesideIntegers) {
  const Tensor x = make<float>({2, 3}).requires_grad_(), n = make<std::int64_t>({1, -4});
  for (const Tensor& y : {outer(x, n), outer(n, x)})
    EXPECT_EQ(list(grad({&y, 1}, {&x, 1}, {&y, 1})[0]), (Doubles{2 * 17, 3 * 17}));
}

}  // namespace
}  // namespace mezzo
