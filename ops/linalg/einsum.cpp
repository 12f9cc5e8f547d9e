// einsum: the parser of its equations; ops/linalg/contraction.h does the rest.
#include <algorithm>
#include <string>

#include "mezzo/autograd/decomposed.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/linalg/contraction.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

struct EinsumAttrs {
  std::string eq;
  MEZZO_FIELDS(EinsumAttrs, eq)
};

/// Labels: capitals, small letters, then the dims of "...", of which the last is kEllipsis.
constexpr std::int64_t kSmallLetters = 26, kLetters = 52, kEllipsis = kLetters + kMaxDims;

[[noreturn]] void refuse(const std::string& expected, const std::string& got) {
  throw ValueError("einsum", expected, got, "write it as \"ij,jk->ik\"");
}

/// The indices of one operand, or of the result.
struct Term {
  IntList before, after;  ///< letters before and after "..."
  bool ellipsis = false;
  [[nodiscard]] std::int64_t letters() const {
    return static_cast<std::int64_t>(before.size() + after.size());
  }
  /// All labels, where "..." stands for `dims` dims.
  [[nodiscard]] IntList labels(std::int64_t dims) const {
    IntList all = before;
    for (std::int64_t i = dims; ellipsis && i-- > 0;) all.push_back(kEllipsis - i);
    for (const std::int64_t label : after) all.push_back(label);
    return all;
  }
};

std::int64_t label_of(char c, const std::string& eq) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + kSmallLetters;
  refuse("letters, \"...\", \",\" and one \"->\"", "'" + std::string(1, c) + "' in \"" + eq + "\"");
}

Term parse_term(const std::string& text, const std::string& eq) {
  Term term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '.') {
      (term.ellipsis ? term.after : term.before).push_back(label_of(text[i], eq));
      continue;
    }
    if (term.ellipsis || text.compare(i, 3, "...") != 0)
      refuse("at most one \"...\" per operand", "\"" + eq + "\"");
    term.ellipsis = true;
    i += 2;
  }
  return term;
}

/// An equation: a term per operand, and the result's unless it is left to the rule.
struct Equation {
  std::vector<Term> operands;
  std::optional<Term> result;
};
Equation parse(const std::string& eq) {
  std::string text;
  for (const char c : eq) {
    if (c != ' ') text += c;
  }
  Equation equation;
  const std::size_t arrow = text.find("->");
  if (arrow != std::string::npos) equation.result = parse_term(text.substr(arrow + 2), eq);
  const std::string left = text.substr(0, arrow);
  for (std::size_t begin = 0; begin <= left.size();) {
    const std::size_t end = std::min(left.find(',', begin), left.size());
    equation.operands.push_back(parse_term(left.substr(begin, end - begin), eq));
    begin = end + 1;
  }
  return equation;
}

/// How many dims "..." stands for in the operand that has most. Throws unless every operand has the dims of
/// its term.
std::int64_t ellipsis_dims(const Equation& equation, std::span<const Shape> shapes, const std::string& eq) {
  if (equation.operands.size() != shapes.size()) {
    refuse("as many operands as the equation names, " + std::to_string(equation.operands.size()) + " in \"" +
               eq + "\"",
           std::to_string(shapes.size()));
  }
  std::int64_t most = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Term& term = equation.operands[i];
    const std::int64_t rest = static_cast<std::int64_t>(shapes[i].size()) - term.letters();
    if (rest < 0 || (rest > 0 && !term.ellipsis)) {
      throw ShapeError("einsum",
                       "an operand " + std::to_string(i) + " of " + (term.ellipsis ? "at least " : "") +
                           std::to_string(term.letters()) + " dims for \"" + eq + "\"",
                       to_string(shapes[i]), "name every dim, or write \"...\" for the others");
    }
    most = std::max(most, rest);
  }
  return most;
}

/// An equation on operands of certain shapes, as labels of their dims and of the result's.
struct Labels {
  std::vector<IntList> operands;
  IntList result;
};

