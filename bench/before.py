#!/usr/bin/env python3
"""Every case of mezzo's benchmark programs in two builds, in turns: is this commit slower than that one?

A case counts as slower where the median of its ratios is above 1.02 and their 10th percentile above 1: by more than its
spread. Such a case is timed once more, with twice the turns, before it is reported. Status 1: some are slower.
"""
import argparse
import pathlib
import statistics
import sys
import time

from run import PAUSE, ROOT, Failed, Worker, environment, human_time, quantile


LONGEST = 8  # seconds for a case: one that takes longer has fewer turns, but three


def programs(build):
    return {path.name.removeprefix("mezzo_"): path for path in sorted((build / "bench").glob("mezzo_*"))}


def compare(sides, case, pairs, seconds):
    """Times now and before, in turns; which of them begins alternates."""
    times, end = ([], []), time.monotonic() + LONGEST
    for turn in range(pairs):
        if turn >= 3 and time.monotonic() > end:
            break
        for side in ((0, 1), (1, 0))[turn % 2]:
            time.sleep(PAUSE)
            times[side].append(sides[side].time(case, seconds))
    values = [now / before for now, before in zip(*times)]
    return {"case": case, "now": statistics.median(times[0]), "before": statistics.median(times[1]),
            "ratio": statistics.median(values), "p10": quantile(values, 0.1), "p90": quantile(values, 0.9)}


def is_slower(result):
    return result["ratio"] > 1.02 and result["p10"] > 1


def line(layer, result):
    return (f"{layer + ' ' + result['case']:<64} {human_time(result['now']):>9} {human_time(result['before']):>9}"
            f"  {result['ratio']:6.3f}  ({result['p10']:.3f} to {result['p90']:.3f})")


def run(layer, pair, threads, chosen, only=None):
    """Results of the layer's cases that both builds have, or of those in `only`."""
    sides, results = [], []
    try:
        for program in pair:
            sides.append(Worker("mezzo", [str(program)], environment(threads)))
        for case in sorted(sides[0].cases & sides[1].cases if only is None else only):
            if chosen.only in case:
                results.append(compare(sides, case, chosen.pairs * (1 if only is None else 2), chosen.seconds))
                if only is None:
                    print(line(layer, results[-1]), flush=True)
    except Failed as reason:
        print(f"{layer}: {reason}", flush=True)
    finally:
        for side in sides:
            side.close()
    return results


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path, help="build folder of the other commit, with its target `benchmarks`")
    parser.add_argument("layers", nargs="*", help="all by default, without the footprint")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--pairs", type=int, default=10, help="turns per case (10)")
    parser.add_argument("--seconds", type=float, default=0.03, help="length of one reading (0.03)")
    parser.add_argument("--threads", type=int, default=2, help="of all layers but `engine`, which has one (2)")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    return parser.parse_args()


def main():
    chosen = options()
    here, there = programs(chosen.build), programs(chosen.before)
    layers = chosen.layers or sorted(here.keys() & there.keys() - {"loop"})
    missing = [layer for layer in layers if layer not in here or layer not in there]
    if missing or not layers:
        sys.exit(f"before: no program {' '.join(missing) or 'at all'} in both builds; build the target `benchmarks` of each")
    print(f"{'layer and case':<64} {'now':>9} {'before':>9}   ratio  (10th to 90th percentile)")
    total, slower = 0, []
    for layer in layers:
        threads = 1 if layer == "engine" else chosen.threads
        pair = (here[layer], there[layer])
        results = run(layer, pair, threads, chosen)
        total += len(results)
        doubtful = {result["case"] for result in results if is_slower(result)}
        if doubtful:
            slower += [(layer, result) for result in run(layer, pair, threads, chosen, doubtful) if is_slower(result)]
    print(f"\n{total} cases, {len(slower)} slower than before by more than their spread, timed twice")
    for layer, result in slower:
        print(line(layer, result))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
