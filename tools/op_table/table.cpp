// The lines of docs/ops.md in Markdown: a signature from the registry and the headers, and the dtypes of
// inputs and results and the devices, found by running the op's samples.
#include "op_table/table.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "op_table/declarations.h"
#include "sweep/case.h"

namespace mezzo::op_table {

namespace {

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : separator).append(part);
  return text;
}

/// `text` in lines of at most 120 columns.
std::string wrapped(std::string_view text) {
  std::string lines;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    const bool fits = column + 1 + word.size() <= 120;
    if (column > 0) lines += fits ? ' ' : '\n';
    column = (column > 0 && fits ? column + 1 : 0) + word.size();
    lines += word;
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return lines;
}

constexpr const char* kHead = R"(# All ops

Generated from the registry: renew it with `build/release/tools/op_table`. A test compares.

An op is called by its name through the registry with the inputs and attributes of its signature; the C++ function
takes them as the header of its family says, which also tells what the op does. `?` marks what may be left out. An
input is of the dtypes listed unless its own is given. `T` is the dtype of the inputs, which is a floating one for
functions of real numbers, and i64 for sums of integers.

* **autocast**: the category ([mixed precision](mixed_precision.md#what-autocast-does)). *reads 16 bit*: the kernel
  widens, no f32 copy is made.
* **dtypes**: those in which the op's samples run; *floating* are f16, bf16, f32 and f64, and *all* leaves out float8,
  which is named; - where inputs have dtypes of their own.
* **devices**: those on which the op's samples run. The test tries it on each device there is, in CI on the emulated
  one; that results agree is checked by `tests/sweep/devices.cpp`.
* **derivatives**: *any* order, checked to the second by finite differences; or *none* and why.
)";
constexpr const char* kColumns =
    "| op | autocast | dtypes | devices | derivatives |\n| --- | --- | --- | --- | --- |\n";

// --- the signature

std::string attribute(const std::string& name, const std::string& type, const Value& value) {
  const std::string text = name + ": " + type;
  if (value.is_null()) return text + "?";
  const bool is_name = value.is_string() && !value.as_string().empty();
  return text + " = " + (is_name ? value.as_string() : value.to_string());
}

/// What an input must hold, where no sample has a number of the op's dtypes there.
std::string input_kind(const RegistryEntry& op, std::size_t i) {
  std::set<SampleKind> kinds;
  for (const SampleCall& sample : op.samples()) {
    if (i < sample.inputs.size()) kinds.insert(sample.inputs[i].kind);
  }
  kinds.erase(SampleKind::absent);
  if (kinds == std::set{SampleKind::codes}) return ": float8";
  if (kinds == std::set{SampleKind::f32}) return ": f32";
  const bool index = kinds.count(SampleKind::index) != 0, mask = kinds.count(SampleKind::mask) != 0;
  if (kinds.size() != static_cast<std::size_t>(index) + static_cast<std::size_t>(mask)) return "";
  if (index) return mask ? ": i64 or bool" : ": i64";
  return mask ? ": bool" : "";
}

std::vector<std::string> inputs_of(const RegistryEntry& op, const std::vector<Family>& families) {
  const OpInfo& info = op.info();
  std::vector<std::string> names =
      input_names(families, info.name.value, op.samples().at(0).inputs.size(), info.takes_list);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool list = is_list(names[i]);
    if (!list) names[i] += input_kind(op, i);
    if (is_in(info.optional_inputs, i)) names[i] += "?";
    if (list) break;  // behind it positions say nothing
  }
  return names;
}

// --- what running the samples tells