/// The result's labels, as written and checked, or by the rule; `dims`: the dims of "...".
IntList result_labels(const Equation& equation, const std::vector<IntList>& operands, std::int64_t dims,
                      const std::string& eq) {
  IntList counts(static_cast<std::size_t>(kLetters), 0);
  for (const IntList& labels : operands) {
    for (const std::int64_t label : labels) {
      if (label < kLetters) ++counts[static_cast<std::size_t>(label)];
    }
  }
  if (!equation.result) {
    Term term{.before = {}, .after = {}, .ellipsis = true};
    for (std::int64_t label = 0; label < kLetters; ++label) {
      if (counts[static_cast<std::size_t>(label)] == 1) term.after.push_back(label);
    }
    return term.labels(dims);
  }
  IntList labels = equation.result->labels(dims);
  for (const std::int64_t label : labels) {
    const bool known = label >= kLetters || counts[static_cast<std::size_t>(label)] > 0;
    if (known && std::count(labels.begin(), labels.end(), label) == 1) continue;
    refuse("a result of distinct letters that operands have", "\"" + eq + "\"");
  }
  return labels;
}

Labels labels_of(const std::string& eq, std::span<const Shape> shapes) {
  const Equation equation = parse(eq);
  const std::int64_t dims = ellipsis_dims(equation, shapes, eq);
  Labels labels;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Term& term = equation.operands[i];
    labels.operands.push_back(term.labels(static_cast<std::int64_t>(shapes[i].size()) - term.letters()));
  }
  labels.result = result_labels(equation, labels.operands, dims, eq);
  return labels;
}

Outputs einsum_reference(const ForwardArgs<EinsumAttrs>& args) {
  std::vector<Shape> shapes;
  for (const TensorRef& input : args.inputs) shapes.push_back(input->shape());
  const Labels labels = labels_of(args.attrs.eq, shapes);
  std::vector<Labelled> operands;
  for (std::size_t i = 0; i < shapes.size(); ++i) operands.push_back({args.in(i), labels.operands[i]});
  return contract("einsum", std::move(operands), labels.result);
}

Outputs einsum_forward(const ForwardArgs<EinsumAttrs>& args) {
  Tensor result = Tensor(einsum_reference(args));
  for (const TensorRef& input : args.inputs) {
    if (result.impl().storage == input->impl().storage) return clone(result);
  }
  return alias(result, result.shape(), result.strides(), result.impl().offset, false);
}

/// Two operands are by far the most frequent case, and have gradients that are such sums themselves.
Gradients einsum_vjp(const VjpArgs<EinsumAttrs>& args) {
  if (args.num_inputs() == 2) {
    const Labels labels = labels_of(args.attrs.eq, std::array{args.in_shape(0), args.in_shape(1)});
    const std::array pair{labels.operands[0], labels.operands[1]};
    if (!has_repeated(pair[0]) && !has_repeated(pair[1]))
      return contract_gradients("einsum", args, pair, labels.result);
  }
  return decomposed(args);
}

std::vector<Sample<EinsumAttrs>> einsum_samples() {
  using op_samples::real;
  return {{{real({3, 4}), real({4, 5})}, {"ij,jk->ik"}},
          {{real({2, 3, 2, 4}), real({2, 5, 2, 4})}, {"bkhd,bqhd->bqkh"}},
          {{real({4, 4})}, {"ii->i"}},
          {{real({3, 2, 3, 3})}, {"iAii -> Ai"}},
          {{real({3, 5})}, {"ij->"}},
          {{real({3, 5})}, {"ba"}},
          {{real({3}), real({2})}, {"i,j"}},
          {{real({2, 3, 4}), real({4, 2})}, {"...ij,...jk->...ik"}},
          {{real({2, 1, 3}), real({4, 3})}, {"...i,...i"}},
          {{real({3, 1}), real({2, 4}), real({3, 4})}, {"ij,jk,ik->j"}},
          {{real({3, 1, 2}), real({2, 4, 1})}, {"ijk,jlk->l"}},
          {{real({3, 3}), real({3, 2})}, {"ii,ij->j"}},
          {{real({2, 0}), real({0, 3})}, {"ij,jk->ik"}}};
}
constexpr Op<EinsumAttrs> einsum_op =
    taking_list(fused_op<EinsumAttrs>("einsum", Category::lower_precision, einsum_samples, einsum_forward,
                                      einsum_reference, einsum_vjp, {~0U, 0}));
const Registered einsum_registered{einsum_op};

}  // namespace

Tensor einsum(const std::string& eq, TensorList operands) { return bind_list(einsum_op, operands, {eq}); }

}  // namespace mezzo
