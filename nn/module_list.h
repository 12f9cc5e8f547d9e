// ModuleList: modules of one kind in a row, for models that call them as they like.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/nn/module/slot_list.h"

namespace mezzo::nn {

namespace detail {
[[noreturn]] void refuse_index(const Module& list, std::size_t i, std::size_t size);
}

/// A growing list of modules named "0", "1", ...:
///   nn::Child<nn::ModuleList<Block>> blocks{*this, "blocks", nn::make<nn::ModuleList<Block>>()};
///   for (auto& block : *blocks) x = block(x);
template <std::derived_from<Module> T = Module>
class ModuleList final : public Module {
 public:
  ModuleList() = default;
  explicit ModuleList(const std::vector<std::shared_ptr<T>>& modules) {
    for (const std::shared_ptr<T>& module : modules) push_back(module);
  }
  /// Appends a module.
  template <std::derived_from<T> U>
  void push_back(std::shared_ptr<U> module) {
    modules_.emplace_back(*this, std::to_string(size()), std::move(module));
  }
  template <detail::ModuleValue<T> U>
  void push_back(U&& module) {
    push_back(detail::shared<U>(std::forward<U>(module)));
  }
  [[nodiscard]] std::size_t size() const noexcept { return modules_.size(); }
  /// The slot of a module. Throws: IndexError.
  [[nodiscard]] Child<T>& operator[](std::size_t i) {
    if (i >= size()) detail::refuse_index(*this, i, size());
    return modules_[i];
  }
  [[nodiscard]] auto begin() noexcept { return modules_.begin(); }
  [[nodiscard]] auto end() noexcept { return modules_.end(); }
  [[nodiscard]] std::string type_name() const override { return "ModuleList"; }

 private:
  SlotList<Child<T>> modules_;
};

}  // namespace mezzo::nn
