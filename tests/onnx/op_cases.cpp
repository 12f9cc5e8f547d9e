// Ops by themselves and in small functions.
#include <limits>

#include "onnx/cases.h"

namespace mezzo::onnx::testing {

namespace {

/// Elementwise ops.
void add_pointwise_1(Cases& list) {
  const Tensor input = randn({2, 6}), positive = rand({2, 6}) + 0.1;
  list.op("abs", input, [](const Tensor& x) -> Tensor { return abs(x); });
  list.op("exp", input, [](const Tensor& x) -> Tensor { return exp(x); });
  list.op("log", positive, [](const Tensor& x) -> Tensor { return log(x); });
  list.op("sqrt", positive, [](const Tensor& x) -> Tensor { return sqrt(x); });
  list.op("rsqrt", positive, [](const Tensor& x) -> Tensor { return rsqrt(x); });
  list.op("recip", positive, [](const Tensor& x) -> Tensor { return reciprocal(x); });
  list.op("erf", input, [](const Tensor& x) -> Tensor { return erf(x); });
  list.op("ceil", input, [](const Tensor& x) -> Tensor { return ceil(x); });
  list.op("floor", input, [](const Tensor& x) -> Tensor { return floor(x); });
  list.op("trunc", input, [](const Tensor& x) -> Tensor { return trunc(x * 3); });
  list.op("round", input, [](const Tensor& x) -> Tensor { return round(x * 3); });
  list.op("round2", input, [](const Tensor& x) -> Tensor { return round(x, 2); });
  list.op("sin", input, [](const Tensor& x) -> Tensor { return sin(x); });
  list.op("cos", input, [](const Tensor& x) -> Tensor { return cos(x); });
  list.op("tan", input, [](const Tensor& x) -> Tensor { return tan(x); });
  list.op("asin", positive / 2, [](const Tensor& x) -> Tensor { return asin(x); });
  list.op("acos", positive / 2, [](const Tensor& x) -> Tensor { return acos(x); });
  list.op("atan", input, [](const Tensor& x) -> Tensor { return atan(x); });
  list.op("sinh", input, [](const Tensor& x) -> Tensor { return sinh(x); });
  list.op("cosh", input, [](const Tensor& x) -> Tensor { return cosh(x); });
  list.op("expm1", input, [](const Tensor& x) -> Tensor { return expm1(x); });
  list.op("log1p", positive, [](const Tensor& x) -> Tensor { return log1p(x); });
  list.op("log2", positive, [](const Tensor& x) -> Tensor { return log2(x); });
  list.op("log10", positive, [](const Tensor& x) -> Tensor { return log10(x); });
  list.op("sign", input, [](const Tensor& x) -> Tensor { return sign(x); });
  list.op("square", input, [](const Tensor& x) -> Tensor { return square(x); });
}

/// Elementwise ops.
void add_pointwise_2(Cases& list) {
  const Tensor input = randn({2, 6}), positive = rand({2, 6}) + 0.1, index = randint(0, 6, {2, 6});
  list.op("neg", input, [](const Tensor& x) -> Tensor { return -x; });
  list.op("add", input, [](const Tensor& x) -> Tensor { return x + x * 2 + 1; });
  list.op("sub", input, [](const Tensor& x) -> Tensor { return 1 - x - x; });
  list.op("addalpha", input, [](const Tensor& x) -> Tensor { return add(x, x, 3); });
  list.op("div", input, [](const Tensor& x) -> Tensor { return x / 2 + 3 / (x + 10); });
  list.op("divfloor", input, [](const Tensor& x) -> Tensor { return div(x, 0.3, RoundingMode::floor); });
  list.op("divtrunc", input, [](const Tensor& x) -> Tensor { return div(x, 0.3, RoundingMode::trunc); });
  list.op("rem", input, [](const Tensor& x) -> Tensor { return remainder(x, 0.7); });
  list.op("fmod", input, [](const Tensor& x) -> Tensor { return fmod(x, 0.7); });
  list.op("pow", input, [](const Tensor& x) -> Tensor { return pow(x, 2.0); });
  list.op("pow2", input, [](const Tensor& x) -> Tensor { return pow(2.0, x); });
  list.op("powt", positive, [](const Tensor& x) -> Tensor { return pow(x, x); });
  list.op("max", input, [](const Tensor& x) -> Tensor { return maximum(x, x * 2); });
  list.op("min", input, [](const Tensor& x) -> Tensor { return minimum(x, x * 2); });
  list.op("lae", input, [](const Tensor& x) -> Tensor { return logaddexp(x, -x); });
  list.op("where", input, [](const Tensor& x) -> Tensor { return where(x > 0, x, -x * 0.5); });
  list.op("cmp", input, [](const Tensor& x) -> Tensor {
    return (x >= 0).to(DType::f32) + (x < 0.5).to(DType::f32) * 2 + ne(x, x).to(DType::f32);
  });
  list.op("mfill", input, [](const Tensor& x) -> Tensor { return masked_fill(x, x > 0, -3); });
  list.op("clamp", input, [](const Tensor& x) -> Tensor { return clamp(x, -0.5, 0.5); });
  list.op("clampmin", input, [](const Tensor& x) -> Tensor { return clamp(x, -0.5); });
  list.op("lerp", input, [](const Tensor& x) -> Tensor { return lerp(x, x * 2, 0.3); });
  list.op("addcmul", input, [](const Tensor& x) -> Tensor { return addcmul(x, x, x, 0.5); });
  list.op("addcdiv", input, [](const Tensor& x) -> Tensor { return addcdiv(x, x, x + 10, 0.5); });
  list.op("isnan", input,
          [](const Tensor& x) -> Tensor { return isnan(x).to(DType::f32) + isfinite(x).to(DType::f32); });
  list.op("logical", input,
          [](const Tensor& x) -> Tensor { return logical_and(x > 0, logical_not(x > 1)).to(DType::f32); });
  list.op("int", index, [](const Tensor& x) -> Tensor { return x.to(DType::f32) * 0.5 + 1; });
}

/// Elementwise ops.
void add_pointwise_3(Cases& list) {
  const Tensor input = randn({2, 6}), index = randint(0, 6, {2, 6});
  list.op("intdiv", index - 3, [](const Tensor& x) -> Tensor { return div(x, 4, RoundingMode::floor); });
  list.op("intrem", index - 3, [](const Tensor& x) -> Tensor { return remainder(x, 4); });
}

/// Reductions and orders.
void add_reductions(Cases& list) {
  const Tensor input = randn({2, 6});
  list.op("prod", input, [](const Tensor& x) -> Tensor { return prod(x, 1) + prod(x); });
  list.op("index_add", input, [](const Tensor& x) -> Tensor {
    return index_add(x, 1, tensor({0, 2, 2}), x.narrow(1, 0, 3), 0.5);
  });
  list.op("index_copy_columns", input, [](const Tensor& x) -> Tensor {
    return index_copy(x, -1, tensor({5, 1}), x.narrow(1, 2, 2) * 3);
  });
  list.op("scatter_reduce", input, [](const Tensor& x) -> Tensor {
    return scatter_reduce(x, 1, (x > 0).to(DType::i64), x, ScatterReduction::sum);
  });
  list.op("scatter_largest", input,
          [](const Tensor& x) -> Tensor {
            return scatter_reduce(x, 1, (x > 0).to(DType::i64), x * 2, ScatterReduction::amax);
          },
          {.opset = 18});
  list.op("index_copy", input,
          [](const Tensor& x) -> Tensor { return index_copy(zeros_like(x), 0, arange(x.size(0)), x); });
  list.op("cumsum", input, [](const Tensor& x) -> Tensor { return cumsum(x, 1); });
  list.op("sort", input, [](const Tensor& x) -> Tensor { return sort(x, 1).values; });
  list.op("sortd", input, [](const Tensor& x) -> Tensor { return sort(x, 1, true).indices; });
  list.op("topk", input, [](const Tensor& x) -> Tensor { return topk(x, 3, 1).indices; });
  list.op("argmax", input, [](const Tensor& x) -> Tensor { return argmax(x, 1); });
  list.op("amax", input, [](const Tensor& x) -> Tensor { return amax(x, {1}); });
  list.op("maxdim", input, [](const Tensor& x) -> Tensor { return max(x, 1).indices; });
  list.op("lse", input, [](const Tensor& x) -> Tensor { return logsumexp(x, {1}, true); });
  list.op("sum", input, [](const Tensor& x) -> Tensor { return sum(x, {1}); });
  list.op("mean", input, [](const Tensor& x) -> Tensor { return mean(x, {1}, true); });
  list.op("var", input, [](const Tensor& x) -> Tensor { return var(x, {1}); });
  list.op("std", input, [](const Tensor& x) -> Tensor { return mezzo::std(x, {1}, false); });
  list.op("norm", input, [](const Tensor& x) -> Tensor { return norm(x, 2, {1}); });
  list.op("norm1", input, [](const Tensor& x) -> Tensor { return norm(x, 1, {1}); });
  list.op("norminf", input,
          [](const Tensor& x) -> Tensor { return norm(x, std::numeric_limits<double>::infinity(), {1}); });
  list.op("norm3", input, [](const Tensor& x) -> Tensor { return norm(x, 3, {1}); });
  list.op("normalize", input, [](const Tensor& x) -> Tensor { return normalize(x); });
  list.op("cos_sim", input, [](const Tensor& x) -> Tensor { return cosine_similarity(x, x * x); });
  list.op("any", input, [](const Tensor& x) -> Tensor { return any(x > 1, {1}); });
  list.op("all", input, [](const Tensor& x) -> Tensor { return all(x > -1, {1}); });
  list.op("sumall", input, [](const Tensor& x) -> Tensor { return sum(x) + x; });
  list.op("batchdiv", input, [](const Tensor& x) -> Tensor { return sum(x, {0}) / 2.0 + x; });
  list.op("meanb", input, [](const Tensor& x) -> Tensor { return x - mean(x, {0}, true); });
}

/// Views, slices, indices, and tensors made in forward.
void add_shapes_1(Cases& list) {
  const Tensor input = randn({2, 6}), index = randint(0, 6, {2, 6});
  list.op("onehot", index, [](const Tensor& x) -> Tensor { return one_hot(x, 6); });
  list.op("flip", input, [](const Tensor& x) -> Tensor { return flip(x, {1}); });
  list.op("roll", input, [](const Tensor& x) -> Tensor { return roll(x, {2}, {1}); });
  list.op("rollm", input, [](const Tensor& x) -> Tensor { return roll(x, {-1}, {0}); });
  list.op("repeat", input, [](const Tensor& x) -> Tensor { return x.repeat({2, 1, 3}); });
  list.op("expand", input, [](const Tensor& x) -> Tensor { return unsqueeze(x, 1).expand({-1, 3, -1}); });
  list.op("expandb", input, [](const Tensor& x) -> Tensor {
    return x.narrow(1, 0, 1).expand({x.size(0), 4});
  });
  list.op("stack", input, [](const Tensor& x) -> Tensor { return stack({x, x * 2}, 1); });
  list.op("split", input, [](const Tensor& x) -> Tensor { return split(x, {2, 4}, 1)[0] * 2; });
  list.op("chunk", input, [](const Tensor& x) -> Tensor {
    return cat({chunk(x, 3, 1)[2], chunk(x, 3, 1)[0]}, 1);
  });
  list.op("slice", input, [](const Tensor& x) -> Tensor { return x[{Slice(), Slice(1, -1, 2)}]; });
  list.op("selectneg", input, [](const Tensor& x) -> Tensor { return x[{Slice(), -1}]; });
  list.op("last", input, [](const Tensor& x) -> Tensor { return x[-1]; });
  list.op("first2", input, [](const Tensor& x) -> Tensor { return x[{Slice(0, 2)}]; });
  list.op("idx", input, [](const Tensor& x) -> Tensor { return index_select(x, 1, tensor({3, 0, 5})); });
  list.op("adv", input, [](const Tensor& x) -> Tensor { return x[{Slice(), tensor({3, 0, 5})}]; });
  list.op("index_behind", input, [](const Tensor& x) -> Tensor {
    return x.reshape({x.size(0), 2, 3})[{Slice(), tensor({0, 1, 1}), tensor({2, 0, 1})}];
  });
  list.op("cosine_of_broadcast", input, [](const Tensor& x) -> Tensor {
    return cosine_similarity(x.unsqueeze(1), x.unsqueeze(0), -1).narrow(1, 0, 2);
  });
  list.op("gather", input, [](const Tensor& x) -> Tensor { return gather(x, 1, (x > 0).to(DType::i64)); });
  list.op("adv2", input,
          [](const Tensor& x) -> Tensor {
            return x[{tensor({0, 1}), tensor({1, 2})}];
          },
          {.fixed_sizes = true});
  list.op("adv3", input, [](const Tensor& x) -> Tensor { return x[{arange(x.size(0)), argmax(x, 1)}]; });
  list.op("tril", input, [](const Tensor& x) -> Tensor { return tril(x); });
  list.op("triu", input, [](const Tensor& x) -> Tensor { return triu(x, 1); });
  list.op("zeros_like", input, [](const Tensor& x) -> Tensor { return x + ones_like(x) * 2; });
  list.op("arange", input,
          [](const Tensor& x) -> Tensor { return x + arange(x.size(0)).to(DType::f32).unsqueeze(1) * 2; });
  list.op("full", input, [](const Tensor& x) -> Tensor { return x + full({x.size(0), 1}, 3.0); });
  list.op("flatb", input, [](const Tensor& x) -> Tensor {
    return x.reshape({-1}).reshape({x.size(0), 2, 3}).permute({1, 0, 2});
  });
  list.op("flat2", input, [](const Tensor& x) -> Tensor { return x.reshape({x.size(0) * 2, 3}); });
}

/// Views, slices, indices, and tensors made in forward.
void add_shapes_2(Cases& list) {
  const Tensor input = randn({2, 6}), image = randn({2, 4, 8, 8});
  list.op("squeeze", input, [](const Tensor& x) -> Tensor { return x.unsqueeze(1).squeeze(1); });
  list.op("scatter", input,
          [](const Tensor& x) -> Tensor { return scatter(zeros_like(x), 1, (x > 0).to(DType::i64), x); });
  list.op("scatteradd", input,
          [](const Tensor& x) -> Tensor { return scatter_add(zeros_like(x), 1, (x > 0).to(DType::i64), x); });
  list.op("grid", rand({2, 3, 3, 2}) * 2 - 1, [image](const Tensor& x) -> Tensor {
    return grid_sample(image.narrow(0, 0, 1).expand({x.size(0), 4, 8, 8}), x);
  });
  list.op("unpool", image, [](const Tensor& x) -> Tensor {
    return [&] {
      auto [y, i] = max_pool2d_with_indices(x, {.kernel_size = 2});
      return max_unpool2d(y, i, {.kernel_size = 2});
    }();
  });
}

/// Products.
void add_products(Cases& list) {
  const Tensor input = randn({2, 6});
  list.op("mm", input,
          [](const Tensor& x) -> Tensor { return matmul(x, x.transpose(0, 1)).narrow(1, 0, 1); });
  list.op("matmulT", input, [](const Tensor& x) -> Tensor { return matmul(x, ones({6, 3})); });
  list.op("einsum", input, [](const Tensor& x) -> Tensor { return einsum("ij,kj->ik", {x, ones({4, 6})}); });
  list.op("outer", input, [](const Tensor& x) -> Tensor { return outer(x[0], x[0]) + sum(x); });
  list.op("addmm", input, [](const Tensor& x) -> Tensor {
    return addmm(ones({4}), x, ones({6, 4}), 0.5, 2.0);
  });
  list.op("tensordot", input, [](const Tensor& x) -> Tensor { return tensordot(x, ones({6, 3}), 1); });
}

/// Each way to read beside the image.
void add_grid_samples(Cases& list) {
  const Tensor image = randn({1, 4, 9, 7}), grid = rand({2, 4, 3, 2}) * 3 - 1.5;
  for (const auto padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
    for (const auto mode : {GridSampleMode::bilinear, GridSampleMode::nearest}) {
      for (const bool aligns : {false, true}) {
        const std::string name = std::string(kEnumNames<GridPadding>[static_cast<std::size_t>(padding)]) +
                                 "_" +
                                 std::string(kEnumNames<GridSampleMode>[static_cast<std::size_t>(mode)]);
        list.op("grid_" + name + (aligns ? "_aligned" : ""), grid, [=](const Tensor& x) {
          return grid_sample(image.expand({x.size(0), -1, -1, -1}).to(x.dtype()), x,
                             {.mode = mode, .padding_mode = padding, .align_corners = aligns});
        });
      }
    }
  }
}

}  // namespace

std::vector<Case> op_cases() {
  manual_seed(2);
  Cases list;
  for (const auto add : {add_pointwise_1, add_pointwise_2, add_pointwise_3, add_reductions, add_shapes_1,
                         add_shapes_2, add_products, add_grid_samples})
    add(list);
  return list.all;
}

}  // namespace mezzo::onnx::testing
