// Writes docs/cuda_steps.md.
#include "step_table/table.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <regex>

namespace mezzo::step_table {

namespace {

[[gnu::format(printf, 1, 2)]] std::string text_of(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

/// A kernel's name without namespaces, and without what a reader can do without.
std::string readable(std::string name) {
  static const std::regex kNamespaces(R"(\(anonymous namespace\)::|\b[a-z_0-9]+::)"), kNumbers(R"((\d)ul\b)");
  name = std::regex_replace(name, kNamespaces, "");
  name = std::regex_replace(name, kNumbers, "$1");
  return name.size() <= 90 ? name : name.substr(0, 87) + "...";
}

bool is_kernel(const emulated_cuda::LedgerEntry& entry) {
  return entry.operations == 0 && entry.name != "copy" && entry.name != "fill";
}

std::string size_of_grid(const emulated_cuda::LedgerEntry& entry) {
  if (!is_kernel(entry)) return "";
  const auto count = [](const dim3& size) { return static_cast<unsigned long>(size.x) * size.y * size.z; };
  return text_of("%lu x %lu", count(entry.grid), count(entry.block));
}

/// Operations per second of a product, by what it is called in the ledger.
double rate_of(const std::string& product, const Rates& rates) {
  const auto says = [&](const char* text) { return product.find(text) != std::string::npos; };
  if (says("TF32")) return rates.operations_tf32;
  return says("f16") || says("16 bit") ? rates.operations_16_bit : rates.operations_f32;
}

std::string table_of(const Step& step, const Rates& rates) {
  std::string text = "| # | launch | blocks x threads | MB read | MB written | GFLOP | us |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- |\n";
  double seconds = 0, read = 0, written = 0, operations = 0;
  int number = 0;
  for (const emulated_cuda::LedgerEntry& entry : step.entries) {
    const double its_read = static_cast<double>(entry.read), its_written = static_cast<double>(entry.written);
    const std::string name = is_kernel(entry) ? "`" + readable(entry.name) + "`" : entry.name;
    text += text_of("| %d | ", ++number) + name + " | " + size_of_grid(entry);
    text += text_of(" | %.1f | %.1f | %.2f | %.1f |\n", its_read / 1e6, its_written / 1e6,
                    entry.operations / 1e9, 1e6 * seconds_of(entry, rates));
    seconds += seconds_of(entry, rates);
    read += its_read, written += its_written, operations += entry.operations;
  }
  text += text_of("| | **all** | | %.0f | %.0f | %.2f | %.0f |\n\n", read / 1e6, written / 1e6,
                  operations / 1e9, 1e6 * seconds);
  const auto launches = static_cast<double>(step.entries.size());
  return text + text_of("With the way from one launch to the next: %.0f us eager, %.0f us captured.\n",
                        1e6 * (seconds + launches * rates.launch),
                        1e6 * (seconds + launches * rates.launch_captured));
}

}  // namespace

double seconds_of(const emulated_cuda::LedgerEntry& entry, const Rates& rates) {
  const double bytes = static_cast<double>(entry.read) + static_cast<double>(entry.written);
  return std::max(bytes / rates.copy_bytes, entry.operations / rate_of(entry.name, rates));
}

std::string to_markdown(const std::vector<Step>& steps, const Rates& rates) {
  std::string text = "# Predicted training steps on an H200\n\n";
  text +=
      "Counts, no measurements: what an H200 took is in `bench/results`. The emulated device (preset "
      "`cuda-emulated`) runs the\n";
  text +=
      "step with the library's own kernels in their own grids, and notes which pages of its memory each of "
      "them reads and\n";
  text +=
      "writes; of products of cuBLASLt and cuDNN it knows the sizes. `tools/step_table` writes this "
      "page:\n\n```sh\n";
  text += std::string(kRenew) + "\n```\n\n";
  text +=
      "A launch takes the longer of its bytes at the rate of a copy and its operations at the rate of "
      "products:\n\n";
  text += "| assumed of an H200 (`Rates` in `tools/step_table/table.h`) | |\n| --- | --- |\n";
  text += text_of("| bytes read and written, also those that its cache holds | %.1f TB/s |\n",
                  rates.copy_bytes / 1e12);
  text += text_of("| products from 16 bits | %.0f TFLOP/s |\n", rates.operations_16_bit / 1e12);
  text += text_of("| products in TF32 | %.0f TFLOP/s |\n", rates.operations_tf32 / 1e12);
  text += text_of("| products in f32 | %.0f TFLOP/s |\n", rates.operations_f32 / 1e12);
  text += text_of("| from one launch to the next, eager and captured | %.1f us, %.1f us |\n",
                  1e6 * rates.launch, 1e6 * rates.launch_captured);
  text += text_of("| multiprocessors, each with 2048 threads at work | %d |\n\n", rates.multiprocessors);
  text +=
      "So a kernel that computes more than it moves takes longer than stated here; `tools/kernel_report` "
      "counts that. Bytes\n";
  text += "are whole pages of 4 KiB. The arithmetic of attention is left out, its bytes are not.\n";
  for (const Step& step : steps)
    text += "\n## " + step.title + "\n\n" + step.about + "\n\n" + table_of(step, rates);
  return text;
}

}  // namespace mezzo::step_table
