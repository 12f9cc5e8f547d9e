// The ledger of the emulated device against kernels whose reads and writes are known, and what
// tools/step_table makes of it. That docs/cuda_steps.md is current is a test of its own, in a process of its
// own.
#include "emulated_cuda/ledger.h"

#include "emulated/support.h"
#include "step_table/table.h"

namespace emulated_test {
namespace {

using emulated_cuda::LedgerEntry;
constexpr int kPage = 4096, kInts = kPage / static_cast<int>(sizeof(int));

__global__ void add_pages(int* sums, const int* from, int pages) {
  for (int i = 0; i < pages; ++i) sums[i * kInts] = sums[i * kInts] + from[i * kInts];
}
__global__ void set_pages(int* to, int pages) {
  for (int i = 0; i < pages; ++i) to[i * kInts] = i;
}

class Ledger : public Emulated {
 protected:
  void TearDown() override {
    emulated_cuda::keep_ledger(false);
    Emulated::TearDown();
  }
  static LedgerEntry only_entry() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto entries = emulated_cuda::take_ledger();
    EXPECT_EQ(entries.size(), 1U);
    return entries.empty() ? LedgerEntry{} : entries.front();
  }
};

TEST_F(Ledger, CountsPagesThatAreReadAndWritten) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "writes are told from reads on x86-64 only";
#endif
  // Three pages each, from where blocks begin: at most one page more where a block does not begin a page.
  int *const sums = to_device(std::vector<int>(4 * kInts, 1)), *const from =
                                                                   to_device(std::vector<int>(4 * kInts, 2));
  emulated_cuda::keep_ledger(true);
  MEZZO_OK(launch({{2, 1, 1}, {1, 1, 1}}, add_pages, sums, from, 3));
  const LedgerEntry added = only_entry();
  EXPECT_EQ(added.read, 6U * kPage);
  EXPECT_EQ(added.written, 3U * kPage);
  EXPECT_EQ(added.grid.x, 2U);
  EXPECT_NE(added.name.find("add_pages"), std::string::npos) << added.name;
  EXPECT_EQ(added.name.find("int"), std::string::npos) << added.name;
  MEZZO_OK(launch({{1, 1, 1}, {1, 1, 1}}, set_pages, sums, 4));
  const LedgerEntry set = only_entry();
  EXPECT_EQ(set.read, 0U);
  EXPECT_EQ(set.written, 4U * kPage);
  // The work is done, not only written down.
  EXPECT_EQ(to_host(sums, 3 * kInts)[2 * kInts], 2);
}

TEST_F(Ledger, HoldsFillsAndNothingWhenItIsNotKept) {
  int* const memory = device_array<int>(2 * kInts);
  MEZZO_OK(cudaMemsetAsync(memory, 0, kPage, nullptr));
  MEZZO_OK(cudaDeviceSynchronize());
  emulated_cuda::keep_ledger(true);
  MEZZO_OK(cudaMemsetAsync(memory, 0, 4, nullptr));
  const LedgerEntry filled = only_entry();
  EXPECT_EQ(filled.name, "fill");
  EXPECT_EQ(filled.written, kPage + 0U);
}

TEST(StepTable, TakesTheLongerOfBytesAndOperations) {
  const mezzo::step_table::Rates rates{
      .copy_bytes = 100, .operations_16_bit = 1000, .operations_tf32 = 40, .operations_f32 = 10};
  LedgerEntry entry;
  entry.name = "product, f16 to f16";
  entry.read = 100, entry.written = 200, entry.operations = 2000;
  EXPECT_EQ(mezzo::step_table::seconds_of(entry, rates), 3);
  entry.operations = 4000;
  EXPECT_EQ(mezzo::step_table::seconds_of(entry, rates), 4);
  entry.name = "product, f32 to f32 in TF32";
  EXPECT_EQ(mezzo::step_table::seconds_of(entry, rates), 100);
  entry.name = "product, f32 to f32";
  EXPECT_EQ(mezzo::step_table::seconds_of(entry, rates), 400);
}

}  // namespace
}  // namespace emulated_test
