// CheckedTransport: debug mode. Before each collective it checks that all ranks are about to make the same.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/function.h"
#include "mezzo/dist/detail/progress.h"
#include "mezzo/dist/transport.h"

namespace mezzo::dist {

/// Wraps any transport. Each call first gathers what every rank is about to do: the call, its number, its
/// size, dtype, op or root. Where two differ, `on_mismatch` is told which ranks and what, on all ranks; by
/// default it throws CommunicationError.
class CheckedTransport final : public Transport {
 public:
  using OnMismatch = mezzo::detail::Function<void(const std::string& message)>;
  explicit CheckedTransport(Ref<Transport> inner, OnMismatch on_mismatch = {});

  void broadcast(void* data, std::size_t bytes, int root) override;
  void all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override;
  void reduce_scatter(void* whole, void* part, std::int64_t count, DType dtype, ReduceOp op) override;
  void all_gather(const void* part, void* whole, std::size_t bytes) override;
  void all_to_all(const void* from, void* to, std::size_t bytes) override;
  void barrier() override;
  [[nodiscard]] Ref<Transport> split(std::span<const int> ranks) override;
  void set_place(std::string_view place) override;

 private:
  void check(CollectiveCall call);

  Ref<Transport> inner_;
  OnMismatch on_mismatch_;
  std::string place_;
  std::uint64_t calls_ = 0;
};

}  // namespace mezzo::dist
