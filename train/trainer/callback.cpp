// Names of callbacks.
#include "mezzo/train/callback.h"

namespace mezzo::train {

std::string Callback::identity() const { return name(); }

std::string Callback::name() const { return nn::detail::type_text(typeid(*this)); }

std::string detail::FunctionCallback::name() const { return "on(" + std::string(to_string(event_)) + ")"; }

}  // namespace mezzo::train
