#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/keep.cpp on two ranks: training goes on from its checkpoint with the same loss, and the weights predict.
check_keep_example.py EXAMPLE MPIEXEC"""
import pathlib
import re
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    said = subprocess.run([sys.argv[2], "-n", "2", sys.argv[1], folder], check=True, capture_output=True, text=True, timeout=60).stdout
    kept = sorted(p.name for p in pathlib.Path(folder).iterdir())
print(said, kept)
loss, again = map(float, re.search(r"loss ([\d.]+), from the checkpoint ([\d.]+)", said).groups())
accuracy = float(re.search(r"accuracy ([\d.]+)", said)[1])
sys.exit(0 if abs(loss - again) < 1e-4 and 0 < loss < 1.2 and accuracy > 0.5 and kept == ["step-10", "weights.safetensors"] else 1)
