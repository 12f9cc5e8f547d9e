"""Reads what a cubin (an ELF file of device code) holds: each kernel's machine code and what it takes of a processor."""
import dataclasses
import struct

# Attributes in the sections .nv.info: how many registers a function has, and its largest block by __launch_bounds__.
REGISTERS, MAX_THREADS = 0x2F, 0x05
CUDA_MACHINE, SYMBOLS, NO_BITS = 190, 2, 8
SHARED_OF_SYSTEM = 1024  # the first bytes of a section of shared memory for sm_90


class Unreadable(Exception):
    """The file is no cubin, or not as this reader knows them."""


@dataclasses.dataclass
class Kernel:
    name: str  # mangled
    architecture: int  # 80, 90
    code: bytes
    registers: int
    shared: int  # bytes of shared memory that is not dynamic
    max_threads: int  # of a block, by __launch_bounds__; 0: not said


@dataclasses.dataclass
class Section:
    name: str
    kind: int
    size: int
    content: bytes


def text_at(table, offset):
    return table[offset:table.index(b"\0", offset)].decode()


def sections_of(data):
    if len(data) < 64 or data[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", data, 18)[0] != CUDA_MACHINE:
        raise Unreadable("expected a cubin, an ELF file of device code")
    start = struct.unpack_from("<Q", data, 40)[0]
    _, count, names_at = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * 64) for i in range(count)]
    contents = [b"" if header[1] == NO_BITS else data[header[4]:header[4] + header[5]] for header in headers]
    return [Section(text_at(contents[names_at], header[0]), header[1], header[5], content)
            for header, content in zip(headers, contents)]


def attributes(section):
    """(attribute, value) of a section .nv.info; the value is a number or bytes."""
    at, content = 0, section.content
    while at + 4 <= len(content):
        form, attribute, value = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == 4:  # the number is the size of what follows
            yield attribute, content[at:at + value]
            at += value
        else:
            yield attribute, value


def registers_of(sections):
    """Registers by a function's name."""
    strings = sections[".strtab"].content
    symbols = next(section.content for section in sections.values() if section.kind == SYMBOLS)
    names = [text_at(strings, struct.unpack_from("<I", symbols, at)[0]) for at in range(0, len(symbols), 24)]
    pairs = (struct.unpack("<II", value) for attribute, value in attributes(sections[".nv.info"]) if attribute == REGISTERS)
    return {names[symbol]: count for symbol, count in pairs}


def kernels(data):
    """The kernels in a cubin's bytes, in its order."""
    sections = {section.name: section for section in sections_of(data)}
    flags = struct.unpack_from("<I", data, 48)[0]
    architecture = flags >> 8 & 0xFF or flags & 0xFF  # the older form has it in the lowest bits
    registers, result = registers_of(sections), []
    for section in sections.values():
        name = section.name[len(".text."):]
        # Parameters are what tells a kernel from a function that kernels call.
        if not section.name.startswith(".text.") or f".nv.constant0.{name}" not in sections:
            continue
        bounds = [value for attribute, value in attributes(sections[f".nv.info.{name}"]) if attribute == MAX_THREADS]
        x, y, z = struct.unpack("<III", bounds[0]) if bounds else (0, 0, 0)
        shared = sections[f".nv.shared.{name}"].size if f".nv.shared.{name}" in sections else 0
        if architecture >= 90:
            shared = max(shared - SHARED_OF_SYSTEM, 0)
        result.append(Kernel(name, architecture, section.content, registers[name], shared, x * y * z))
    if not result:
        raise Unreadable("expected kernels in the cubin, got none")
    return result
