"""Tests of tools/kernel_report on stored machine code; they need neither nvcc nor a GPU. `python3 test.py`."""
import pathlib
import re
import runpy
import struct
import unittest

import cubin
import device
import limits
import opcodes
import paths
import sass

HERE = pathlib.Path(__file__).resolve().parent
report = runpy.run_path(str(HERE / "__main__.py"), run_name="kernel_report")


def sample(architecture):
    """(text, word) of each instruction of the sample."""
    text = (HERE / "sass_sample.txt").read_text().split(f"sm_{architecture}:\n")[1].split("\n\n")[0]
    lines = [re.fullmatch(r"[0-9a-f]{4} (.*) ; 0x([0-9a-f]{16}) 0x([0-9a-f]{16})", line) for line in text.strip().splitlines()]
    return [(line[1], int(line[3] + line[2], 16)) for line in lines]


def code_of(architecture):
    return b"".join(word.to_bytes(16, "little") for _, word in sample(architecture))


def kernel_of(code, **more):
    return cubin.Kernel(**{**dict(name="scale", architecture=90, code=code, registers=32, shared=0, max_threads=0), **more})


class Decoding(unittest.TestCase):
    def test_names_branches_and_widths_are_those_of_the_text(self):
        for architecture in (80, 90):
            text = [line for line, _ in sample(architecture)]
            decoded = sass.decode(code_of(architecture), architecture)
            self.assertEqual(len(text), len(decoded))
            self.assertGreater(len(text), 40)
            for line, instruction in zip(text, decoded):
                predicate, name = re.match(r"(@!?P\d )?([A-Z0-9]+)", line).groups()
                self.assertEqual(instruction.name, name, line)
                self.assertEqual(instruction.always, predicate is None, line)
                branch = re.search(r"BRA 0x([0-9a-f]+)", line)
                self.assertEqual(instruction.target, int(branch[1], 16) // 16 if branch else -1, line)
                width = re.match(r"(LDG|STG)\.E(\.\d+)?", line)
                moved = int((width[2] or ".32")[1:]) // 8 if width else 0
                self.assertEqual((instruction.loads, instruction.stores),
                                 (moved if name == "LDG" else 0, moved if name == "STG" else 0), line)

    def test_unknown_code_is_an_error(self):
        self.assertNotIn(0x1FF, opcodes.TABLE)
        with self.assertRaisesRegex(sass.Unknown, "0x1ff"):
            sass.decode((0x1FF).to_bytes(16, "little"), 90)


class Counting(unittest.TestCase):
    def test_a_round_of_each_case_is_what_one_counts_in_the_text(self):
        found = paths.main_loop(sass.decode(code_of(90), 90))
        # Addresses 0x120 to 0x350: by way of 0x180 to 0x260 with float4, by way of 0x270 to 0x310 with float2.
        wide = {opcodes.FP32: 4, opcodes.MULTIPLY: 2, opcodes.INTEGER: 10, opcodes.MUFU: 1, opcodes.MEMORY: 2, opcodes.CONTROL: 6}
        narrow = {opcodes.MULTIPLY: 2, opcodes.INTEGER: 12, opcodes.MEMORY: 2, opcodes.CONTROL: 5}
        self.assertEqual({moved: {unit: count for unit, count in units.items() if count} for moved, units in found.items()},
                         {(16, 16): wide, (8, 8): narrow})

    def test_the_older_encoding_has_the_same_rounds(self):
        self.assertEqual(set(paths.main_loop(sass.decode(code_of(80), 80))), {(16, 16), (8, 8)})

    def test_a_kernel_without_a_loop_counts_as_a_whole(self):
        straight = code_of(90)[0x180:0x250] + code_of(90)[0x370:0x380]
        self.assertEqual(sum(paths.main_loop(sass.decode(straight, 90))[(16, 16)].values()), 14)

    def test_a_kernel_may_end_before_its_last_instruction(self):
        load, maybe_end, end = 0x7981 | 6 << 73, 0x094D, 0x794D  # LDG.128, @P0 EXIT, EXIT
        code = b"".join(word.to_bytes(16, "little") for word in (load, maybe_end, load, end))
        found = paths.main_loop(sass.decode(code, 90))
        self.assertEqual({moved: sum(units.values()) for moved, units in found.items()}, {(16, 0): 2, (32, 0): 4})

    def test_the_longest_way_counts_and_nothing_behind_the_end(self):
        branch, add, load = 0x0000000000080947 | 7 << 87, 0x7221, 0x7981 | 6 << 73  # @P0 BRA over two, FADD, LDG.128
        end = 0x794D
        code = b"".join(word.to_bytes(16, "little") for word in (branch, add, add, load, end, load, add, end))
        found = paths.main_loop(sass.decode(code, 90))
        self.assertEqual(list(found), [(16, 0)])
        self.assertEqual(found[(16, 0)][opcodes.FP32], 2)


class Predicting(unittest.TestCase):
    def test_occupancy(self):
        # 65536 registers, dealt out to a warp by 256: by hand.
        for registers, threads, blocks, share in ((32, 256, 8, 1), (64, 1024, 1, 0.5), (122, 512, 1, 0.25), (33, 256, 6, 0.75),
                                                  (16, 32, 32, 0.5)):
            kernel = kernel_of(b"", registers=registers)
            self.assertEqual(device.blocks_of(kernel, threads), blocks, (registers, threads))
            self.assertEqual(device.occupancy(kernel, threads), share, (registers, threads))
        self.assertEqual(device.blocks_of(kernel_of(b"", shared=99 * 1024), 128), 2)
        self.assertEqual(device.blocks_of(kernel_of(b"", shared=99 * 1024, architecture=80), 128), 1)

    def test_the_slowest_unit_bounds_the_share(self):
        none = dict.fromkeys(opcodes.UNITS, 0)
        self.assertEqual(device.predicted_share(none, 16, 16, 2048), (1, "memory's rate"))
        # 28 integer instructions for 4 bytes: 28 / 64 clocks of 132 processors at 1.98 GHz against 4 bytes at 4.3 TB/s.
        share, bound = device.predicted_share({**none, opcodes.INTEGER: 4 * 28}, 8, 8, 2048)
        self.assertEqual(bound, opcodes.INTEGER)
        self.assertAlmostEqual(share, 4 / 4.3e12 / (28 / 64 / 132 / 1.98e9))
        # 4 bytes in flight by 256 threads of each processor: 135 KB of the 3 MB that 700 ns take at that rate.
        share, bound = device.predicted_share(none, 4, 0, 256)
        self.assertEqual(bound, "latency")
        self.assertAlmostEqual(share, 4 * 256 * 132 / (4.3e12 * 700e-9))


class Judging(unittest.TestCase):
    def judge(self, code=None, **more):
        given = dict(title="scale", kernel="^scale$", threads=256, registers=32, loads=16, stores=16, elements=4,
                     instructions=6.25)
        kernel = kernel_of(code or code_of(90))
        return report["check"]([kernel], {kernel.name: kernel.name}, [limits.Limit(**{**given, **more})])

    def test_within_its_limits(self):
        rows, problems = self.judge()
        self.assertEqual(problems, [])
        self.assertEqual(rows[0][:9], ["scale", "32", "0", "0", "256", "100 %", "4", "8", "6.25"])

    def test_what_exceeds_a_limit_is_named(self):
        for more, said in ((dict(instructions=6), "at most 6 instructions per element, got 6.25"),
                           (dict(registers=31), "at most 31 registers, got 32"),
                           (dict(kernel="missing"), "expected a kernel missing, got none"),
                           (dict(loads=8), r"loads 8 and stores 16 bytes, got \(8, 8\), \(16, 16\)")):
            _, problems = self.judge(**more)
            self.assertEqual(len(problems), 1, more)
            self.assertRegex(problems[0], said)

    def test_a_spill_is_seen(self):
        spill = (0x0000000001007387).to_bytes(16, "little")  # STL [R1], R0
        _, problems = self.judge(spill + code_of(90), elements=0)
        self.assertEqual(problems, ["scale: expected at most 0 spills, got 1"])


class Reading(unittest.TestCase):
    def test_what_is_no_cubin_is_refused(self):
        host = bytearray(64)
        host[:5] = b"\x7fELF\x02"
        struct.pack_into("<H", host, 18, 62)  # a program for x86-64
        for data in (b"", b"text" * 40, bytes(host)):
            with self.assertRaisesRegex(cubin.Unreadable, "expected a cubin"):
                cubin.kernels(data)


if __name__ == "__main__":
    unittest.main()
