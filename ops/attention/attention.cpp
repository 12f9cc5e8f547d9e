// Descriptors of scaled_dot_product_attention and its backward op.
#include "mezzo/ops/attention.h"

#include <algorithm>
#include <array>

#include "mezzo/ops/attention/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::absent;
using op_samples::constant;
using op_samples::mask;
using op_samples::real;

constexpr std::string_view kName = "scaled_dot_product_attention",
                           kBackward = "scaled_dot_product_attention_backward";

/// Any two numbers are a seed.
SampleInput seed() {
  return {
      .kind = SampleKind::index, .shape = {2}, .low = -0x1p63, .high = 0x1.0000000000001p63, .grad = false};
}

/// Result and logsumexp.
struct Found {
  Tensor out, logsumexp;
};
Found run_plain(const AttentionCall& call, const AttentionInputs& in, DType dtype) {
  const ComposedAttention plain(call, in, compute_dtype(in.query.dtype()));
  return {to(matmul(plain.dropped(plain.weights), plain.value), dtype), plain.logsumexp};
}
/// An uninitialised tensor whose dims lie in memory in the order of the dims of `like`: heads that were split
/// off rows of features are joined again without a copy.
Tensor empty_in_order_of(const Tensor& like, const Shape& shape, DType dtype) {
  const TensorOptions options{.dtype = dtype, .device = like.device()};
  // More leading dims than two are merged, which strides cannot always show.
  if (shape.size() != 4 || like.dim() != 4) return empty(shape, options);
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  std::stable_sort(order.begin(), order.begin() + 3,
                   [&](std::size_t a, std::size_t b) { return like.strides()[a] > like.strides()[b]; });
  Shape in_memory = shape;
  for (std::size_t d = 0; d < 4; ++d) in_memory[d] = shape[order[d]];
  const Dims steps = layout::contiguous_strides(in_memory);
  Dims strides = steps;
  for (std::size_t d = 0; d < 4; ++d) strides[order[d]] = steps[d];
  return alias(empty(in_memory, options), shape, strides, 0, false);
}

/// With the result in `dtype`.
Found run(const AttentionCall& call, const AttentionInputs& in, DType dtype) {
  const Device device = in.query.device();
  const DType compute = compute_dtype(dtype);
  const Shape shape = call.matrix(call.queries, call.value_size);
  Shape rows = shape;
  rows.pop_back();
  Found found{empty_in_order_of(in.query, shape, dtype), empty(rows, {.dtype = compute, .device = device})};
  AttentionViews views(call, in);
  const kernels::View out = views.heads(found.out, call.queries, call.value_size);
  kernels::attention(device, views.get(), out, found.logsumexp.impl().data());
  return found;
}

// --- the backward op. Inputs: grad, query, key, value, mask, seed, out, logsumexp. The last two are what the
// forward found, or absent: then they are computed again.

using BackwardArgs = ForwardArgs<AttentionBackwardAttrs>;

struct Backward {
  explicit Backward(const BackwardArgs& args)
      : in{args.in(1), args.in(2), args.in(3), args.in(4), args.in(5)}, call(kBackward, in, args.attrs) {
    const Tensor &grad = args.in(0), &out = args.in(6), &logsumexp = args.in(7);
    const Shape shape = call.matrix(call.queries, call.value_size);
    Shape rows = shape;
    rows.pop_back();
    for (const auto& [what, x, fitting] : {std::tuple{"a gradient", &grad, &shape},
                                           {"an out", &out, &shape},
                                           {"a logsumexp", &logsumexp, &rows}}) {
      if (!x->defined()) continue;
      require_floating(kBackward, *x);
      if (x->shape() == *fitting) continue;
      throw ShapeError(kBackward, std::string(what) + " of shape " + to_string(*fitting),
                       to_string(x->shape()), "pass what belongs to the result of the forward");
    }
    const AttentionBackwardAttrs& a = args.attrs;
    if (!a.query && !a.key && !a.value)
      throw ValueError(kBackward, "a gradient to compute", "none", "ask for query, key or value");
    const DType common = in.query.dtype();
    wanted = {Wanted{a.query, a.query_dtype.value_or(common), &in.query},
              {a.key, a.key_dtype.value_or(common), &in.key},
              {a.value, a.value_dtype.value_or(common), &in.value}};
    for (const Wanted& w : wanted) {
      if (!is_floating(w.dtype)) {
        throw DTypeError(kBackward, "gradients in a floating dtype", to_string(w.dtype),
                         "leave it out for the query's");
      }
    }
  }

