// Convolutions, plain and transposed, and resampling of images.
#include <cmath>

#include "mezzo/onnx/mappings/spatial.h"

namespace mezzo::onnx {

namespace {

/// Zeros before and behind each dim: of numbers, of "same" or of "valid".
std::vector<std::int64_t> pads_of(const Call& c, const std::vector<std::int64_t>& dilations) {
  const std::size_t spatial = dilations.size();
  if (!c.attr("padding").is_string()) return both_sides(per_dim(c, "padding", spatial));
  std::vector<std::int64_t> pads(2 * spatial);
  for (std::size_t d = 0; d < spatial && c.text("padding") == "same"; ++d) {
    const std::int64_t total =
        ops::kernel_reach(c.in(1).size(static_cast<std::int64_t>(d) + 2), dilations[d]) - 1;
    pads[d] = total / 2;
    pads[spatial + d] = total - total / 2;
  }
  return pads;
}

template <std::size_t kSpatial>
void convolution(Call& c) {
  const std::vector<std::int64_t> dilations = per_dim(c, "dilation", kSpatial);
  const std::string y =
      c.node("Conv", {batched(c, kSpatial), operand(c, 1), c.optional_input(2, c.out().dtype())},
             {{"strides", per_dim(c, "stride", kSpatial)},
              {"pads", pads_of(c, dilations)},
              {"dilations", dilations},
              {"group", c.integer("groups")}});
  set_unbatched(c, 0, y, kSpatial);
}
template <std::size_t kSpatial>
void transposed(Call& c) {
  const std::string y =
      c.node("ConvTranspose", {batched(c, kSpatial), operand(c, 1), c.optional_input(2, c.out().dtype())},
             {{"strides", per_dim(c, "stride", kSpatial)},
              {"pads", both_sides(per_dim(c, "padding", kSpatial))},
              {"output_padding", per_dim(c, "output_padding", kSpatial)},
              {"dilations", per_dim(c, "dilation", kSpatial)},
              {"group", c.integer("groups")}});
  set_unbatched(c, 0, y, kSpatial);
}

/// Resize to the result's sizes, or where factors were given by these: `power` of the op's, which may be in /
/// out.
void resize(Call& c, const std::vector<Attribute>& attributes, bool by_size, int power = 1) {
  if (by_size) return c.set(c.node("Resize", {operand(c, 0), "", "", c.list(c.out_sizes())}, attributes));
  std::vector<float> scales{1, 1};
  const auto& factors = c.attr("scale_factor").as_list();
  for (std::size_t d = 2; d < static_cast<std::size_t>(c.in(0).dim()); ++d) {
    const double factor = factors[factors.size() == 1 ? 0 : d - 2].as_double();
    scales.push_back(static_cast<float>(std::pow(factor, power)));
  }
  const auto count = static_cast<std::int64_t>(scales.size());
  c.set(c.node("Resize", {operand(c, 0), "", c.constant(tensor(scales, {count}))}, attributes));
}
Attribute text_of(const char* name, const char* value) { return {name, std::string(value)}; }

void interpolate(Call& c) {
  const std::string& mode = c.text("mode");
  const bool is_nearest = mode == "nearest" || mode == "nearest-exact";
  const bool aligns = !c.is_null("align_corners") && c.flag("align_corners");
  std::vector<Attribute> attributes{
      text_of("mode", is_nearest          ? "nearest"
                      : mode == "bicubic" ? "cubic"
                                          : "linear"),
      text_of("coordinate_transformation_mode", aligns              ? "align_corners"
                                                : mode == "nearest" ? "asymmetric"
                                                                    : "half_pixel")};
  if (is_nearest)
    attributes.push_back(text_of("nearest_mode", mode == "nearest" ? "floor" : "round_prefer_ceil"));
  if (mode == "bicubic") attributes.push_back({"cubic_coeff_a", -0.75F});
  const bool recomputes = !c.is_null("recompute_scale_factor") && c.flag("recompute_scale_factor");
  resize(c, attributes, c.is_null("scale_factor") || recomputes);
}
bool has_antialias(const TracedOp& /*op*/, std::int64_t opset) { return opset >= 18; }
void interpolate_antialiased(Call& c) {
  const bool is_cubic = c.text("mode") == "bicubic";
  std::vector<Attribute> attributes{text_of("mode", is_cubic ? "cubic" : "linear"),
                                    text_of("coordinate_transformation_mode", "half_pixel"),
                                    {"antialias", std::int64_t{1}},
                                    {"exclude_outside", std::int64_t{1}}};
  if (is_cubic) attributes.push_back({"cubic_coeff_a", -0.5F});
  // The op's factors are in / out, also where it was called with sizes.
  const auto& factors = c.attr("scale_factor").as_list();
  bool are_sizes = true;
  for (std::size_t d = 0; d < factors.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d) + 2;
    are_sizes = are_sizes && factors[d].as_double() == static_cast<double>(c.in(0).size(dim)) /
                                                           static_cast<double>(c.out().size(dim));
  }
  resize(c, attributes, are_sizes, -1);
}

bool samples_images(const TracedOp& op, std::int64_t /*opset*/) { return op.inputs[0].dim() == 4; }
void grid_sample(Call& c) {
  constexpr std::int64_t kNewNames = 20;
  std::string mode = c.text("mode");
  if (mode == "bilinear" && c.opset() >= kNewNames) mode = "linear";
  c.set(c.node("GridSample", {operand(c, 0), operand(c, 1)},
               {{"mode", mode},
                {"padding_mode", c.text("padding_mode")},
                {"align_corners", std::int64_t{c.flag("align_corners") ? 1 : 0}}}));
}

constexpr Mapping kMappings[]{
    {"conv1d", convolution<1>},
    {"conv2d", convolution<2>},
    {"conv3d", convolution<3>},
    {"conv_transpose1d", transposed<1>},
    {"conv_transpose2d", transposed<2>},
    {"conv_transpose3d", transposed<3>},
    {"interpolate", interpolate},
    {"interpolate_antialiased", interpolate_antialiased, has_antialias},
    {"grid_sample", grid_sample, samples_images},
};

}  // namespace

std::span<const Mapping> convolution_mappings() { return kMappings; }

}  // namespace mezzo::onnx
