# SPDX-License-Identifier: Apache-2.0
"""learns.py MOTLEY ROOT: a GPT whose heads, inner layers and vocabulary are cut unevenly over two ranks learns a text."""
import json
import pathlib
import subprocess
import sys
import tempfile

motley, root = sys.argv[1], pathlib.Path(sys.argv[2])
with tempfile.TemporaryDirectory() as folder:
    run = pathlib.Path(folder) / "run"
    subprocess.run([motley, "train", root / "configs/jobs/gpt_text.json", "--run-dir", run, "--quiet"], check=True, timeout=200, stdout=subprocess.DEVNULL)
    losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(losses) == 150 and losses[0] > 4.5, losses[:3]
    assert sum(losses[-10:]) / 10 < 3.0, losses[-10:]  # by how often each byte occurs: 3.26
    # What was kept predicts as well as it did.
    text = subprocess.run([motley, "eval", root / "configs/jobs/gpt_text.json", "--weights", run, "--format", "json"], check=True, timeout=100,
                          stdout=subprocess.PIPE).stdout
    assert json.loads(text)["loss"] < 3.2, text
