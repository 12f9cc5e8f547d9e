"""Decodes machine code of sm_80 and sm_90 as far as counting needs it.

An instruction has 16 bytes. What the table of opcodes does not know is an error and no guess."""
import dataclasses

import opcodes

SIZE = 16
WIDTHS = (1, 1, 2, 2, 4, 8, 16, 16)  # bytes, by bits 73 to 75 of a load or store
ALWAYS = 7  # the predicate that is true


class Unknown(Exception):
    """Machine code that cannot be decoded."""


@dataclasses.dataclass
class Instruction:
    name: str
    unit: str
    always: bool  # runs whatever the predicates are
    loads: int = 0  # bytes from global memory, of one thread
    stores: int = 0
    target: int = -1  # number of the instruction that a branch goes to


def bits(word, low, count):
    return word >> low & (1 << count) - 1


def branch_steps(word, architecture):
    """How far a branch goes from the next instruction, in steps of 4 bytes. sm_90 keeps the lowest 8 bits apart."""
    steps, count = bits(word, 34, 48), 48
    if architecture >= 90:
        steps, count = steps << 8 | bits(word, 16, 8), 56
    return steps - (1 << count) if steps >> (count - 1) else steps


def decode_one(word, at, architecture):
    if bits(word, 0, 9) not in opcodes.TABLE:
        raise Unknown(f"expected an instruction that opcodes.py knows, got {bits(word, 0, 9):#05x} of {word:#034x}; add it there")
    name, unit = opcodes.TABLE[bits(word, 0, 9)]
    result = Instruction(name, unit, always=bits(word, 12, 4) == ALWAYS)
    if name in ("LDG", "LD", "LDGSTS"):
        result.loads = WIDTHS[bits(word, 73, 3)]
    elif name in ("STG", "ST"):
        result.stores = WIDTHS[bits(word, 73, 3)]
    elif name == "BRA":
        result.target = at + 1 + branch_steps(word, architecture) * 4 // SIZE
        result.always = result.always and bits(word, 87, 4) == ALWAYS
    return result


def decode(code, architecture):
    """The instructions of a kernel's bytes."""
    words = (int.from_bytes(code[at:at + SIZE], "little") for at in range(0, len(code), SIZE))
    return [decode_one(word, at, architecture) for at, word in enumerate(words)]
