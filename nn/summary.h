// Summaries of a model and of a run on an input: a table of its modules with output shapes, parameters and
// multiplications, as torchinfo's users know it.
//   std::cout << nn::summary(net, Shape{1, 3, 32, 32});
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "mezzo/autograd/op.h"
#include "mezzo/core/function.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// A place in the model: a slot, or the model itself.
struct SummaryRow {
  std::int64_t depth = 0;  ///< slots between the model and this place
  std::string path = {};   ///< of the slot; of the model ""
  std::string name = {};   ///< the last part of the path
  std::string type = {};
  /// Of a module that has an earlier row too, that row's index. There are no rows below this one then; what
  /// runs there counts in the earlier row's.
  std::optional<std::size_t> first = {};
  bool has_children = false;
  /// How often the module was called (nn/call.h). Of the slots of a module that is in several, those below
  /// the caller take turns. The model counts as called once when `run` did not use its call operator.
  std::int64_t calls = 0;
  /// Of what the first call returned, of several tensors the first.
  std::optional<Shape> output_shape = {};
  std::optional<DType> output_dtype = {};
  /// Elements of the module's own parameters, without children's, and of the parameters among them that
  /// require grad. A tensor counts in the first row that holds it.
  std::int64_t parameters = 0, trainable = 0;
  /// Multiplications (nn/summary/mult_adds.h) that ran in the module itself. Multiplications in modules that
  /// were not called by their slots belong to the caller.
  std::int64_t mult_adds = 0;
};

/// Columns of the printed table beside the tree. Numbers are a module's own; for a module without children,
/// or whose children are too deep to be printed, they hold all below it.
enum class SummaryColumn : std::uint8_t {
  output_shape,
  output_dtype,
  parameters,  ///< in parentheses when none of them is trained
  trainable,   ///< whether its and its children's parameters are: "true", "false", "partial"
  mult_adds,
  calls,
};

/// Columns that somebody else adds, such as amp/summary.h.
class SummaryExtension {
 public:
  virtual ~SummaryExtension() = default;
  /// An op ran in the module of a row. As OpObserver::ran.
  virtual void ran(std::size_t row, const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
                   const Outputs& outputs) = 0;
  [[nodiscard]] virtual std::vector<std::string> titles() const = 0;
  /// The cells of a row, one per title; asked at the end.
  [[nodiscard]] virtual std::vector<std::string> cells(const std::vector<SummaryRow>& rows,
                                                       std::size_t row) const = 0;
};

/// output_shape, parameters and mult_adds.
[[nodiscard]] std::vector<SummaryColumn> default_columns();

struct SummaryOptions {
  std::int64_t depth = 3;  ///< of the rows that are printed; at least 0
  std::vector<SummaryColumn> columns = default_columns();
  /// Of an input given by its shape. Default: as the model's first parameter, else f32 and the CPU.
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

struct Summary {
  /// Parents first, in order of declaration.
  std::vector<SummaryRow> rows;
  std::int64_t parameters = 0, trainable = 0;  ///< of the whole model; a tensor counts once
  std::int64_t mult_adds = 0;
  /// Names of products that ran and are not in mult_adds, as shapes do not say how many multiplications they
  /// take.
  std::vector<std::string> uncounted;
  std::int64_t parameter_bytes = 0;
  /// Bytes that the calls of modules with parameters and without children returned: an estimate, as
  /// torchinfo's, of what stays in memory for backward.
  std::int64_t forward_bytes = 0;
  std::optional<std::int64_t> input_bytes;  ///< when the input is known
  /// How the table is printed. `extra` has the cells of each row.
  std::int64_t depth = 3;
  std::vector<SummaryColumn> columns;
  std::vector<std::string> extra_titles;
  std::vector<std::vector<std::string>> extra;
};

/// The table: a tree of modules, then the totals. "(recursive)" marks a module that has an earlier row, "not
/// called" one that did not run or was not called by its slot (`fc->forward(x)` instead of `fc(x)`). Memory
/// for "forward/backward" is twice forward_bytes, as gradients are as large.
[[nodiscard]] std::string to_string(const Summary& summary);
std::ostream& operator<<(std::ostream& stream, const Summary& summary);

// --- summary
//
// Runs the model once, in evaluation mode and without recording, and tells what ran. The model is as before
// then, also when forward throws: modes of modules, running statistics and the state of the default generator
// are restored or not touched. Throws: what forward throws, and ValueError for a negative depth.

namespace detail {
/// The function to run, which returns the first tensor of its result, or an undefined tensor.
struct SummaryRun {
  mezzo::detail::Function<Tensor()> run;
  std::optional<std::int64_t> input_bytes = {};
};
[[nodiscard]] Summary summarize(Module& net, const SummaryRun& run, const SummaryOptions& options,
                                SummaryExtension* extension = nullptr);
/// The index after the last row below `row`.
[[nodiscard]] std::size_t summary_end(const std::vector<SummaryRow>& rows, std::size_t row);
/// Zeros of the options' dtype and device.
[[nodiscard]] Tensor summary_input(const Module& net, const Shape& shape, const SummaryOptions& options);
[[nodiscard]] std::int64_t summary_input_bytes(const Tensor& x);

template <std::invocable F>
[[nodiscard]] SummaryRun summary_run(F& run) {
  return {.run = [&run]() -> Tensor {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      run();
      return {};
    } else {
      const auto result = run();
      const Tensor* const first = first_tensor(result);
      return first == nullptr ? Tensor() : *first;
    }
  }};
}
/// summary_run for a run whose one input is x. Throws: ValueError when it is undefined.
template <std::invocable F>
[[nodiscard]] SummaryRun summary_run(F& run, const Tensor& x) {
  SummaryRun result = summary_run(run);
  result.input_bytes = summary_input_bytes(x);
  return result;
}
}  // namespace detail

/// A module that can be called with one tensor.
template <class M>
concept UnaryModule = std::derived_from<M, Module> && requires(M& module, const Tensor& x) {
  module.forward(x);
};

/// The summary of `run`, any function that runs the model: `nn::summary(net, [&] { return net.forward(a, b);
/// })`. Only its calls on this thread are seen; it must not exchange modules. When it does not call the model
/// by nn::call(net, ...), its result is taken for the model's. input_bytes stays unknown.
template <std::invocable F>
[[nodiscard]] Summary summary(Module& net, F&& run, const SummaryOptions& options = {}) {
  return detail::summarize(net, detail::summary_run(run), options);
}
/// The summary of net(x). Throws: ValueError for an undefined x.
template <UnaryModule M>
[[nodiscard]] Summary summary(M& net, const Tensor& x, const SummaryOptions& options = {}) {
  const auto forward = [&] { return call(net, x); };
  return detail::summarize(net, detail::summary_run(forward, x), options);
}
/// The summary of net(x) for x = zeros of a shape.
template <UnaryModule M>
[[nodiscard]] Summary summary(M& net, const Shape& input, const SummaryOptions& options = {}) {
  return summary(net, detail::summary_input(net, input, options), options);
}

}  // namespace mezzo::nn
