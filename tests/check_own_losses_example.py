#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/own_losses.cpp on one rank and on two: both losses fall, and are the same. check_own_losses_example.py EXAMPLE MPIEXEC"""
import re
import subprocess
import sys

found = []
for ranks in ["1", "2"]:
    said = subprocess.run([sys.argv[2], "-n", ranks, sys.argv[1]], check=True, capture_output=True, text=True, timeout=60).stdout
    print(said)
    found.append([tuple(map(float, re.search(name + r" loss ([\d.]+) to ([\d.]+)", said).groups())) for name in ("Dice", "focal")])
falls = all(0 <= last < 0.6 * first for first, last in found[0])
same = all(abs(a - b) < 1e-3 for one, two in zip(*found) for a, b in zip(one, two))
sys.exit(0 if falls and same else 1)
