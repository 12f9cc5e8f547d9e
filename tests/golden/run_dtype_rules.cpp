// The JSON goldens about dtypes: type promotion, autocast's categories, and the dtypes that statements give
// inside and outside of autocast regions.
#include <array>
#include <functional>
#include <map>
#include <optional>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "golden/names.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/promotion.h"
#include "mezzo/ops/ops.h"

namespace mezzo::golden {

namespace {

Tensor sample_of(DType dtype, std::int64_t dims) {
  return ones(dims == 0 ? Shape{} : Shape{2}, {.dtype = dtype});
}

// --- type promotion

void check_two_tensors(const Value& row) {
  const Tensor a = sample_of(dtype_of_case(row.at("a").as_string()), row.at("a_dims").as_int());
  const Tensor b = sample_of(dtype_of_case(row.at("b").as_string()), row.at("b_dims").as_int());
  const DType want = dtype_of_case(row.at("result").as_string());
  expect_dtype("result_type", result_type({&a, &b}), want);
  expect_dtype("mul", Tensor(call_op("mul", {a, b})).dtype(), want);
}

void check_number(const Value& row) {
  static const std::map<std::string, Scalar> numbers{
      {"bool", Scalar(true)}, {"int", Scalar(2)}, {"float", Scalar(2.5)}};
  const Tensor x = sample_of(dtype_of_case(row.at("tensor").as_string()), row.at("dims").as_int());
  const Scalar number = numbers.at(row.at("scalar").as_string());
  const DType want = dtype_of_case(row.at("result").as_string());
  expect_dtype("result_type", ResultType().add(x).add(number).get(), want);
  expect_dtype("mul", mul(x, number).dtype(), want);
}

using Unary = std::function<Tensor(const Tensor&)>;
const std::map<std::string, Unary>& unary_results() {
  static const std::map<std::string, Unary> table{
      {"sum", [](const Tensor& x) { return sum(x); }},
      {"mean", [](const Tensor& x) { return mean(x); }},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }},
      {"argmax", [](const Tensor& x) { return argmax(x); }},
      {"div_by_same", [](const Tensor& x) { return div(x, x); }},
      {"div_scalar_int", [](const Tensor& x) { return div(x, 2); }},
      {"mul_scalar_float", [](const Tensor& x) { return mul(x, 1.5); }},
      {"add_same", [](const Tensor& x) { return add(x, x); }},
      {"pow_int", [](const Tensor& x) { return pow(x, 2); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 0); }},
      {"norm", [](const Tensor& x) { return norm(x); }},
      {"var", [](const Tensor& x) { return var(x); }},
  };
  return table;
}

void check_unary(const Value& row) {
  const std::string& op = row.at("op").as_string();
  const auto found = unary_results().find(op);
  if (found == unary_results().end()) throw NotSupported("op " + op);
  const Tensor x = sample_of(dtype_of_case(row.at("in").as_string()), 1);
  if (!row.contains("raises")) {
    expect_dtype(op, found->second(x).dtype(), dtype_of_case(row.at("out").as_string()));
    return;
  }
  try {
    static_cast<void>(found->second(x));
  } catch (const Error&) {
    return;
  }
  throw Mismatch(op + " of " + to_string(x.dtype()) + ": got a result, want an error");
}

/// Refusals of PyTorch 1.13 that mezzo does not share: kernels that its CPU build has not for f16, and argmax
/// of bool, which mezzo's contract includes.
bool is_extension(const Value& row) {
  if (!row.contains("raises")) return false;
  return row.at("in").as_string() == "f16" ||
         (row.at("op").as_string() == "argmax" && row.at("in").as_string() == "bool");
}

// --- categories

Category category_of(const std::string& column) {
  static const std::map<std::string, Category> mapping{{"lower_precision_fp", Category::lower_precision},
                                                       {"fp32", Category::fp32},
                                                       {"promote", Category::promote},
                                                       {"error", Category::banned},
                                                       {"unlisted", Category::passthrough}};
  return mapping.at(column);
}

void expect_category(const std::string& op, Category got, Category want) {
  const auto name = [](Category c) { return std::string(kEnumNames<Category>[static_cast<std::size_t>(c)]); };
  if (got != want) throw Mismatch(op + ": got category " + name(got) + ", want " + name(want));
}

