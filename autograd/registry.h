// The list of all ops, with what is needed to call, test and describe any of them by name: the golden runner,
// the sweep and the op table are loops over it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "mezzo/autograd/bind.h"

namespace mezzo {

/// A sample call with its attributes as values.
struct SampleCall {
  std::vector<SampleInput> inputs;
  Value attrs;
};

/// One op, type-erased.
class RegistryEntry {
 public:
  virtual ~RegistryEntry() = default;
  [[nodiscard]] virtual const OpInfo& info() const = 0;
  /// Runs it through bind. Unknown attributes, wrong kinds and another number of inputs than the op takes
  /// throw ValueError.
  [[nodiscard]] virtual Outputs call(Inputs inputs, const Value& attrs) const = 0;
  /// Whether the op has a reference (a plain composition of public ops), and a call of it, recorded when
  /// recording is on.
  [[nodiscard]] virtual bool has_reference() const = 0;
  [[nodiscard]] virtual Outputs call_reference(Inputs inputs, const Value& attrs) const = 0;
  [[nodiscard]] virtual std::vector<SampleCall> samples() const = 0;
  /// The attributes' names and defaults.
  [[nodiscard]] virtual Value default_attrs() const = 0;
  /// The attributes' types in the order of default_attrs (attr_types).
  [[nodiscard]] virtual std::vector<std::string> attr_types() const = 0;
  /// Empty when it has a gradient; else why it has none.
  [[nodiscard]] virtual std::string_view no_gradient_because() const = 0;
};

/// All registered ops, sorted by name.
[[nodiscard]] std::vector<const RegistryEntry*> all_ops();
/// The op with that name, or nullptr.
[[nodiscard]] const RegistryEntry* find_op(std::string_view name);
/// Calls an op by name. Throws: ValueError, with the nearest name, when there is none.
[[nodiscard]] Outputs call_op(std::string_view name, Inputs inputs, const Value& attrs = {});

namespace detail {
void register_entry(std::unique_ptr<RegistryEntry> entry);
/// Throws: ValueError unless the op takes that many inputs.
void check_input_count(const RegistryEntry& entry, std::size_t count);

void add_sample(std::vector<SampleCall>& calls, const std::vector<SampleInput>& inputs, Value attrs);

template <class A>
class TypedEntry final : public RegistryEntry {
 public:
  explicit TypedEntry(const Op<A>& op) : op_(op) {}
  [[nodiscard]] const OpInfo& info() const override { return op_.info; }
  [[nodiscard, gnu::cold]] Outputs call(Inputs inputs, const Value& attrs) const override {
    check_input_count(*this, inputs.size());
    return bind(op_, inputs, attrs_from_value<A>(op_.info.name.value, attrs));
  }
  [[nodiscard]] bool has_reference() const override { return op_.reference != nullptr; }
  [[nodiscard, gnu::cold]] Outputs call_reference(Inputs inputs, const Value& attrs) const override {
    const A typed = attrs_from_value<A>(op_.info.name.value, attrs);
    return op_.reference(ForwardArgs<A>{inputs, typed});
  }
  [[nodiscard, gnu::cold]] std::vector<SampleCall> samples() const override {
    std::vector<SampleCall> calls;
    for (const Sample<A>& sample : op_.samples.value())
      add_sample(calls, sample.inputs, attrs_to_value(sample.attrs));
    return calls;
  }
  [[nodiscard, gnu::cold]] Value default_attrs() const override { return attrs_to_value(A{}); }
  [[nodiscard, gnu::cold]] std::vector<std::string> attr_types() const override {
    return mezzo::attr_types<A>();
  }
  [[nodiscard]] std::string_view no_gradient_because() const override { return op_.vjp.value.none_because; }

 private:
  const Op<A>& op_;
};
}  // namespace detail

/// Puts ops on the list for the life of the process: `const Registered relu_registered{relu_op,
/// relu_backward_op};`. A name that is taken throws ValueError.
struct Registered {
  template <class... A>
  requires(sizeof...(A) > 0) explicit Registered(const Op<A>&... ops) {
    (detail::register_entry(std::make_unique<detail::TypedEntry<A>>(ops)), ...);
  }
};

}  // namespace mezzo
