// An f32 result is traced from the op of category fp32 that made it through copies, sums and views to the
// cast that a product needs of it.
#include "mezzo/profile/advise/watch.h"

#include <algorithm>

#include "mezzo/amp/policy.h"
#include "mezzo/autograd/progress.h"

namespace mezzo::amp::detail {

namespace {

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

/// The row of a list that `is_it` is true of, or a new one.
template <class Rows, class F, class Row = typename Rows::value_type>
std::size_t find_or_add(Rows& rows, const F& is_it, Row row) {
  const auto found = std::find_if(rows.begin(), rows.end(), is_it);
  const auto index = static_cast<std::size_t>(found - rows.begin());
  if (found == rows.end()) rows.push_back(std::move(row));
  return index;
}

bool is_convolution(std::string_view op) { return op.starts_with("conv") && op != "conv_tbc"; }

}  // namespace

Watch::Watch()
    : ops_(static_cast<OpObserver*>(this)),
      log_(static_cast<CastLog&>(*this)),
      calls_(static_cast<nn::CallObserver&>(*this)) {}

Watched Watch::result() const {
  Watched result = result_;
  std::erase_if(result.islands, [](const Island& island) { return island.casts == 0; });
  std::stable_sort(result.islands.begin(), result.islands.end(),
                   [](const Island& a, const Island& b) { return a.bytes > b.bytes; });
  return result;
}

std::string Watch::place() const { return places_.empty() ? "the step" : places_.back().first; }

void Watch::enter(const nn::Module& module) {
  places_.emplace_back(module.described(), module.path());
  if (nn::CallObserver* const outer = calls_.outer()) outer->enter(module);
}

void Watch::leave(const nn::Module& module, const Tensor* output) {
  places_.pop_back();
  if (nn::CallObserver* const outer = calls_.outer()) outer->leave(module, output);
}

void Watch::begin_cast(const Tensor& tensor, DType dtype, bool /*kept*/) noexcept {
  cast_ = {
      .runs = true, .is_weight = tensor.requires_grad() && tensor.is_leaf(), .from = tensor, .to = dtype};
}

void Watch::end_cast() noexcept {
  cast_.runs = false;
  if (cast_.was_made) casts_.push_back(cast_);
  cast_ = {};
}

void Watch::ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype, const Outputs& outputs) {
  if (OpObserver* const outer = ops_.outer()) outer->ran(info, inputs, run_dtype, outputs);
  if (cast_.runs) {
    cast_.was_made = true;
    return;
  }
  if (autograd::progress().in_backward || outputs.empty() || !outputs[0].defined()) return;
  if (!result_.device) result_.device = outputs[0].device();
  book_casts(info, inputs);
  if (effective_category(info) == Category::lower_precision && is_half(outputs[0].dtype())) {
    if (!result_.dtype) result_.device = outputs[0].device();
    result_.dtype = result_.dtype.value_or(outputs[0].dtype());
    if (!places_.empty()) result_.half_modules.insert(places_.back().second);
    book_product(info, inputs);
  }
  book_origin(info, inputs, outputs);
  casts_.clear();
}

void Watch::book_casts(const OpInfo& info, Inputs inputs) {
  for (const Cast& cast : casts_) {
    const std::int64_t bytes = cast.from.numel() * (size_of(cast.from.dtype()) + size_of(cast.to));
    ++result_.casts;
    result_.bytes += bytes;
    if (!is_half(cast.to)) continue;
    // A layer's second input is its weight, which a parametrization computes.
    const bool is_computed = !cast.is_weight && cast.from.requires_grad() && inputs.size() > 1 &&
                             (info.name.value == "linear" || is_convolution(info.name.value)) &&
                             inputs[1]->shape() == cast.from.shape() &&
                             inputs[0]->shape() != cast.from.shape();
    if (!cast.is_weight && !is_computed) {
      const auto origin = origins_.find(&cast.from.impl());
      if (origin == origins_.end()) continue;
      result_.islands[origin->second].casts += 1;
      result_.islands[origin->second].bytes += bytes;
      continue;
    }
    const std::size_t row = find_or_add(
        result_.weights,
        [&](const WeightCasts& known) { return known.place == place() && known.is_computed == is_computed; },
        {.place = place(), .is_computed = is_computed});
    result_.weights[row].casts += 1;
    result_.weights[row].bytes += bytes;
  }
}

void Watch::book_product(const OpInfo& info, Inputs inputs) {
  if (inputs.size() < 2 || inputs[1]->dim() < 2) return;
  const Tensor& weight = inputs[1].get();
  if (info.name.value == "linear") {
    const std::int64_t n = weight.size(0), k = weight.size(1),
                       m = inputs[0]->numel() / std::max(k, std::int64_t{1});
    const std::size_t row = find_or_add(
        result_.products, [&](const Product& known) { return known.n == n && known.k == k && known.m == m; },
        {.place = place(), .m = m, .n = n, .k = k});
    ++result_.products[row].calls;
  } else if (is_convolution(info.name.value)) {
    const auto odd = [](std::int64_t size) { return size % 8 != 0; };
    if (result_.odd_convolution.empty() && (odd(weight.size(0)) || odd(weight.size(1))))
      result_.odd_convolution = place() + " (weight " + to_string(weight.shape()) + ")";
    result_.has_row_major_images |=
        inputs[0]->dim() >= 4 && inputs[0]->suggest_memory_format() != MemoryFormat::channels_last;
  }
}

void Watch::book_origin(const OpInfo& info, Inputs inputs, const Outputs& outputs) {
  std::optional<std::size_t> origin;
  if (effective_category(info) == Category::fp32) {
    const std::string op(info.name.value);
    origin = find_or_add(result_.islands, [&](const Island& known) { return known.op == op; },
                         {.op = op, .place = place()});
  } else {
    for (const TensorRef& input : inputs) {
      if (!input->defined() || origin) continue;
      const auto found = origins_.find(&input->impl());
      if (found != origins_.end()) origin = found->second;
    }
  }
  for (const Tensor& output : outputs) {
    if (!output.defined()) continue;
    if (origin && output.dtype() == DType::f32)
      origins_[&output.impl()] = *origin;
    else
      origins_.erase(&output.impl());
  }
}

}  // namespace mezzo::amp::detail
