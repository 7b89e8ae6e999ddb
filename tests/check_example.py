#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README's C++ example trains: its first steps on two ranks, with a short profile of the same network, then it is stopped.
check_example.py MOTLEY EXAMPLE MPIEXEC SOURCE_ROOT"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

STEPS = 8
NET = {"name": "example", "inputs": {"image": {"batch": 128, "in": 1, "rows": 28, "cols": 28}},
       "layers": [{"op": "conv2d", "out": {"f1": 32}, "window": 5, "padding": "same", "activation": "relu"}, {"op": "max_pool2d", "window": 2},
                  {"op": "conv2d", "out": {"f2": 64}, "window": 5, "padding": "same", "activation": "relu"}, {"op": "max_pool2d", "window": 2},
                  {"op": "dense", "out": {"hidden": 256}, "activation": "relu"}, {"op": "dense", "out": {"classes": 10}}],
       "loss": {"op": "softmax_cross_entropy", "over": "classes"}}
JOB = {"version": 1, "mesh": "configs/meshes/fast_slow.json", "model": NET, "layout": {"split": {"f1": "all", "hidden": "all"}},
       "data": {"kind": "fashion_mnist"}, "train": {"batch": 128, "max_steps": 1, "optimizer": {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9}}}


def main() -> int:
    motley, example, mpiexec, root = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(root, "configs"), os.path.join(folder, "configs"))
        with open(os.path.join(folder, "job.json"), "w", encoding="utf-8") as file:
            json.dump(JOB, file)
        subprocess.run([os.path.abspath(motley), "profile", "job.json", "--budget-seconds", "3", "-o", "profile.json", "--quiet"], cwd=folder, check=True, timeout=100)
        run = subprocess.Popen([mpiexec, "-n", "2", os.path.abspath(example)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said, losses = [], []
        for line in run.stdout:
            said.append(line)
            if found := re.match(r"step (\d+)  loss ([\d.]+) .*predicted", line):
                losses.append(float(found[2]))
            if len(losses) == STEPS:
                run.send_signal(signal.SIGTERM)
                break
        said.append(run.communicate(timeout=60)[0])
    text = "".join(said)
    print(text)
    # mpiexec's own code says nothing here: a signal can make it 0. "Abort(": some message was still under way.
    good = "stopped on request after step" in text and "Abort(" not in text and len(losses) == STEPS and "predicted step" in text and min(losses) > 0 and\
        losses[-1] < losses[0]
    return 0 if good else 1


sys.exit(main())
