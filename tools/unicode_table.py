#!/usr/bin/env python3
"""Writes data/text/detail/unicode_table.cpp: which characters are letters and numbers, by Python's unicodedata.

usage: python3 tools/unicode_table.py >data/text/detail/unicode_table.cpp
"""
import textwrap
import unicodedata

CLASSES = {"L": 1, "N": 2}  # CharClass


def class_of(code):
    return CLASSES.get(unicodedata.category(chr(code))[0], 0)


starts = []
last = 0
for code in range(0x110000):
    now = class_of(code)
    if now != last:
        starts.append(code * 4 + now)
        last = now
counts = {name: sum(class_of(code) == value for code in range(0x110000)) for name, value in CLASSES.items()}
numbers = textwrap.fill(", ".join(f"{start:#x}" for start in starts), 105, initial_indent="    ",
                        subsequent_indent="    ")
print(f"""// Letters (general category L*, {counts['L']} characters) and numbers (N*, {counts['N']}) of Unicode \
{unicodedata.unidata_version}.
// Written by tools/unicode_table.py.
#include "mezzo/data/text/detail/unicode.h"

namespace mezzo::data::detail {{

// clang-format off
static constexpr std::uint32_t kStarts[] = {{
{numbers}}};
// clang-format on

std::span<const std::uint32_t> unicode_starts() noexcept {{ return kStarts; }}

}}  // namespace mezzo::data::detail""")
