"""What a library costs before it computes anything: compiling a file that uses it, starting a program, its size on disk."""
import json
import pathlib
import subprocess
import tempfile
import time

# The time of a compilation is long and steady: fewer pairs say as much.
COMPILE_PAIRS = 3


class Footprint:
    """The cases "compile" and "start" of one library, with the methods of a Worker."""

    def __init__(self, build, library, environment):
        self.program = build / "bench" / f"{library}_loop"
        self.environment = environment
        self.compile_command = compile_command(build, library)
        self.cases = {"start"} | ({"compile"} if self.compile_command else set())
        self.about = f"footprint of {library}: {size_text(build, library)}"

    def time(self, case, _seconds):
        if case == "start":
            return timed([str(self.program)], env=self.environment)
        with tempfile.TemporaryDirectory() as folder:
            return timed(self.compile_command + ["-o", str(pathlib.Path(folder) / "out.o")])

    def ended(self):
        return False

    def close(self):
        pass


def timed(command, **options):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, **options)
    return 1e9 * (time.perf_counter() - start)


def compile_command(build, library):
    """How the build compiles cases/loop.cpp for the library, without the compiler cache; None when it does not."""
    database = build / "compile_commands.json"
    if not database.exists():
        return None
    for entry in json.loads(database.read_text()):
        words = entry["command"].split()
        if entry["file"].endswith("bench/cases/loop.cpp") and ("-DBENCH_LIBTORCH=1" in words) == (library == "libtorch"):
            launchers = [i for i, word in enumerate(words) if word.endswith("/ccache")]
            words = words[launchers[0] + 1:] if launchers else words
            at = words.index("-o")
            return words[:at] + words[at + 2:]
    return None


def size_text(build, library):
    """Size of the shared libraries without symbols."""
    if library == "mezzo":
        files = [build / "libmezzo.so"]
    else:
        output = subprocess.run(["ldd", str(build / "bench/libtorch_loop")], capture_output=True, text=True).stdout
        files = [pathlib.Path(line.split("=>")[1].split("(")[0].strip()) for line in output.splitlines()
                 if "libtorch" in line or "libc10" in line]
    total = 0
    for file in files:
        with tempfile.NamedTemporaryFile() as stripped:
            done = subprocess.run(["strip", "-s", "-o", stripped.name, str(file)], capture_output=True)
            total += pathlib.Path(stripped.name if done.returncode == 0 else file).stat().st_size
    return f"{total / 1e6:.2f} MB of shared libraries, stripped"
