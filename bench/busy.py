#!/usr/bin/env python3
"""Times a training step idle and beside a process that takes one processor, on all threads and on one."""
# The processes are started with nice 0 and 19, in this session (a terminal's) and in one of their own: the kernel shares
# processors between sessions first and looks at nice only within one (where /proc/sys/kernel/sched_autogroup_enabled is
# 1). Programs and readings are those of run.py.
import argparse
import os
import pathlib
import random
import statistics
import sys
import time

from run import PAUSE, ROOT, Busy, Failed, Workers

CASES = ["mlp_128x512/f32", "mlp_128x512/bf16"]
# Name, threads (0: all), nice of the busy process (None: none), whether it has a session of its own.
CONDITIONS = [("idle, one thread", 1, None, False), ("idle", 0, None, False),
              ("one thread, nice 0, same terminal", 1, 0, False), ("one thread, nice 0, another", 1, 0, True),
              ("nice 0, same terminal", 0, 0, False), ("nice 19, same terminal", 0, 19, False),
              ("nice 0, another", 0, 0, True), ("nice 19, another", 0, 19, True)]


# Busy: of one thread's time (medians), of the idle time (the largest reading). Idle: of the time of --before.
AT_MOST_OF_ALONE, AT_MOST_OF_IDLE, AT_MOST_OF_BEFORE = 1.3, 2.0, 1.02


def measure(options):
    threads = os.cpu_count()
    builds = {"mezzo": Workers(options.build, "cpu")}
    if options.before:
        builds["before"] = Workers(options.before, "cpu")
    times = {}
    for _ in range(options.rounds):
        for condition in random.sample(CONDITIONS, len(CONDITIONS)):
            with Busy(condition[2], condition[3]):
                turns = [(name, library) for name, library in
                         [("mezzo", "mezzo"), ("before", "mezzo"), ("pytorch", "pytorch"), ("libtorch", "libtorch")]
                         if name in builds or name not in ("mezzo", "before")]
                for name, library in random.sample(turns, len(turns)):
                    worker = builds.get(name, builds["mezzo"]).get(library, "training", condition[1] or threads)
                    for case in CASES if worker is not None else []:
                        if case in worker.cases:
                            time.sleep(PAUSE)
                            reading = worker.time(case, options.seconds)
                            times.setdefault((case, name), {}).setdefault(condition[0], []).append(reading * 1e-6)
    for workers in builds.values():
        workers.close_all()
    return times


def table(times):
    lines = ["| step | library | condition | ms, median | largest | of one thread's | of idle | largest, of idle |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for (case, name), of_conditions in sorted(times.items()):
        alone, idle = (statistics.median(of_conditions[CONDITIONS[i][0]]) for i in (0, 1))
        for condition, *_ in CONDITIONS:
            median, largest = statistics.median(of_conditions[condition]), max(of_conditions[condition])
            lines.append(f"| {case} | {name} | {condition} | {median:.2f} | {largest:.2f} | {median / alone:.2f} "
                         f"| {median / idle:.2f} | {largest / idle:.2f} |")
    return "\n".join(lines)


def goals(times):
    """A row for each step and goal: what was reached at the worst of the conditions."""
    lines = ["| step | goal of mezzo | at most | was | reached |", "| --- | --- | --- | --- | --- |"]
    for case in CASES:
        mine = times.get((case, "mezzo"))
        if mine is None:
            continue
        alone, idle = (statistics.median(mine[CONDITIONS[i][0]]) for i in (0, 1))
        busy = [mine[condition] for condition, threads, nice, _ in CONDITIONS if nice is not None and threads != 1]
        rows = [("busy, of one thread's time", AT_MOST_OF_ALONE, max(statistics.median(each) for each in busy) / alone),
                ("busy, the largest, of idle", AT_MOST_OF_IDLE, max(max(each) for each in busy) / idle)]
        if (case, "before") in times:
            pairs = zip(mine[CONDITIONS[1][0]], times[case, "before"][CONDITIONS[1][0]])
            rows.append(("idle, of before", AT_MOST_OF_BEFORE, statistics.median(a / b for a, b in pairs)))
        lines += [f"| {case} | {goal} | {most} | {was:.2f} | {'yes' if was <= most else 'no'} |"
                  for goal, most, was in rows]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--before", type=pathlib.Path, help="a build of another commit, to be measured too")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one reading")
    options = parser.parse_args()
    try:
        times = measure(options)
    except Failed as failed:
        sys.exit(f"busy: {failed}")
    if not times:
        sys.exit("busy: no programs; ./mezzo.sh bench builds them")
    print(table(times), goals(times), sep="\n\n")


if __name__ == "__main__":
    main()
