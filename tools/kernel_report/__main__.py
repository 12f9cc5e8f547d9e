"""What nvcc made of the CUDA kernels, seen without a GPU: registers, spills, shared memory, occupancy, instructions per element
by unit, and the share of a copy's rate that these allow on an H200.

  python3 tools/kernel_report --check              the kernels with limits (limits.py); status 1 when one is exceeded
  python3 tools/kernel_report [--arch N] FILE...   all kernels of cubins, or of .cu sources, which are compiled"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cubin
import device
import limits
import opcodes
import paths
import sass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COLUMNS = (("fp32", (opcodes.FP32, opcodes.MULTIPLY)), ("integer", (opcodes.INTEGER,)), ("conversion", (opcodes.CONVERSION,)),
           ("mufu", (opcodes.MUFU,)), ("fp64", (opcodes.FP64,)), ("matrix", (opcodes.MATRIX,)), ("load/store", (opcodes.MEMORY,)),
           ("control", (opcodes.CONTROL,)))
HEAD = ["kernel", "registers", "spills", "shared", "threads", "occupancy", "elements", "bytes", "instructions",
        *(name for name, _ in COLUMNS), "share of copy", "bound by"]


def find_nvcc():
    for place in (os.environ.get("CUDACXX"), shutil.which("nvcc"), os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc"):
        if place and os.access(place, os.X_OK):
            return place
    return None


def release_of(nvcc):
    found = re.search(r"release (\d+\.\d+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout)
    return found[1] if found else "of no known version"


def compile_source(nvcc, source, architecture, folder):
    """The cubin of a source, compiled as cmake/Cuda.cmake and cmake/Flags.cmake have it compiled, whatever CUDAFLAGS says."""
    out = folder / (source.replace("/", "_") + ".cubin")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NVCC_")}
    command = [nvcc, "-cubin", "-O3", "-fmad=false", "-std=c++20", "--expt-relaxed-constexpr", f"-arch=sm_{architecture}",
               "-I", str(folder), "-o", str(out), str(ROOT / source)]
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    if done.returncode != 0:
        sys.exit(f"kernel_report: {source} does not compile\n{done.stderr}")
    return out.read_bytes()


def compile_all(sources, architecture):
    nvcc = find_nvcc()
    if nvcc is None:
        print("kernel_report: skipped, no nvcc here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "mezzo").symlink_to(ROOT)
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or 2)) as pool:
            return list(pool.map(lambda source: compile_source(nvcc, source, architecture, folder), sources))


def readable(names):
    """Names as they are in the source, where there is a c++filt."""
    if shutil.which("c++filt") is None:
        return dict(zip(names, names))
    lines = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True).stdout.splitlines()
    return dict(zip(names, lines))


def rounds(code):
    """Paths of the main loop; none where they are too many."""
    try:
        return paths.main_loop(code)
    except paths.Intricate:
        return {}


def row_of(title, kernel, threads, code, moved, units, elements):
    """A line of the table. Without elements the instructions are those of a round."""
    spills = sum(instruction.name in ("LDL", "STL") for instruction in code)
    cells = [title, str(kernel.registers), str(spills), str(kernel.shared), str(threads),
             f"{100 * device.occupancy(kernel, threads):.0f} %"]
    if units is None:
        return cells + ["-"] * (len(HEAD) - len(cells))
    per, resident = elements or 1, device.blocks_of(kernel, threads) * threads
    counts = [sum(units[unit] for unit in group) / per for _, group in COLUMNS]
    share, bound = device.predicted_share(units, *moved, resident) if sum(moved) else (0, "no memory")
    return cells + [str(elements or "a round"), f"{sum(moved) / per:g}", f"{sum(units.values()) / per:g}",
                    *(f"{count:g}" for count in counts), f"{100 * share:.0f} %", bound]


def table(rows):
    lines = [HEAD, ["---"] * len(HEAD), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def judge(limit, kernel, code):
    """(row, what exceeds the limit)."""
    problems = []
    spills = sum(instruction.name in ("LDL", "STL") for instruction in code)
    for what, value, most in (("registers", kernel.registers, limit.registers), ("spills", spills, limit.spills)):
        if value > most:
            problems.append(f"{limit.title}: expected at most {most} {what}, got {value}")
    if not limit.elements:
        return row_of(limit.title, kernel, limit.threads, code, None, None, 0), problems
    found, moved = rounds(code), (limit.loads, limit.stores)
    if moved not in found:
        there = ", ".join(map(str, sorted(found))) or "none"
        problems.append(f"{limit.title}: expected a round that loads {moved[0]} and stores {moved[1]} bytes, got {there};"
                        " adapt tools/kernel_report/limits.py to the kernel")
        return row_of(limit.title, kernel, limit.threads, code, None, None, 0), problems
    count = sum(found[moved].values()) / limit.elements
    if count > limit.instructions:
        problems.append(f"{limit.title}: expected at most {limit.instructions:g} instructions per element, got {count:g}")
    return row_of(limit.title, kernel, limit.threads, code, moved, found[moved], limit.elements), problems


def check(kernels, names, chosen=limits.LIMITS):
    """(rows, problems) of the kernels that have limits."""
    rows, problems = [], []
    for limit in chosen:
        matching = [kernel for kernel in kernels if re.search(limit.kernel, names[kernel.name])]
        if not matching:
            problems.append(f"{limit.title}: expected a kernel {limit.kernel}, got none; adapt tools/kernel_report/limits.py")
        for kernel in matching[:1]:
            row, found = judge(limit, kernel, sass.decode(kernel.code, kernel.architecture))
            goal = f" (goal {limit.goal:g})" if limit.goal else ""
            rows.append([row[0] + goal, *row[1:]])
            problems += found
    return rows, problems


def heaviest(kernel, name):
    """A line for any kernel: the round that moves most bytes."""
    code = sass.decode(kernel.code, kernel.architecture)
    found = rounds(code)
    moved = max(found, key=sum) if found else None
    return row_of(name.replace("|", "/"), kernel, kernel.max_threads or 256, code, moved, found.get(moved), 0)


def main():
    parser = argparse.ArgumentParser(prog="kernel_report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="the kernels of limits.py")
    parser.add_argument("--arch", type=int, default=90, choices=sorted(device.SHARED), help="what sources are compiled for (90)")
    parser.add_argument("files", nargs="*", metavar="FILE", help="cubins, or .cu sources")
    chosen = parser.parse_args()
    if chosen.check == bool(chosen.files):
        parser.error("expected --check or files")
    sources = limits.SOURCES if chosen.check else [os.path.relpath(file, ROOT) for file in chosen.files if file.endswith(".cu")]
    images = [pathlib.Path(file).read_bytes() for file in chosen.files if not file.endswith(".cu")]
    images += compile_all(sources, chosen.arch) if sources else []
    kernels = [kernel for image in images for kernel in cubin.kernels(image)]
    names = readable([kernel.name for kernel in kernels])
    if chosen.check:
        rows, problems = check(kernels, names)
        print(table(rows), *problems, sep="\n")
        if problems and release_of(find_nvcc()) != limits.COMPILER:
            print(f"not judged: the limits are those of nvcc {limits.COMPILER}, this is {release_of(find_nvcc())}")
            return 0
        return 1 if problems else 0
    print(table([heaviest(kernel, names[kernel.name]) for kernel in kernels]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
