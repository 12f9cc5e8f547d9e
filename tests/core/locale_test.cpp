// Programs may set a locale with other numbers: neither texts nor files of the library change.
#include <gtest/gtest.h>
#include <unistd.h>

#include <clocale>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <locale>
#include <sstream>
#include <string>

#include "mezzo/io/json.h"
#include "mezzo/io/tensor_file.h"
#include "mezzo/mezzo.h"
#include "mezzo/nn/summary.h"

namespace mezzo {
namespace {

/// 1234567.5 as 1.234.567,5
struct OtherNumbers final : std::numpunct<char> {
  [[nodiscard]] char do_decimal_point() const override { return ','; }
  [[nodiscard]] char do_thousands_sep() const override { return '.'; }
  [[nodiscard]] std::string do_grouping() const override { return "\3"; }
};

/// While it lives, C++ has such numbers, and C too where the system has a locale with them.
class OtherLocale {
 public:
  OtherLocale() : cpp_(std::locale::global(std::locale(std::locale::classic(), new OtherNumbers))) {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "pt_BR.UTF-8"}) {
      if (std::setlocale(LC_ALL, name) != nullptr) break;
    }
  }
  ~OtherLocale() {
    std::setlocale(LC_ALL, "C");
    std::locale::global(cpp_);
  }
  OtherLocale(const OtherLocale&) = delete;
  OtherLocale& operator=(const OtherLocale&) = delete;

 private:
  std::locale cpp_;
};

/// All kinds of text and files that numbers go into.
std::string everything() {
  std::ostringstream all;
  all.imbue(std::locale::classic());
  all << full({2, 2000}, 1234.5) << '\n' << arange(3) * 1000000 << '\n' << to_string(Shape{1234567, 2});
  amp::GradScaler scaler({.init_scale = 65536.5});
  all << scaler.report() << io::dump_json(scaler.state_dict());
  nn::Sequential net{nn::make<nn::Linear>(1000, 1500), nn::make<nn::Dropout>(0.25)};
  all << to_string(net) << to_string(nn::summary(net, Shape{4000, 1000}));
  try {
    static_cast<void>(full({123456, 2}, 1.5) + full({123457, 2}, 1.5));
  } catch (const Error& error) {
    all << error.what();
  }
  try {
    static_cast<void>(nn::Dropout(1234.5));
  } catch (const Error& error) {
    all << error.what();
  }
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("mezzo_locale_" + std::to_string(::getpid()));
  io::TensorFile file;
  file.add("t.", {{"x", full({1234, 5}, 1234.5)}});
  file.metadata["scaler"] = io::dump_json(scaler.state_dict());
  file.save(path.string());
  const io::TensorFile read = io::TensorFile::load(path.string());
  all << io::dump_json(io::parse_json(read.metadata.at("scaler")))
      << sum(read.with_prefix("t.")[0].second).item();
  std::ifstream in(path, std::ios::binary);
  all << std::string(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(path);
  return all.str();
}

TEST(Locale, ChangesNeitherTextsNorFiles) {
  const std::string expected = everything();
  EXPECT_NE(expected.find("1234.5"), std::string::npos);
  const OtherLocale other;
  std::ostringstream shows;
  shows << 1234567 << ' ' << 1.5;
  EXPECT_EQ(shows.str(), "1.234.567 1,5") << "the locale is another";
  EXPECT_EQ(everything(), expected);
}

}  // namespace
}  // namespace mezzo
