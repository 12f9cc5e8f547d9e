// Members of temporaries: what they return lives on.
#include <gtest/gtest.h>

#include <type_traits>

#include "mezzo/data.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/mezzo.h"
#include "mezzo/train.h"

namespace mezzo {
namespace {

/// Whether a member's result of this type refers to nothing else: it is no reference, pointer, std::span or
/// std::string_view.
template <class R>
constexpr bool kOwns = !std::is_reference_v<R> && !std::is_pointer_v<R> &&
                       !std::is_same_v<std::string_view, R> && !std::is_same_v<R, std::span<const float>>;

static_assert(kOwns<decltype(Tensor().shape())>);
static_assert(kOwns<decltype(Tensor().strides())>);
static_assert(kOwns<decltype(Tensor().data<float>())>);
static_assert(!std::is_convertible_v<decltype(Tensor().data<float>()), std::span<const float>>);
static_assert(!std::is_convertible_v<decltype(Tensor().mutable_data<float>()), std::span<float>>);
static_assert(kOwns<decltype(Tensors()[0])> && kOwns<decltype(Tensors().back())> &&
              kOwns<decltype(Tensors().front())>);
static_assert(kOwns<decltype(Value().at("a"))> && kOwns<decltype(Value().at(0U))> &&
              kOwns<decltype(Value()["a"])>);
static_assert(kOwns<decltype(Value()[0])> && kOwns<decltype(Value().as_list())> &&
              kOwns<decltype(Value().as_map())>);
static_assert(kOwns<decltype(io::TorchValue().as_tensor())> && kOwns<decltype(io::TorchValue().as_string())>);
static_assert(kOwns<decltype(data::Table().columns())> && kOwns<decltype(data::Table().column("a"))>);
static_assert(std::is_same_v<decltype(data::Column().text(0)), std::string>);
static_assert(kOwns<decltype(std::declval<data::LabelledImages>().images())>);
static_assert(kOwns<decltype(std::declval<data::LabelledImages>().classes())>);
static_assert(kOwns<decltype(std::declval<nn::surgery::Report>().replaced())>);
static_assert(kOwns<decltype(std::declval<nn::surgery::Report>().parameter_pairs())>);
static_assert(kOwns<decltype(train::Accuracy().state())>);
static_assert(std::is_same_v<decltype(train::Accuracy().name()), std::string>);
static_assert(kOwns<decltype(std::declval<io::SafeTensors>().metadata())>);
static_assert(kOwns<decltype(std::declval<io::SafeTensors>().entries())>);
static_assert(kOwns<decltype(std::declval<io::SafeTensors>().at("w"))>);
static_assert(std::is_same_v<decltype(Value().find("w")), std::optional<Value>>);

TEST(Temporaries, DataComesWithItsTensor) {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  float total = 0;
  for (const float value : add(x, 1.0).data<float>()) total += value;
  EXPECT_EQ(total, 9);
  const auto values = mul(x, 2.0).data<float>();
  const Tensor other = full({3}, -1);  // would take the memory that a freed result leaves
  EXPECT_EQ(values[2], 6);
  EXPECT_EQ(values.size(), 3U);
  EXPECT_FALSE(values.empty());
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{2, 4, 6}));
  const std::span<const float> span = values;
  EXPECT_EQ(span.data(), values.data());
  auto written = zeros({2}).mutable_data<float>();
  written[1] = 4;
  EXPECT_EQ(written[0] + written[1], 4);
  std::int64_t rows = 0;
  for (const std::int64_t size : x.unsqueeze(0).shape()) rows = std::max(rows, size);
  EXPECT_EQ(rows, 3);
}

TEST(Temporaries, PartsOfValuesAreMovedOut) {
  std::vector<std::int64_t> numbers;
  for (const Value& value : io::parse_json(R"({"a": {"b": [1, 2, 3]}})")["a"]["b"].as_list())
    numbers.push_back(value.as_int());
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, 2, 3}));
  const std::string text = io::parse_json(R"(["long enough to lie on the heap, it is"])").at(0U).as_string();
  EXPECT_EQ(text, "long enough to lie on the heap, it is");
  const Value kept = io::parse_json(R"({"a": [1]})");
  EXPECT_EQ(&kept["a"], kept.find("a")) << "a value with a name keeps its parts";
}

TEST(Temporaries, EntriesOfAFileKeepItsBytes) {
  const std::vector<std::byte> four(4, std::byte{7});
  const io::SafeTensors::Entry written{.name = "w", .dtype = "U8", .shape = {4}, .bytes = four};
  const auto file = [&] { return io::SafeTensors::from_bytes(io::serialize_safetensors({&written, 1}, {})); };
  const auto entry = file().at("w");
  const auto entries = file().entries();
  const auto other = io::serialize_safetensors({}, {});  // would take the memory that a freed file leaves
  EXPECT_EQ(std::vector(entry.bytes.begin(), entry.bytes.end()), four);
  EXPECT_EQ(std::vector(entries[0].bytes.begin(), entries[0].bytes.end()), four);
}

TEST(Temporaries, ColumnsOfATable) {
  const auto table = [] {
    data::Column column{.name = "name of a column that lies on the heap", .type = data::ColumnType::text};
    column.bytes = "some text that is on the heap too, as it is long";
    column.ends = {column.bytes.size()};
    return data::Table({column});
  };
  std::string names;
  for (const data::Column& column : table().columns()) names += column.name;
  EXPECT_EQ(names, "name of a column that lies on the heap");
  const auto text = table().column(names).text(0);
  EXPECT_EQ(text, "some text that is on the heap too, as it is long");
}

TEST(Temporaries, TheReportOfASurgery) {
  nn::Sequential net{nn::Linear(4, 4), nn::LayerNorm(4)};
  std::vector<std::string> paths;
  for (const auto& replaced : amp::apply_low_precision_layernorm(net, "amp_bf16").replaced())
    paths.push_back(replaced.paths[0]);
  EXPECT_EQ(paths, std::vector<std::string>{"1"});
}

}  // namespace
}  // namespace mezzo
