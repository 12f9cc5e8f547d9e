// ModuleDict: modules of one kind under names, for models that choose among them.
#pragma once

#include <utility>

#include "mezzo/nn/module.h"
#include "mezzo/nn/module/slot_list.h"

namespace mezzo::nn {

namespace detail {
[[noreturn]] void refuse_key(const Module& dict, const std::string& key);
}

/// A growing map from names to modules, in order of insertion:
///   nn::Child<nn::ModuleDict<nn::Layer>> heads{*this, "heads", nn::make<nn::ModuleDict<nn::Layer>>()};
///   heads->insert("digits", nn::Linear(64, 10));
///   y = heads->at("digits")(x);
///   for (auto& head : *heads) std::cout << head.name();
/// A name is part of the paths of what is below it: not empty and without dots.
template <std::derived_from<Module> T = Module>
class ModuleDict final : public Module {
 public:
  ModuleDict() = default;
  explicit ModuleDict(const std::vector<std::pair<std::string, std::shared_ptr<T>>>& modules) {
    for (const auto& [key, module] : modules) insert(key, module);
  }
  /// Appends a module. Throws: ValueError for a name that is there already (exchange its module by
  /// `at(key).replace(...)`) or cannot be one.
  template <std::derived_from<T> U>
  void insert(const std::string& key, std::shared_ptr<U> module) {
    modules_.emplace_back(*this, key, std::move(module));
  }
  template <detail::ModuleValue<T> U>
  void insert(const std::string& key, U&& module) {
    insert(key, detail::shared<U>(std::forward<U>(module)));
  }
  [[nodiscard]] bool contains(const std::string& key) const { return find(key) != nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return modules_.size(); }
  /// The slot of a module. Throws: IndexError, which lists the names there are.
  [[nodiscard]] Child<T>& at(const std::string& key) {
    const Child<T>* const slot = find(key);
    if (slot == nullptr) detail::refuse_key(*this, key);
    return const_cast<Child<T>&>(*slot);
  }
  [[nodiscard]] auto begin() noexcept { return modules_.begin(); }
  [[nodiscard]] auto end() noexcept { return modules_.end(); }
  [[nodiscard]] std::string type_name() const override { return "ModuleDict"; }

 private:
  [[nodiscard]] const Child<T>* find(const std::string& key) const {
    for (const Child<T>& slot : modules_) {
      if (slot.name() == key) return &slot;
    }
    return nullptr;
  }
  SlotList<Child<T>> modules_;
};

}  // namespace mezzo::nn
