// Op files: outputs, gradients and second-order results of one expression, called through the registry by
// name. No op has code of its own here.
#include <cctype>
#include <map>
#include <optional>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "golden/names.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/shape.h"

namespace mezzo::golden {

namespace {

using Names = std::vector<std::string>;

/// Identifiers of an expression in order of their first appearance.
Names identifiers(const std::string& expr) {
  Names names;
  std::string word;
  for (const char c : expr + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
      continue;
    }
    if (!word.empty() && std::find(names.begin(), names.end(), word) == names.end()) names.push_back(word);
    word.clear();
  }
  return names;
}

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The tensor that the views of a case make of a stored input.
Tensor viewed(Tensor x, const Value& views) {
  for (const Value& view : views.as_list()) {
    const std::string& kind = view.at(std::size_t{0}).as_string();
    const auto number = [&](std::size_t i) { return view.at(i).as_int(); };
    if (kind == "transpose")
      x = transpose(x, number(1), number(2));
    else if (kind == "permute")
      x = permute(x, dims_of(view.at(1)));
    else if (kind == "slice")
      x = slice(x, number(1), number(2), number(3), number(4));
    else if (kind == "expand")
      x = expand(x, dims_of(view.at(1)));
    else
      throw NotSupported("view " + kind);
  }
  return x;
}

/// One case on its way: the stored inputs as leaves, and how to compute the outputs from them.
class OpCase {
 public:
  OpCase(const CaseFile& file, std::size_t index);
  void check_outputs_and_gradients();
  void check_second_order();

 private:
  [[nodiscard]] Names positions() const;
  [[nodiscard]] Tensors forward() const;
  void check_outputs(const Tensors& outputs) const;
  /// The outputs that have an upstream gradient, and these gradients.
  [[nodiscard]] std::pair<Tensors, Tensors> roots(const Tensors& outputs) const;
  [[nodiscard]] Tensors leaves(const Names& names) const;
  void check_gradients(const std::string& kind, const Names& names, const Tensors& got) const;

