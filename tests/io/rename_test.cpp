// Maps of names: exact ones, beginnings and layers; rules that are of no use and names that collide.
#include "mezzo/io/rename.h"

#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::io {
namespace {

using test::message_of;

TensorFile::NamedTensors named(std::initializer_list<const char*> names) {
  TensorFile::NamedTensors result;
  for (const char* name : names) result.emplace_back(name, full({1}, static_cast<double>(result.size())));
  return result;
}

std::vector<std::string> names_of(const TensorFile::NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Rename, NamesBeginningsAndLayers) {
  const auto all = named({"wte.weight", "h.0.attn.weight", "h.11.attn.weight", "h.0.mlp.fc.bias", "rest"});
  EXPECT_EQ(names_of(rename(all, {{"wte.weight", "embedding.weight"},
                                  {"h.*.attn.weight", "blocks.*.attention.in.weight"},
                                  {"h.*.", "blocks.*."}})),
            (Names{"embedding.weight", "blocks.0.attention.in.weight", "blocks.11.attention.in.weight",
                   "blocks.0.mlp.fc.bias", "rest"}));
  EXPECT_EQ(names_of(rename(named({"module.a", "module.b.c"}), {{"module.", ""}})), (Names{"a", "b.c"}));
  EXPECT_EQ(names_of(rename(named({"a", "b"}), {{"*", "net.*"}})), (Names{"net.a", "net.b"}));
  EXPECT_EQ(names_of(rename(named({"l.1.p.2.w", "l.1.p.2"}), {{"l.*.p.*.w", "x.*.*"}})),
            (Names{"x.1.2", "l.1.p.2"}));
  EXPECT_EQ(names_of(rename(named({"layer3.w"}), {{"layer*.w", "layers.*.w"}})), (Names{"layers.3.w"}));
  EXPECT_EQ(names_of(rename(named({"a.b"}), {{"a.*", "c"}})), (Names{"c"})) << "a star may be left out";
  EXPECT_EQ(names_of(rename(named({"a", "b"}), {})), (Names{"a", "b"}));
}

TEST(Rename, TheFirstRuleThatMatchesCounts) {
  EXPECT_EQ(names_of(rename(named({"a.x", "a.y"}), {{"a.x", "first"}, {"a.", "then."}})),
            (Names{"first", "then.y"}));
  EXPECT_EQ(names_of(rename(named({"a", "b"}), {{"a", "b"}, {"b", "a"}})), (Names{"b", "a"}))
      << "not one after another";
}

TEST(Rename, MatchesWholeNamesOnly) {
  for (const char* name : {"h.0.w.x", "h..w", "xh.0.w", "h.0", "h.0.1.w", "h.0.w."})
    EXPECT_EQ(names_of(rename(named({name, "h.1.w"}), {{"h.*.w", "y.*"}})), (Names{name, "y.1"})) << name;
}

TEST(Rename, TensorsAreSharedTransposedOrDropped) {
  const TensorFile::NamedTensors all{
      {"h.0.w", reshape(arange(6), {2, 3})}, {"h.0.b", arange(3)}, {"h.0.mask", arange(9)}};
  const auto result =
      rename(all, {{"h.*.w", "l.*.w", Renamed::transposed}, {"h.*.mask", "", Renamed::dropped}});
  EXPECT_EQ(names_of(result), (Names{"l.0.w", "h.0.b"}));
  EXPECT_EQ(result[0].second.shape(), (Shape{3, 2}));
  EXPECT_TRUE(result[0].second.is_contiguous());
  EXPECT_EQ(result[0].second.to_vector<int>(), (std::vector<int>{0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(result[1].second.is_same(all[1].second));
  EXPECT_EQ(message_of<ShapeError>([&] {
              return rename(all, {{"h.0.b", "b", Renamed::transposed}});
            }),
            "rename: expected a matrix to transpose, got [3] under \"h.0.b\"; use Renamed::as_is");
}

TEST(Rename, RulesOfNoUseAreRefused) {
  const auto refusal = [](const TensorFile::NamedTensors& tensors, std::initializer_list<RenameRule> rules) {
    return message_of<ValueError>([&] { return rename(tensors, rules); });
  };
  EXPECT_EQ(refusal(named({"a", "b"}), {{"c", "d"}}),
            "rename: expected a tensor that is left for the rule \"c\" -> \"d\", got only \"a\", \"b\"; "
            "check the rule "
            "and those before it");
  EXPECT_EQ(refusal({}, {{"c", "d"}}),
            "rename: expected a tensor that is left for the rule \"c\" -> \"d\", got no "
            "tensors; check the rule and those before it");
  EXPECT_NE(refusal(named({"a.b"}), {{"a.", "c."}, {"a.b", "d"}}).find("left for the rule \"a.b\" -> \"d\""),
            std::string::npos);
  EXPECT_EQ(refusal(named({"a", "b"}), {{"a", "b"}}),
            "rename: expected distinct names, got \"b\" for \"a\" and for \"b\"; change a rule, or drop one "
            "of them");
  EXPECT_EQ(refusal(named({"a.0", "a.1"}), {{"a.*", "b"}}),
            "rename: expected distinct names, got \"b\" for \"a.0\" and for \"a.1\"; change a rule, or drop "
            "one of them");
  EXPECT_EQ(refusal(named({"a"}), {{"a*b", "c"}}),
            "rename: expected '.' or the end behind each '*', got \"a*b\" -> \"c\"; write a rule for each "
            "name instead");
  EXPECT_NE(refusal(named({"a"}), {{"*", "**"}}).find("behind each '*'"), std::string::npos);
  EXPECT_EQ(refusal(named({"a"}), {{"a", "b.*"}}),
            "rename: expected at most as many '*' as in what they stand for, got \"a\" -> \"b.*\"; name what "
            "is there");
  for (const RenameRule& rule : {RenameRule{"a.", "b"}, RenameRule{"a", "b."}})
    EXPECT_NE(refusal(named({"a"}), {rule}).find("a '.' at the end of both or of none"), std::string::npos);
}

}  // namespace
}  // namespace mezzo::io
