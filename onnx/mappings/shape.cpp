// Views, slices, joins and paddings.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "mezzo/onnx/mappings/common.h"

namespace mezzo::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

void to_out_shape(Call& c) { c.set(c.reshaped(c.input(0), c.out_sizes(), c.in_sizes(0))); }

void permute(Call& c) { c.set(c.node("Transpose", {c.input(0)}, {{"perm", c.dims("dims")}})); }
void transpose(Call& c) {
  Integers order(static_cast<std::size_t>(c.in(0).dim()));
  std::iota(order.begin(), order.end(), 0);
  if (order.empty()) return c.set(c.input(0));
  std::swap(order[static_cast<std::size_t>(c.dim("d0"))], order[static_cast<std::size_t>(c.dim("d1"))]);
  c.set(c.node("Transpose", {c.input(0)}, {{"perm", order}}));
}

/// A size that stays is 1 in the target, which broadcasts.
void expand(Call& c) {
  Sizes target = c.out_sizes();
  const Sizes from = c.in_sizes(0);
  const std::size_t added = target.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (target[added + d] == from[d]) target[added + d] = {1, 1};
  }
  c.set(c.node("Expand", {c.input(0), c.list(target)}));
}

/// Dims of size 1 in both runs that go.
void squeeze(Call& c) {
  Integers gone;
  const Sizes sizes = c.in_sizes(0);
  for (const std::int64_t d : c.dims("dim")) {
    if (sizes[static_cast<std::size_t>(d)] == Size{1, 1}) gone.push_back(d);
  }
  c.set(gone.empty() ? c.input(0) : c.node("Squeeze", {c.input(0), c.list(gone)}));
}
void unsqueeze(Call& c) {
  c.set(c.node("Unsqueeze", {c.input(0), c.list(Integers{c.dim("dim", c.out().dim())})}));
}

std::string sliced(Call& c, const std::string& x, std::int64_t dim, Size begin, Size end,
                   std::int64_t step = 1) {
  return c.node("Slice",
                {x, c.list(Sizes{begin}), c.list(Sizes{end}), c.list(Integers{dim}), c.list(Integers{step})});
}
/// A bound that may vary; where the call leaves it out, `without`.
Size bound(Call& c, const char* name, std::int64_t without) {
  return c.is_given(name) ? c.size(name) : Size{without, without};
}
void slice(Call& c) {
  const std::int64_t dim = c.dim("dim");
  c.set(sliced(c, c.input(0), dim, bound(c, "start", 0), bound(c, "end", kEnd), c.integer("step")));
}
void narrow(Call& c) {
  const std::int64_t dim = c.dim("dim");
  Size begin = c.size("start");
  if (begin.first < 0) begin = begin + c.in_sizes(0)[static_cast<std::size_t>(dim)];
  c.set(sliced(c, c.input(0), dim, begin, begin + c.size("length")));
}
void select(Call& c) {
  if (c.select_state()) return;
  const std::int64_t dim = c.dim("dim");
  const Size index = c.size("index");
  if (!index.varies())
    return c.set(c.node("Gather", {c.input(0), c.number(static_cast<double>(index.first), DType::i64)},
                        {{"axis", dim}}));
  // Counted from the end, where that is the same in both runs.
  const Size size = c.in_sizes(0)[static_cast<std::size_t>(dim)];
  const Size from_end{index.first - size.first, index.second - size.second};
  const std::string list = c.list(Sizes{from_end.varies() ? index : from_end});
  const std::string row = c.node("Gather", {c.input(0), list}, {{"axis", dim}});
  c.set(c.node("Squeeze", {row, c.list(Integers{dim})}));
}
void flip(Call& c) {
  if (c.attr("dims").as_list().empty()) return c.set(c.input(0));
  const Integers dims = c.dims("dims"), minus_ones(dims.size(), -1);
  const Integers ends(dims.size(), std::numeric_limits<std::int64_t>::min());
  c.set(c.node("Slice", {c.input(0), c.list(minus_ones), c.list(ends), c.list(dims), c.list(minus_ones)}));
}
void roll(Call& c) {
  if (c.attr("dims").as_list().empty())
    c.refuse("a roll along dims", "one of the flat tensor", "name the dims");
  const Integers shifts = c.integers("shifts"), dims = c.dims("dims");
  std::string x = c.input(0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Size size = c.in_sizes(0)[static_cast<std::size_t>(dims[i])];
    // From the end for a positive shift, from the begin for a negative one: so for every size that is larger.
    const std::int64_t cut = size.varies() || size.first == 0 ? -shifts[i] : -(shifts[i] % size.first);
    if (cut == 0) continue;
    if (size.varies() && std::abs(cut) >= std::min(size.first, size.second))
      c.refuse("a roll by less than the dim's size", std::to_string(shifts[i]), "take the remainder");
    x = c.node("Concat",
               {sliced(c, x, dims[i], {cut, cut}, {kEnd, kEnd}), sliced(c, x, dims[i], {0, 0}, {cut, cut})},
               {{"axis", dims[i]}});
  }
  c.set(x);
}

