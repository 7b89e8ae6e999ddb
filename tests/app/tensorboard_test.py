# SPDX-License-Identifier: Apache-2.0
"""TensorBoard reads what `"log": "tensorboard"` writes. Skipped (77) where python3 has no tensorboard. tensorboard_test.py MOTLEY"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

JOB = {"version": 1,
       "mesh": {"axes": [{"name": "all", "size": 1}], "devices": [{"name": "cpu", "kind": "cpu", "threads": 1}]},
       "model": {"inputs": {"image": {"batch": 8, "channels": 1, "rows": 8, "cols": 8}}, "layers": [{"op": "dense", "out": {"classes": 4}}],
                 "loss": {"op": "softmax_cross_entropy", "over": "classes"}},
       "layout": {}, "data": {"kind": "synthetic"},
       "train": {"batch": 8, "max_steps": 30, "log": "tensorboard", "optimizer": {"kind": "sgd", "learning_rate": 0.05}}}

with tempfile.TemporaryDirectory() as folder:
    job = pathlib.Path(folder) / "job.json"
    job.write_text(json.dumps(JOB))
    subprocess.run([sys.argv[1], "train", str(job), "--run-dir", f"{folder}/run", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines()]
    read = EventAccumulator(f"{folder}/run")
    read.Reload()
    for tag, key in [("loss", "loss"), ("learning_rate", "learning_rate"), ("step_seconds", "seconds"), ("test_accuracy", "test_accuracy")]:
        expected = [(line["step"], line[key]) for line in lines if key in line]
        found = [(event.step, event.value) for event in read.Scalars(tag)]
        assert [step for step, _ in found] == [step for step, _ in expected], (tag, found)
        assert all(math.isclose(a, b, rel_tol=1e-6) for (_, a), (_, b) in zip(found, expected)), (tag, found)
print(f"{len(lines)} steps read by tensorboard")