  struct Wanted {
    bool is;
    DType dtype;
    const Tensor* of;
  };
  AttentionInputs in;
  AttentionCall call;
  std::array<Wanted, 3> wanted;
};

Outputs backward_reference(const BackwardArgs& args) {
  const Backward b(args);
  const DType compute = compute_dtype(b.in.query.dtype());
  const ComposedAttention plain(b.call, b.in, compute);
  const Tensor grad = to(args.in(0), compute), weights = plain.dropped(plain.weights);
  const Tensor through = plain.dropped(matmul(grad, transpose(plain.value, -2, -1)));
  const Tensor mean = sum(grad * matmul(weights, plain.value), {-1}, true);
  const Tensor scores = plain.weights * (through - mean) * b.call.scale;
  Outputs outputs;
  const auto give = [&](const Backward::Wanted& wanted, const Tensor& a, const Tensor& x) {
    if (wanted.is) outputs.push_back(to(b.call.summed(matmul(a, x), wanted.of->shape()), wanted.dtype));
  };
  give(b.wanted[0], scores, plain.key);
  give(b.wanted[1], transpose(scores, -2, -1), plain.query);
  give(b.wanted[2], transpose(weights, -2, -1), grad);
  return outputs;
}

Outputs backward_forward(const BackwardArgs& args) {
  const Backward b(args);
  const Device device = b.in.query.device();
  const DType dtype = b.in.query.dtype(), compute = compute_dtype(dtype);
  Found found{args.in(6), args.in(7)};
  if (!found.out.defined() || !found.logsumexp.defined()) found = run(b.call, b.in, compute);
  const Tensor logsumexp = to(found.logsumexp, compute).contiguous();

  AttentionViews views(b.call, b.in);
  const std::int64_t lengths[] = {b.call.queries, b.call.keys, b.call.keys},
                     sizes[] = {b.call.size, b.call.size, b.call.value_size};
  std::array<Tensor, 3> gradients;
  std::array<kernels::View, 3> targets;
  for (std::size_t i = 0; i < 3; ++i) {
    if (!b.wanted[i].is) continue;
    const Shape shape = b.call.matrix(lengths[i], sizes[i]);
    // Of a tensor that was repeated the gradients are added up before they are rounded.
    const bool repeated = b.wanted[i].of->shape() != shape;
    gradients[i] = empty_in_order_of(*b.wanted[i].of, shape, repeated ? compute : b.wanted[i].dtype);
    targets[i] = views.heads(gradients[i], lengths[i], sizes[i]);
  }
  kernels::attention_backward(device, views.get(), targets[0], targets[1], targets[2],
                              views.heads(to(args.in(0), dtype), b.call.queries, b.call.value_size),
                              views.heads(found.out, b.call.queries, b.call.value_size),
                              logsumexp.impl().data());
  Outputs outputs;
  for (std::size_t i = 0; i < 3; ++i) {
    if (b.wanted[i].is)
      outputs.push_back(to(b.call.summed(gradients[i], b.wanted[i].of->shape()), b.wanted[i].dtype));
  }
  return outputs;
}

std::vector<Sample<AttentionBackwardAttrs>> backward_samples() {
  const AttentionAttrs dropping{.scale = 0.7, .dropout_p = 0.4};
  return {{{real({2, 3, 4}), real({2, 3, 5}), real({2, 7, 5}), real({2, 7, 4}), absent(), absent(), absent(),
            absent()},
           {}},
          {{real({2, 3, 2}), real({2, 3, 3}), real({1, 5, 3}), real({5, 2}), constant({3, 5}), absent(),
            absent(), absent()},
           {}},
          {{real({4, 2}), real({4, 3}), real({3, 3}), real({3, 2}), absent(), seed(), absent(), absent()},
           {dropping}},
          {{real({1, 2, 4, 1}), real({1, 2, 4, 3}), real({1, 2, 6, 3}), real({1, 2, 6, 1}), absent(),
            absent(), absent(), absent()},
           {{.is_causal = true}, true, false, true}},
          {{real({4, 3, 2}), real({4, 3, 3}), real({2, 5, 3}), real({2, 5, 2}), absent(), absent(), absent(),
            absent()},
           {{.enable_gqa = true}}}};
}
constexpr Op<AttentionBackwardAttrs> backward_op = fused_op<AttentionBackwardAttrs>(
    kBackward, Category::passthrough, backward_samples, backward_forward, backward_reference, kDecomposed,
    {tensor_set(0, 1, 2, 3, 4, 5), 0}, tensor_set(4, 5, 6, 7));

