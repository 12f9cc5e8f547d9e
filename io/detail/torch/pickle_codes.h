// The opcodes of Python's pickles that files of torch.save have. Source: Python's pickletools.
#pragma once

#include <cstdint>

namespace mezzo::io::detail {

enum class PickleCode : std::uint8_t {
  mark = '(',
  stop = '.',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binpersid = 'Q',
  reduce = 'R',
  binunicode = 'X',
  binstring = 'T',  // of Python 2, like the next
  short_binstring = 'U',
  binfloat = 'G',
  empty_list = ']',
  append = 'a',
  build = 'b',
  global = 'c',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  empty_dict = '}',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8A,
  short_binunicode = 0x8C,
  binunicode8 = 0x8D,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
};

}  // namespace mezzo::io::detail
