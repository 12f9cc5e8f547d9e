// For tests of errors: the message of the error that a call throws.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace mezzo::test {

/// The message of the E that `action` throws. Another error goes on to the test; none is a failure.
template <class E, class F>
std::string message_of(F&& action) {
  try {
    static_cast<void>(action());
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace mezzo::test
