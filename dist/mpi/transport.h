// MpiTransport: MPI's collectives on memory of the CPU.
#pragma once

#include <string>

#include "mezzo/dist/detail/progress.h"
#include "mezzo/dist/mpi/world.h"
#include "mezzo/dist/transport.h"

namespace mezzo::dist {

/// Its calls, construction included, are made on the thread of the world's queue.
class MpiTransport final : public Transport {
 public:
  /// Of all processes.
  explicit MpiTransport(MpiWorld& world);
  /// Of a part of them, which `name` names in messages.
  MpiTransport(MpiWorld& world, MezzoMpiGroup* group, int rank, int size, std::string name);

  void broadcast(void* data, std::size_t bytes, int root) override;
  void all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override;
  void reduce_scatter(void* whole, void* part, std::int64_t count, DType dtype, ReduceOp op) override;
  void all_gather(const void* part, void* whole, std::size_t bytes) override;
  void all_to_all(const void* from, void* to, std::size_t bytes) override;
  void barrier() override;
  [[nodiscard]] Ref<Transport> split(std::span<const int> ranks) override;
  void set_place(std::string_view place) override { progress().set_place(place); }

  /// How many elements one call of MPI reduces at most; larger reductions are cut. Tests make it small.
  static void set_most_elements(int count) noexcept;

 private:
  /// Begins, and waits for, what `begin(&request)` begins.
  template <class F>
  void run(F begin);
  template <class F>
  void run_call(CollectiveCall call, F body);
  /// run_call() of the one call that `begin(&request)` begins.
  template <class F>
  void run_alone(CollectiveCall call, F begin) {
    run_call(std::move(call), [&] { run(begin); });
  }
  void reduce_to_each(std::byte* whole, std::byte* part, std::int64_t count, DType dtype, int op);

  MpiWorld& world_;
  MezzoMpiGroup* group_;
  std::string name_;
  std::uint64_t calls_ = 0;
};

}  // namespace mezzo::dist
