#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gate of the main job: `motley verify` holds for both networks of the paper on 3 ranks of unlike ISA under the paper's cuts, in f64 and
f32. gate.py MOTLEY SOURCE_ROOT [NETWORK]"""
import json
import os
import subprocess
import sys
import tempfile

CUTS = ([70, 25, 5], [50, 50, 0], [98, 1, 1], [100, 0, 0])
DIMS = {"paper_mnist": ["filters1", "filters3"], "paper_cifar": ["filters1", "filters3", "filters5", "filters7"]}


def main() -> int:
    program, root = os.path.abspath(sys.argv[1]), sys.argv[2]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for net in sys.argv[3:] or list(DIMS):
            for shares in CUTS:
                job = {"version": 1, "mesh": f"{root}/configs/meshes/three.json", "model": f"{root}/configs/models/{net}.json",
                       "layout": {"split": {d: {"axis": "all", "parts": {"shares": shares}} for d in DIMS[net]}},
                       "data": {"kind": "synthetic"},
                       "train": {"batch": 32, "max_steps": 3, "seed": 1, "optimizer": {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 1e-4}}}
                path = os.path.join(folder, "job.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(job, file)
                ran = subprocess.run([program, "verify", path, "--format", "json", "--steps", "2", "--batch", "4"], cwd=folder, capture_output=True, text=True, timeout=200)
                good = ran.returncode == 0 and json.loads(ran.stdout)["ok"] is True
                print(net, shares, "ok" if good else f"FAILED {ran.returncode}", ran.stdout.strip() or ran.stderr.strip(), flush=True)
                failed += not good
    return 1 if failed else 0


sys.exit(main())