// --- the op. Inputs: query, key, value, mask, seed

using Args = ForwardArgs<AttentionForwardAttrs>;

AttentionInputs inputs_of(const Args& args) {
  return {args.in(0), args.in(1), args.in(2), args.in(3), args.in(4)};
}

Outputs outputs_of(Found found, bool logsumexp) {
  Outputs outputs(std::move(found.out));
  if (logsumexp) outputs.push_back(std::move(found.logsumexp));
  return outputs;
}

Outputs forward(const Args& args) {
  const AttentionInputs in = inputs_of(args);
  return outputs_of(run(AttentionCall(kName, in, args.attrs), in, in.query.dtype()), args.attrs.logsumexp);
}

Outputs reference(const Args& args) {
  const AttentionInputs in = inputs_of(args);
  const AttentionCall call(kName, in, args.attrs);
  return outputs_of(run_plain(call, in, in.query.dtype()), args.attrs.logsumexp);
}

Gradients vjp(const VjpArgs<AttentionForwardAttrs>& args) {
  // Gradients of a mask and of logsumexp are rarely asked for: the composition gives them, with matrices [..,
  // L, S].
  const bool kept = args.attrs.logsumexp;
  if (args.needs(3) || (kept && args.has_grad(1))) return decomposed(args);
  AttentionBackwardAttrs attrs{args.attrs,     args.needs(0),  args.needs(1), args.needs(2),
                               args.wanted(0), args.wanted(1), args.wanted(2)};
  // Without history: differentiated once more, the backward op starts from query, key and value.
  const Tensor out = kept ? args.out(0).detach() : Tensor(),
               logsumexp = kept ? args.out(1).detach() : Tensor();
  const Outputs found =
      bind(backward_op,
           {args.grad(), args.in(0), args.in(1), args.in(2), args.in(3), args.in(4), out, logsumexp}, attrs);
  Gradients gradients(5);
  std::size_t next = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (args.needs(i)) gradients[i] = found[next++];
  }
  return gradients;
}

std::vector<Sample<AttentionForwardAttrs>> attention_samples() {
  return {{{real({2, 3, 5}), real({2, 7, 5}), real({2, 7, 4}), absent(), absent()}, {}},
          {{real({2, 3, 3}), real({1, 5, 3}), real({5, 2}), real({3, 5}), absent()}, {{.scale = 0.5}}},
          {{real({2, 2, 3, 3}), real({2, 2, 6, 3}), real({2, 2, 6, 1}), mask({2, 1, 3, 6}), absent()}, {}},
          {{real({4, 3}), real({3, 3}), real({3, 2}), absent(), seed()},
           {{.is_causal = true, .scale = 0.7, .dropout_p = 0.4}}},
          {{real({2, 4, 3, 2}), real({2, 5, 2}), real({2, 1, 5, 3}), mask({2, 1, 3, 5}), absent()},
           {{.enable_gqa = true}}},
          {{real({0, 2, 3}), real({0, 4, 3}), real({0, 4, 2}), absent(), absent()}, {}},
          {{real({2, 2, 3}), real({2, 0, 3}), real({2, 0, 2}), absent(), absent()}, {}}};
}
constexpr Op<AttentionForwardAttrs> attention_op = fused_op<AttentionForwardAttrs>(
    kName, Category::lower_precision, attention_samples, forward, reference, vjp, kSaveAll, tensor_set(3, 4));

const Registered attention_registered{backward_op, attention_op};

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, Generator& generator) {
  require_defined(kName, query);
  Tensor seed;
  // Any numbers will do but the largest, which randint's range leaves out.
  if (options.dropout_p > 0) {
    seed = randint(0, std::numeric_limits<std::int64_t>::max(), {2}, {.device = query.device()}, generator);
  }
  const AttentionForwardAttrs attrs{{options.is_causal, options.scale, options.dropout_p, options.enable_gqa},
                                    true};
  return bind(attention_op, {query, key, value, options.attn_mask, seed}, attrs)[0];
}

}  // namespace mezzo
