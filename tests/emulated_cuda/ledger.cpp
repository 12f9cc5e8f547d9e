// The ledger of what work moves.
#include "ledger.h"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <utility>

#include "emulated_cuda/ledger.h"
#include "report.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

constexpr std::size_t kPage = 4096;
enum PageState : unsigned char { kClosed, kRead, kWritten, kReadAndWritten };

struct Ledger {
  bool kept = false, computes_products = true;
  std::vector<LedgerEntry> entries;
  /// Of the work that runs: the device's memory, and the state of each of its pages.
  std::byte* watched = nullptr;
  std::vector<unsigned char> pages;
};

/// Hold the runtime's mutex.
Ledger& ledger() {
  static Ledger state;
  return state;
}

void protect(std::byte* start, std::size_t bytes, int rights) {
  if (bytes > 0 && mprotect(start, bytes, rights) != 0) std::abort();
}

}  // namespace

bool open_page(const void* address, bool writes) {
  Ledger& state = ledger();
  if (state.watched == nullptr) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - state.watched);
  if (offset / kPage >= state.pages.size()) return false;
  unsigned char& page = state.pages[offset / kPage];
  // A page that is open for reading and faults is written; one that is open for both is not ours to open.
  if (page == kWritten || page == kReadAndWritten) return false;
  if (page == kRead) writes = true;
  page = page == kRead ? kReadAndWritten : writes ? kWritten : kRead;
  std::byte* const start = state.watched + offset / kPage * kPage;
  return mprotect(start, kPage, writes ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
}

void run_in_ledger(const std::function<std::string()>& name, dim3 grid, dim3 block,
                   const std::function<void()>& work) {
  Ledger& state = ledger();
  if (!state.kept) return work();
  LedgerEntry entry{name(), grid, block};
  DeviceMemory& memory = current_memory();
  const std::size_t bytes = memory.opened();
  state.pages.assign(bytes / kPage, kClosed);
  state.watched = memory.base();
  protect(state.watched, bytes, PROT_NONE);
  work();
  protect(std::exchange(state.watched, nullptr), bytes, PROT_READ | PROT_WRITE);
  for (const unsigned char page : state.pages) {
    if (page == kRead || page == kReadAndWritten) entry.read += kPage;
    if (page == kWritten || page == kReadAndWritten) entry.written += kPage;
  }
  state.entries.push_back(std::move(entry));
}

std::string short_name(detail::AnyKernel kernel) {
  static std::map<detail::AnyKernel, std::string> names;  // reading the table of symbols takes long
  const auto known = names.find(kernel);
  if (known != names.end()) return known->second;
  std::vector<char> text(4096);
  kernel_name(kernel, text.data(), text.size());
  std::string name = text.data();
  // The parameters begin at the last parenthesis outside of template arguments and other parentheses.
  int depth = 0;
  std::size_t end = name.size();
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '(' && depth == 0 && name.compare(i, 21, "(anonymous namespace)") != 0) end = i;
    if (name[i] == '<' || name[i] == '(') ++depth;
    if (name[i] == '>' || name[i] == ')') --depth;
  }
  name.resize(end);
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  return names.emplace(kernel, std::move(name)).first->second;
}

void keep_ledger(bool on) {
  const std::lock_guard lock(runtime_mutex());
  ledger() = Ledger{};
  ledger().kept = on;
  ledger().computes_products = !on;
}

void leave_out_products() {
  const std::lock_guard lock(runtime_mutex());
  ledger().computes_products = false;
}

std::vector<LedgerEntry> take_ledger() {
  const std::lock_guard lock(runtime_mutex());
  return std::exchange(ledger().entries, {});
}

void run_product(const Product& product) {
  Ledger& state = ledger();
  if (state.computes_products) return product.compute();
  product.clear();
  if (!state.kept) return;
  state.entries.push_back({product.name, {}, {}, product.read, product.written, product.operations});
}

}  // namespace emulated_cuda
