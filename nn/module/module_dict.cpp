// The error for a key that a ModuleDict does not hold; it lists the keys that there are.
#include "mezzo/nn/module_dict.h"

#include "mezzo/core/error.h"

namespace mezzo::nn {

void detail::refuse_key(const Module& dict, const std::string& key) {
  std::string names;
  for (const ChildSlot* slot : dict.child_slots())
    names += (names.empty() ? "'" : ", '") + slot->name() + "'";
  throw IndexError(dict.described(),
                   names.empty() ? "a name of a module, of which there is none" : "one of " + names,
                   "'" + key + "'", "ask contains() first, or insert() it");
}

}  // namespace mezzo::nn
