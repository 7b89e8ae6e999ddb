#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do fresh profiles of one machine, taken while other processes interfere, lead to equally good plans?

Each profile is made while one core is busy half of the time, in bursts of 1 to 20 s. Then, without that load, the plans that they lead
to are timed in turn, several rounds of each. Goals: of 10 profiles, the steps of 9 within 3 % of the best (equal decisions are one
plan), and predictions of the fast rank alone within 10 % of each other.

bench/fresh_profiles.py [--job FILE] [--profiles N] [--rounds N] [--steps N] [--core N] [--seed N] [--no-load] [--json FILE]
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOTLEY = ROOT / "build/motley"


def bursts(core, seed):
    """Busy half of the time, on one core."""
    os.sched_setaffinity(0, {core})
    chance = random.Random(seed)
    while True:
        seconds = chance.uniform(1, 20)
        if chance.random() < 0.5:
            until = time.monotonic() + seconds
            block = bytearray(1 << 22)  # streams through memory as it computes
            while time.monotonic() < until:
                block[:] = block[1:] + block[:1]
        else:
            time.sleep(seconds)


def motley(*words):
    done = subprocess.run([MOTLEY, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"motley {' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--job", default=str(ROOT / "configs/jobs/quickstart_filters.json"))
    parse.add_argument("--profiles", type=int, default=10)
    parse.add_argument("--rounds", type=int, default=7)
    parse.add_argument("--steps", type=int, default=150)
    parse.add_argument("--core", type=int, default=0)
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--no-load", action="store_true")
    parse.add_argument("--json")
    its = parse.parse_args()
    with tempfile.TemporaryDirectory(prefix="motley-fresh-") as folder:
        there = pathlib.Path(folder)
        rows, plans = [], {}
        for i in range(its.profiles):
            load = multiprocessing.Process(target=bursts, args=(its.core, its.seed + i), daemon=True)
            if not its.no_load:
                load.start()
            begin = time.monotonic()
            profile, plan = there / f"profile{i}.json", there / f"plan{i}.json"
            motley("profile", its.job, "-o", profile)
            seconds = time.monotonic() - begin
            if not its.no_load:
                load.kill()
                load.join()
            said = json.loads(motley("plan", its.job, "--set", f"profile.path={json.dumps(str(profile))}", "--set", "profile.measure=never", "--format", "json"))
            motley("plan", its.job, "--set", f"profile.path={json.dumps(str(profile))}", "--set", "profile.measure=never", "-o", plan)
            parts = "  ".join(f"{c['dim']} {str(c['parts']).replace(', ', '/').strip('[]')}" for c in said["cuts"])
            decisions = json.dumps(json.loads(plan.read_text())["decisions"], sort_keys=True)
            plans.setdefault(decisions, (plan, []))
            rows.append({"profile": i, "seconds": seconds, "parts": parts, "decisions": decisions, "predicted_step_seconds": said["predicted"]["step_seconds"],
                         "alone_seconds": said["baselines"]["fast_alone"]})
            print(f"profile {i}: {seconds:.0f} s, {parts}, predicted {1e3 * rows[-1]['predicted_step_seconds']:.1f} ms, fast alone {1e3 * rows[-1]['alone_seconds']:.1f} ms", flush=True)
        for turn in range(its.rounds):
            for number, (plan, times) in enumerate(plans.values()):
                run = there / f"run{number}-{turn}"
                motley("train", its.job, "--plan", plan, "--run-dir", run, "--set", f"train.max_steps={its.steps}", "--quiet")
                times.append(json.loads((run / "run.json").read_text())["measured_step_seconds"])
        best = min(statistics.median(times) for _, times in plans.values())
        for row in rows:
            row["step_seconds"] = statistics.median(plans[row.pop("decisions")][1])
            row["over_best"] = row["step_seconds"] / best
            print(f"profile {row['profile']}: {row['parts']}, step {1e3 * row['step_seconds']:.2f} ms, {row['over_best']:.3f} of the best")
        near = sum(row["over_best"] <= 1.03 for row in rows)
        alone = [row["alone_seconds"] for row in rows]
        print(f"{near} of {len(rows)} profiles within 3 % of the best of {len(plans)} plans; fast rank alone predicted {1e3 * min(alone):.1f} to "
              f"{1e3 * max(alone):.1f} ms ({max(alone) / min(alone):.3f})")
        if its.json:
            pathlib.Path(its.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
