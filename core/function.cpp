#include "mezzo/core/function.h"

#include <functional>

namespace mezzo::detail {

void refuse_empty_call() { throw std::bad_function_call(); }

}  // namespace mezzo::detail
