// Poolings. Indices of maxima are ONNX's counted over all of the input; the op's are counted in a channel.
#include <utility>

#include "mezzo/onnx/mappings/spatial.h"
#include "mezzo/ops/shape.h"

namespace mezzo::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

/// The spatial sizes of input 0. Throws: ValueError where one varies.
Integers spatial_sizes(const Call& c, std::size_t spatial) {
  Integers result;
  const Sizes sizes = c.in_sizes(0);
  for (std::size_t d = sizes.size() - spatial; d < sizes.size(); ++d) {
    if (sizes[d].varies())
      c.refuse("spatial sizes that do not vary", "one that does", "export for one size of images");
    result.push_back(sizes[d].first);
  }
  return result;
}

/// The spatial sizes of the result.
Integers target_sizes(const Call& c, std::size_t spatial) {
  const Sizes sizes = c.out_sizes();
  Integers result;
  for (std::size_t d = sizes.size() - spatial; d < sizes.size(); ++d) result.push_back(sizes[d].first);
  return result;
}
/// Whether one of the spatial sizes varies.
bool varies(const Call& c, std::size_t spatial) {
  const Sizes sizes = c.in_sizes(0);
  return std::any_of(sizes.end() - static_cast<std::ptrdiff_t>(spatial), sizes.end(),
                     [](const Size& size) { return size.varies(); });
}

/// The attributes of windows. `counts_padding`: the mean of a window counts it. ONNX's ceil_mode keeps
/// windows that lie in the padding alone; so where sizes are known, the end of the padding says how many
/// there are, but where a window reaches behind padding that counts.
std::vector<Attribute> window_of(const Call& c, const Integers& dilation, bool counts_padding) {
  const std::size_t spatial = dilation.size();
  const Integers kernel = per_dim(c, "kernel_size", spatial), padding = per_dim(c, "padding", spatial);
  const Integers stride = c.integers("stride").empty() ? kernel : per_dim(c, "stride", spatial);
  Integers pads = both_sides(padding);
  bool ceil = c.flag("ceil_mode");
  if (ceil && !varies(c, spatial)) {
    const Integers sizes = spatial_sizes(c, spatial), out = target_sizes(c, spatial);
    Integers exact = pads;
    bool reaches_behind = false, fits = true;
    for (std::size_t d = 0; d < spatial; ++d) {
      const std::int64_t end =
          (out[d] - 1) * stride[d] + ops::kernel_reach(kernel[d], dilation[d]) - sizes[d] - padding[d];
      reaches_behind = reaches_behind || end > padding[d];
      fits = fits && end < kernel[d];  // a pad is smaller than the kernel
      exact[spatial + d] = std::max<std::int64_t>(end, 0);
    }
    ceil = !fits || (counts_padding && reaches_behind);
    if (!ceil) pads = exact;
  }
  return {{"kernel_shape", kernel},
          {"strides", stride},
          {"pads", pads},
          {"ceil_mode", std::int64_t{ceil ? 1 : 0}}};
}

/// A pooling to maxima, and their places in a channel when anything reads them.
void set_maxima(Call& c, const std::vector<Attribute>& attributes, std::size_t spatial) {
  const auto results = c.nodes("MaxPool", {batched(c, spatial)}, attributes, 2);
  set_unbatched(c, 0, results[0], spatial);
  if (varies(c, spatial)) return;
  std::int64_t channel = 1;
  for (const std::int64_t size : spatial_sizes(c, spatial)) channel *= size;
  const std::string count = c.number(static_cast<double>(channel), DType::i64);
  set_unbatched(c, 1, c.node("Mod", {results[1], count}), spatial);
}

template <std::size_t kSpatial>
void max_pool(Call& c) {
  const Integers dilation = per_dim(c, "dilation", kSpatial);
  std::vector<Attribute> attributes = window_of(c, dilation, false);
  attributes.push_back({"dilations", dilation});
  set_maxima(c, attributes, kSpatial);
}

template <std::size_t kSpatial>
void average_pool(Call& c) {
  const bool divides = !c.is_null("divisor_override");
  const bool counts_padding = divides || c.flag("count_include_pad");
  std::vector<Attribute> attributes = window_of(c, Integers(kSpatial, 1), counts_padding);
  attributes.push_back({"count_include_pad", std::int64_t{counts_padding ? 1 : 0}});
  std::string y = c.node("AveragePool", {batched(c, kSpatial)}, attributes);
  if (divides) {
    if (c.flag("ceil_mode"))
      c.refuse("divisor_override without ceil_mode", "both", "pad the input instead of ceil_mode");
    double count = 1;
    for (const std::int64_t size : per_dim(c, "kernel_size", kSpatial)) count *= static_cast<double>(size);
    y = c.node("Mul", {y, number(c, count / static_cast<double>(c.integer("divisor_override")))});
  }
  set_unbatched(c, 0, y, kSpatial);
}

bool is_global(const Integers& target) {
  return std::all_of(target.begin(), target.end(), [](std::int64_t size) { return size == 1; });
}
/// Windows of one size side by side; empty where the sizes do not divide.
std::vector<Attribute> even_windows(const Integers& sizes, const Integers& target) {
  Integers kernel;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] % target[d] != 0) return {};
    kernel.push_back(sizes[d] / target[d]);
  }
  return {{"kernel_shape", kernel}, {"strides", kernel}};
}

/// Places [begin, end) of window j of `target` ones that cover `size`.
std::pair<std::int64_t, std::int64_t> window(std::int64_t size, std::int64_t target, std::int64_t j) {
  return {j * size / target, ((j + 1) * size + target - 1) / target};
}

