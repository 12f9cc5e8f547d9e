// Sequential: layers one after the other, named "0", "1", ... unless given names.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/nn/module/slot_list.h"

namespace mezzo::nn {

class Sequential;

namespace detail {
/// An argument of Sequential: a layer, or a pointer to one.
template <class L>
concept LayerArgument = std::convertible_to<L, std::shared_ptr<Layer>> || ModuleValue<L, Layer>;
/// Whether Sequential(argument) is a copy: of one Sequential with a name.
template <class... L>
inline constexpr bool is_copy = false;
template <class L>
inline constexpr bool is_copy<L> =
    std::is_lvalue_reference_v<L>&& std::derived_from<std::remove_cvref_t<L>, Sequential>;
}  // namespace detail

/// x -> layer n-1(... layer 1(layer 0(x))); without layers x itself. The usual way to a model:
///   nn::Sequential net{nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)};
/// A layer is an expression, as here, or a pointer from `make`. C++ does not say in which order the arguments
/// between parentheses are made, so which layer gets which random numbers depends on the compiler. Between
/// braces, nn::Sequential net{...}, it is the order in which they stand.
class Sequential : public Layer {
 public:
  Sequential();
  Sequential(const Sequential& other);
  ~Sequential() override;
  template <class... L>
  requires(sizeof...(L) > 0 && (detail::LayerArgument<L> && ...) &&
           !detail::is_copy<L...>) explicit Sequential(L&&... layers) {
    (push_back(std::forward<L>(layers)), ...);
  }
  explicit Sequential(const std::vector<std::shared_ptr<Layer>>& layers);

  [[nodiscard]] Tensor forward(const Tensor& x) override;

  [[nodiscard]] std::size_t size() const noexcept;
  /// The slot of a layer: `net[0](x)`, `net[0].replace(...)`. Throws: IndexError.
  [[nodiscard]] Child<Layer>& operator[](std::size_t i);
  [[nodiscard]] const Child<Layer>& operator[](std::size_t i) const;
  /// The layer as what it is: `net.at<nn::Linear>(0).weight`. Throws: IndexError, ValueError when it is of
  /// another type.
  template <std::derived_from<Layer> L>
  [[nodiscard]] L& at(std::size_t i) const {
    auto* layer = dynamic_cast<L*>((*this)[i].get().get());
    if (layer == nullptr) refuse_type(i, detail::type_text(typeid(L)));
    return *layer;
  }
  /// Appends a layer. Throws: ValueError for a null pointer.
  template <std::derived_from<Layer> L>
  void push_back(std::shared_ptr<L> layer) {
    append(std::to_string(size()), std::move(layer));
  }
  template <detail::ModuleValue<Layer> L>
  void push_back(L&& layer) {
    push_back(detail::shared<L>(std::forward<L>(layer)));
  }
  /// push_back under a name of its own, as in torch's Sequential(OrderedDict(...)). Throws: ValueError for a
  /// name that is there already or has dots.
  template <std::derived_from<Layer> L>
  void push_back(const std::string& name, std::shared_ptr<L> layer) {
    append(name, std::move(layer));
  }
  template <detail::ModuleValue<Layer> L>
  void push_back(const std::string& name, L&& layer) {
    append(name, detail::shared<L>(std::forward<L>(layer)));
  }

 private:
  void append(const std::string& name, std::shared_ptr<Layer> layer);
  [[noreturn]] void refuse_type(std::size_t i, const std::string& type) const;
  SlotList<Child<Layer>> layers_;
};

}  // namespace mezzo::nn
