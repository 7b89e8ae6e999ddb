#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gate of the main job: `motley verify` holds for both networks of the paper on 3 ranks of unlike ISA under the paper's cuts, and on meshes
of two and three axes (on smaller images), in f64 and f32. gate.py MOTLEY SOURCE_ROOT [NETWORK]"""
import json
import os
import subprocess
import sys
import tempfile

CUTS = ([70, 25, 5], [50, 50, 0], [98, 1, 1], [100, 0, 0])
GRIDS = (("grid_2x2", "jagged"), ("grid_3x2", "rows_filters"), ("cube", "rows_cols_filters"))  # 4, 6 and 8 ranks
IMAGE = {"paper_mnist": 12, "paper_cifar": 16}
DIMS = {"paper_mnist": ["filters1", "filters3"], "paper_cifar": ["filters1", "filters3", "filters5", "filters7"]}


def holds(program: str, folder: str, name: str, job: dict, more: list) -> bool:
    path = os.path.join(folder, "job.json")
    job = {"version": 1, **job, "data": {"kind": "synthetic"},
           "train": {"batch": 32, "max_steps": 3, "seed": 1, "optimizer": {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 1e-4}}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(job, file)
    ran = subprocess.run([program, "verify", path, "--format", "json", "--steps", "2", "--batch", "4", *more], cwd=folder, capture_output=True, text=True, timeout=200)
    good = ran.returncode == 0 and json.loads(ran.stdout)["ok"] is True
    print(name, "ok" if good else f"FAILED {ran.returncode}", ran.stdout.strip() or ran.stderr.strip(), flush=True)
    return good


def main() -> int:
    program, configs = os.path.abspath(sys.argv[1]), sys.argv[2] + "/configs"
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for net in sys.argv[3:] or list(DIMS):
            model = f"{configs}/models/{net}.json"
            for shares in CUTS:
                layout = {"split": {d: {"axis": "all", "parts": {"shares": shares}} for d in DIMS[net]}}
                failed += not holds(program, folder, f"{net} {shares}", {"mesh": f"{configs}/meshes/three.json", "model": model, "layout": layout}, [])
            small = [arg for dim in ("rows", "cols") for arg in ("--set", f"model.inputs.image.{dim}={IMAGE[net]}")]
            for mesh, layout in GRIDS:
                job = {"mesh": f"{configs}/meshes/{mesh}.json", "model": model, "layout": f"{configs}/layouts/{layout}.json"}
                failed += not holds(program, folder, f"{net} {mesh} {layout}", job, small)
    return 1 if failed else 0


sys.exit(main())
