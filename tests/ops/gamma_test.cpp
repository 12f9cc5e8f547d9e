// lgamma, digamma and polygamma against numbers of mpmath with 40 digits, at poles and infinities, and of
// other dtypes.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/factory.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

const Doubles kPlaces{1e-3, 0.25, 0.5,  1.0,  1.4375, 1.46875, 1.5,   2.0,   2.5,     7.75,
                      10.0, 33.5, 1000, 1e10, -0.5,   -0.25,   -1.25, -2.75, -10.0625};
const Doubles kLgamma{6.9071788853838534,   1.2880225246980774,    0.57236494292470008,  0,
                      -0.12120242719902266, -0.12146183058765041,  -0.12078223763524522, 0,
                      0.28468287047291918,  8.0254583963159831,    12.801827480081469,   83.302425502950058,
                      5905.2204232091808,   220258509288.81058,    1.2655121234846454,   1.589575312551186,
                      1.3664317612369763,   0.0044878975359557731, -12.472560090811657};
const Doubles kDigamma{
    -1000.5755719318103,   -4.2274535333762655,   -1.9635100260214235, -0.57721566490153287,
    -0.023613544005297898, 0.0068654114707357768, 0.03648997397857652, 0.42278433509846713,
    0.70315664064524319,   1.9817915626943456,    2.2517525890667209,  3.4965458167228252,
    6.907255195648812,     23.025850929890456,    0.03648997397857652, 2.9141391202135276,
    3.7141391202135279,    -1.9590552649779971,   18.151535694825249};

TEST(Gamma, ValuesAreMpmaths) {
  const Tensor x = make<double>(kPlaces);
  expect_near(lgamma(x), kLgamma, 1e-15);
  expect_near(digamma(x), kDigamma, 2e-15, 1e-15);  // near zeros left of 0 terms cancel
  expect_near(lgamma(x.to(DType::f32)), list(to(lgamma(x.to(DType::f32).to(DType::f64)), DType::f32)), 0);
  expect_near(polygamma(0, x), list(digamma(x)), 0);
}

TEST(Gamma, PolygammasAreMpmaths) {
  const Tensor x = make<double>(kPlaces);
  expect_near(polygamma(1, x),
              {1000001.6425331958, 17.197329154507109, 4.934802200544679, 1.6449340668482264,
               0.98950291789562717, 0.96140825202775337, 0.93480220054467933, 0.64493406684822641,
               0.49035775610023485, 0.13771379144765566, 0.10516633568168575, 0.030300712174923455,
               0.0010005001666666333, 1.00000000005e-10, 8.934802200544679, 18.541879647671607,
               19.181879647671607, 19.433868949488463, 259.22078710044065},
              2e-15);
  expect_near(polygamma(2, x),
              {-2000000002.3976321, -129.32773993753693, -16.82879664423432, -2.4041138063191885,
               -0.92413200318234556, -0.87458545452243097, -0.82879664423431998, -0.40411380631918858,
               -0.23620405164172739, -0.018935466672670959, -0.011049834970802067, -0.00091806295173033493,
               -1.0010004999998333e-06, -1.0000000000999999e-20, -0.82879664423431998, 122.69736678366236,
               123.72136678366236, -124.11765305971518, 8191.1692983178818},
              2e-15, 1e-14);
  expect_near(polygamma(8, x),
              {-4.0319999999999994e+31, -10569651520.043915, -20644899.96176004, -40400.978398747633,
               -1552.28048780006, -1280.081533090078, -1059.9617600414265, -80.978398747634884,
               -11.146030731869933, -0.0006247288132756086, -7.3530517935548381e-05, -3.5737525982858535e-09,
               -5.06019023994456e-21, -5.0400000020160003e-77, -1059.9617600414265, 10569108819.622774,
               10569114231.281567, -10569114259.982264, 2770769301946764.5},
              4e-15, 4e-9);
}

TEST(Gamma, PolesInfinitiesAndNan) {
  const Tensor x = make<double>({0, -0.0, -1, -2, kInf, -kInf, kNan});
  expect_near(lgamma(x), {kInf, kInf, kInf, kInf, kInf, kInf, kNan}, 0);
  expect_near(digamma(x), {-kInf, kInf, kNan, kNan, kInf, kNan, kNan}, 0);
  expect_near(polygamma(1, x), {kInf, kInf, kInf, kInf, 0, kInf, kNan}, 0);
  expect_near(polygamma(2, x), {-kInf, -kInf, -kInf, -kInf, 0, -kInf, kNan}, 0);
}

TEST(Gamma, OfOtherDTypesAndLayouts) {
  const Tensor x = strided_copy(make<float>({2, 2}, {0.5F, 3, 20, 1e-20F}));
  expect_near(digamma(x), {-1.9635100260214235, 0.92278433509846714, 2.9705239922421491, -1e20}, 1e-7);
  EXPECT_EQ(lgamma(make<std::int64_t>({5})).dtype(), DType::f32);
  expect_near(lgamma(make<std::int64_t>({5})), {3.1780538303479458}, 1e-7);
  expect_near(polygamma(1, ones({1}, DType::f16)), {1.6449340668482264}, 0x1p-11);
  EXPECT_EQ(lgamma(zeros({0, 2})).shape(), (Shape{0, 2}));
  // What f32 cannot hold in between: 40! zeta.
  expect_near(polygamma(40, make<float>({30})), {-3.042973522e-13}, 1e-6);
}

TEST(Gamma, DerivativesOfThirdOrder) {
  const Tensor x = leaf({0.7, -1.4, 5});
  const GradOptions keep{.create_graph = true};
  const Tensor first = grad(lgamma(x).sum(), {x}, keep)[0];
  const Tensor second = grad(first.sum(), {x}, keep)[0];
  const Tensor third = grad(second.sum(), {x})[0];
  EXPECT_EQ(list(first), list(digamma(x)));
  EXPECT_EQ(list(second), list(polygamma(1, x)));
  EXPECT_EQ(list(third), list(polygamma(2, x)));
  EXPECT_EQ(message_of<ValueError>([&] { return polygamma(-1, x); }),
            "polygamma: expected n of at least 0, got -1; 0 is digamma");
}

}  // namespace
}  // namespace mezzo
