// The tables from a golden's kind, or a JSON file's name, to its runner. A file that cannot be opened
// counts as a failed case, an unknown kind as not supported.
#include "golden/kinds.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "mezzo/io/json.h"

namespace mezzo::golden {

namespace {

struct Kind {
  std::string_view name;
  void (*run)(const CaseFile&, std::size_t);
};
constexpr std::array kKinds{
    Kind{"op", run_op},
    Kind{"convert", run_convert},
    Kind{"convert_f8", run_convert_f8},
    Kind{"clip", run_clip},
    Kind{"gradscaler_unscale", run_unscale},
    Kind{"gradscaler_steps", run_scaler_steps},
    Kind{"optimizer", run_optimizer},
    Kind{"model", run_model},
    Kind{"scheduler", run_scheduler},
    Kind{"scaling_f8", run_scaling_f8},
    Kind{"linear_f8", run_linear_f8},
    Kind{"split_masters", run_split_masters},
    Kind{"adamw_8bit", run_adamw_8bit},
};

struct Json {
  std::string_view file;
  void (*run)(const Value&, Report&);
};
constexpr std::array kJson{
    Json{"gradscaler_trajectories.json", run_trajectories},
    Json{"type_promotion.json", run_promotion},
    Json{"autocast_table.json", run_autocast_table},
    Json{"autocast_cpu_bf16_rules.json", run_autocast_rules},
};

void run_cases(const CaseFile& file, Report& report) {
  const Kind* kind = nullptr;
  for (const Kind& one : kKinds) {
    if (one.name == file.kind()) kind = &one;
  }
  for (std::size_t i = 0; i < file.num_cases(); ++i) {
    report.run("case" + std::to_string(i), [&] {
      if (kind == nullptr) throw NotSupported("kind " + file.kind());
      kind->run(file, i);
    });
  }
  if (file.num_cases() == 0) report.run("open", [] { throw Mismatch("the file has no cases"); });
}

void run_json(const std::string& path, const std::string& name, Report& report) {
  const Json* known = nullptr;
  for (const Json& one : kJson) {
    if (one.file == name) known = &one;
  }
  if (known == nullptr) {
    // PyTorch's CPU lists do not bind (DESIGN.md, section 4), so their observed dtypes are no goldens here.
    report.run("all", [&] { throw NotSupported("this file"); });
    return;
  }
  std::optional<Value> content;
  try {
    content = io::read_json_file(path);
  } catch (const std::exception& error) {
    const std::string why = error.what();
    report.run("open", [&] { throw Mismatch(why); });
    return;
  }
  known->run(*content, report);
}

}  // namespace

void run_file(const std::string& path, Report& report) {
  const std::filesystem::path file(path);
  const std::string name = file.filename().string();
  if (name == "manifest.json") return;  // an index
  report.begin_file(name);
  if (file.extension() == ".json") {
    run_json(path, name, report);
  } else {
    std::optional<CaseFile> cases;
    std::string why;
    try {
      cases.emplace(path);
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (cases)
      run_cases(*cases, report);
    else
      report.run("open", [&] { throw Mismatch(why); });
  }
  report.end_file();
}

}  // namespace mezzo::golden
