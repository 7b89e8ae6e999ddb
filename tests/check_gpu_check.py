#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check says what it did not do: a card that motley cannot use is a failure, a line without time left is named, its two files are there.
check_gpu_check.py SOURCE_ROOT"""
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

SCRIPT = pathlib.Path(sys.argv[1]) / "scripts/gpu-check"


def run(folder, smi, *options):
    """Exit code, table, names of the logs; with an nvidia-smi that is `smi` and no CUDA module."""
    tools, out = folder / "tools", folder / "out"
    tools.mkdir(exist_ok=True)
    (tools / "nvidia-smi").write_text("#!/bin/sh\n" + smi + "\n")
    (tools / "nvidia-smi").chmod(0o755)
    env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", MOTLEY_CUDA=str(folder / "no_module.so"), OUT=str(out))
    done = subprocess.run([SCRIPT, *options], env=env, text=True, capture_output=True, timeout=100, check=False)
    if done.returncode == 64:
        return 64, done.stderr, []
    with tarfile.open(out / "logs.tar.gz") as archive:
        names = archive.getnames()
    table = (out / "summary.txt").read_text()
    assert sorted(p.name for p in out.iterdir()) == ["logs.tar.gz", "summary.txt"], sorted(out.iterdir())
    assert table in done.stdout, "the table is printed at the end"
    return done.returncode, table, names


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        card = 'echo "NVIDIA Thing, 999.99, 1000 MiB, 1000 MHz"'
        code, table, names = run(folder, card, "--part", "laws,cuts", "--seconds", "1")
        assert code == 1 and "NVIDIA Thing" in table and "FAILED" in table and "part cuts" in table, (code, table)
        assert "logs/doctor.txt" in names, names
        code, table, _ = run(folder, "exit 9", "--part", "host,bench", "--seconds", "1")
        assert code == 75 and "FAILED" not in table and table.count("left out") == 2 and "none that nvidia-smi lists" in table, (code, table)
        assert "part bench" in table and "skipped" in table, table
        for wrong in (["--part", "everything"], ["--part", ","], ["--seconds", "soon"], ["--out"]):
            assert run(folder, card, *wrong)[0] == 64, wrong
    print("gpu-check: ok")


main()