  const CaseFile& file_;
  std::size_t index_;
  const Value& meta_;
  DType dtype_;
  Names grads_, grads2_;
  Composite composite_;
  Call call_;
  std::map<std::string, Tensor> inputs_;
};

OpCase::OpCase(const CaseFile& file, std::size_t index)
    : file_(file),
      index_(index),
      meta_(file.meta(index)),
      dtype_(dtype_of_case(meta_.at("dtype").as_string())),
      grads_(strings(meta_, "grads")),
      grads2_(strings(meta_, "grads2")),
      composite_(find_composite(file.op())) {
  if (composite_ == nullptr) call_ = translate(file.op(), meta_.at("args"));
  for (const std::string& name : strings(meta_, "inputs")) {
    const Tensor leaf = file.tensor(index, "in." + name);
    if (contains(grads_, name) || contains(grads2_, name)) leaf.requires_grad_();
    inputs_.emplace(name, leaf);
  }
}

/// The tensor arguments in the order the expression names them, absent ones included. A list `xs` stands for
/// x0, x1, ...; a tuple `idx` for i0, i1, ....
Names OpCase::positions() const {
  const Names given = strings(meta_, "inputs");
  Names order;
  for (const std::string& word : identifiers(file_.expr())) {
    if (contains(given, word) || contains(call_.absent, word)) order.push_back(word);
    const std::string prefix = word == "xs" ? "x" : word == "idx" ? "i" : "";
    for (const std::string& name : given) {
      if (!prefix.empty() && name.size() > 1 && name.compare(0, 1, prefix) == 0) order.push_back(name);
    }
  }
  for (const std::string& name : given) {
    if (!contains(order, name)) throw Mismatch("input " + name + " is not in the expression");
  }
  return order;
}

Tensors OpCase::forward() const {
  Tensors tensors;
  for (const std::string& name : positions()) {
    const auto found = inputs_.find(name);
    Tensor tensor = found == inputs_.end() ? Tensor() : found->second;
    const Value* views = meta_.at("views").find(name);
    tensors.push_back(views == nullptr ? tensor : viewed(tensor, *views));
  }
  const SmallVector<TensorRef, 8> refs(tensors.begin(), tensors.end());
  Outputs outputs = composite_ != nullptr ? composite_(Inputs(refs), meta_.at("args"))
                                          : call_op(call_.op, Inputs(refs), call_.attrs);
  return Tensors(std::move(outputs));
}

void OpCase::check_outputs(const Tensors& outputs) const {
  const auto wanted = static_cast<std::size_t>(meta_.at("num_outputs").as_int());
  if (outputs.size() != wanted) {
    throw Mismatch("got " + std::to_string(outputs.size()) + " outputs, want " + std::to_string(wanted));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = "out." + std::to_string(i);
    const Tensor want = file_.tensor(index_, name);
    // 16-bit cases store f32 references; the op itself runs and answers in 16 bits.
    const bool low = is_floating(want.dtype()) && is_16bit(dtype_);
    expect_dtype(name, outputs[i].dtype(), low ? dtype_ : want.dtype());
    expect_close(name, outputs[i], want, is_floating(want.dtype()) ? tolerance(meta_, "out") : Tolerance{});
  }
}

std::pair<Tensors, Tensors> OpCase::roots(const Tensors& outputs) const {
  std::pair<Tensors, Tensors> result;
  for (const Value& which : meta_.at("gout").as_list()) {
    const auto i = static_cast<std::size_t>(which.as_int());
    result.first.push_back(outputs[i]);
    result.second.push_back(file_.tensor(index_, "gout." + std::to_string(i)));
  }
  return result;
}

Tensors OpCase::leaves(const Names& names) const {
  Tensors list;
  for (const std::string& name : names) list.push_back(inputs_.at(name));
  return list;
}

void OpCase::check_gradients(const std::string& kind, const Names& names, const Tensors& got) const {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string what = kind + "." + names[i];
    const Tensor& leaf = inputs_.at(names[i]);
    // No gradient at all is a gradient of zero.
    const Tensor gradient =
        got[i].defined() ? got[i] : zeros(leaf.shape(), {.dtype = leaf.dtype(), .device = leaf.device()});
    expect_dtype(what, gradient.dtype(), leaf.dtype());
    expect_close(what, gradient, file_.tensor(index_, what), tolerance(meta_, kind));
  }
}

void OpCase::check_outputs_and_gradients() {
  const Tensors outputs = forward();
  check_outputs(outputs);
  const auto [results, upstream] = roots(outputs);
  if (grads_.empty()) return;
  backward(results, upstream);
  Tensors got;
  for (const std::string& name : grads_) got.push_back(inputs_.at(name).grad());
  check_gradients("grad", grads_, got);
}

void OpCase::check_second_order() {
  if (grads2_.empty()) return;
  const auto [results, upstream] = roots(forward());
  const Tensors first = grad(results, leaves(grads_), upstream, {.create_graph = true, .allow_unused = true});
  check_gradients("grad", grads_, first);
  Tensors roots, directions;
  for (std::size_t i = 0; i < grads_.size(); ++i) {
    const std::string v = "v." + grads_[i];
    // A gradient without history is a constant, whose derivative is zero.
    if (!file_.has(index_, v) || !first[i].defined() || !first[i].requires_grad()) continue;
    roots.push_back(first[i]);
    directions.push_back(file_.tensor(index_, v));
  }
  Tensors got(grads2_.size());
  if (!roots.empty()) got = grad(roots, leaves(grads2_), directions, {.allow_unused = true});
  check_gradients("grad2", grads2_, got);
}

}  // namespace

void run_op(const CaseFile& file, std::size_t index) {
  OpCase one(file, index);
  one.check_outputs_and_gradients();
  one.check_second_order();
}

}  // namespace mezzo::golden
