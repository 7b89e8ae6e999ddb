#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies law: after 1,500 f32 steps on ranks of unlike ISA no copy of a persistent tensor differs from its owner's bits. copies.py MOTLEY
copies.py MOTLEY LIBRARY LIBRARY: the same on ranks of unlike libraries, and the partitioned network agrees with the unpartitioned one."""
import json
import os
import subprocess
import sys
import tempfile

JOB = {"version": 1,
       "mesh": {"axes": [{"name": "all", "size": 2}], "devices": [{"kind": "cpu", "threads": 1}, {"kind": "cpu", "threads": 1, "isa": "sse41"}]},
       "model": {"name": "copies", "inputs": {"image": {"batch": 8, "channels": 3, "rows": 8, "cols": 8}},
                 "layers": [{"op": "conv2d", "out": {"f1": 12}, "window": 3, "padding": "same", "activation": "relu"},
                            {"op": "conv2d", "out": {"f2": 10}, "window": 3, "padding": "same", "activation": "tanh"},
                            {"op": "max_pool2d", "window": 2},
                            {"op": "dense", "out": {"hidden": 24}, "activation": "elu"}, {"op": "dense", "out": {"classes": 5}}],
                 "loss": {"op": "softmax_cross_entropy", "over": "classes"}},
       "layout": {"split": {"f1": {"axis": "all", "parts": [8, 4]}}},
       "data": {"kind": "synthetic"},
       "train": {"batch": 8, "max_steps": 1500, "optimizer": {"kind": "sgd", "learning_rate": 0.02, "momentum": 0.9}}}


def main() -> int:
    for device, library in zip(JOB["mesh"]["devices"], sys.argv[2:]):
        device["library"] = library
        device.pop("isa", None)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/job.json", "w", encoding="utf-8") as file:
            json.dump(JOB, file)
        motley = os.path.abspath(sys.argv[1])
        for words in [["train", "job.json", "--run-dir", "run", "--quiet"], *([["verify", "job.json"]] if sys.argv[2:] else [])]:
            ran = subprocess.run([motley, *words], cwd=folder, capture_output=True, text=True, timeout=200)
            print(ran.stdout)
            if ran.returncode != 0:
                print(ran.stderr)
                return 1
        with open(f"{folder}/run/run.json", encoding="utf-8") as file:
            run = json.load(file)
    print(run["steps"], run["copies_differ"], run["bytes_predicted"], run["bytes_counted"])
    good = run["status"] == "done" and run["steps"] == 1500 and run["copies_differ"] == [] and run["bytes_predicted"] == run["bytes_counted"]
    return 0 if good else 1


sys.exit(main())