/// The dtypes of the results of a sample; nothing when the op refuses the inputs.
std::optional<std::vector<DType>> result_dtypes(const sweep::Case& one, DType dtype,
                                                Device device = Device::cpu()) {
  try {
    std::vector<DType> dtypes;
    const Tensors inputs = sweep::moved(sweep::make_inputs(one, dtype), device);
    for (const Tensor& output : sweep::call(sweep::forward_of(one), inputs)) dtypes.push_back(output.dtype());
    synchronize(device);  // what its kernels find wrong
    return dtypes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// `T` for the dtype of the inputs, or the dtype that the results have whatever the inputs'.
std::string results_of(const RegistryEntry& op) {
  std::set<std::string> forms;
  for (const sweep::Case& one : sweep::cases_of(op)) {
    const auto narrow = result_dtypes(one, DType::f32), wide = result_dtypes(one, DType::f64);
    if (!narrow || !wide || narrow->size() != wide->size()) continue;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < narrow->size(); ++i)
      parts.push_back((*narrow)[i] == (*wide)[i] ? to_string((*wide)[i]) : "T");
    // Of several samples the plainest counts: others ask for a dtype.
    if (parts.size() > 2) return "T...";
    forms.insert(parts.size() == 1 ? parts[0] : "(" + joined(parts, ", ") + ")");
  }
  if (forms.size() > 1 && forms.count("T") != 0) return "T";
  return forms.size() == 1 ? *forms.begin() : "T...";
}

std::string dtypes_of(const RegistryEntry& op) {
  const std::vector<sweep::Case> cases = sweep::cases_of(op);
  const auto has_real = [](const sweep::Case& one) {
    return std::any_of(one.inputs.begin(), one.inputs.end(), sweep::is_real);
  };
  if (std::none_of(cases.begin(), cases.end(), has_real)) return "-";
  std::vector<std::string> taken;
  std::size_t floating = 0;
  for (const DType dtype : kComputeDTypes) {
    const bool takes = std::any_of(cases.begin(), cases.end(), [dtype](const sweep::Case& one) {
      return result_dtypes(one, dtype).has_value();
    });
    if (!takes) continue;
    taken.push_back(to_string(dtype));
    if (is_floating(dtype)) ++floating;
  }
  if (taken.size() == kComputeDTypes.size()) return op.info().takes_float8 ? "all, float8" : "all";
  if (floating == 4 && taken.size() == 4) return "floating";
  if (taken.size() + 1 == kComputeDTypes.size() && taken.back() != to_string(DType::boolean) &&
      kComputeDTypes.back() == DType::boolean)
    return "all but bool";
  return joined(taken, ", ");
}

bool runs_on(const RegistryEntry& op, Device device) {
  const std::vector<sweep::Case> cases = sweep::cases_of(op);
  return std::any_of(cases.begin(), cases.end(), [device](const sweep::Case& one) {
    return std::any_of(kComputeDTypes.begin(), kComputeDTypes.end(),
                       [&](DType dtype) { return result_dtypes(one, dtype, device).has_value(); });
  });
}

/// Column `column` of the op's line in `written`, counted from 0; empty when it has no line.
std::string column_of(const std::string& written, std::string_view op, int column) {
  std::size_t at = written.find("\n| `" + std::string(op) + "(");
  if (at == std::string::npos) return "";
  constexpr std::string_view kBetween = " | ";
  for (int i = 0; i < column && at != std::string::npos; ++i) at = written.find(kBetween, at + 1);
  if (at == std::string::npos) return "";
  at += kBetween.size();
  return written.substr(at, written.find(kBetween, at) - at);
}

// --- the rest of a line

std::string autocast_of(const OpInfo& info) {
  std::string text(kEnumNames<Category>[static_cast<std::size_t>(info.category.value)]);
  if (info.reads_16bit) text += ", reads 16 bit";
  if (info.runs_under_autocast) text += ", runs under autocast";
  if (!info.banned_fix.empty()) text.append(": ").append(info.banned_fix);
  return text;
}

std::string derivatives_of(const RegistryEntry& op) {
  const std::string_view none = op.no_gradient_because();
  std::string text = none.empty() ? "any" : "none: " + std::string(none);
  const SweepOptOut& out = op.info().opt_out;
  for (const std::string_view reason : {out.gradient, out.second_gradient}) {
    if (!reason.empty()) text.append("; not checked: ").append(reason);
  }
  return text;
}

std::string line_of(const RegistryEntry& op, const std::vector<Family>& families,
                    const std::string& written) {
  std::vector<std::string> arguments = inputs_of(op, families);
  const Value attributes = op.default_attrs();
  const std::vector<std::string> types = op.attr_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto& [name, value] = attributes.as_map()[i];
    arguments.push_back(attribute(name, types[i], value));
  }
  return "| `" + std::string(op.info().name.value) + "(" + joined(arguments, ", ") + ") -> " +
         results_of(op) + "` | " + autocast_of(op.info()) + " | " + dtypes_of(op) + " | " +
         devices_of(op, written) + " | " + derivatives_of(op) + " |\n";
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string devices_of(const RegistryEntry& op, const std::string& written) {
  constexpr std::string_view kCuda = "cuda";
  std::vector<std::string> names;
  for (const Device device : sweep::devices()) {
    if (runs_on(op, device)) names.push_back(device.is_cpu() ? "cpu" : std::string(kCuda));
  }
  if (sweep::devices().size() == 1) {
    const std::string before = column_of(written, op.info().name.value, 3);
    if (before.empty() || before.find(kCuda) != std::string::npos) names.emplace_back(kCuda);
  }
  return joined(names, ", ");
}

std::string to_markdown(const std::string& root) {
  const std::vector<Family> families = read_families(root);
  const std::string written = read(root + "/docs/ops.md");
  std::map<const Family*, std::string> lines;
  std::size_t count = 0;
  for (const RegistryEntry* op : all_ops()) {
    lines[family_of(families, op->info().name.value)] += line_of(*op, families, written);
    ++count;
  }
  std::string text = kHead;
  text.append("\n").append(std::to_string(count)).append(" ops.\n");
  const auto section = [&](const std::string& title, const std::string& body) {
    text.append("\n## ").append(title).append("\n\n").append(kColumns).append(body);
  };
  for (const Family& family : families) {
    if (const auto found = lines.find(&family); found != lines.end())
      section("`" + family.path + "`\n\n" + wrapped(family.title), found->second);
  }
  if (const auto found = lines.find(nullptr); found != lines.end())
    section("Behind Tensor's members and operators", found->second);
  return text;
}

}  // namespace mezzo::op_table