// --- statements

struct Statement {
  std::string_view code;
  DType (*result)();
};

Tensor f32_matrix() { return ones({2, 2}); }
Tensor bf16_matrix() { return ones({2, 2}, {.dtype = DType::bf16}); }

/// dtype of f() inside an enabled bf16 region.
template <class F>
DType inside(F f) {
  const amp::Autocast region(Device::cpu(), DType::bf16);
  return f().dtype();
}

DType matmul_in_disabled_region() {
  const amp::Autocast region(Device::cpu(), DType::bf16, {.enabled = false});
  return matmul(f32_matrix(), f32_matrix()).dtype();
}
DType matmul_in_nested_disabled_region() {
  const amp::Autocast outer_region(Device::cpu(), DType::bf16);
  const amp::Autocast region(Device::cpu(), {}, {.enabled = false});
  return matmul(f32_matrix(), f32_matrix()).dtype();
}
DType matmul_after_nested_disabled_region() {
  const amp::Autocast outer_region(Device::cpu(), DType::bf16);
  Tensor x;
  {
    const amp::Autocast region(Device::cpu(), {}, {.enabled = false});
    x = matmul(f32_matrix(), f32_matrix());
  }
  return matmul(x, f32_matrix()).dtype();
}
DType gradient_of_a_leaf() {
  const Tensor w = ones({2, 2}, {.requires_grad = true});
  Tensor y;
  {
    const amp::Autocast region(Device::cpu(), DType::bf16);
    y = sum(linear(f32_matrix(), w));
  }
  y.backward();
  return w.grad().dtype();
}
template <class F>
DType after_region(F f) {
  Tensor x;
  {
    const amp::Autocast region(Device::cpu(), DType::bf16);
    x = matmul(f32_matrix(), f32_matrix());
  }
  return f(x).dtype();
}

#define MEZZO_REGION "with torch.autocast(\"cpu\", torch.bfloat16): r = "
#define MEZZO_BLOCK "with torch.autocast(\"cpu\", torch.bfloat16):\n    "
#define MEZZO_DISABLED "with torch.autocast(\"cpu\", enabled=False):\n        "
const std::array kStatements{
    Statement{MEZZO_REGION "a @ b", [] { return inside([] { return matmul(f32_matrix(), f32_matrix()); }); }},
    Statement{MEZZO_REGION "torch.mm(a, b) + a",
              [] { return inside([] { return add(mm(f32_matrix(), f32_matrix()), f32_matrix()); }); }},
    Statement{MEZZO_REGION "torch.mm(d, d)",
              [] {
                return inside([] {
                  const Tensor d = to(f32_matrix(), DType::f64);
                  return mm(d, d);
                });
              }},
    Statement{MEZZO_REGION "torch.mm(n, n)",
              [] {
                return inside([] {
                  const Tensor n = to(f32_matrix(), DType::i64);
                  return mm(n, n);
                });
              }},
    Statement{MEZZO_REGION "a + h", [] { return inside([] { return add(f32_matrix(), bf16_matrix()); }); }},
    Statement{MEZZO_REGION "h + h", [] { return inside([] { return add(bf16_matrix(), bf16_matrix()); }); }},
    Statement{MEZZO_REGION "h * 2.0", [] { return inside([] { return mul(bf16_matrix(), 2.0); }); }},
    Statement{MEZZO_REGION "a.addmm_(a, b)",
              [] {
                return inside([] {
                  const Tensor a = f32_matrix();
                  return a.addmm_(a, f32_matrix());
                });
              }},
    Statement{MEZZO_REGION "torch.mm(a, b, out=torch.empty(2, 2))",
              [] { return inside([] {
                     return mm_out(empty({2, 2}), f32_matrix(), f32_matrix());
                   }); }},
    Statement{MEZZO_REGION "torch.sum(h, 0, dtype=torch.float32)",
              [] { return inside([] { return sum(bf16_matrix(), {0}, false, DType::f32); }); }},
    Statement{MEZZO_REGION "torch.cat([a, h])",
              [] { return inside([] {
                     return cat(std::array{f32_matrix(), bf16_matrix()});
                   }); }},
    Statement{MEZZO_REGION "torch.cat([h, h])",
              [] { return inside([] {
                     return cat(std::array{bf16_matrix(), bf16_matrix()});
                   }); }},
    Statement{MEZZO_REGION "F.mse_loss(h, h)",
              [] { return inside([] { return mse_loss(bf16_matrix(), bf16_matrix()); }); }},
    Statement{MEZZO_REGION "torch.relu(torch.mm(a, b))",
              [] { return inside([] { return relu(mm(f32_matrix(), f32_matrix())); }); }},
    Statement{"with torch.autocast(\"cpu\", torch.bfloat16, enabled=False): r = a @ b",
              matmul_in_disabled_region},
    Statement{MEZZO_BLOCK MEZZO_DISABLED "r = a @ b", matmul_in_nested_disabled_region},
    Statement{MEZZO_BLOCK MEZZO_DISABLED "x = a @ b\n    r = x @ b", matmul_after_nested_disabled_region},
    Statement{MEZZO_BLOCK "y = F.linear(a, w).sum()\ny.backward()\nr = w.grad.dtype", gradient_of_a_leaf},
    Statement{MEZZO_BLOCK "x = a @ b\nr = x + a",
              [] { return after_region([](const Tensor& x) { return add(x, f32_matrix()); }); }},
    Statement{MEZZO_BLOCK "x = a @ b\nr = x * 2.0",
              [] { return after_region([](const Tensor& x) { return mul(x, 2.0); }); }},
};
#undef MEZZO_REGION
#undef MEZZO_BLOCK
#undef MEZZO_DISABLED

