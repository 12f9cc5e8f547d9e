// The call of an empty Function throws std::bad_function_call. It is thrown here, so that function.h does
// not include <functional>.
#include "mezzo/core/function.h"

#include <functional>

namespace mezzo::detail {

void refuse_empty_call() { throw std::bad_function_call(); }

}  // namespace mezzo::detail
