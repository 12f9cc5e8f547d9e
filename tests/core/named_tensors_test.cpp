// Tensors by name: looked up, removed, and under prefixes, and still a vector of pairs.
#include "mezzo/core/named_tensors.h"

#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo {
namespace {

NamedTensors some() { return {{"enc.w", full({2}, 1)}, {"enc.b", full({1}, 2)}, {"dec.w", full({3}, 3)}}; }

std::string names_of(const NamedTensors& named) {
  std::string names;
  for (const auto& [name, tensor] : named) names += name + " ";
  return names;
}

TEST(NamedTensors, AreLookedUpByName) {
  NamedTensors named = some();
  EXPECT_EQ(named.at("enc.b").item(), 2);
  EXPECT_EQ(named["dec.w"].numel(), 3);
  EXPECT_EQ(std::as_const(named)[std::string("enc.w")].numel(), 2);
  EXPECT_TRUE(named.contains("enc.w"));
  EXPECT_FALSE(named.contains("enc"));
  named["enc.w"] = full({5}, 9);
  EXPECT_EQ(named[0].second.numel(), 5) << "by position, and it is the tensor that was put there";
  EXPECT_EQ(named.at(1).first, "enc.b");
  EXPECT_EQ(test::message_of<ValueError>([&] { return named["enc.wieght"]; }),
            "NamedTensors.at: expected a tensor \"enc.wieght\", got none; the nearest name is \"enc.w\"; "
            "contains() "
            "says whether a name is there");
  EXPECT_EQ(
      test::message_of<ValueError>([] { return NamedTensors().at("w"); }),
      "NamedTensors.at: expected a tensor \"w\", got no tensors; contains() says whether a name is there");
}

TEST(NamedTensors, AreRemovedByName) {
  NamedTensors named = some();
  named.emplace_back("enc.w", ones({1}));
  EXPECT_EQ(named.erase("enc.w"), 2U);
  EXPECT_EQ(named.erase("enc.w"), 0U);
  EXPECT_EQ(names_of(named), "enc.b dec.w ");
  named.erase(named.begin());
  EXPECT_EQ(names_of(named), "dec.w ");
}

TEST(NamedTensors, Prefixes) {
  EXPECT_EQ(names_of(some().with_prefix("enc.")), "w b ");
  EXPECT_EQ(names_of(some().with_prefix("")), "enc.w enc.b dec.w ");
  EXPECT_TRUE(some().with_prefix("none.").empty());
  EXPECT_EQ(names_of(some().add_prefix("net.")), "net.enc.w net.enc.b net.dec.w ");
  EXPECT_TRUE(some().with_prefix("dec.")["w"].equal(full({3}, 3)));
}

TEST(NamedTensors, AreAVectorOfPairs) {
  const std::vector<std::pair<std::string, Tensor>> pairs{{"a", ones({1})}, {"b", ones({2})}};
  const NamedTensors named = pairs, filled(2, {"x", ones({1})}), from(pairs.begin(), pairs.end());
  EXPECT_EQ(names_of(named), "a b ");
  EXPECT_EQ(names_of(filled), "x x ");
  EXPECT_EQ(names_of(from), "a b ");
  const std::vector<std::pair<std::string, Tensor>> back = named;
  EXPECT_EQ(back.size(), 2U);
}

}  // namespace
}  // namespace mezzo
