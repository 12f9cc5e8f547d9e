// The members of Tensor that are ops, indices among them, with bad arguments.
#include <gtest/gtest.h>

#include "misuse/tensor_members.h"

namespace mezzo::misuse {
namespace {

TEST(Misuse, OfInPlaceMembers) {
  sweep({member<T, T, Scalar>("sub_", &Tensor::sub_),
         member<T, Scalar>("sub_", &Tensor::sub_),
         member<T, T>("div_", &Tensor::div_),
         member<T, Scalar>("div_", &Tensor::div_),
         member<T, Scalar>("pow_", &Tensor::pow_),
         member<T, std::optional<Scalar>, std::optional<Scalar>>("clamp_", &Tensor::clamp_),
         member<T, Scalar>("clamp_min_", &Tensor::clamp_min_),
         member<T, Scalar>("clamp_max_", &Tensor::clamp_max_),
         member<T>("neg_", &Tensor::neg_),
         member<T>("abs_", &Tensor::abs_),
         member<T>("exp_", &Tensor::exp_),
         member<T>("log_", &Tensor::log_),
         member<T>("sqrt_", &Tensor::sqrt_),
         member<T>("floor_", &Tensor::floor_),
         member<T>("round_", &Tensor::round_),
         member<T>("relu_", &Tensor::relu_),
         member<T>("sigmoid_", &Tensor::sigmoid_),
         member<T>("tanh_", &Tensor::tanh_),
         member<T, T, T, Scalar>("addcmul_", &Tensor::addcmul_),
         member<T, T, T, Scalar>("addcdiv_", &Tensor::addcdiv_),
         member<T, T, double>("lerp_", &Tensor::lerp_),
         member<T, T, Scalar>("masked_fill_", &Tensor::masked_fill_),
         member<T, std::int64_t, T, T>("scatter_", &Tensor::scatter_),
         member<T, std::int64_t, T, Scalar>("scatter_", &Tensor::scatter_),
         member<T, std::int64_t, T, T>("scatter_add_", &Tensor::scatter_add_),
         member<T, std::int64_t, T, T, Scalar>("index_add_", &Tensor::index_add_),
         member<T, double, double>("uniform_", &Tensor::uniform_),
         member<T, double, double>("normal_", &Tensor::normal_),
         member<T, double>("exponential_", &Tensor::exponential_),
         member<T, T>("operator&=", &Tensor::operator&=),
         member<T, Scalar>("operator|=", &Tensor::operator|=),
         member<T, T>("operator^=", &Tensor::operator^=)},
        40);
}

TEST(Misuse, OfMembersThatArrange) {
  sweep({member<Tensor, Device, DType>("to both", &Tensor::to),
         member<Tensor>("cpu", &Tensor::cpu),
         member<Tensor>("cuda", &Tensor::cuda),
         member<void, T>("backward of a gradient", &Tensor::backward),
         member<Tensor, const Shape&>("view", &Tensor::view),
         member<Tensor, const Shape&>("reshape", &Tensor::reshape),
         member<Tensor, const Dims&>("permute", &Tensor::permute),
         member<Tensor, std::int64_t, std::int64_t>("transpose", &Tensor::transpose),
         member<Tensor, std::int64_t, std::int64_t>("movedim", &Tensor::movedim),
         member<Tensor>("t", &Tensor::t),
         member<Tensor, const Shape&>("expand", &Tensor::expand),
         member<Tensor, T>("expand_as", &Tensor::expand_as),
         member<Tensor, T>("view_as", &Tensor::view_as),
         member<Tensor, T>("type_as", &Tensor::type_as),
         member<Tensor, const ReducedDims&>("squeeze", &Tensor::squeeze),
         member<Tensor, std::int64_t>("unsqueeze", &Tensor::unsqueeze),
         member<Tensor, std::int64_t, std::int64_t>("flatten", &Tensor::flatten),
         member<Tensor, std::int64_t, std::int64_t, std::int64_t>("narrow", &Tensor::narrow),
         member<Tensor, std::int64_t, std::int64_t>("select", &Tensor::select),
         member<Tensor, std::int64_t, std::optional<std::int64_t>, std::optional<std::int64_t>, std::int64_t>(
             "slice", &Tensor::slice),
         member<Tensors, std::int64_t, std::int64_t>("split", &Tensor::split),
         member<Tensors, std::int64_t, std::int64_t>("chunk", &Tensor::chunk),
         member<Tensors, std::int64_t>("unbind", &Tensor::unbind),
         member<Tensor, const Dims&>("repeat", &Tensor::repeat),
         member<Tensor, const ReducedDims&>("flip", &Tensor::flip),
         member<Tensor, std::int64_t, std::int64_t>("roll", &Tensor::roll),
         member<Tensor, std::int64_t>("tril", &Tensor::tril),
         member<Tensor, std::int64_t>("triu", &Tensor::triu),
         member<Tensor, std::int64_t>("diag", &Tensor::diag),
         member<Tensor, const Dims&>("tile", &Tensor::tile),
         member<Tensor, T, Scalar>("add", &Tensor::add),
         member<Tensor, Scalar>("add", &Tensor::add),
         member<Tensor, T, Scalar>("sub", &Tensor::sub),
         member<Tensor, Scalar>("sub", &Tensor::sub),
         member<Tensor, T>("mul", &Tensor::mul),
         member<Tensor, Scalar>("mul", &Tensor::mul),
         member<Tensor, T>("div", &Tensor::div),
         member<Tensor, Scalar>("div", &Tensor::div),
         member<Tensor, T>("pow", &Tensor::pow),
         member<Tensor, Scalar>("pow", &Tensor::pow)},
        40);
}

TEST(Misuse, OfMembersThatCompute) {
  sweep({member<Tensor, std::optional<Scalar>, std::optional<Scalar>>("clamp", &Tensor::clamp),
         member<Tensor, Scalar>("clamp_min", &Tensor::clamp_min),
         member<Tensor, Scalar>("clamp_max", &Tensor::clamp_max),
         member<Tensor>("neg", &Tensor::neg),
         member<Tensor>("abs", &Tensor::abs),
         member<Tensor>("sign", &Tensor::sign),
         member<Tensor>("square", &Tensor::square),
         member<Tensor>("exp", &Tensor::exp),
         member<Tensor>("log", &Tensor::log),
         member<Tensor>("log1p", &Tensor::log1p),
         member<Tensor>("expm1", &Tensor::expm1),
         member<Tensor>("erf", &Tensor::erf),
         member<Tensor>("sqrt", &Tensor::sqrt),
         member<Tensor>("rsqrt", &Tensor::rsqrt),
         member<Tensor>("reciprocal", &Tensor::reciprocal),
         member<Tensor>("sin", &Tensor::sin),
         member<Tensor>("cos", &Tensor::cos),
         member<Tensor>("floor", &Tensor::floor),
         member<Tensor>("ceil", &Tensor::ceil),
         member<Tensor>("round", &Tensor::round),
         member<Tensor>("relu", &Tensor::relu),
         member<Tensor>("sigmoid", &Tensor::sigmoid),
         member<Tensor>("tanh", &Tensor::tanh),
         member<Tensor, std::int64_t, std::optional<DType>>("softmax", &Tensor::softmax),
         member<Tensor, std::int64_t, std::optional<DType>>("log_softmax", &Tensor::log_softmax),
         member<Tensor, T>("matmul", &Tensor::matmul),
         member<Tensor, T>("mm", &Tensor::mm),
         member<Tensor, T>("bmm", &Tensor::bmm),
         member<Tensor, T>("dot", &Tensor::dot),
         member<Tensor, T>("eq", &Tensor::eq),
         member<Tensor, Scalar>("eq", &Tensor::eq),
         member<Tensor, T>("ne", &Tensor::ne),
         member<Tensor, Scalar>("ne", &Tensor::ne),
         member<Tensor, T>("lt", &Tensor::lt),
         member<Tensor, Scalar>("lt", &Tensor::lt),
         member<Tensor, T>("le", &Tensor::le),
         member<Tensor, Scalar>("le", &Tensor::le),
         member<Tensor, T>("gt", &Tensor::gt),
         member<Tensor, Scalar>("gt", &Tensor::gt),
         member<Tensor, T>("ge", &Tensor::ge)},
        40);
}

TEST(Misuse, OfMembersThatReduce) {
  sweep({member<Tensor, Scalar>("ge", &Tensor::ge),
         member<Tensor, T>("logical_and", &Tensor::logical_and),
         member<Tensor, T>("logical_or", &Tensor::logical_or),
         member<Tensor>("logical_not", &Tensor::logical_not),
         member<Tensor>("isnan", &Tensor::isnan),
         member<Tensor>("isinf", &Tensor::isinf),
         member<Tensor>("isfinite", &Tensor::isfinite),
         member<bool, T>("equal", &Tensor::equal),
         member<bool, T, double, double, bool>("allclose", &Tensor::allclose),
         member<Tensor, const ReducedDims&, bool, std::optional<DType>>("sum", &Tensor::sum),
         member<Tensor, const ReducedDims&, bool, std::optional<DType>>("mean", &Tensor::mean),
         member<Tensor, std::optional<std::int64_t>, bool>("prod", &Tensor::prod),
         member<Tensor, const ReducedDims&, bool, bool>("var", &Tensor::var),
         member<Tensor, const ReducedDims&, bool, bool>("std", &Tensor::std),
         member<Tensor, double, const ReducedDims&, bool>("norm", &Tensor::norm),
         member<Tensor, const Tensor&, double>("dist", &Tensor::dist),
         member<Tensor, const ReducedDims&, bool>("logsumexp", &Tensor::logsumexp),
         member<Tensor, const ReducedDims&, bool>("any", &Tensor::any),
         member<Tensor, const ReducedDims&, bool>("all", &Tensor::all),
         member<Tensor, const ReducedDims&, bool>("amax", &Tensor::amax),
         member<Tensor, const ReducedDims&, bool>("amin", &Tensor::amin),
         member<Tensor>("max", &Tensor::max),
         member<Tensor>("min", &Tensor::min),
         member<ValuesIndices, std::int64_t, bool>("max", &Tensor::max),
         member<ValuesIndices, std::int64_t, bool>("min", &Tensor::min),
         member<Tensor, std::optional<std::int64_t>, bool>("argmax", &Tensor::argmax),
         member<Tensor, std::optional<std::int64_t>, bool>("argmin", &Tensor::argmin),
         member<Tensor, std::int64_t>("cumsum", &Tensor::cumsum),
         member<ValuesIndices, std::int64_t>("cummax", &Tensor::cummax),
         member<ValuesIndices, std::int64_t>("cummin", &Tensor::cummin),
         member<Tensor, std::int64_t>("cumprod", &Tensor::cumprod),
         member<ValuesIndices, std::int64_t, bool>("sort", &Tensor::sort),
         member<Tensor, std::int64_t, bool>("argsort", &Tensor::argsort),
         member<ValuesIndices, std::int64_t, std::int64_t, bool>("topk", &Tensor::topk),
         member<Tensor, std::int64_t, T>("gather", &Tensor::gather),
         member<Tensor, std::int64_t, T, T>("scatter", &Tensor::scatter),
         member<Tensor, std::int64_t, T, T>("scatter_add", &Tensor::scatter_add),
         member<Tensor, std::int64_t, T>("index_select", &Tensor::index_select),
         member<Tensor, T, Scalar>("masked_fill", &Tensor::masked_fill),
         member<Tensor, T>("masked_select", &Tensor::masked_select),
         member<Tensor>("nonzero", &Tensor::nonzero)},
        40);
}

Index draw_index(Draw& draw) {
  if (draw.once_in(3)) return Drawn<std::int64_t>::from(draw);
  if (draw.once_in(3)) return Slice(Drawn<std::int64_t>::from(draw), None, Drawn<std::int64_t>::from(draw));
  if (draw.once_in(3)) return draw.once_in(2) ? Index(None) : Index(Ellipsis);
  return draw_tensor(draw);
}

TEST(Misuse, OfIndices) {
  sweep({{"read", [](Draw& draw) { static_cast<void>(draw_tensor(draw)[draw_index(draw)]); }},
         {"read by several",
          [](Draw& draw) {
            static_cast<void>(draw_tensor(draw)[{draw_index(draw), draw_index(draw)}]);
          }},
         {"index", [](Draw& draw) { static_cast<void>(draw_tensor(draw).index({draw_index(draw)})); }},
         {"write", [](Draw& draw) { draw_tensor(draw)[draw_index(draw)] = draw_tensor(draw); }},
         {"write a number", [](Draw& draw) { draw_tensor(draw)[draw_index(draw)] = 1; }},
         {"add", [](Draw& draw) { draw_tensor(draw)[draw_index(draw)] += draw_tensor(draw); }},
         {"index_put_",
          [](Draw& draw) { draw_tensor(draw).index_put_({draw_index(draw)}, draw_tensor(draw)); }},
         {"begin", [](Draw& draw) { static_cast<void>(*draw_tensor(draw).begin()); }},
         {"end", [](Draw& draw) { static_cast<void>(draw_tensor(draw).end()); }}},
        200);
}

}  // namespace
}  // namespace mezzo::misuse
