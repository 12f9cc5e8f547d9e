// Safetensors files that another program wrote: the reference data must be read, and op_add must hold what
// its own metadata says, down to its sums. A file of its own because only these tests need the goldens.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "mezzo/core/value.h"
#include "mezzo/io/json.h"
#include "mezzo/io/safetensors.h"
#include "support/data_folder.h"

namespace mezzo::io {
namespace {

namespace fs = std::filesystem;

fs::path goldens() { return fs::path(test::data_folder()) / "goldens"; }

/// Shape of an input after the views the case asks for; only the kinds that op_add uses.
std::vector<std::int64_t> viewed_shape(std::vector<std::int64_t> shape, const Value& views) {
  for (const Value& view : views.as_list()) {
    const std::string& kind = view.at(0).as_string();
    if (kind == "transpose") {
      const auto dim = [&](std::size_t i) {
        const std::int64_t d = view.at(i).as_int();
        return static_cast<std::size_t>(d < 0 ? d + std::ssize(shape) : d);
      };
      std::swap(shape[dim(1)], shape[dim(2)]);
    } else if (kind == "permute") {
      std::vector<std::int64_t> permuted;
      for (const Value& d : view.at(1).as_list())
        permuted.push_back(shape[static_cast<std::size_t>(d.as_int())]);
      shape = permuted;
    } else if (kind == "slice") {
      const std::int64_t length = view.at(3).as_int() - view.at(2).as_int();
      const std::int64_t step = view.at(4).as_int();
      shape[static_cast<std::size_t>(view.at(1).as_int())] = (length + step - 1) / step;
    } else if (kind == "expand") {
      for (std::size_t i = 0; i < shape.size(); ++i) {
        if (const std::int64_t size = view.at(1).at(i).as_int(); size >= 0) shape[i] = size;
      }
    } else {
      ADD_FAILURE() << "view " << kind;
    }
  }
  return shape;
}

/// NumPy broadcasting of two shapes that are known to fit.
std::vector<std::int64_t> broadcast(std::vector<std::int64_t> a, std::vector<std::int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i] == 1 ? b[i] : a[i];
  return a;
}

/// How a golden's metadata spells dtypes, in the spelling of the format.
std::string stored_dtype(const std::string& name) {
  return name == "f32" ? "F32" : name == "f16" ? "F16" : "BF16";
}

/// Expects the shapes and dtypes of case `id` to be those that `info`, its metadata, asks for.
void expect_consistent(const SafeTensors& file, const std::string& id, const Value& info) {
  const auto input_shape = [&](const std::string& name) {
    const auto& stored = file.at(id + ".in." + name);
    EXPECT_EQ(stored.dtype, stored_dtype(info.at("dtype").as_string())) << id;
    const Value* views = info.at("views").find(name);
    return views == nullptr ? stored.shape : viewed_shape(stored.shape, *views);
  };
  EXPECT_EQ(info.at("inputs"), Value(Value::List{"a", "b"})) << id;
  const auto& out = file.at(id + ".out.0");
  EXPECT_EQ(out.dtype, "F32") << id;
  EXPECT_EQ(out.shape, broadcast(input_shape("a"), input_shape("b"))) << id;
  for (const Value& name : info.at("grads").as_list()) {
    EXPECT_EQ(file.at(id + ".grad." + name.as_string()).shape, file.at(id + ".in." + name.as_string()).shape)
        << id;
  }
  for (const Value& index : info.at("gout").as_list()) {
    EXPECT_EQ(file.at(id + ".gout." + std::to_string(index.as_int())).shape, out.shape) << id;
  }
}

/// Expects out = a + alpha * b of case `id`, computed in f64 and rounded once; returns how many finite sums
/// it saw.
int expect_sums(const SafeTensors& file, const std::string& id, double alpha) {
  const auto a = copy_as<float>(file.at(id + ".in.a"));
  const auto b = copy_as<float>(file.at(id + ".in.b"));
  const auto sum = copy_as<float>(file.at(id + ".out.0"));
  int checked = 0;
  for (std::size_t k = 0; k < sum.size(); ++k) {
    const auto want = static_cast<float>(static_cast<double>(a[k]) + alpha * static_cast<double>(b[k]));
    if (std::isnan(want)) continue;
    EXPECT_EQ(sum[k], want) << id << " element " << k;
    checked += std::isfinite(want) ? 1 : 0;
  }
  return checked;
}

TEST(SafeTensorsGolden, AddHoldsWhatItsOwnMetadataSays) {
  const SafeTensors file = SafeTensors::open((goldens() / "op_add.safetensors").string());
  EXPECT_EQ(file.metadata().at("op"), "add");
  const int cases = std::stoi(file.metadata().at("num_cases"));
  int sums_checked = 0;
  for (int i = 0; i < cases; ++i) {
    const std::string id = "case" + std::to_string(i);
    const Value info = parse_json(file.metadata().at(id));
    expect_consistent(file, id, info);
    const bool plain = info.at("dtype") == "f32" && info.at("views").size() == 0 &&
                       file.at(id + ".in.a").shape == file.at(id + ".in.b").shape;
    if (plain) sums_checked += expect_sums(file, id, info.at("args").at("alpha").as_double());
  }
  EXPECT_GT(sums_checked, 0);
}

TEST(SafeTensorsGolden, EveryGoldenFileIsRead) {
  int files = 0;
  for (const auto& item : fs::directory_iterator(goldens())) {
    if (item.path().extension() != ".safetensors") continue;
    const SafeTensors file = SafeTensors::open(item.path().string());
    EXPECT_FALSE(file.entries().empty()) << item.path();
    EXPECT_TRUE(file.metadata().contains("kind")) << item.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace mezzo::io