void check_statement(const Value& record) {
  const std::string& code = record.at("code").as_string();
  for (const Statement& statement : kStatements) {
    if (statement.code != code) continue;
    expect_dtype("r", statement.result(), dtype_of_case(record.at("result").as_string()));
    return;
  }
  throw NotSupported("statement " + quote(code, 200));
}

}  // namespace

void run_promotion(const Value& content, Report& report) {
  const auto text = [](const Value& row, const char* key) { return row.at(key).as_string(); };
  for (const Value& row : content.at("tensor_tensor").as_list())
    report.run(text(row, "a") + "," + text(row, "b"), [&] { check_two_tensors(row); });
  for (const Value& row : content.at("tensor_scalar").as_list())
    report.run(text(row, "tensor") + "," + text(row, "scalar") + " number", [&] { check_number(row); });
  for (const Value& row : content.at("unary_result").as_list()) {
    const std::string name = text(row, "op") + "(" + text(row, "in") + ")";
    if (is_extension(row))
      report.note(name + " is left out: PyTorch refuses it, mezzo by contract does not");
    else
      report.run(name, [&] { check_unary(row); });
  }
}

void run_autocast_table(const Value& content, Report& report) {
  const Value& rows = content.at("ops");
  std::string own;
  for (const RegistryEntry* entry : all_ops()) {
    const std::string op(entry->info().name.value);
    std::vector<std::pair<std::string, Category>> wanted;
    for (const std::string& name : golden_names(op)) {
      if (const Value* row = rows.find(name))
        wanted.emplace_back(name, category_of(row->at("cuda_runs_as").as_string()));
    }
    // Ops of mezzo alone are unlisted: they run in the dtypes of their inputs.
    if (wanted.empty()) {
      wanted.emplace_back(op, Category::passthrough);
      own += " " + op;
    }
    report.run(op, [&] {
      for (const auto& [name, category] : wanted)
        expect_category(name, entry->info().category.value, category);
    });
  }
  report.note("not in the table, which has " + std::to_string(rows.size()) +
              " rows, and so passthrough:" + own);
}

void run_autocast_rules(const Value& content, Report& report) {
  std::size_t number = 0;
  for (const Value& record : content.at("records").as_list())
    report.run("record" + std::to_string(number++), [&] { check_statement(record); });
  report.note("recorded with PyTorch's CPU lists; the CUDA lists, which mezzo follows, give the same dtypes");
}

}  // namespace mezzo::golden
