// Precision modes by name, and which of them make norms run in low precision.
#include "mezzo/amp/precision.h"

#include <gtest/gtest.h>

#include "mezzo/core/error.h"

namespace mezzo::amp {
namespace {

TEST(Precision, GoesByNameInAnyCase) {
  for (const Precision precision :
       {Precision::fp32, Precision::fp16, Precision::amp_fp16, Precision::amp_bf16, Precision::amp_fp8})
    EXPECT_EQ(precision_from_string(to_string(precision)), precision);
  EXPECT_EQ(to_string(Precision::amp_bf16), "amp_bf16");
  EXPECT_EQ(precision_from_string("AMP_FP16"), Precision::amp_fp16);
  EXPECT_EQ(precision_from_string("Amp"), Precision::amp_fp16);
  EXPECT_EQ(precision_from_string("bf16"), Precision::amp_bf16);
}

TEST(Precision, ListsTheNamesWhenOneIsUnknown) {
  for (const std::string name : {"amp_fp4", "", "fp", "float32"}) {
    try {
      static_cast<void>(precision_from_string(name));
      FAIL() << "expected a ValueError for " << name;
    } catch (const ValueError& error) {
      EXPECT_EQ(std::string(error.what()),
                "precision: expected one of fp32, fp16, amp_fp16, amp_bf16, amp_fp8 (or their old names amp, "
                "bf16), got \"" +
                    name + "\"; choose one of them");
    }
  }
  EXPECT_THROW(NormPrecision("half"), ValueError);
}

TEST(Precision, ActsUnderAutocastOnly) {
  EXPECT_TRUE(NormPrecision().acts());
  EXPECT_FALSE(NormPrecision().value().has_value());
  EXPECT_TRUE(NormPrecision("amp_fp16").acts());
  EXPECT_TRUE(NormPrecision(Precision::amp_bf16).acts());
  EXPECT_TRUE(NormPrecision("amp_fp8").acts());
  EXPECT_EQ(NormPrecision("amp").why_not(), "");
  for (const char* name : {"fp32", "fp16"}) {
    EXPECT_FALSE(NormPrecision(name).acts());
    EXPECT_EQ(NormPrecision(name).why_not().find(std::string("precision ") + name + " has no effect"), 0U);
  }
}

}  // namespace
}  // namespace mezzo::amp
