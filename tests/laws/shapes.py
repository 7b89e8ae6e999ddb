#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`motley verify` holds for configs/models/shapes.json on 3 ranks of unlike ISA under uneven cuts of the dims that shapes change, on whole
blocks and across them. shapes.py MOTLEY SOURCE_ROOT"""
import json
import os
import subprocess
import sys
import tempfile

LAYOUTS = ({"f1": [6, 3, 3], "f2": [4, 2, 0], "f3": [14, 6, 4]},  # groups of 3: in place
           {"f1": [7, 4, 1], "both": [5, 1, 4], "shuffled": [3, 0, 9]},
           {"batch": [2, 1, 1]},
           {"groups": [0, 3, 1], "others": [1, 1, 2], "pair": [1, 0, 1], "flat": [500, 63, 301], "classes": [3, 0, 2]})


def main() -> int:
    program, root = os.path.abspath(sys.argv[1]), sys.argv[2]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for parts in LAYOUTS:
            job = {"version": 1, "mesh": f"{root}/configs/meshes/three.json", "model": f"{root}/configs/models/shapes.json",
                   "layout": {"split": {d: {"axis": "all", "parts": p} for d, p in parts.items()}},
                   "data": {"kind": "synthetic"},
                   "train": {"batch": 4, "max_steps": 2, "optimizer": {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9}}}
            path = os.path.join(folder, "job.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(job, file)
            ran = subprocess.run([program, "verify", path, "--format", "json", "--steps", "2", "--batch", "4"], cwd=folder, capture_output=True, text=True, timeout=100)
            good = ran.returncode == 0 and json.loads(ran.stdout)["ok"] is True
            print(parts, "ok" if good else f"FAILED {ran.returncode}", ran.stdout.strip() or ran.stderr.strip(), flush=True)
            failed += not good
    return 1 if failed else 0


sys.exit(main())
