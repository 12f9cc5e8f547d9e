// Where the files are that tests read.
#pragma once

#include <cstdlib>
#include <string>

namespace mezzo::test {

/// The environment variable MEZZO_TEST_DATA, set where the tests have left the tree they were built from (in
/// a bundle); else tests/ of that tree.
inline std::string data_folder() {
  const char* const folder = std::getenv("MEZZO_TEST_DATA");
  return folder != nullptr && *folder != '\0' ? folder : MEZZO_TEST_DATA;
}

}  // namespace mezzo::test
