// What a step under autocast runs: products with their layers, casts of weights, f32 islands. Internal.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "mezzo/amp/detail/cast_log.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/nn/call.h"
#include "mezzo/profile/advise/measurements.h"

namespace mezzo::amp::detail {

/// Watches the forward ops of its thread while it lives.
class Watch final : OpObserver, CastLog, nn::CallObserver {
 public:
  Watch();
  [[nodiscard]] Watched result() const;

 private:
  struct Cast {
    bool runs = false, was_made = false, is_weight = false;
    Tensor from;
    DType to = DType::f32;
  };

  void begin_op() noexcept override { casts_.clear(); }
  void begin_cast(const Tensor& tensor, DType dtype, bool kept) noexcept override;
  void end_cast() noexcept override;
  void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
           const Outputs& outputs) override;
  void enter(const nn::Module& module) override;
  void leave(const nn::Module& module, const Tensor* output) override;

  void book_casts(const OpInfo& info, Inputs inputs);
  void book_product(const OpInfo& info, Inputs inputs);
  /// Notes of each f32 result which op of category fp32 it comes from.
  void book_origin(const OpInfo& info, Inputs inputs, const Outputs& outputs);
  [[nodiscard]] std::string place() const;

  Watched result_;
  Cast cast_;                                                ///< that runs
  std::vector<Cast> casts_;                                  ///< made for the next op
  std::vector<std::pair<std::string, std::string>> places_;  ///< open calls: description and path
  /// By result, of which only the newest at an address counts: index into result_.islands.
  std::unordered_map<const void*, std::size_t> origins_;
  OpObserverGuard ops_;
  CastLogGuard log_;
  nn::CallObserverGuard calls_;
};

}  // namespace mezzo::amp::detail