/// Columns [size, target] of the weights of an average over each window.
Tensor averages(std::int64_t size, std::int64_t target, DType dtype) {
  std::vector<double> weights(static_cast<std::size_t>(size * target));
  for (std::int64_t j = 0; j < target; ++j) {
    const auto [begin, end] = window(size, target, j);
    for (std::int64_t i = begin; i < end; ++i)
      weights[static_cast<std::size_t>(i * target + j)] = 1 / static_cast<double>(end - begin);
  }
  return tensor(weights, {size, target}, {.dtype = dtype});
}
/// Windows that overlap: products with matrices of averages, dim by dim.
std::string averaged(Call& c, std::string x, const Integers& sizes, const Integers& target) {
  const auto matrix = [&](std::size_t d) { return averages(sizes[d], target[d], c.out().dtype()); };
  const std::size_t last = sizes.size() - 1;
  x = c.node("MatMul", {x, c.constant(matrix(last))});
  if (last >= 1) x = c.node("MatMul", {c.constant(transpose(matrix(last - 1), 0, 1)), x});
  if (last < 2) return x;
  const std::string turned = c.node("Transpose", {x}, {{"perm", Integers{0, 1, 3, 4, 2}}});
  return c.node("Transpose", {c.node("MatMul", {turned, c.constant(matrix(0))})},
                {{"perm", Integers{0, 1, 4, 2, 3}}});
}

/// Windows that overlap, dim by dim: the largest of each, side by side.
std::string largest(Call& c, std::string x, const Integers& sizes, const Integers& target) {
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d) + 2;
    std::vector<std::string> parts;
    for (std::int64_t j = 0; j < target[d]; ++j) {
      const auto [begin, end] = window(sizes[d], target[d], j);
      const std::string part = c.node("Slice", {x, c.list(Integers{begin}), c.list(Integers{end}),
                                                c.list(Integers{dim}), c.list(Integers{1})});
      parts.push_back(c.reduced("ReduceMax", part, {dim}, true));
    }
    x = c.node("Concat", parts, {{"axis", dim}});
  }
  return x;
}

template <std::size_t kSpatial>
void adaptive_average(Call& c) {
  const std::string x = batched(c, kSpatial);
  const Integers target = target_sizes(c, kSpatial);
  if (is_global(target)) return set_unbatched(c, 0, c.node("GlobalAveragePool", {x}), kSpatial);
  const Integers sizes = spatial_sizes(c, kSpatial);
  const std::vector<Attribute> windows = even_windows(sizes, target);
  set_unbatched(c, 0, windows.empty() ? averaged(c, x, sizes, target) : c.node("AveragePool", {x}, windows),
                kSpatial);
}
template <std::size_t kSpatial>
void adaptive_max(Call& c) {
  const Integers target = target_sizes(c, kSpatial);
  if (is_global(target) && varies(c, kSpatial))
    return set_unbatched(c, 0, c.node("GlobalMaxPool", {batched(c, kSpatial)}), kSpatial);
  const Integers sizes = spatial_sizes(c, kSpatial);
  const std::vector<Attribute> windows = even_windows(sizes, target);
  if (windows.empty()) return set_unbatched(c, 0, largest(c, batched(c, kSpatial), sizes, target), kSpatial);
  set_maxima(c, windows, kSpatial);
}

/// Each value at its place in a channel of zeros.
template <std::size_t kSpatial>
void max_unpool(Call& c) {
  Sizes flat{c.in_sizes(0)}, full{c.out_sizes()};
  std::int64_t channel = 1;
  for (std::size_t d = full.size() - kSpatial; d < full.size(); ++d) channel *= full[d].first;
  const auto leading = static_cast<std::ptrdiff_t>(flat.size() - kSpatial);
  flat.erase(flat.begin() + leading, flat.end());
  full.erase(full.begin() + leading, full.end());
  const std::string minus_one = c.list(Integers{-1});
  const auto flattened = [&](const std::string& x) {
    return c.node("Reshape", {x, c.node("Concat", {c.list(flat), minus_one}, {{"axis", std::int64_t{0}}})});
  };
  full.push_back({channel, channel});
  const std::string zeros =
      c.node("ConstantOfShape", {c.list(full)}, {{"value", mezzo::zeros({1}, {.dtype = c.out().dtype()})}});
  const std::string places =
      c.node("ScatterElements", {zeros, flattened(c.input(1)), flattened(operand(c, 0))},
             {{"axis", static_cast<std::int64_t>(leading)}});
  c.set(c.reshaped(places, c.out_sizes()));
}

constexpr Mapping kMappings[]{
    {"max_pool1d", max_pool<1>},
    {"max_pool2d", max_pool<2>},
    {"max_pool3d", max_pool<3>},
    {"avg_pool1d", average_pool<1>},
    {"avg_pool2d", average_pool<2>},
    {"avg_pool3d", average_pool<3>},
    {"adaptive_avg_pool1d", adaptive_average<1>},
    {"adaptive_avg_pool2d", adaptive_average<2>},
    {"adaptive_avg_pool3d", adaptive_average<3>},
    {"adaptive_max_pool1d", adaptive_max<1>},
    {"adaptive_max_pool2d", adaptive_max<2>},
    {"adaptive_max_pool3d", adaptive_max<3>},
    {"max_unpool1d", max_unpool<1>},
    {"max_unpool2d", max_unpool<2>},
    {"max_unpool3d", max_unpool<3>},
};

}  // namespace

std::span<const Mapping> pooling_mappings() { return kMappings; }

}  // namespace mezzo::onnx