void cat(Call& c) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < c.num_inputs(); ++i) {
    if (c.in(i).dim() == c.out().dim()) parts.push_back(operand(c, i));  // [0] counts as nothing
  }
  c.set(c.node("Concat", parts, {{"axis", c.dim("dim", c.out().dim())}}));
}
void stack(Call& c) {
  const std::int64_t dim = c.dim("dim", c.out().dim());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < c.num_inputs(); ++i)
    parts.push_back(c.node("Unsqueeze", {operand(c, i), c.list(Integers{dim})}));
  c.set(c.node("Concat", parts, {{"axis", dim}}));
}
void split(Call& c) {
  const std::int64_t dim = c.dim("dim");
  Sizes sizes;
  for (std::size_t i = 0; i < c.num_outputs(); ++i)
    sizes.push_back(c.out_sizes(i)[static_cast<std::size_t>(dim)]);
  const auto parts = c.nodes("Split", {c.input(0), c.list(sizes)}, {{"axis", dim}}, c.num_outputs());
  for (std::size_t i = 0; i < parts.size(); ++i) c.set(i, parts[i]);
}
void repeat(Call& c) {
  const Sizes reps = c.sizes("reps");
  Sizes sizes = c.in_sizes(0);
  std::string x = c.input(0);
  if (reps.size() > sizes.size()) {
    sizes.insert(sizes.begin(), reps.size() - sizes.size(), Size{1, 1});
    x = c.reshaped(x, sizes);
  }
  c.set(c.node("Tile", {x, c.list(reps)}));
}

/// One dim, padded by what lies at its other end; cut where less than nothing is asked for.
std::string wrapped(Call& c, std::string x, std::int64_t dim, std::int64_t before, std::int64_t after) {
  if (before < 0) x = sliced(c, x, dim, {-before, -before}, {kEnd, kEnd});
  if (after < 0) x = sliced(c, x, dim, {0, 0}, {after, after});
  std::vector<std::string> parts;
  if (before > 0) parts.push_back(sliced(c, x, dim, {-before, -before}, {kEnd, kEnd}));
  parts.push_back(x);
  if (after > 0) parts.push_back(sliced(c, x, dim, {0, 0}, {after, after}));
  return parts.size() == 1 ? x : c.node("Concat", parts, {{"axis", dim}});
}
/// The op's list has pairs of the last dims, the last one first; ONNX's all begins, then all ends.
void pad(Call& c) {
  const Integers pairs = c.integers("pad");
  const auto dims = static_cast<std::size_t>(c.in(0).dim());
  Integers pads(2 * dims);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::size_t d = dims - 1 - i / 2;
    pads[d] = pairs[i];
    pads[dims + d] = pairs[i + 1];
  }
  const std::string& mode = c.text("mode");
  if (mode == "circular") {
    std::string x = c.input(0);
    for (std::size_t d = 0; d < dims; ++d)
      x = wrapped(c, x, static_cast<std::int64_t>(d), pads[d], pads[dims + d]);
    return c.set(x);
  }
  const std::string name = mode == "replicate" ? "edge" : mode;
  c.set(c.node("Pad", {operand(c, 0), c.list(pads), mode == "constant" ? number(c, c.real("value")) : ""},
               {{"mode", name}}));
}

template <int kUpper>
void triangle(Call& c) {
  const std::string k = c.number(static_cast<double>(c.integer("diagonal")), DType::i64);
  c.set(c.node("Trilu", {c.input(0), k}, {{"upper", std::int64_t{kUpper}}}));
}

constexpr Mapping kMappings[]{
    {"reshape", to_out_shape},
    {"flatten", to_out_shape},
    {"permute", permute},
    {"transpose", transpose},
    {"expand", expand},
    {"squeeze", squeeze},
    {"unsqueeze", unsqueeze},
    {"slice", slice},
    {"narrow", narrow},
    {"select", select},
    {"flip", flip},
    {"roll", roll},
    {"cat", cat},
    {"stack", stack},
    {"split", split},
    {"repeat", repeat},
    {"pad", pad},
    {"tril", triangle<0>},
    {"triu", triangle<1>},
};

}  // namespace

std::span<const Mapping> shape_mappings() { return kMappings; }

}  // namespace mezzo::onnx
