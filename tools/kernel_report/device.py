"""What a GPU's processors hold and do per clock, and what follows for a kernel: the rates that every prediction here is made of.

Sources: CUDA C++ Programming Guide 13, "Technical Specifications per Compute Capability" and "Arithmetic Instructions". Of an
H200: 132 processors, 1.98 GHz under load and 4.3 TB/s of a copy, read and written, as seen on one."""
import opcodes

WARP = 32
WARPS, REGISTERS, REGISTERS_BY = 64, 65536, 256  # of a processor; registers are dealt out to warps in steps
BLOCKS = 32
SHARED = {80: 164 * 1024, 90: 228 * 1024}
SHARED_OF_SYSTEM = 1024  # of each block

PROCESSORS, CLOCK, COPY = 132, 1.98e9, 4.3e12
LATENCY = 700e-9  # of memory under load: what is in flight during it bounds the rate
# Instructions of threads per clock and processor. The FMA pipe does floats, and at half the rate products of integers.
ISSUE = 4 * WARP
RATES = {opcodes.FP32: 128, opcodes.FP64: 64, opcodes.INTEGER: 64, opcodes.MULTIPLY: 64, opcodes.CONVERSION: 64, opcodes.MUFU: 16,
         opcodes.MEMORY: 32}


def blocks_of(kernel, threads, dynamic_shared=0):
    """Blocks of `threads` that a processor holds at a time."""
    warps = -(-threads // WARP)
    registers = -(-kernel.registers * WARP // REGISTERS_BY) * REGISTERS_BY * warps
    shared = kernel.shared + dynamic_shared + (SHARED_OF_SYSTEM if kernel.architecture >= 80 else 0)
    return min(BLOCKS, WARPS // warps, REGISTERS // registers, SHARED[kernel.architecture] // shared)


def occupancy(kernel, threads, dynamic_shared=0):
    return blocks_of(kernel, threads, dynamic_shared) * -(-threads // WARP) / WARPS


def predicted_share(units, loads, stores, resident_threads):
    """The share of a copy's rate that these instructions allow for these bytes on an H200, and what bounds it."""
    clock = 1 / (CLOCK * PROCESSORS)
    times = {"memory's rate": (loads + stores) / COPY, "issue": sum(units.values()) / ISSUE * clock}
    for unit, rate in RATES.items():
        times[unit] = units[unit] / rate * clock
    times[opcodes.FP32] = (units[opcodes.FP32] + units[opcodes.MULTIPLY]) / RATES[opcodes.FP32] * clock
    # Each thread waits for its loads of one round: a round cannot take less than their latency.
    times["latency"] = LATENCY / (resident_threads * PROCESSORS)
    bound = max(times, key=times.get)
    return times["memory's rate"] / times[bound], bound
