// op_table [FILE]
// Writes the table of all ops to FILE, or to docs/ops.md of the tree it was built from; "-" prints it.
#include <exception>
#include <fstream>
#include <iostream>

#include "op_table/table.h"

int main(int argc, char** argv) {
  if (argc > 2) {
    std::cerr << "usage: op_table [FILE]\n";
    return 2;
  }
  try {
    const std::string root = MEZZO_TEST_DATA "/..";
    const std::string path = argc > 1 ? argv[1] : root + "/docs/ops.md";
    const std::string text = mezzo::op_table::to_markdown(root);
    if (path == "-") {
      std::cout << text;
      return 0;
    }
    std::ofstream file(path);
    file << text;
    file.close();
    if (file) return 0;
    std::cerr << "op_table: cannot write " << path << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
