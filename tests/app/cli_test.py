# SPDX-License-Identifier: Apache-2.0
"""The program from outside: what it prints, what it leaves, how it ends. cli_test.py MOTLEY [NAME...]"""
import ast
import contextlib
import json
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree
import zipfile
import zlib

MOTLEY = str(pathlib.Path(sys.argv[1]).resolve())
LIMIT = 60  # seconds, of one command
RUN_KEYS = {"status", "steps", "seconds", "train_loss", "test_accuracy", "predicted_step_seconds", "measured_step_seconds",
            "bytes_predicted", "bytes_counted", "ranks", "copies_differ"}


def job(ranks=2, parts=(4, 2), **train):
    devices = [{"name": f"cpu {r}", "kind": "cpu", "threads": 1} for r in range(ranks)]
    if ranks > 1:
        devices[-1]["isa"] = "avx2"
    return {
        "version": 1,
        "mesh": {"axes": [{"name": "all", "size": ranks}], "devices": devices},
        "model": {"inputs": {"image": {"batch": 8, "channels": 1, "rows": 8, "cols": 8}},
                  "layers": [{"op": "conv2d", "out": {"filters": 6}, "window": 3, "padding": "same", "activation": "relu"},
                             {"op": "max_pool2d", "window": 2},
                             {"op": "dense", "out": {"classes": 4}}],
                  "loss": {"op": "softmax_cross_entropy", "over": "classes"}},
        "layout": {"split": {"filters": {"axis": "all", "parts": list(parts)}}},
        "data": {"kind": "synthetic"},
        "train": {"dtype": "f32", "batch": 8, "max_steps": 20, "seed": 1,
                  "optimizer": {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9}, **train}}


class Room:
    """A directory of one test; commands run in it."""

    all = []

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="motley cli tëst "))
        Room.all.append(self.path)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MOTLEY_", "PMI", "HYDRA"))}
        self.env["XDG_CACHE_HOME"] = str(self.path / "cache")
        self.env["TMPDIR"] = str(self.path / "tmp")
        self.env["MOTLEY_SPREAD_SECONDS"] = self.env["MOTLEY_STEP_SECONDS"] = "0"  # no test asserts how long anything takes
        (self.path / "tmp").mkdir()

    def write(self, name, value):
        text = value if isinstance(value, str) else json.dumps(value, indent=1)
        (self.path / name).write_text(text)
        return name

    def start(self, *words, before=(), **more):
        return subprocess.Popen([*before, MOTLEY, *map(str, words)], cwd=self.path, env=self.env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def run(self, *words, code=0, **more):
        process = self.start(*words, **more)
        try:
            process.out, process.err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == code, f"{words}: exit {process.returncode}, not {code}\n{process.out}\n{process.err}"
        leftovers = list((self.path / "tmp").iterdir())
        assert not leftovers, f"{words} left {leftovers}"
        return process

    def json(self, name):
        return json.loads((self.path / name).read_text())


def has(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in:\n{text}"


def wait_for(condition, what):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(f"never: {what}")


def children(parent):
    """All processes below one, by /proc."""
    below = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, rest = stat.parent.name, stat.read_text().rsplit(")", 1)[1].split()
            below.setdefault(int(rest[1]), []).append(int(pid))
    out, open_ = [], [parent]
    while open_:
        for pid in below.get(open_.pop(), []):
            out.append(pid)
            open_.append(pid)
    return out


def ranks_of(parent):
    """Process ids by rank."""
    out = {}
    for pid in children(parent):
        with contextlib.suppress(OSError):
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            values = dict(e.split(b"=", 1) for e in environment if b"=" in e)
            if b"PMI_RANK" in values:
                rank = int(values[b"PMI_RANK"])
                out[rank] = min(pid, out.get(rank, pid))  # not a child of its own
    return out


def has_reported(pid, rank, before):
    """Another process than `before`, which has its record."""
    with contextlib.suppress(OSError):
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        records = [e.partition("=")[2] for e in environment if e.startswith("MOTLEY_RUN_RECORDS=")]
        return pid != before and records and (pathlib.Path(records[0]) / f"rank-{rank}").exists()
    return False


def usage():
    room = Room()
    for words, part in [((), "no command given"), (("eval", "x"), "--weights"), (("predict", "x", "--weights", "y"), "--input"), (("convert", "x"), "OUT"), (("trian", "x"), 'did you mean "train"?'), (("train",), "JOB"),
                        (("train", "x", "--overwrit"), 'did you mean "--overwrite"?'), (("verify", "x", "--steps", "many"), "--steps"),
                        (("verify", "x", "--steps", "0"), "--steps"), (("plan", "x", "y"), 'unexpected argument "y"'), (("check",), "FILE"), (("convert", "", "x.npz"), "an argument is empty"), (("model", "lenet5", "--set", "width=0.5"), "--set changes a job, and model reads none"),
                        (("plan", "x", "--format", "xml"), "--format"), (("--nonsense",), "--nonsense"),
                        (("train", "x", "--from-checkpoint", "y"), "--resume DIR"), (("profile", "--set", "train.batch=1"), "--set")]:
        done = room.run(*words, code=64)
        has(done.err, part)
        assert done.out == "", done.out
    later = ["simulate"]
    for verb in later:
        has(room.run(verb, "x", "--y", code=78).err, "not built yet")
    for verb, option in [("plan", "--advise")]:
        has(room.run(verb, "x", option, code=78).err, f"{verb} {option}: not built yet")
    verbs = ["doctor", "check", "profile", "plan", "explain", "train", "trace", "report", "verify", "eval", "predict", "convert", "schema", "model", "svm"]
    text = room.run("--help").out
    has(text, *verbs, "Examples")
    assert not any(f"\n  {verb} " in text for verb in later) and "not built" not in text, text
    assert room.run("help").out == text
    has(room.run("help", "plam", code=64).err, 'unknown command "plam"; did you mean "plan"?')
    has(room.run("version", "now", code=64).err, 'version takes no arguments, found "now"')
    has(room.run("nonsense", code=64).err, "known: doctor", ", help, version)")
    assert room.run("help", "help").out == room.run("help", "version").out == text
    assert not any(f" {verb}" in room.run("nonsense", code=64).err for verb in later)
    for verb in verbs:
        shown = room.run(verb, "--help").out
        has(shown, verb, "--set")
        assert room.run("help", verb).out == shown and "not built" not in shown
    has(room.run("--version").out, "motley ")
    assert room.run("version").out == room.run("--version").out


def doctor():
    room = Room()
    done = room.run("doctor", "--mesh", "mesh of this nöde.json")
    has(done.out, "CPU", "ISA", "cores", "GPUs", "libraries", "Eigen", "CUDA", "cuDNN", "MPI", "/dev/shm", "open files", "memory")
    has(room.run("check", "mesh of this nöde.json").out, "mesh")
    mesh = room.json("mesh of this nöde.json")
    assert mesh["axes"][0]["size"] == len(mesh["devices"])
    assert all(d["threads"] == len(d["cores"]) for d in mesh["devices"] if d["kind"] == "cpu")


def one_core_of_two_units():
    """Two hyperthreads are one core: doctor counts it so, and two ranks on it are said to share it."""
    room = Room()
    if len(os.sched_getaffinity(0)) < 2:
        return
    room.env |= {"HWLOC_SYNTHETIC": "pack:1 core:1 pu:2", "HWLOC_THISSYSTEM": "1"}
    has(room.run("doctor").out, "cores       1 in 1 socket", "up to 1 with one core each")
    room.write("job.json", job())
    has(room.run("plan", "job.json").out, "ranks share the core of processing units 0 and 1 (ranks 0, 1)")
    room.env["HWLOC_SYNTHETIC"] = "pack:1 core:2 pu:1"
    assert "ranks share" not in room.run("plan", "job.json").out


def gpu_not_here():
    room = Room()
    wanted = job()
    wanted["mesh"]["devices"][0] = {"name": "far gpu", "kind": "cuda", "index": 1000}
    done = room.run("train", room.write("job.json", wanted), code=69)
    # Without the module, without a driver, with fewer GPUs: each its own sentence, and the device's name.
    assert any(words in done.err for words in ("no CUDA device", "motley_cuda.so", "is GPU 1000")), done.err
    has(done.err, "far gpu")
    # A device that was never there is the mesh's mistake: the ranks are not started again.
    assert "restart" not in room.run("train", "job.json", "--run-dir", "run", "--restart", "2", code=69).err


def checks():
    room = Room()
    room.write("good.json", job())
    has(room.run("check", "good.json").out, "good.json", "job")
    bad = job()
    bad["train"]["optimizer"]["learnin_rate"] = bad["train"]["optimizer"].pop("learning_rate")
    bad["layout"]["split"]["filters"]["parts"] = [4, 3]
    done = room.run("check", room.write("bad.json", bad), code=78)
    has(done.err, "bad.json:", ": error: /train/optimizer/learnin_rate: unknown key", 'did you mean "learning_rate"?', "/layout/split/filters")
    assert done.out == "", done.out
    assert room.run("plan", "bad.json", code=78).err.startswith("bad.json:")
    has(room.run("check", room.write("broken.json", '{"version": 1,'), code=78).err, "broken.json:1:")
    room.run("check", "not there.json", code=66)
    # A missing file is 66 wherever it is named; a wrong one beside it counts more.
    for part in ["mesh", "model", "layout", "data", "train"]:
        done = room.run("check", room.write("named.json", {**job(), part: "no/such.json"}), code=66)
        has(done.err, "named.json:", f": error: /{part}: no file no/such.json")
        room.run("plan", "named.json", code=66)
        room.run("check", "named.json", "bad.json", code=78)
    without_data = job()
    without_data["data"] = {"kind": "mnist", "path": "no data"}
    without_data["model"]["inputs"]["image"].update(rows=28, cols=28)
    without_data["model"]["layers"][-1]["out"]["classes"] = 10
    room.write("no data.json", without_data)
    for verb in ["check", "train", "verify"]:
        has(room.run(verb, "no data.json", code=66).err, "no data.json:", "/data/path", "train-images-idx3-ubyte", "not found")
    room.run("plan", "no data.json")
    assert not (room.path / "runs").exists()
    room.run("check", "good.json", "bad.json", code=78)
    has(room.run("check", "good.json", "--set", "train.batch=0", code=78).err, "--set")
    has(room.run("plan", "good.json", "--set", "train.batc=3", code=78).err, "--set")
    # A complaint about one part that the check of another part finds keeps its own pointer.
    room.write("own model.json", {"version": 1, **job()["model"]})
    err = room.run("check", "good.json", "--set", "model=own model.json", "--set", 'data.normalize={"mean":[1,2],"std":[1,2]}', code=78).err
    has(err, "error: /data/normalize/mean: expected a number for each of the 1 channels")
    # Where a job is expected, a file of another kind is said to be one.
    room.write("mesh.json", {"version": 1, **job()["mesh"]})
    for words in [("plan", "mesh.json"), ("check", "--set", "mesh.devices.0.threads=2", "mesh.json")]:
        done = room.run(*words, code=78)
        has(done.err, 'mesh.json:1:1: error: this is a mesh; expected a job, whose "mesh" may name this file')
        assert done.err.count("error:") == 1, done.err
    # A run's directory has the job's name and more in its name, which may have 255 bytes.
    long = room.write("n" * 240 + ".json", job(max_steps=1))
    for verb in ["check", "train"]:
        has(room.run(verb, long, code=78).err, ".json:1:1: error: ", "expected at most 233 bytes, found 240; give it a \"name\"")
    room.run("check", long, "--set", "name=" + "n" * 233)
    has(room.run("check", "good.json", "--set", "name=" + "n" * 234, code=78).err, "error: /name: ", "expected at most 233 bytes, found 234")
    path_like = job()
    path_like["model"]["layers"][0]["name"] = "../../up"
    has(room.run("check", room.write("path.json", path_like), code=78).err, "../../up")
    has(room.run("train", "path.json", code=78).err, "../../up")
    assert not (room.path / "runs").exists()


def foreign_words():
    room = Room()
    layer = '/model/layers/0'
    conv = {"op": "conv2d", "out": {"filters": 6}, "window": 3}
    for path, value, meant in [
            (f"{layer}/kernel_size", {**conv, "kernel_size": 3}, "window"), (f"{layer}/out_channels", {**conv, "out_channels": 3}, "out"),
            (f"{layer}/strides", {**conv, "strides": 2}, "stride"), (f"{layer}/op", {**conv, "op": "Linear"}, "dense"),
            (f"{layer}/op", {**conv, "op": "Conv2D"}, "conv2d"), (f"{layer}/op", {**conv, "op": "BatchNorm2d"}, "batch_norm"), (f"{layer}/op", {**conv, "op": "MaxPool2d"}, "max_pool2d"),
            (f"{layer}/activation", {**conv, "activation": "leaky_relu"}, None), (f"{layer}/op", {**conv, "op": "lstm"}, None),
            (f"{layer}/op", {**conv, "op": "InstanceNorm2d"}, None),
            ("/train/rebalance", {}, None), ("/train/ema", 0.9, "average"), ("/train/optimizer/no_decay", [], "decay"), ("/data/augmentation", {}, "augment"),
            ("/model/loss/smoothing", 0.1, "label_smoothing"), ("/model/loss/ignore_label", 0, "ignore_index"), ("/model/loss/class_weights", [], None),
            ("/model/loss/op", "mse", "mean_squared_error"), ("/model/loss/op", "BCEWithLogitsLoss", "binary_cross_entropy"), ("/model/loss/op", "SmoothL1Loss", "huber"), ("/model/loss/op", "l1", "mean_absolute_error"), ("/model/loss/op", "focal", None),
            (f"{layer}/op", {**conv, "op": "Mish"}, "map"),
            ("/train/scheduler", {}, "schedule"), ("/train/grad_clip", 1, "clip_norm"), ("/train/early_stopping", 5, "stop_after_evaluations_without_gain"),
            ("/train/save_best_only", True, "keep_best"), ("/train/schedule", {"kind": "ReduceLROnPlateau"}, "plateau"), ("/train/gradient_accumulation", 2, "accumulate"),
            ("/train/batch_size", 8, "batch"), ("/train/num_epochs", 2, "epochs"), ("/train/optimizer/lr", 0.1, "learning_rate"),
            ("/train/optimizer/wd", 0.1, "weight_decay"), ("/train/optimizer/kind", "lion", None), ("/train/dtype", "float32", "f32"),
            ("/train/dtype", "fp16", None), ("/train/dtype", "bfloat16", "bf16"), ("/mesh/devices/1/isa", "avx512", "avx512_core"), ("/mesh/devices/1/isa", "sse4.1", "sse41"),
            ("/mesh/devices/1/library", "mkldnn", "onednn"), ("/mesh/devices/1/isa", "neon", "generic"), ("/mesh/devices/1/isa", "sve", None),
            ("/mesh/devices/1/kind", "gpu", "cuda"), ("/mesh/devices/1/kind", "rocm", None), ("/mesh/devices/1/num_threads", 2, "threads"),
            ("/model/loss/op", "cross_entropy", "softmax_cross_entropy"), ("/data/kind", "imagefolder", "folder"), ("/data/kind", "imagenet", None)]:
        foreign = job()
        at, keys = foreign, path.split("/")[1:]
        if path.startswith(layer):
            foreign["model"]["layers"][0] = value
        else:
            for key in keys[:-1]:
                at = at[int(key)] if isinstance(at, list) else at[key]
            at[keys[-1]] = value
        done = room.run("check", room.write("foreign.json", foreign), code=78)
        hint = f'did you mean "{meant}"?' if meant else "not built yet"
        assert any(f": error: {path}" in line and hint in line for line in done.err.splitlines()), (path, hint, done.err)
        assert meant or "did you mean" not in done.err, (path, done.err)


def bad_profiles():
    """Seconds that no run takes are refused where they are written; what is missing is said."""
    room = Room()
    shared = job(2)
    shared["layout"]["split"]["filters"] = "all"
    room.run("profile", room.write("job.json", shared), "-o", "good.json", "--budget-seconds", "1")
    room.run("check", "good.json")
    good = room.json("good.json")
    for value in 0, -1e-3, 1e300, 1e7:
        bad = json.loads(json.dumps(good))
        bad["kernels"][0]["seconds"]["min"] = value
        done = room.run("check", room.write("bad.json", bad), code=78)
        has(done.err, "bad.json:", ": error: /kernels/0/seconds/min: expected the seconds of a run, from 1e-12 to 1000000, found ", "motley profile JOB")
    bad = json.loads(json.dumps(good))
    bad["kernels"][0]["seconds"]["min"] = 1
    has(room.run("check", room.write("bad.json", bad), code=78).err, '/kernels/0/seconds: expected "min" of at most "q25"')
    shared["profile"] = {"path": "bad.json", "measure": "never"}
    has(room.run("plan", room.write("with bad.json", shared), code=78).err, "/kernels/0/seconds")
    has(room.run("check", room.write("bare.json", {**good, "kernels": [], "links": []})).out, "bare.json: profile, nothing wrong",
        "note: it has no kernels: ", "note: it has 0 of 2 links between its devices: for the others 5 us and 2e9 bytes per second are assumed")
    shared["profile"] = {"path": "no links.json", "measure": "never"}
    room.write("no links.json", {**good, "links": []})
    has(room.run("plan", room.write("without links.json", shared)).out, "note: the profile has 0 of 2 links between the devices: for the others 5 us")
    half = {**good, "kernels": [k for k in good["kernels"] if k["device"] == 0]}
    has(room.run("check", room.write("half.json", half)).out, "note: it has no kernels of device 1 (cpu 1)")


def idle_devices():
    """A device without work: why, in text, explanation and JSON, and read back from a plan's file."""
    room = Room()
    described = job(3)
    del described["layout"]
    numbers = {"kind": "modelled", "memory_bytes_per_second": 1e11, "flops_per_second": 1e11}
    described["mesh"]["devices"] = [{**numbers, "name": "fast"}, {**numbers, "name": "old", "flops_per_second": 1e6},
                                    {**numbers, "name": "tiny", "flops_per_second": 1e6, "memory_bytes": 1}]
    described["mesh"]["links"] = [{"between": "ranks", "seconds": 1e-4, "bytes_per_second": 1e9}]
    room.write("job.json", described)
    plan = json.loads(room.run("plan", "job.json", "--format", "json", "-o", "plan.json").out or (room.path / "plan.json").read_text())
    old, tiny = plan["idle"]
    assert (old["rank"], old["device"], tiny["rank"], tiny["device"]) == (1, "old", 2, "tiny"), plan["idle"]
    assert old["step_seconds_with_it"] > plan["predicted"]["step_seconds"] and old["why"].startswith("the best plan tried with it takes "), old
    assert plan["predicted"]["ranks"][1]["seconds"] == 0
    text = room.run("plan", "job.json").out
    has(text, f"no work for old: {old['why']}\n", f"no work for tiny: {tiny['why']}\n" if tiny["why"] != old["why"] else "no work for old, tiny: ")
    assert "the only cut" not in text and ("all on fast: no plan tried that shares it is faster" in text or "no dim has a rule" in text), text
    assert "+0.0 %" not in text, text
    for more in (), ("--plan", "plan.json"):
        has(" ".join(room.run("explain", "job.json", *more).out.split()), old["why"])
    assert room.json("plan.json")["idle"] == plan["idle"]
    for row in plan["layout"]:
        assert row.get("next_best") not in (row["cut"], "on fast alone") and not (row["cut"] == "on fast alone" and row.get("next_best") == "not cut"), row
    # All devices work, and a layout that gives one nothing.
    assert "idle" not in json.loads(room.run("plan", room.write("even.json", job(2)), "--format", "json").out)
    none = json.loads(room.run("plan", room.write("none.json", job(3, (4, 2, 0))), "--format", "json").out)["idle"]
    assert [(one["rank"], one["step_seconds_with_it"]) for one in none] == [(2, None)] and none[0]["why"] == "no rule gives it a part", none


def axes_auto():
    """Devices that the planner arranges: planned, verified, trained, continued; what cannot be arranged is refused."""
    room = Room()
    open_axes = job(4)
    del open_axes["layout"]
    open_axes["mesh"]["axes"] = "auto"
    described = json.loads(json.dumps(open_axes))
    numbers = {"kind": "modelled", "memory_bytes_per_second": 1e10, "flops_per_second": 1e9}
    described["mesh"]["devices"] = [{**numbers, "name": name, "host": host, "flops_per_second": rate}
                                    for name, host, rate in [("a", "x", 4e9), ("b", "y", 4e9), ("c", "x", 1e9), ("d", "y", 1e9)]]
    described["mesh"]["links"] = [{"between": "hosts", "seconds": 1e-5, "bytes_per_second": 1e8}, {"between": "ranks", "seconds": 1e-6, "bytes_per_second": 1e10}]
    room.write("described.json", described)
    has(room.run("check", "described.json", room.write("mesh.json", {"version": 1, **described["mesh"]})).out, "described.json: job", "mesh.json: mesh")
    has(room.run("plan", "described.json").out, "note: axes auto: ", "predicted ", " complete plan", " more arrangement")
    done = room.run("plan", "described.json", "--format", "json", "-o", "plan.json")
    has(done.err, "note: axes auto: ")
    axes, chosen = room.json("plan.json")["axes"], room.json("plan.json")["decisions"]
    assert set(axes) - {"next_best", "next_best_seconds"} == {"chosen", "seconds", "complete_plans", "dropped"}, axes
    assert 0 < axes["seconds"] <= axes.get("next_best_seconds", axes["seconds"]) and axes["complete_plans"] >= 1, axes
    assert axes["complete_plans"] + axes["dropped"] == 3 and ("next_best" not in axes or axes["complete_plans"] > 1), axes
    assert all(f"{a['name']} {a['size']}" in axes["chosen"] for a in chosen["axes"]) and axes["chosen"] != axes.get("next_best"), (axes, chosen)
    line = f"axes auto: {axes['chosen']}, predicted "
    has(room.run("check", "plan.json").out, "plan.json: plan, nothing wrong")
    for more in (), ("--plan", "plan.json"):
        text = room.run("explain", "described.json", *more).out
        has(" ".join(text.split()), line, f"; next best {axes['next_best']}, " if "next_best" in axes else " complete plan", "ranks (modelled)")
        assert all(len(row) <= 100 for row in text.splitlines()), text
        assert json.loads(room.run("explain", "described.json", "--format", "json", *more).out)["axes"] == axes
    assert sorted(chosen["devices"]) == ["a", "b", "c", "d"] and math.prod(a["size"] for a in chosen["axes"]) == 4, chosen
    # The chosen arrangement, given by hand, has the same plan.
    by_name = {d["name"]: d for d in described["mesh"]["devices"]}
    by_hand = {**described, "mesh": {**described["mesh"], "axes": chosen["axes"], "devices": [by_name[n] for n in chosen["devices"]]}}
    room.run("plan", room.write("by hand.json", by_hand), "--format", "json", "-o", "by hand plan.json")
    assert room.json("by hand plan.json")["decisions"] == chosen and "axes" not in room.json("by hand plan.json")
    # So has the layout that was written: it names the axes and the devices along them.
    room.run("plan", "described.json", "--layout", "layout.json")
    assert room.json("layout.json")["arrangement"] == {"axes": chosen["axes"], "devices": chosen["devices"]}
    has(room.run("check", "layout.json", room.write("again.json", {**described, "layout": "layout.json"})).out, "layout.json: layout, nothing wrong", "again.json: job, nothing wrong")
    room.run("plan", "again.json", "--format", "json", "-o", "again plan.json")
    assert room.json("again plan.json")["decisions"] == chosen
    has(room.run("check", room.write("bad.json", {**by_hand, "layout": "layout.json", "mesh": {**by_hand["mesh"], "devices": by_hand["mesh"]["devices"][::-1]}}), code=78).err,
        "/arrangement: this layout is for ", "; the mesh is ", 'expected a mesh with these axes and devices, or one of these devices with "axes": "auto"')
    other = json.loads(json.dumps({**described, "layout": "layout.json"}))
    other["mesh"]["devices"][0]["name"] = "other"
    has(room.run("check", room.write("bad.json", other), code=78).err, "/arrangement: this layout is for ", "expected the devices of the mesh")
    has(room.run("plan", "described.json", "--progress", "plain").err, "looking at arrangement 1 of ")
    # Devices that are here.
    room.write("job.json", open_axes)
    has(room.run("train", "job.json", "--run-dir", "first").err, "axes auto: all devices along one axis, since nothing is measured yet")
    assert room.json("first/plan.json")["axes"] == {"chosen": "all 4", "seconds": None, "complete_plans": 0, "dropped": room.json("first/plan.json")["axes"]["dropped"]}
    has(room.run("train", "job.json", "--run-dir", "run", "--set", "train.checkpoint={\"every_steps\": 5}").err, "axes auto: ", "complete plan")
    assert len(room.json("run/job.resolved.json")["mesh"]["devices"]) == 4 and room.json("run/job.resolved.json")["mesh"]["axes"] != "auto"
    assert room.json("run/plan.json")["axes"]["complete_plans"] >= 1  # the ranks planned
    room.run("verify", "job.json")
    for ranks in (1, 2, 3):
        few = json.loads(json.dumps(open_axes))
        few["mesh"]["devices"] = few["mesh"]["devices"][:ranks]
        done = room.run("plan", room.write(f"{ranks}.json", few))
        has(done.err + done.out, f"axes auto: all {ranks}, the only arrangement")
    # Refused.
    for key, value, wrong in [
            ("layout", {}, '/layout: the mesh\'s "axes" are "auto", which are chosen together with the layout'),
            ("layout", {"split": {"filters": "all"}}, '/layout/split/filters: the mesh\'s "axes" are "auto", so they have no names'),
            ("layout", {"split": {"batch": "auto", "filters": "all"}}, '/layout/split/filters: the mesh\'s "axes" are "auto", so they have no names'),
            ("mesh", {**open_axes["mesh"], "axes": "automatic"}, '/mesh/axes: expected "auto" or a list of { "name", "size" }, found "automatic"'),
            ("mesh", {**open_axes["mesh"], "devices": []}, '/mesh/devices: "axes": "auto" arranges 1 to 4096 devices, found 0')]:
        has(room.run("check", room.write("bad.json", {**open_axes, key: value}), code=78).err, wrong)


def axes_auto_goes_on():
    """A run of arranged devices is resumed and restarted on its own mesh, bit for bit, whatever would be chosen now."""
    room = Room()
    room.write("by hand.json", {**job(4), "layout": {"split": {"batch": {"axis": "outer", "parts": "even"}, "filters": {"axis": "inner", "parts": [4, 2]}}}})
    by_hand = room.json("by hand.json")
    devices = by_hand["mesh"]["devices"]
    by_hand["mesh"] = {"axes": [{"name": "outer", "size": 2}, {"name": "inner", "size": 2}], "devices": [devices[r] for r in (0, 2, 3, 1)]}
    room.run("plan", room.write("by hand.json", by_hand), "-o", "plan.json")
    document = job(4, checkpoint={"every_steps": 4, "keep": 2})
    del document["layout"]
    document["mesh"]["axes"] = "auto"
    room.write("job.json", document)
    room.run("train", "job.json", "--plan", "plan.json", "--run-dir", "full")
    mesh = room.json("full/job.resolved.json")["mesh"]
    assert [d["name"] for d in mesh["devices"]] == ["cpu 0", "cpu 2", "cpu 3", "cpu 1"] and [a["size"] for a in mesh["axes"]] == [2, 2], mesh
    mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
    for name, words, before in [("with the job", ["job.json"], []), ("without", [], []), ("mpiexec", ["job.json"], [mpiexec, "-n", "4"])]:
        shutil.copytree(room.path / "full", room.path / name)
        shutil.rmtree(room.path / name / "checkpoints/step-20")
        done = room.run("train", *words, "--resume", name, before=before)
        has(done.err, f"resuming from {name}/checkpoints/step-16", "the plan is that of ")
        assert room.json(f"{name}/job.resolved.json")["mesh"] == mesh and losses(room, name) == losses(room, "full")
        assert (room.path / name / "weights.safetensors").read_bytes() == (room.path / "full/weights.safetensors").read_bytes()
    long = ["train", "job.json", "--plan", "plan.json", "--set", "train.max_steps=3000", "--set", 'train.checkpoint={"every_steps": 200}']
    room.run(*long, "--run-dir", "whole")
    process = room.start(*long, "--run-dir", "run", "--restart", "2")
    wait_for(lambda: (room.path / "run/checkpoints/step-200/complete").exists(), "a checkpoint is there")
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    has(err, "restart 1 of 2: from run/checkpoints/step-")
    assert room.json("run/job.resolved.json")["mesh"] == mesh and losses(room, "run") == losses(room, "whole")


def plan_and_run_files():
    room = Room()
    room.write("job.json", job())
    room.run("plan", "job.json", "--format", "json", "-o", "plan.json")
    room.run("train", "job.json", "--run-dir", "run", "--set", "train.max_steps=2")
    done = room.run("check", "plan.json", "run/plan.json", "run/run.json", "run/job.resolved.json")
    has(done.out, "plan.json: plan,", "run/run.json: run,", "job.resolved.json: job,")
    plan, run = room.json("plan.json"), room.json("run/run.json")
    plan["decisions"]["dtipe"] = plan["decisions"].pop("dtype")
    has(room.run("check", room.write("bad plan.json", plan), code=78).err, "bad plan.json:", '/decisions/dtipe: unknown key; did you mean "dtype"?')
    plan["version"] = 99
    has(room.run("check", room.write("new plan.json", plan), code=78).err, "a newer motley")
    run["status"], run["steps"] = "ok", -1
    has(room.run("check", room.write("bad run.json", run), code=78).err, "/status:", "/steps:")


def large_files():
    room = Room()
    done = room.run("check", room.write("large.json", " " * (65 << 20) + "{}"), code=78)
    has(done.err, "large.json is larger than 64 MiB")
    # No step over pairs of devices: 100,000 take no longer than reading them.
    devices = ",".join(['{"kind":"cpu"}'] * 100_000)
    axes = ",".join(f'{{"name":"a{i}","size":4096}}' for i in range(4))
    mesh = f'{{"version":1,"axes":[{axes}],"devices":[{devices}]}}'
    has(room.run("check", room.write("mesh.json", mesh), code=78).err, "4096 x 4096 x 4096 x 4096, more than 2e9", "100000 devices")
    named = ",".join(['{"kind":"cpu","name":"a"}'] * 100_000)
    has(room.run("check", room.write("mesh.json", f'{{"version":1,"axes":[{axes}],"devices":[{named}]}}'), code=78).err, 'two devices are called "a"', "and 9")


# The part of JSON Schema that `motley schema` uses.
def fits(value, schema):
    kinds = {"object": dict, "array": list, "string": str, "null": type(None), "boolean": bool}
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "anyOf" in schema and not any(fits(value, one) for one in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(fits(value, one) for one in schema["oneOf"]) != 1:
        return False
    kind = schema.get("type")
    if kind in ("integer", "number") and (isinstance(value, bool) or not isinstance(value, (int, float)) or (kind == "integer" and value != int(value))):
        return False
    if kind in kinds and not isinstance(value, kinds[kind]):
        return False
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return False
    if kind == "array":
        return all(fits(one, schema.get("items", {})) for one in value)
    if kind == "object":
        known = schema.get("properties", {})
        rest = schema.get("additionalProperties", {})
        return all(key in value for key in schema.get("required", [])) and all(
            fits(one, known[key]) if key in known else rest is not False and fits(one, rest) for key, one in value.items())
    return True


def defaults(schema):
    """Of all keys at any depth: (key, default, the schema of its value)."""
    for key, one in schema.items() if isinstance(schema, dict) else []:
        for name, value in one.items() if key == "properties" else []:
            if "default" in value:
                yield name, value["default"], value
        for inner in one if isinstance(one, list) else [one]:
            yield from defaults(inner)


def schemas():
    room = Room()
    schema = {kind: json.loads(room.run("schema", kind).out) for kind in ["job", "mesh", "model", "layout"]}
    usual = list(defaults(schema))
    assert all(fits(value, of) for _, value, of in usual), usual
    assert {("dtype", "f32"), ("threads", 1), ("deterministic", True), ("bias", True), ("padding", "valid"), ("parts", "profile"), ("measure", "if_missing")} <= {
        (name, value) for name, value, _ in usual if not isinstance(value, list)}, usual
    room.run("schema", "nonsense", code=64)
    good = job()
    assert fits(good, schema["job"])
    for network in ["lenet5", "resnet18", "vgg11_bn", "mobilenet_v2", "unet", "gpt", "bert"]:
        room.run("model", network, "-o", f"{network}.json")
        has(room.run("check", f"{network}.json").out, "model, nothing wrong")
        assert fits(room.json(f"{network}.json"), schema["model"]), network
    assert not fits({**room.json("resnet18.json"), "layers": [{"op": "relu", "name": "no space"}]}, schema["model"])
    assert json.loads(room.run("model", "resnet18").out) == room.json("resnet18.json")
    for kind in ["mesh", "model", "layout"]:
        assert fits({"version": 1, **good[kind]}, schema[kind]) and not fits(good[kind], schema[kind]), kind
        assert not fits({"version": 1, "nonsense": 1, **good[kind]}, schema[kind]), kind
    for change in [lambda j: j["train"].pop("batch"), lambda j: j["model"]["layers"][0].update(kernel_size=3), lambda j: j["mesh"]["devices"][0].update(kind="gpu"),
                   lambda j: j["layout"]["split"].update(filters={"parts": "even"}), lambda j: j["train"]["optimizer"].update(kind="lion"), lambda j: j.pop("data")]:
        bad = job()
        change(bad)
        assert not fits(bad, schema["job"]), bad
    configs = pathlib.Path(__file__).resolve().parents[2] / "configs"
    seen = 0
    for folder, kind in [("jobs", "job"), ("meshes", "mesh"), ("models", "model"), ("layouts", "layout")]:
        for file in sorted((configs / folder).glob("*.json")):
            text = "\n".join(line.split("//")[0] for line in file.read_text().splitlines())
            assert fits(json.loads(text), schema[kind]), file
            seen += 1
    assert seen > 15, seen


def plans():
    room = Room()
    room.write("job.json", job(3, (3, 2, 1)))
    first, again = room.run("plan", "job.json", "--format", "json").out, room.run("plan", "job.json", "--format", "json").out
    assert first == again
    plan = json.loads(first)
    assert {"cuts", "tensors", "exchanges", "predicted", "baselines"} <= plan.keys(), plan.keys()
    assert plan["cuts"] == [{**plan["cuts"][0], "dim": "filters", "axis": "all", "parts": [3, 2, 1]}]
    assert {"even", "proportional", "fast_alone"} <= plan["baselines"].keys()
    assert len(plan["predicted"]["ranks"]) == 3 and {"seconds", "bytes", "memory_bytes"} <= plan["predicted"]["ranks"][0].keys()
    assert plan["predicted"]["step_seconds"] is None, "explicit parts need no profile"
    assert plan["layers"] is None and plan["predicted"]["estimated_share"] is None
    assert "\nlayers" not in room.run("plan", "job.json").out
    weight = plan["tensors"]["conv2d_1.weight"]
    assert [boxes[0][0] for boxes in weight["owners"]] == [[0, 3], [3, 5], [5, 6]], weight
    for exchange in plan["exchanges"]:
        assert {"tensor", "kind", "bytes"} <= exchange.keys() and len(exchange["bytes"]) == 3
    has(room.run("plan", "job.json").out, "filters")
    done = room.run("plan", "job.json", "--format", "json", "-o", "plän 1.json")
    assert done.out == "" and (room.path / "plän 1.json").read_text() == first
    has(room.run("plan", "job.json", "-o", "plän 2.json").out, "filters")
    assert (room.path / "plän 2.json").read_text() == first
    # A summary fits a terminal; --full lists all.
    many = job(20, [1] * 6 + [0] * 14)
    many["layout"]["split"]["batch"] = {"axis": "other", "parts": "even"}
    many["mesh"]["axes"] = [{"name": "all", "size": 20}, {"name": "other", "size": 2}]
    many["mesh"]["devices"] = [{"kind": "cpu", "host": f"h{r // 8}"} for r in range(40)]
    room.write("many.json", many)
    short, full = room.run("plan", "many.json").out, room.run("plan", "many.json", "--full").out
    assert all(len(line) <= 120 for line in short.splitlines() if not line.startswith("note:")), short
    has(short, "and 24 ranks; --full lists all", "in total, at most")
    assert "rank 39" in full and "in total, at most" not in full and len(full) > len(short)
    short, full = (json.loads(room.run("plan", "many.json", "--format", "json", *more).out) for more in [(), ("--full",)])
    assert "tensors" not in short and "exchanges" not in short and {"tensors", "exchanges"} <= full.keys()
    assert short["decisions"] == full["decisions"]
    missing = job()
    missing["layout"]["split"]["filters"]["parts"] = "profile"
    missing["profile"] = {"path": "none.json", "measure": "never"}
    has(room.run("plan", room.write("missing.json", missing), code=66).err, "none.json")
    has(room.run("check", "missing.json", code=66).err, "/profile/path: no profile", "none.json")
    missing["profile"]["path"] = "missing.json"
    has(room.run("check", room.write("wrong.json", missing), code=78).err, "missing.json")
    jagged = job(4)
    jagged["mesh"]["axes"] = [{"name": "data", "size": 2}, {"name": "model", "size": 2}]
    jagged["layout"]["split"] = {"batch": {"axis": "data", "parts": [6, 2]}, "filters": {"axis": "model", "parts": [[4, 2], [5, 1]], "per": "data"}}
    room.write("jagged.json", jagged)
    cuts = json.loads(room.run("plan", "jagged.json", "--format", "json").out)["cuts"]
    assert [(c["dim"], c["parts"], c.get("per")) for c in cuts] == [("batch", [6, 2], None), ("filters", [[4, 2], [5, 1]], "data")], cuts
    has(room.run("plan", "jagged.json").out, "4/2 or 5/1 along data")


def modelled():
    """Machines that are not here: planned, explained, checked; refused by all else."""
    room = Room()
    described = job(3, (3, 2, 1))
    described["layout"]["split"]["filters"] = "all"
    described["mesh"]["devices"] = [
        {"name": "new", "kind": "modelled", "count": 2, "host": "a", "flops_per_second": 1e12, "memory_bytes_per_second": 1e11, "memory_bytes": 1e9,
         "granules": {"filters": 2}, "efficiency": {"conv2d": 0.5}, "launch_seconds": 1e-6, "cache_bytes": 1e6},
        {"name": "old", "kind": "modelled", "host": "b", "flops_per_second": 1e11, "memory_bytes_per_second": 1e10}]
    described["mesh"]["links"] = [{"between": "hosts", "seconds": 1e-5, "bytes_per_second": 1e9}, {"between": "ranks", "seconds": 1e-6, "bytes_per_second": 1e10}]
    room.write("job.json", described)
    room.write("mesh.json", {"version": 1, **described["mesh"]})
    assert room.run("check", "job.json", "mesh.json").out.count("nothing wrong") == 2
    text = room.run("plan", "job.json").out
    has(text, "new[1]", " (modelled)\n", "modelled: kernels whose seconds follow from the mesh's numbers, 100 % of the seconds in which ranks compute")
    assert "motley profile" not in text and "no link says" not in text, text
    near = ("--set", 'mesh.links=[{"between": "ranks", "seconds": 1e-6, "bytes_per_second": 1e10}]')
    has(room.run("plan", "job.json", *near).out, 'note: no link says how "new[0]" and "old", of different hosts, exchange messages: 5 us and 2e9 bytes per second are assumed')
    plan = json.loads(room.run("plan", "job.json", "--format", "json", "-o", "plan.json").out or (room.path / "plan.json").read_text())
    assert plan["predicted"]["step_seconds"] > 0 and plan["predicted"]["estimated_share"] == 1, plan["predicted"]
    assert len(plan["predicted"]["ranks"]) == 3
    assert room.json("plan.json") == plan and room.run("plan", "job.json", "--format", "json").out == (room.path / "plan.json").read_text()
    has(room.run("explain", "job.json").out, "ranks (modelled)", "new[0]")
    room.run("explain", "job.json", "--svg", "plan.svg")
    has((room.path / "plan.svg").read_text(), "(modelled)")
    has(room.run("explain", "job.json", "--plan", "plan.json").out, "new[0]")
    # Explicit parts have seconds too: they need no measurement.
    parts = ("--set", 'layout.split.filters={"axis": "all", "parts": [3, 2, 1]}')
    has(room.run("plan", "job.json", *parts).out, "3/2/1", "(modelled)")
    assert not (room.path / "cache").exists(), "nothing is measured"
    refused = '"new[0]" is modelled: it is described by numbers, and nothing can run on it. `plan` (without --measure), `explain` and `check` take such a mesh'
    for words in [("train", "job.json"), ("verify", "job.json"), ("profile", "job.json"), ("plan", "job.json", "--measure"), ("profile", "--mesh", "mesh.json"),
                  ("eval", "job.json", "--weights", "none"), ("predict", "job.json", "--weights", "none", "--input", "x.npy", "-o", "y.npy"),
                  ("svm", "train", "data", "-o", "model", "--mesh", "mesh.json"), ("train", "job.json", "--plan", "plan.json")]:
        has(room.run(*words, code=69).err, refused)
    assert not (room.path / "runs").exists()
    # Beside a device that is here: its profile is needed.
    described["mesh"]["axes"][0]["size"] = 4
    described["mesh"]["devices"].append({"name": "here", "kind": "cpu", "threads": 1, "host": "b"})
    has(room.run("plan", room.write("mixed.json", described), code=66).err, 'modelled devices beside \"here\"'.replace("\\", ""))
    alone = job(1, (6,))
    alone["mesh"]["devices"] = [{"name": "here", "kind": "cpu", "threads": 1}]
    alone["layout"] = {}
    room.run("profile", room.write("alone.json", alone), "-o", "here.json", "--budget-seconds", "2")
    del described["mesh"]["devices"][-1]["host"], described["mesh"]["devices"][-2]["host"]
    described["profile"] = {"path": "here.json"}
    has(room.run("plan", room.write("mixed.json", described)).out, "(partly modelled)", "here")
    # A larger memory, a faster link: a plan that would not fit is refused with the limit.
    small = ("--set", "mesh.devices.0.memory_bytes=1000", "--set", "mesh.devices.1.memory_bytes=1000")
    has(room.run("plan", "job.json", *small, code=69).err, "memory")


def explains():
    room = Room()
    room.write("job.json", job())
    text = room.run("explain", "job.json").out
    # Equal rows are one: nothing is said twice.
    has(text, "    67 %  33 %  filters over `all`: 4/2\n      conv2d_1.weight, ", "  filters cut over `all` (partial sums)\n      dense_3 forward\n",
        "  all_reduce                                      1 tensor       256 B\n      dense_3 (256 B)\n", "inside of layers; --full lists all")
    assert text.count("demand-driven over `all`: each rank its part of filters") == 1, text
    full = room.run("explain", "job.json", "--full").out
    has(full, "  conv2d_1.weight                 67 %  33 %  filters over `all`: 4/2\n", "  dense_3 forward                       filters cut over `all` (partial sums)\n",
        "  all_reduce     dense_3                         0 -> 1         64 B  1 box, partial sums\n", "demand-driven over `all`: each rank its part of filters")
    one = room.run("explain", "job.json", "--tensor", "conv2d_1", "--svg", "one tënsor.svg").out
    has(one, "conv2d_1: activation, batch 8, filters 6, rows 8, cols 8, 12.3 kB\ncuts: filters over `all`: 4/2\n",
        "  rank 0   cpu 0                 67 %  filters 0..4\n  rank 1   cpu 1                 33 %  filters 4..6\n", "exchanges: none\n")
    assert all(len(line) <= 100 for line in (text + full + one).splitlines())
    assert room.run("explain", "job.json", "--quiet", "--svg", "plan.svg").out == text

    def held(name):  # rank -> how many boxes are drawn
        root = xml.etree.ElementTree.parse(room.path / name).getroot()
        ranks = [r.get("data-rank") for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("class") == "own"]
        return {int(r): ranks.count(r) for r in ranks}
    assert held("one tënsor.svg") == {0: 1, 1: 1}
    plan = json.loads(room.run("plan", "job.json", "--format", "json").out)
    shown = [t["boxes"] for name, t in plan["tensors"].items() if not name.startswith("gradient of ")]
    drawn, picture = held("plan.svg"), (room.path / "plan.svg").read_text()
    assert all(0 < drawn[r] < sum(len(boxes[r]) for boxes in shown) for r in (0, 1)), drawn  # equal rows are one
    assert ">conv2d_1.weight and 2 more<" in picture and ".linear<" not in picture and "predicted step" not in picture, picture
    explained = json.loads(room.run("explain", "job.json", "--format", "json").out)
    assert {n: t["boxes"] for n, t in explained["tensors"].items()} == {n: t["boxes"] for n, t in plan["tensors"].items()}
    for batches in 1, 2, 4:  # what all micro-batches receive, parameters once
        sets = "--set", f"train.accumulate={batches}", "--format", "json"
        explained, plan = (json.loads(room.run(verb, "job.json", *sets).out) for verb in ("explain", "plan"))
        received = [0, 0]
        for move in explained["exchanges"]:
            assert move["seconds"] is None and move["from"] != move["to"]
            received[move["to"]] += move["bytes"]
        assert received == [r["bytes"] for r in plan["predicted"]["ranks"]]
        assert received == [sum(e["bytes"][rank] for e in plan["exchanges"]) for rank in (0, 1)]
    done = room.run("explain", "job.json", "--svg", "no/such/plan.svg", code=74)
    has(done.err, "no/such/plan.svg: there is no directory no/such; make it, or give another file")
    (room.path / "taken").mkdir()
    has(room.run("explain", "job.json", "--svg", "taken", code=74).err, "motley: taken: is a directory; give the name of a file")
    has(room.run("explain", "job.json", "--tensor", "conv2d_1.weigth", code=64).err, 'did you mean "conv2d_1.weight"?')
    assert not (room.path / "runs").exists()


def notes():
    room = Room()
    cores = len(os.sched_getaffinity(0))
    crowded = job(cores + 1, [6] + [0] * cores)
    has(room.run("plan", room.write("crowded.json", crowded)).out, "note: ranks share core", "assume a core for each rank")
    room.write("job.json", job())
    absent = "rank 1 (cpu 1) requests core 900; this process may use "
    has(room.run("plan", "job.json", "--set", "mesh.devices.1.cores=[900]").out, "note: " + absent)
    assert absent not in room.run("plan", "job.json", "--set", "mesh.devices.1.cores=[900]", "--set", "mesh.devices.1.host=elsewhere").out
    has(room.run("train", "job.json", "--set", "mesh.devices.1.cores=[900]", "--run-dir", "never", code=69).err, absent)
    flags = next(line for line in open("/proc/cpuinfo") if line.startswith("flags"))
    best = [isa for isa, flag in [("sse41", "sse4_1"), ("avx", "avx"), ("avx2", "avx2"), ("avx2_vnni", "avx_vnni"), ("avx512_core", "avx512bw"),
                                  ("avx512_core_vnni", "avx512_vnni"), ("avx512_core_bf16", "avx512_bf16")] if flag in flags.split()][-1]
    has(room.run("plan", "job.json", "--set", f"mesh.devices.1.isa={best}").out,
        'ranks 0 (cpu 0) and 1 (cpu 1) differ in "isa" alone, and on this CPU that makes no difference')
    assert "no difference" not in room.run("plan", "job.json", "--set", "mesh.devices.1.isa=sse41").out
    if best != "avx512_core_bf16":
        has(room.run("plan", "job.json", "--set", "mesh.devices.1.isa=avx512_core_bf16").out, f'has no effect, this CPU\'s best is {best}')
    gpu = job()
    gpu["mesh"]["devices"][1] = {"name": "a gpu", "kind": "cuda", "index": 1000}
    done = room.run("plan", room.write("gpu.json", gpu))
    has(done.out, "note: rank 1 (a gpu) cannot run on this machine with this build: ")
    has(room.run("plan", "gpu.json", "--format", "json").err, "note: rank 1 (a gpu)")
    has(done.out, " kB", "memory: tensors only")
    assert "KiB" not in done.out


def given_plans():
    room = Room()
    measured = job(checkpoint={"every_steps": 10})
    measured["layout"]["split"]["filters"]["parts"] = "profile"
    measured["data"]["samples"] = 64
    measured["profile"] = {"path": "profile.json"}
    room.write("job.json", measured)
    room.run("plan", "job.json", "-o", "first.json")
    first = room.json("first.json")
    assert {"decisions", "evaluation", "made_for"} <= first.keys()
    # Where the step's seconds go: each rank's layers sum to what it computes.
    for rank, predicted in enumerate(first["predicted"]["ranks"]):
        busy = sum(layer["seconds"][rank] for layer in first["layers"])
        assert abs(busy - predicted["seconds"]) <= 1e-9 * predicted["seconds"], (rank, busy, predicted)
        assert 0 <= predicted["estimated_seconds"] <= predicted["seconds"]
    for layer in first["layers"]:
        assert layer.keys() == {"layer", "seconds", "share", "exchange_seconds"} and 0 < layer["share"] <= 1 and layer["exchange_seconds"] >= 0, layer
    assert {"conv2d_1", "dense_3"} <= {layer["layer"] for layer in first["layers"]}
    assert 0 <= first["predicted"]["estimated_share"] <= 1
    table = room.run("plan", "job.json").out
    rows = re.search(r"^layers  .*\n(  .*\n)+", table, re.MULTILINE)[0].splitlines()
    has(rows[0], "rank 0", "rank 1", "exchange", "share")
    assert len(rows) == 1 + len(first["layers"]) and len({len(row) for row in rows}) == 1 and len(rows[0]) <= 100, rows
    room.run("explain", "job.json", "--svg", "timed.svg")
    has((room.path / "timed.svg").read_text(), "predicted step ", "Seconds: what each rank computes")
    # Other parts, which no profile of this machine would give.
    given = ["--set", "layout.split.filters.parts=[1,5]"]
    room.run("plan", "job.json", *given, "-o", "given.json")
    other = room.json("given.json")
    assert other["cuts"][0]["parts"] == [1, 5]
    before = (room.path / "profile.json").read_bytes()
    done = room.run("train", "job.json", "--plan", "given.json", "--run-dir", "run")
    has(done.err, "the plan is that of given.json: nothing is measured")
    run = room.json("run/plan.json")
    assert run["decisions"] == other["decisions"] and run["evaluation"] == other["evaluation"]
    (room.path / "profile.json").unlink()  # nothing is measured: nothing is missing
    accuracy = json.loads(room.run("eval", "job.json", "--plan", "given.json", "--weights", "run", "--format", "json").out)
    assert abs(accuracy["accuracy"] - room.json("run/run.json")["test_accuracy"]) < 1e-9
    has(room.run("explain", "job.json", "--plan", "given.json").out, "1/5")
    assert json.loads(room.run("verify", "job.json", "--plan", "given.json", "--format", "json").out)["ok"]
    assert not (room.path / "profile.json").exists()
    # Without an evaluation in the file it follows from the training's.
    del other["evaluation"]
    room.write("training.json", other)
    done = room.run("eval", "job.json", "--plan", "training.json", "--weights", "run", "--format", "json")
    has(done.err, "has no plan of the evaluation")
    assert json.loads(done.out) == accuracy
    # Another batch, network, optimizer, mesh: the first difference.
    for change, words in [("train.batch=16", '"image [8, 1, 8, 8]" there, "image [16, 1, 8, 8]" here'),
                          ('model.layers.0.out={"filters":7}', '"conv2d_1.weight [6, 1, 3, 3]" there, "conv2d_1.weight [7, 1, 3, 3]" here'),
                          ("train.optimizer.momentum=0", "its layers, loss, optimizer or options differ"),
                          ('mesh.devices.0.name="x"', '"cpu 0" there, "x" here')]:
        for verb in (["train"], ["verify"], ["explain"], ["eval", "--weights", "run"]):
            has(room.run(verb[0], "job.json", *verb[1:], "--plan", "given.json", "--set", change, code=78).err, "given.json: ", words)
    has(room.run("train", "job.json", "--plan", "none.json", code=66).err, "none.json")
    has(room.run("train", "job.json", "--plan", "job.json", code=78).err, "not a plan")
    # A run is resumed by its own plan, whatever the profile says now; with another layout by a new one.
    (room.path / "profile.json").write_bytes(before)
    room.run("train", "job.json", "--set", "layout.split.filters.parts=profile", "--run-dir", "own")
    kept = room.json("own/plan.json")
    profile = json.loads(before)
    parts = kept["cuts"][0]["parts"]
    for point in profile["kernels"]:  # the rank with most has become a thousand times slower
        if point["device"] == parts.index(max(parts)) and "seconds" in point:
            point["seconds"] = {k: v * (1 if k == "n" else 1000) for k, v in point["seconds"].items()}
    room.write("profile.json", profile)
    assert json.loads(room.run("plan", "job.json", "--format", "json").out)["decisions"] != kept["decisions"]
    done = room.run("train", "--resume", "own", "--set", "train.max_steps=40")
    has(done.err, "the plan is that of ")
    assert room.json("own/plan.json")["decisions"] == kept["decisions"]
    room.run("train", "--resume", "own", "--set", "train.max_steps=50", *given)
    assert room.json("own/plan.json")["cuts"][0]["parts"] == [1, 5]


def measured_plans():
    room = Room()
    measured = job()
    measured["layout"]["split"]["filters"]["parts"] = "profile"
    measured["profile"] = {"path": "my profile.json"}
    room.write("job.json", measured)
    for words in [("plan", "job.json", "-o", "no/such/plan.json"), ("explain", "job.json", "--svg", "no/such/plan.svg")]:
        has(room.run(*words, code=74).err, "there is no directory no/such")
    assert not (room.path / "my profile.json").exists()
    first = room.run("plan", "job.json", "--format", "json")
    has(first.err, "measuring: there is no profile ", "my profile.json yet")
    first = first.out
    assert (room.path / "my profile.json").exists()
    room.run("check", "my profile.json")
    assert room.run("plan", "job.json", "--format", "json").out == first
    for other in ['mesh.devices.1.isa=sse41', 'mesh.devices.1.threads=2']:
        has(room.run("plan", "job.json", "--set", other, code=78).err, "my profile.json: measured on another device", '"cpu 1" has')
    assert json.loads(first)["predicted"]["step_seconds"] > 0
    # Also where all parts are given and nothing needs to be measured.
    even = ["--set", "layout.split.filters.parts=even"]
    for words in [("train", "job.json", "--run-dir", "even", "--overwrite"), ("verify", "job.json")]:
        room.run(*words, *even)
        has(room.run(*words, *even, "--set", "mesh.devices.1.isa=sse41", code=78).err, "my profile.json: measured on another device", '"cpu 1" has')
    for verb in ["check", "train"]:
        has(room.run(verb, "job.json", *even, "--set", "profile.path=/dev/null", code=78).err, "/profile/path: ")
    done = room.run("profile", "job.json", "-o", "other.json", "--budget-seconds", "5", "--progress", "plain")
    has(done.out, "other.json", "cpu 0", "cpu 1")
    # Of another network's profile all kernels are missing that some cut would run: a plan without them is doubted, with them they are measured.
    wider = json.loads(json.dumps(measured))
    wider["model"]["layers"][0].update(out={"filters": 40}, window=5)
    wider["profile"] = {"path": "theirs.json"}
    shutil.copy(room.path / "my profile.json", room.path / "theirs.json")
    never = ["--set", "profile.measure=never"]
    has(room.run("plan", room.write("wider.json", wider), *never).out, "are estimates, not measured")
    has(room.run("plan", "wider.json").err, "measuring: the profile ", "theirs.json lacks ", " kernels that rank 0 (cpu 0) ")
    assert "are estimates" not in room.run("plan", "wider.json", *never).out
    kept = room.json("theirs.json")
    assert len(kept["kernels"]) > len(room.json("my profile.json")["kernels"])
    room.run("plan", "wider.json")
    assert kept == room.json("theirs.json"), "nothing was missing"
    every = kept["kernels"]
    kept["kernels"] = [k for k in every if k["device"] == 1]
    room.write("theirs.json", kept)
    has(room.run("plan", "wider.json", *never).out, "rank 0 (cpu 0): ", "are estimates, not measured")
    kept["kernels"] = [k for k in every if k["device"] == 0]
    room.write("theirs.json", kept)
    has(room.run("plan", "wider.json").err, " on rank 1 (budget ", "; rank 0 has none to measure")
    # A file that is no profile is not replaced by one.
    always = ["--set", "profile.measure=always", "--set", "profile.path=wider.json"]
    for words in [("plan", "job.json", *always), ("profile", "job.json", *always), ("profile", "job.json", "-o", "wider.json"), ("profile", "-o", "wider.json")]:
        has(room.run(*words, code=64 if "-o" in words else 78).err, "wider.json exists and is not a profile")
    # Of an emulated device the slowdown counts.
    slowed = job()
    slowed["mesh"]["devices"][0] = {"kind": "emulated", "name": "slow", "slowdown": 2, "of": {"kind": "cpu"}}
    slowed["layout"]["split"]["filters"]["parts"] = "profile"
    slowed["profile"] = {"path": "slowed.json"}
    room.run("plan", room.write("slowed job.json", slowed))
    for verb in ["plan", "verify"]:
        has(room.run(verb, "slowed job.json", "--set", "mesh.devices.0.slowdown=9", code=78).err, 'slowed.json: measured on another device: "slow" has model', "9 times slower", "2 times slower")
    # A placed layer follows parts that are chosen: the other ranks read the plan, and training and verify accept it.
    for place in [{"conv2d_1": "cpu 1"}, {"conv2d_1": "slow"}]:
        more = ["--set", "layout.place=" + json.dumps(place)]
        has(room.run("verify", "slowed job.json", *more).out, "ok: the sharded network")
        room.run("train", "slowed job.json", "--run-dir", "placed", "--overwrite", *more)
        cut = room.run("explain", "slowed job.json", "--tensor", "conv2d_1.weight", *more).out
        has(cut, "cuts: filters over `all`: " + ("0/6" if place["conv2d_1"] == "cpu 1" else "6/0"))
    # Two ranks of one core.
    core = min(os.sched_getaffinity(0))
    shared = [word for rank in range(2) for word in ("--set", f"mesh.devices.{rank}.cores=[{core}]")]
    has(room.run("profile", "job.json", "-o", "shared.json", "--budget-seconds", "3", *shared).out, "note        links: contended: the ranks 0, 1 shared cores")
    has(room.run("plan", "job.json", "--set", "profile.path=shared.json", *shared).out, "measured on a disturbed machine: links: contended")
    profile = room.json("other.json")
    assert [d["name"] for d in profile["devices"]] == ["cpu 0", "cpu 1"] and profile["kernels"] and profile["links"]


def real_steps():
    room = Room()
    measured = job(max_steps=3)
    measured["layout"]["split"]["filters"]["parts"] = "profile"
    measured["profile"] = {"path": "p.json"}
    room.write("job.json", measured)
    long = ["--step-seconds", "10"]  # on a disturbed machine ranks wait three times as long
    room.run("plan", "job.json")  # kernels alone
    assert "steps" not in room.json("p.json")
    done = room.run("plan", "job.json", "--measure", *long)
    has(done.err, "measuring: the profile ", "p.json has no real steps of this job")
    has(done.out, "real steps  ", " times)", " alone ", " rounds")
    kept = room.json("p.json")
    rows = {row["name"]: row for row in kept["steps"][0]["rows"]}
    assert "even parts" in rows and any(name.endswith(" alone") for name in rows) and 2 <= len(rows) <= 8, rows
    assert all(3 <= row["over_reference"]["n"] and row["over_reference"]["q25"] <= row["over_reference"]["median"] <= row["over_reference"]["q75"] for row in rows.values())
    again = room.run("plan", "job.json", "--measure", *long)
    assert again.out == room.run("plan", "job.json").out and "measuring" not in again.err
    room.run("train", "job.json", "--run-dir", "run", *long)
    assert kept == room.json("p.json"), "complete: no verb changes it"
    # The plan that was the fastest is chosen, whatever was predicted.
    for name in list(rows):
        for row in kept["steps"][0]["rows"]:
            row["over_reference"].update(q25=1, median=0.5 if row["name"] == name else 1, q75=1)
        room.write("p.json", kept)
        cuts = json.loads(room.run("plan", "job.json", "--format", "json").out)["cuts"]
        wanted = {"even parts": [3, 3], "cpu 0 alone": [6, 0], "cpu 1 alone": [0, 6]}.get(name)
        assert wanted is None or cuts[0]["parts"] == wanted, (name, cuts)
    # Of another batch, or measured by another motley: not taken.
    kept["steps"][0]["build"] = "0.0.1"
    room.write("p.json", kept)
    assert "real steps" not in room.run("plan", "job.json").out
    room.run("profile", "job.json", "-o", "p.json", "--budget-seconds", "5", *long)
    assert len(room.json("p.json")["steps"]) == 1
    room.run("plan", "job.json", "--set", "train.batch=16", "--measure", *long)
    assert len(room.json("p.json")["steps"]) == 2
    # Too little time, given parts, f64, or a profile that must not change: nothing is run.
    room.run("profile", "job.json", "-o", "short.json", "--budget-seconds", "5", "--step-seconds", "1e-6")
    assert room.json("short.json")["steps"][0]["rows"] == []
    for words in [["--set", "layout.split.filters.parts=even"], ["--set", "train.dtype=f64"], ["--set", "profile.measure=never"]]:
        room.write("p.json", {**kept, "steps": []})
        before = (room.path / "p.json").read_bytes()
        room.run("plan", "job.json", "--measure", *long, *words)
        assert (room.path / "p.json").read_bytes() == before, words
    has(room.run("plan", "job.json", "--step-seconds", "-1", code=64).err, "--step-seconds")


def little_memory():
    """Whatever a device's memory_bytes: what `plan` plans `train` runs, and what does not fit `check`, `plan` and `train` refuse with the same text."""
    room = Room()
    small = job(max_steps=1)
    small["model"]["inputs"]["image"].update(rows=16, cols=16)
    small["model"]["layers"][0]["out"]["filters"] = 24
    small["layout"]["split"]["filters"]["parts"] = "profile"
    small["profile"] = {"path": "p.json"}
    room.write("job.json", small)
    room.run("profile", "job.json", "-o", "p.json", "--budget-seconds", "5")
    profile = room.json("p.json")
    assert any(k.get("workspace_bytes", 0) > 0 for k in profile["kernels"])
    for kernel in profile["kernels"]:  # both devices are of use, whatever was measured
        seconds = 1e-6 * math.prod(kernel["spec"].get("extents") or kernel["spec"].get("roles", {}).values())
        kernel.get("seconds", {}).update(min=seconds, q25=seconds, median=seconds)
    for device in profile["devices"]:
        device["alone_over_shared"] = 1
    for link in profile["links"]:
        for segment in link["segments"] + link.get("in_place", []):
            segment.update(seconds=1e-6, bytes_per_second=1e10)
    room.write("p.json", profile)

    def with_limits(*limits):
        sets = [word for rank, limit in enumerate(limits) if limit for word in ("--set", f"mesh.devices.{rank}.memory_bytes={limit}")]
        plan = room.start("plan", "job.json", "--format", "json", *sets)
        plan.out, plan.err = plan.communicate(timeout=LIMIT)
        assert plan.returncode in (0, 69), (limits, plan.err)
        check = room.run("check", "job.json", *sets, code=plan.returncode)
        train = room.run("train", "job.json", "--run-dir", "run", "--overwrite", *sets, code=plan.returncode)
        if plan.returncode != 0:
            said = [line for line in plan.err.splitlines() if " needs " in line][-1].split("motley: ")[-1]
            has(check.err, said)
            has(train.err, said)
            return said
        planned = [rank["memory_bytes"] for rank in json.loads(plan.out)["predicted"]["ranks"]]
        used = [rank["memory_bytes"] for rank in room.json("run/run.json")["ranks"]]
        assert all(limit is None or u <= p <= limit for limit, p, u in zip(limits, planned, used)), (limits, planned, used)
        return used

    free = with_limits(None, None)
    for tenths in [14, 12, 11, 10, 9, 7, 5, 2]:
        assert isinstance(with_limits(None, free[1] * tenths // 10), list), tenths
    text = with_limits(free[0] // 4, free[1] // 4)
    has(text, "rank 0 (cpu 0) needs ", "the mesh gives it ", "use a smaller batch, give this rank a smaller part, or give its device more memory_bytes")
    assert isinstance(with_limits(free[0] * 4, free[1] * 4), list)
    # Runs for comparison, in f64 and on one device, are not those that the limits are for. At the job's batch, whose kernels are measured.
    limit = ("--set", f"mesh.devices.0.memory_bytes={max(free) // 3}")
    for words in [("plan", "job.json"), ("verify", "job.json"), ("verify", "job.json", "--inference")]:
        room.run(*words, *limit, *(["--batch", "8"] if words[0] == "verify" else []))
    # A device for inference alone needs the memory of inference.
    del small["profile"]
    small["layout"]["split"]["filters"]["parts"] = [24, 0]
    room.write("given.json", small)
    room.run("train", "given.json", "--run-dir", "given")
    limit = ("--set", f"mesh.devices.0.memory_bytes={room.json('given/run.json')['ranks'][0]['memory_bytes'] * 9 // 10}")
    has(room.run("train", "given.json", "--run-dir", "not", *limit, code=69).err, "rank 0 (cpu 0) needs ")
    has(room.run("eval", "given.json", "--weights", "given", *limit).out, "samples   ")
    # Such a device is measured too: large kernels in part.
    limit = ("--set", f"mesh.devices.1.memory_bytes={free[1] // 10}")
    done = room.run("profile", "job.json", "-o", "small.json", "--budget-seconds", "5", *limit)
    has(done.out, "device 1: scaled: of kernels of more than")
    room.run("train", "job.json", "--run-dir", "small", *limit, "--set", "profile.path=small.json")


def verifies():
    for ranks, parts in [(1, (6,)), (2, (4, 2)), (3, (3, 3, 0))]:
        room = Room()
        room.write("job.json", job(ranks, parts))
        report = json.loads(room.run("verify", "job.json", "--format", "json").out)
        assert report["ok"] is True, report
        for precision, limits in {"f64": [1e-11] * 4, "f32": [1e-5, 1e-5, 1e-4, 1e-4]}.items():
            assert all(report[precision][k] <= limit for k, limit in zip(["loss", "logits", "gradients", "weights"], limits)), report
        assert not (room.path / "runs").exists()
    has(room.run("verify", "job.json", "--set", "data.samples=3", "--set", "train.batch=2").err, "note: the batch is what the data has, 3")
    has(room.run("verify", "job.json", "--batch", "4", "--set", "data.samples=3", "--set", "train.batch=2", code=78).err, "a batch of 4 samples")
    has(room.run("verify", "job.json", "--set", "train.optimizer.learning_rate=1e300", "--steps", "4", code=70).err, "the unsharded network's own values are not finite")
    has(room.run("verify", "job.json", "--steps", "1", "--batch", "2", "--dump", "dump dïr", "--quiet").out, "loss", "logits", "gradients", "weights")
    for file in ["inputs/image.npy", "inputs/label.npy", "weights_before/conv2d_1.weight.npy", "logits.npy", "loss.npy",
                 "gradients/conv2d_1.weight.npy", "weights_after/dense_3.bias.npy", "f32/logits.npy", "manifest.json"]:
        assert (room.path / "dump dïr" / file).exists(), file


def trains():
    room = Room()
    room.write("my jöb.json", job())
    done = room.run("train", "my jöb.json", "--run-dir", "räume/run 1", "--dump", "dump")
    run, directory = room.json("räume/run 1/run.json"), room.path / "räume/run 1"
    assert RUN_KEYS <= run.keys(), RUN_KEYS - run.keys()
    assert run["status"] == "done" and run["steps"] == 20 and run["copies_differ"] == [] and len(run["ranks"]) == 2
    assert run["bytes_predicted"] == run["bytes_counted"] > 0
    room.write("alone.json", job(parts=(6, 0)))
    room.run("train", "alone.json", "--run-dir", "alone")
    idle = room.json("alone/run.json")["ranks"][1]
    assert idle["busy_seconds"] == 0 and idle["waiting_seconds"] > 0.5 * room.json("alone/run.json")["measured_step_seconds"], idle
    assert {"busy_seconds", "waiting_seconds", "memory_bytes"} <= run["ranks"][0].keys()
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 21)) and {"epoch", "loss", "seconds"} <= lines[0].keys()
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert room.json("räume/run 1/plan.json") == json.loads(room.run("plan", "my jöb.json", "--format", "json").out)
    has(done.out, "räume/run 1", "20")
    assert (room.path / "dump/batches.npy").exists()
    # A run is not lost by mistake.
    has(room.run("train", "my jöb.json", "--run-dir", "räume/run 1", code=78).err, "--overwrite")
    (directory / "mine.txt").write_text("kept")
    room.run("train", "my jöb.json", "--run-dir", "räume/run 1", "--overwrite", "--set", "train.max_steps=3", "--quiet")
    assert room.json("räume/run 1/run.json")["steps"] == 3 and (directory / "mine.txt").exists()
    assert not (directory / ".lock").exists() and not (directory / ".ranks").exists()
    # Without --run-dir: a new one each time, named on stderr and in the result.
    done = room.run("train", "my jöb.json")
    made = sorted((room.path / "runs").iterdir())
    assert len(made) == 1 and made[0].name.startswith("my jöb-") and made[0].name in done.out and made[0].name in done.err
    assert room.run("train", "my jöb.json", "--quiet").err == ""


def losses(room, directory):
    return {line["step"]: line["loss"] for line in map(json.loads, (room.path / directory / "metrics.jsonl").read_text().splitlines())}


def safetensors(path):
    """name -> (dtype, shape, bytes), by reading the file as its specification says."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, buffer = json.loads(raw[8:8 + length]), raw[8 + length:]
    assert raw[8:9] == b"{" and all(isinstance(v, str) for v in header.pop("__metadata__", {}).values())
    tensors = {name: (t["dtype"], t["shape"], buffer[slice(*t["data_offsets"])]) for name, t in header.items()}
    at = 0
    for begin, end in sorted(t["data_offsets"] for t in header.values()):
        assert begin == at, (begin, at)
        at = end
    assert at == len(buffer)
    return tensors


def npy(raw):
    """(descr, shape, bytes)"""
    assert raw[:8] == b"\x93NUMPY\x01\x00", raw[:8]
    end = 10 + int.from_bytes(raw[8:10], "little")
    header = ast.literal_eval(raw[10:end].decode())
    assert not header["fortran_order"]
    return header["descr"], list(header["shape"]), raw[end:]


def write_npy(path, shape, values, kind="<f4"):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    header += b" " * (-(11 + len(header)) % 64) + b"\n"
    code = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "<f2": "e", "|u1": "B"}[kind]
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + struct.pack(f"<{len(values)}{code}", *values))


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)"""
    at, header = 0, {}
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(raw for _, _, raw in tensors.values()))


def continues_from_weights():
    """A checkpoint made of a file that has counters, as torchvision's, begins a run."""
    room = Room()
    normed = job()
    normed["model"]["layers"].insert(1, {"op": "batch_norm", "name": "bn1"})
    room.run("train", room.write("job.json", normed), "--run-dir", "run")
    tensors = safetensors(room.path / "run/weights.safetensors")
    counted = tensors | {"bn1.num_batches_tracked": ("I64", [], (7).to_bytes(8, "little")), "mask": ("BOOL", [2], b"\1\0")}
    write_safetensors(room.path / "counted.safetensors", counted)
    has(room.run("convert", "counted.safetensors", "start").err, "note: without 2 tensors of the file that hold no real numbers")
    room.run("convert", "counted.safetensors", "copy.npz")
    room.run("train", "job.json", "--resume", "start", "--run-dir", "tuned")
    assert room.json("tuned/run.json")["steps"] == 20
    first = {name: run[1] for name, run in [("run", losses(room, "run")), ("tuned", losses(room, "tuned"))]}
    assert first["tuned"] < first["run"], first


def keeps_weights():
    room = Room()
    room.write("job.json", job())
    room.run("train", "job.json", "--run-dir", "run", "--dump", "dump")
    tensors = safetensors(room.path / "run/weights.safetensors")
    assert {n: t[:2] for n, t in tensors.items()} == {"conv2d_1.weight": ("F32", [6, 1, 3, 3]), "conv2d_1.bias": ("F32", [6]),
                                                      "dense_3.weight": ("F32", [4, 6, 4, 4]), "dense_3.bias": ("F32", [4])}, tensors.keys()
    for name, (_, shape, values) in tensors.items():
        assert npy((room.path / f"dump/weights_after/{name}.npy").read_bytes()) == ("<f4", shape, values), name
    # The weights that the run had, on other meshes, in every kind of file.
    run = room.json("run/run.json")
    room.write("three.json", job(3, (1, 3, 2)))
    has(room.run("convert", "run", "all.npz").out, "all.npz: 4 tensors")
    room.run("convert", "all.npz", "checkpoint")
    room.run("convert", "checkpoint", "back.safetensors")
    assert safetensors(room.path / "back.safetensors") == tensors
    archive = zipfile.ZipFile(room.path / "all.npz")
    assert archive.testzip() is None and {n: npy(archive.read(n)) for n in archive.namelist()} == {n + ".npy": ("<f4", t[1], t[2]) for n, t in tensors.items()}
    with zipfile.ZipFile(room.path / "deflated.npz", "w", zipfile.ZIP_DEFLATED) as deflated:
        for name in archive.namelist():
            deflated.writestr(name, archive.read(name))
    with zipfile.ZipFile(room.path / "prefixed.npz", "w") as prefixed:
        for name in archive.namelist():
            prefixed.writestr("module." + name, archive.read(name))
    room.run("convert", "prefixed.npz", "of_others")  # training goes on from weights of any origin
    room.run("train", "job.json", "--resume", "of_others", "--run-dir", "went_on")
    room.run("train", "job.json", "--resume", "checkpoint", "--run-dir", "went_on_too")
    assert losses(room, "went_on") == losses(room, "went_on_too") != losses(room, "run")
    for path in ["run", "run/", "run/weights.safetensors", "all.npz", "deflated.npz", "checkpoint", "back.safetensors"]:
        test = json.loads(room.run("eval", "job.json", "--weights", path, "--format", "json").out)
        assert test == {"loss": run["test_loss"], "accuracy": run["test_accuracy"], "samples": 16}, (path, test, run)
    test = json.loads(room.run("eval", "three.json", "--weights", "run", "--format", "json").out)
    assert abs(test["loss"] - run["test_loss"]) < 1e-6 and test["samples"] == 16, test
    has(room.run("eval", "job.json", "--weights", "run").out, "accuracy  ", "samples   16")
    # Nothing but a regular file is replaced: not what a link leads to by the link, no pipe, not the weights themselves.
    (room.path / "link.npy").symlink_to("y.npy")
    write_npy(room.path / "x.npy", (1, 1, 8, 8), [0.5] * 64)
    predict = ("predict", "job.json", "--weights", "run", "--input", "x.npy", "-o")
    room.run(*predict, "link.npy")
    assert (room.path / "link.npy").is_symlink() and npy((room.path / "y.npy").read_bytes())[1] == [1, 4]
    name, (dtype, shape, raw) = next(iter(tensors.items()))
    write_safetensors(room.path / "nan.safetensors", tensors | {name: (dtype, shape, struct.pack("<f", float("nan")) + raw[4:])})
    for words in [("eval",), ("predict", "--input", "x.npy", "-o", "nan.npy")]:
        has(room.run(*words, "job.json", "--weights", "nan.safetensors", code=65).err, f'"{name}" has a value, nan, that is not finite')
    huge = {n: (d, s, raw if "bias" in n else struct.pack(f"<{len(raw) // 4}f", *[3e38] * (len(raw) // 4))) for n, (d, s, raw) in tensors.items()}
    write_safetensors(room.path / "huge.safetensors", huge)
    has(room.run("eval", "job.json", "--weights", "huge.safetensors", code=70).err, "the loss is not finite")
    has(room.run("predict", "job.json", "--weights", "huge.safetensors", "--input", "x.npy", "-o", "nan.npy", code=70).err, "4 of 4 values are not finite")
    os.mkfifo(room.path / "pipe.npy")
    has(room.run(*predict, "pipe.npy", code=74).err, "pipe.npy: is a pipe or a device")
    has(room.run(*predict, "run/weights.safetensors", code=64).err, "is read by this command too and would be overwritten")
    has(room.run("predict", "job.json", "--weights", "checkpoint", "--input", "x.npy", "-o", "checkpoint/rank-0.bin", code=64).err, "is read by this command too")
    has(room.run("convert", "run", "new/").out, "4 tensors")
    assert (room.path / "new/manifest.json").exists()
    # Names that no file of another kind can hold.
    for name in ["__metadata__", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"]:
        with zipfile.ZipFile(room.path / "odd.npz", "w") as odd:
            odd.writestr("conv2d_1.bias.npy", archive.read("conv2d_1.bias.npy"))
            odd.writestr(name + ".npy", archive.read("conv2d_1.bias.npy"))
        raw = (room.path / "odd.npz").read_bytes()
        (room.path / "odd.npz").write_bytes(raw.replace("caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"caf\xff\xfe"))
        for out in ["odd.safetensors", "odd2.npz", "odd"]:
            has(room.run("convert", "odd.npz", out, code=65).err, "rename it")
            assert not (room.path / out).exists()
    with contextlib.suppress(ImportError):
        import numpy
        loaded = numpy.load(room.path / "all.npz")
        assert {n: loaded[n].astype("<f4").tobytes() for n in loaded.files} == {n: t[2] for n, t in tensors.items()}
    # Logits: any number of samples, the same whatever the batch.
    image = [((i * 37) % 101) / 101 for i in range(19 * 64)]
    write_npy(room.path / "x.npy", (19, 1, 8, 8), image)
    has(room.run("predict", "job.json", "--weights", "run", "--input", "x.npy", "-o", "y.npy").out, "y.npy: [19, 4]")
    descr, shape, raw = npy((room.path / "y.npy").read_bytes())
    assert (descr, shape) == ("<f4", [19, 4])
    logits = struct.unpack("<76f", raw)
    write_npy(room.path / "x5.npy", (1, 1, 8, 8), image[5 * 64:6 * 64], "<f8")
    room.run("predict", "three.json", "--weights", "all.npz", "--input", "x5.npy", "-o", "y5.npy")
    one = struct.unpack("<4f", npy((room.path / "y5.npy").read_bytes())[2])
    assert all(abs(a - b) < 1e-5 for a, b in zip(one, logits[20:24])), (one, logits[20:24])
    # By hand: convolution, relu, pool, dense.
    w, b, v, c = (struct.unpack(f"<{len(tensors[n][2]) // 4}f", tensors[n][2]) for n in ["conv2d_1.weight", "conv2d_1.bias", "dense_3.weight", "dense_3.bias"])
    pixel = lambda r, q: image[5 * 64 + r * 8 + q] if 0 <= r < 8 and 0 <= q < 8 else 0.0
    conv = lambda f, r, q: max(0.0, b[f] + sum(w[f * 9 + i * 3 + j] * pixel(r + i - 1, q + j - 1) for i in range(3) for j in range(3)))
    pooled = [max(conv(f, 2 * r + i, 2 * q + j) for i in (0, 1) for j in (0, 1)) for f in range(6) for r in range(4) for q in range(4)]
    expected = [c[k] + sum(v[k * 96 + i] * x for i, x in enumerate(pooled)) for k in range(4)]
    assert all(abs(a - e) < 1e-4 for a, e in zip(one, expected)), (one, expected)


def png(path, rows, cols, pixels, channels=1):
    """8 bits, unfiltered; 4 channels: with alpha."""
    lines = b"".join(b"\0" + bytes(pixels[r * cols * channels:(r + 1) * cols * channels]) for r in range(rows))
    chunk = lambda name, body: struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", cols, rows, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def own_data():
    """Arrays and folders of pictures give the same bits where they hold the same pixels; what is wrong has its place and its file."""
    room = Room()
    pixel = lambda n, i: (n * 31 + i * 7 + 5 * n * i) % 256
    samples, label = 24, lambda n: n % 3
    (room.path / "arrays").mkdir()
    for part, count in [("", samples), ("test_", 5)]:
        raw = [pixel(n, i) for n in range(count) for i in range(64)]
        write_npy(room.path / f"arrays/{part}x.npy", (count, 1, 8, 8), raw, "|u1")
        write_npy(room.path / f"arrays/{part}y.npy", (count,), [label(n) for n in range(count)], "<i8")
        for n in range(count):
            png(room.path / f"pictures/{'test' if part else 'train'}/class {label(n)}/{n:03}.png", 8, 8, [pixel(n, i) for i in range(64)])
    order = sorted(range(samples), key=lambda n: (label(n), n))
    write_npy(room.path / "arrays/x.npy", (samples, 1, 8, 8), [pixel(n, i) for n in order for i in range(64)], "|u1")
    write_npy(room.path / "arrays/f.npy", (samples, 1, 8, 8), [pixel(n, i) / 255 for n in order for i in range(64)])
    write_npy(room.path / "arrays/y.npy", (samples,), [label(n) for n in order], "<i8")
    changes = {"normalize": {"mean": [0.4], "std": [0.3]}, "augment": {"flip": True, "crop_padding": 2}}
    arrays = {"kind": "npy", "images": "arrays/x.npy", "labels": "arrays/y.npy", "test_images": "arrays/test_x.npy", "test_labels": "arrays/test_y.npy", **changes}
    pictures = {"kind": "folder", "path": "pictures", **changes}
    room.write("arrays.json", {**job(epochs=2), "data": arrays})
    room.write("pictures.json", {**job(epochs=2), "data": pictures})
    for name in ["arrays", "pictures"]:
        has(room.run("check", f"{name}.json").out, "nothing wrong")
        room.run("train", f"{name}.json", "--run-dir", f"run {name}", "--set", "train.max_steps=9")
    losses = lambda run: [json.loads(line)["loss"] for line in (room.path / run / "metrics.jsonl").read_text().splitlines()]
    assert losses("run arrays") == losses("run pictures") and len(losses("run arrays")) == 9
    ended = [json.loads((room.path / f"run {name}/run.json").read_text()) for name in ["arrays", "pictures"]]
    assert ended[0]["test_loss"] == ended[1]["test_loss"] is not None and ended[0]["test_accuracy"] == ended[1]["test_accuracy"]
    # Rows over three ranks read other boxes of the same pictures; floats that were scaled before are the same samples.
    rows = {**job(ranks=3), "layout": {"split": {"rows": {"axis": "all", "parts": [4, 3, 1]}}}, "data": pictures}
    room.run("train", room.write("rows.json", rows), "--run-dir", "run rows", "--set", "train.max_steps=9")
    assert all(abs(a - b) < 1e-5 for a, b in zip(losses("run rows"), losses("run pictures"))), (losses("run rows"), losses("run pictures"))
    room.run("train", "arrays.json", "--run-dir", "run floats", "--set", "train.max_steps=9", "--set", "data.images=" + str(room.path / "arrays/f.npy"))
    assert all(abs(a - b) < 1e-5 for a, b in zip(losses("run floats"), losses("run arrays")))
    room.run("train", "arrays.json", "--run-dir", "run plain", "--set", "train.max_steps=9", "--set", "data.augment.flip=false", "--set", "data.augment.crop_padding=0")
    assert losses("run plain") != losses("run arrays")
    room.run("verify", "pictures.json", "--steps", "2")
    # Read ahead on a core that no rank has, or by the rank itself: the same bits.
    alone = {**job(ranks=1, parts=(6,), evaluate_every_epochs=1), "data": pictures}
    alone["mesh"]["devices"][0]["cores"] = [min(os.sched_getaffinity(0))]
    room.write("alone.json", alone)
    for name, before in [("ahead", ()), ("itself", ("taskset", "-c", str(min(os.sched_getaffinity(0)))))]:
        room.run("train", "alone.json", "--run-dir", f"run {name}", "--dump", f"dump {name}", before=before)
    assert losses("run ahead") == losses("run itself") and len(losses("run ahead")) == 20
    assert (room.path / "run ahead/weights.safetensors").read_bytes() == (room.path / "run itself/weights.safetensors").read_bytes()
    assert (room.path / "dump ahead/batches.npy").read_bytes() == (room.path / "dump itself/batches.npy").read_bytes()
    assert npy((room.path / "dump ahead/batches.npy").read_bytes())[1] == [20, 8]
    # Prediction takes what training takes: bytes and floats of one picture have one result.
    for name in ["test_x", "x"]:
        room.run("predict", "arrays.json", "--weights", "run arrays", "--input", f"arrays/{name}.npy", "-o", f"{name}.out.npy")
    room.run("predict", "arrays.json", "--weights", "run arrays", "--input", "arrays/f.npy", "-o", "f.out.npy")
    read = lambda name: (lambda raw: struct.unpack(f"<{len(raw) // 4}f", raw))(npy((room.path / name).read_bytes())[2])
    assert all(abs(a - b) < 1e-4 for a, b in zip(read("x.out.npy"), read("f.out.npy")))
    test = json.loads(room.run("eval", "pictures.json", "--weights", "run arrays", "--format", "json").out)
    assert test["samples"] == 5 and test["loss"] == ended[0]["test_loss"], test
    rights = sum(max(range(4), key=lambda k: read("test_x.out.npy")[4 * n + k]) == label(n) for n in range(5))
    assert test["accuracy"] == rights / 5
    # Without a test part nothing is evaluated.
    without = {k: v for k, v in arrays.items() if not k.startswith("test_")}
    room.run("train", room.write("without.json", {**job(), "data": without}), "--run-dir", "run without", "--set", "train.max_steps=2")
    assert json.loads((room.path / "run without/run.json").read_text())["test_accuracy"] is None
    has(room.run("eval", "without.json", "--weights", "run without", code=78).err, "no samples to evaluate on")
    each = ["--set", "train.evaluate_every_epochs=1", "--set", "train.max_steps=2"]
    nothing = "note: the data has no test samples: nothing is evaluated (train.evaluate_every_epochs)"
    has(room.run("check", "without.json", *each).out, nothing)
    has(room.run("train", "without.json", "--run-dir", "run without", "--overwrite", *each).err, nothing)
    assert "nothing is evaluated" not in room.run("check", "without.json").out + room.run("check", "pictures.json", *each).out
    # What is wrong.
    def refused(data, code, *parts):
        room.write("bad.json", {**job(), "data": data})
        for verb in ["check", "train"]:
            has(room.run(verb, "bad.json", code=code).err, "bad.json:", *parts)
        assert not (room.path / "runs").exists()
    refused({**arrays, "labels": "arrays/none.npy"}, 66, "/data/labels", "arrays/none.npy")
    refused({**pictures, "path": "nowhere"}, 66, "/data/path", "there is no such folder")
    refused({**arrays, "path": "x"}, 78, "/data/path", '"path" is a key of other kinds')
    refused({**pictures, "labels": "x"}, 78, "/data/labels", '"labels" is a key of npy data')
    refused({"kind": "npy", "images": "arrays/x.npy"}, 78, '"labels" is missing')
    refused({k: v for k, v in arrays.items() if k != "test_labels"}, 78, '"test_labels" is missing')
    refused({**arrays, "normalize": {"mean": [1, 2], "std": [1, 1]}}, 78, "/data/normalize/mean", "1 channels")
    refused({**arrays, "normalize": {"mean": [1], "std": [0]}}, 78, "/data/normalize/std/0", "above 0")
    refused({**arrays, "normalize": {"mean": [1], "std": []}}, 78, "/data/normalize/std", "as many numbers as")
    refused({**arrays, "augment": {"crop_padding": -1}}, 78, "/data/augment/crop_padding", "from 0 to")
    refused({**arrays, "augment": {"crop_padding": 8}}, 78, "/data/augment/crop_padding", "8 pixels around images of 8 x 8", "expected less than 8")
    (room.path / "t.bin").write_bytes(bytes(40))
    refused({"kind": "tokens", "path": "t.bin"}, 78, "/model/inputs/image", 'tokens are integers, one per position; expected "dtype": "i32"')
    refused({"kind": "tokens"}, 78, '"path" is missing')
    refused({"kind": "tokens", "path": "t.bin", "type": "u8"}, 78, "/data/type", "\"u8\" is not known here")
    refused({"kind": "tokens", "path": "t.bin", "normalize": changes["normalize"]}, 78, "/data/normalize", "a key of other kinds")
    refused({"kind": "folder", "path": "pictures", "type": "u16"}, 78, "/data/type", '"type" is a key of tokens data')
    write_npy(room.path / "arrays/seven.npy", (samples, 1, 8, 7), [0] * samples * 56, "|u1")
    refused({**arrays, "images": "arrays/seven.npy"}, 65, "/data/images", "an array [24, 1, 8, 7]; expected [samples, 1, 8, 8]")
    write_npy(room.path / "arrays/four.npy", (samples,), [4] * samples, "<i8")
    refused({**arrays, "labels": "arrays/four.npy"}, 65, "/data/labels", "sample 0 has the label 4; expected 0 to 3")
    png(room.path / "pictures/train/class 1/large.png", 9, 8, [0] * 72)
    refused(pictures, 65, "/data/path", "class 1/large.png: an image of 9 x 8 (rows, columns); expected 8 x 8")
    # Damage behind a good header shows when it is read: the run ends, with the file's name.
    good = (room.path / "pictures/train/class 1/001.png").read_bytes()
    flipped = lambda raw: raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:]
    (room.path / "pictures/train/class 1/large.png").write_bytes(flipped(good))
    has(room.run("train", "pictures.json", "--run-dir", "run damaged", code=65).err, "large.png: a damaged PNG file")
    assert json.loads((room.path / "run damaged/run.json").read_text())["code"] == 65
    # What was trained before is kept, and goes on where the picture is mended, as if it had always been good.
    for seed in range(2, 12):
        room.run("train", "pictures.json", "--run-dir", f"run {seed}", "--set", f"train.seed={seed}", code=65)
        steps = room.json(f"run {seed}/run.json")["steps"]
        if steps > 0:
            break
    assert steps > 0 and (room.path / f"run {seed}/weights.safetensors").exists() and (room.path / f"run {seed}/checkpoints/step-{steps}/complete").exists()
    (room.path / "pictures/train/class 1/large.png").write_bytes(good)
    room.run("train", "--resume", f"run {seed}")
    room.run("train", "pictures.json", "--run-dir", "run mended", "--set", f"train.seed={seed}")
    assert losses(f"run {seed}") == losses("run mended")
    # A damaged picture of the test part, found by the evaluation after the first epoch.
    test = room.path / "pictures/test/class 0/000.png"
    good = test.read_bytes()
    test.write_bytes(flipped(good))
    has(room.run("train", "pictures.json", "--run-dir", "untested", "--set", "train.evaluate_every_epochs=1", code=65).err, "000.png: a damaged PNG file")
    steps = room.json("untested/run.json")["steps"]
    assert steps > 0 and len(losses("untested")) == steps and (room.path / f"untested/checkpoints/step-{steps}/complete").exists()
    assert (room.path / "untested/weights.safetensors").exists()
    test.write_bytes(good)
    assert room.run("train", "--resume", "untested").returncode == 0 and len(losses("untested")) > steps


def wide_tokens():
    """A file of wider tokens than the job says would be trained on, with half of its numbers 0."""
    room = Room()
    text = job(max_steps=1)
    text["layout"] = {"split": {"hidden": {"axis": "all", "parts": [1, 3]}}}
    text["model"] = {"inputs": {"image": {"batch": 8, "positions": 4, "dtype": "i32"}},
                     "layers": [{"op": "embedding", "rows": {"vocabulary": 50}, "out": {"hidden": 4}}, {"op": "dense", "in": ["hidden"], "out": {"classes": 50}}],
                     "loss": {"op": "softmax_cross_entropy", "over": "classes"}}
    for name, kind in [("right", "H"), ("wide", "I")]:
        (room.path / name).write_bytes(struct.pack(f"<400{kind}", *[7 * k % 50 for k in range(400)]))
    for data in [{"path": "right"}, {"path": "wide", "test_path": "wide", "type": "u32"}]:
        text["data"] = {"kind": "tokens", **data}
        room.run("train", room.write("text.json", text), "--run-dir", "run", "--overwrite")
    for key in ["path", "test_path"]:
        text["data"] = {"kind": "tokens", "path": "right", key: "wide"}
        room.write("text.json", text)
        for words in [("check",), ("train", "--run-dir", "none"), ("eval", "--weights", "run")]:
            has(room.run(*words, "text.json", code=65).err, f"/data/{key}: ", "wide: every second one of its first 800 numbers is 0", 'or "type": "u32"')
    assert not (room.path / "none").exists()


def stores_in_bf16():
    room, bytes_of = Room(), {}
    for dtype in ["f32", "bf16"]:
        document = job(dtype=dtype, checkpoint={"every_steps": 10})
        document["layout"] = {"split": {"batch": {"axis": "all", "parts": [5, 3]}}}
        room.write(dtype + ".json", document)
        room.run("verify", dtype + ".json")
        room.run("train", dtype + ".json", "--run-dir", dtype)
        bytes_of[dtype] = room.json(dtype + "/run.json")["bytes_counted"]
    # Weights are the smaller half of what goes: their gradients stay f32.
    assert bytes_of["bf16"] < 0.85 * bytes_of["f32"], bytes_of
    one, two = losses(room, "f32"), losses(room, "bf16")
    assert one != two and all(abs(one[s] - two[s]) < 0.02 * (1 + one[s]) for s in one), (one, two)
    tensors = json.loads(room.run("plan", "bf16.json", "--format", "json").out)["tensors"]
    assert "conv2d_1.weight in bf16" in tensors and "dense_3.weight in bf16" in tensors, list(tensors)
    # What was trained is f32 in either: it goes on, is evaluated and predicts as the other.
    room.run("verify", "bf16.json", "--inference")
    room.run("train", "f32.json", "--resume", "bf16/checkpoints/step-20", "--run-dir", "on", "--set", "train.max_steps=22")
    accuracy = [json.loads(room.run("eval", d + ".json", "--weights", "bf16", "--format", "json").out)["loss"] for d in ["f32", "bf16"]]
    assert abs(accuracy[0] - accuracy[1]) < 0.02 * (1 + accuracy[0]), accuracy
    document["mesh"]["devices"][1] = {"name": "far gpu", "kind": "cuda"}
    room.write("cuda.json", document)
    room.run("check", "cuda.json")
    # A weight's copy is cut along one of two dims that are cut over one axis, as the weight is.
    document["mesh"]["devices"][1] = {"name": "b", "kind": "cpu", "threads": 1}
    document["model"]["layers"].insert(1, {"op": "conv2d", "out": {"more": 6}, "window": 3, "padding": "same", "activation": "relu"})
    document["layout"]["split"] = {"filters": "all", "more": {"axis": "all", "parts": [4, 2]}}
    document["layout"].pop("tensors", None)
    room.run("verify", room.write("two_cuts.json", document))


def sums_with_parameters():
    """A learned constant beside a layer without a bias is not its bias, unless it has its dims."""
    room = Room()
    for shape, cut in [({"pos": 8, "e2": 3}, None), ({"pos": 8}, None), ({"e2": 3}, None), ({"pos": 8}, "batch"), ({"pos": 8, "e2": 3}, "pos")]:
        document = job()
        document["model"] = {"inputs": {"x": {"batch": 4, "pos": 8, "emb": 6}},
                             "layers": [{"op": "dense", "in": "emb", "out": {"e2": 3}, "bias": False, "name": "a"},
                                        {"op": "parameter", "shape": shape, "initial": "normal", "name": "p"},
                                        {"op": "add", "from": ["a", "p"]}, {"op": "dense", "out": {"classes": 5}, "name": "fc"}],
                             "loss": {"op": "softmax_cross_entropy", "over": "classes"}}
        document["data"] = {"kind": "synthetic"}
        document["train"] = {"batch": 4, "max_steps": 1, "optimizer": {"kind": "sgd", "learning_rate": 0.05}}
        document["layout"] = {"split": {cut: {"axis": "all", "parts": "even"}} if cut else {}}
        room.write("sum.json", document)
        room.run("verify", "sum.json", "--dump", "dump", "--steps", "1")
        def read(name):
            descr, _, raw = npy((room.path / "dump" / name).read_bytes())
            assert descr == "<f8", descr
            return struct.unpack(f"<{len(raw) // 8}d", raw)
        x, a, p, w, bias, logits = (read(f"{name}.npy") for name in ["inputs/x", "weights_before/a.weight", "weights_before/p.weight", "weights_before/fc.weight", "weights_before/fc.bias", "logits"])
        of = lambda pos, e2: p[{"pos": pos, "e2": e2, "pose2": 3 * pos + e2}["".join(shape)]]
        for n in range(4):
            h = [sum(x[(n * 8 + pos) * 6 + k] * a[e2 * 6 + k] for k in range(6)) + of(pos, e2) for pos in range(8) for e2 in range(3)]
            for c in range(5):
                expected = sum(w[c * 24 + i] * h[i] for i in range(24)) + bias[c]
                assert abs(expected - logits[n * 5 + c]) < 1e-10, (shape, cut, n, c)
        shutil.rmtree(room.path / "dump")


def names_of_layers():
    """A layer may not be called as a tensor of another one."""
    room = Room()
    document = job()
    document["model"] = {"inputs": {"x": {"batch": 4, "f": 6}},
                         "layers": [{"op": "dense", "out": {"e": 5}, "name": "n.0"}, {"op": "parameter", "name": "n.0.bias", "shape": {"e": 5}, "initial": "normal"},
                                    {"op": "add", "from": ["n.0", "n.0.bias"], "name": "s"}, {"op": "dense", "out": {"classes": 3}, "name": "fc"}],
                         "loss": {"op": "softmax_cross_entropy", "over": "classes"}}
    document["data"], document["layout"] = {"kind": "synthetic"}, {}
    document["train"] = {"batch": 4, "max_steps": 1, "optimizer": {"kind": "sgd", "learning_rate": 0.05}}
    has(room.run("check", room.write("same.json", document), code=78).err, 'two tensors would be called "n.0.bias", of the layers "n.0" and "n.0.bias"')
    document["model"]["layers"][3]["name"] = "head.fc"
    has(room.run("check", room.write("two.json", document), code=78).err, '"head.fc" is not a valid name: letters, digits, _ and -, a letter or _ first; call it "head_fc": weights of head.fc load by that name')
    document["model"]["layers"][3]["name"] = "fc"
    document["model"]["layers"][1]["name"] = document["model"]["layers"][2]["from"][1] = "q.0.bias"
    room.run("check", room.write("other.json", document))


def closed_pipe():
    """No one reads what is said: the exit code is what it is."""
    room = Room()
    for words, code in [(("check", "nowhere.json"), 66), (("check", room.write("job.json", job())), 0)]:
        read, write = os.pipe()
        os.close(read)
        assert subprocess.run([MOTLEY, *words], cwd=room.path, stdout=write, stderr=write, check=False).returncode == code, words
        os.close(write)
    # `| head`: its reader has what it wants, and hears no more; the ranks' stdout too, through the launcher and through mpiexec.
    mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
    for words in ["model resnet18", "schema job", "--help", "doctor", "check job.json", "plan job.json --full --format json", "verify job.json --steps 1",
                  "train job.json --run-dir piped --overwrite --quiet", f"{mpiexec} plan job.json --full --format json"]:
        command = f"'{mpiexec}' -n 2 '{MOTLEY}' {words.removeprefix(mpiexec)}" if words.startswith(mpiexec) else f"'{MOTLEY}' {words}"
        done = subprocess.run(["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"], cwd=room.path, env=room.env, text=True, capture_output=True, check=False)
        # MPICH's own mpiexec dies of the signal, as programs do.
        assert done.returncode in ([0, 141] if words.startswith(mpiexec) else [0]), (words, done)
        assert "roken pipe" not in done.stderr and "could not" not in done.stderr, (words, done.stderr)
    assert room.json("piped/run.json")["status"] == "done" and not list(room.path.glob("core*"))
    # Standard streams that are closed: no file of the program's own takes their numbers.
    room.write("train.json", job(2, [4, 2], max_steps=3))
    for closed, code in [((1, 2), 74), ((0, 2), 0)]:
        process = subprocess.Popen([MOTLEY, "train", "train.json", "--run-dir", "run", "--overwrite"], cwd=room.path, env=room.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda closed=closed: [os.close(fd) for fd in closed])
        assert process.wait(timeout=LIMIT) == code, (closed, process.returncode)
        assert room.json("run/run.json")["status"] == "done", closed


def full_pipes():
    """What is said has a reader that has stopped: a request to stop is heard all the same, while steps are done and after them."""
    for ranks, parts, steps, status in [(1, [6], 50, "done"), (2, [4, 2], 100000000, "stopped")]:
        room = Room()
        room.write("job.json", job(ranks, parts, max_steps=steps))
        read, write = os.pipe()
        process = subprocess.Popen([MOTLEY, "train", "job.json", "--run-dir", "run"], cwd=room.path, env=room.env,
                                   stdin=subprocess.DEVNULL, stdout=write, stderr=write)
        wait_for(lambda: len(ranks_of(process.pid)) == ranks, "ranks run")
        full = os.open(f"/proc/self/fd/{write}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, b"x" * 512)
        run = room.path / "run"
        wait_for(lambda: (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size > 1000, "steps are done")
        wait_for(lambda: status == "stopped" or (run / "run.json").exists(), "all steps are done")
        time.sleep(6 if status == "stopped" else 1)  # until a line of progress is written, until the result is
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 75, process.returncode
        assert room.json("run/run.json")["status"] == status and (run / "weights.safetensors").exists()
        for end in [read, write, full]:
            os.close(end)


def refuses_weights():
    room = Room()
    room.write("job.json", job())
    room.run("train", "job.json", "--run-dir", "run", "--set", "train.max_steps=2")
    other = job()
    other["model"]["layers"][0]["out"]["filters"] = 5
    other["layout"]["split"]["filters"]["parts"] = [3, 2]
    other["model"]["layers"][2]["name"] = "dense3"
    err = room.run("eval", room.write("other.json", other), "--weights", "run", code=65).err
    has(err, "run/weights.safetensors: its tensors are not those of the network:", '"dense3.bias" [4] is missing; did you mean "dense_3.bias"?',
        '"dense_3.weight" [4, 6, 4, 4] is not in the network', '"conv2d_1.weight": [6, 1, 3, 3], expected [5, 1, 3, 3]')
    room.run("eval", "job.json", "--weights", "nowhere", code=66)
    (room.path / "empty").mkdir()
    has(room.run("eval", "job.json", "--weights", "empty", code=65).err, "empty: neither a checkpoint (manifest.json) nor a run directory")
    has(room.run("eval", "job.json", "--weights", "job.json", code=65).err, "job.json: not a valid .safetensors file")
    room.write("empty.npz", "")
    has(room.run("eval", "job.json", "--weights", "empty.npz", code=65).err, "empty.npz: not a valid .npz file")
    # The root of a variance below 0 is a NaN, which a ReLU may hide.
    normed = job()
    normed["model"]["layers"].insert(1, {"op": "batch_norm", "name": "bn1"})
    room.run("train", room.write("normed.json", normed), "--run-dir", "normed", "--set", "train.max_steps=2")
    tensors = safetensors(room.path / "normed/weights.safetensors")
    write_npy(room.path / "x.npy", (1, 1, 8, 8), [0.5] * 64)
    for value in [-0.5, float("nan")]:
        dtype, shape, raw = tensors["bn1.running_var"]
        wrong = tensors | {"bn1.running_var": (dtype, shape, raw[:-4] + struct.pack("<f", value))}
        for prefix in ["", "module."]:
            write_safetensors(room.path / "variance.safetensors", {prefix + n: t for n, t in wrong.items()})
            for words in [("eval", "normed.json", "--weights", "variance.safetensors"), ("convert", "variance.safetensors", "variance"),
                          ("predict", "normed.json", "--weights", "variance.safetensors", "--input", "x.npy", "-o", "y.npy")]:
                has(room.run(*words, code=65).err, 'variance.safetensors: "', f'bn1.running_var" has a value, {value}, that is no')
            assert not (room.path / "variance").exists() and not (room.path / "y.npy").exists()
    good = (room.path / "run/weights.safetensors").read_bytes()
    (room.path / "bad.safetensors").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    has(room.run("eval", "job.json", "--weights", "bad.safetensors", code=65).err, "bad.safetensors: ", "its values are damaged: hash")
    has(room.run("convert", "bad.safetensors", "bad.npz", code=65).err, "damaged")
    # Files of other kinds, and a folder as Hugging Face's.
    for name, begin, kind in [("net.h5", b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras)"), ("net.gguf", b"GGUF\3", "a GGUF file (llama.cpp)"), ("net.onnx", b"\10\7", "an ONNX file"),
                              ("model.safetensors.index.json", b"{}", "the index of weights in several files")]:
        (room.path / name).write_bytes(begin + bytes(200))
        has(room.run("eval", "job.json", "--weights", name, code=65).err, f"{name}: {kind}; write its tensors with safetensors.torch.save_file")
    (room.path / "hub").mkdir()
    (room.path / "hub/model.safetensors").write_bytes(good)
    has(room.run("eval", "job.json", "--weights", "hub", code=65).err, "neither a checkpoint", "; it holds model.safetensors: give that file")
    assert not (room.path / "bad.npz").exists()
    has(room.run("convert", "run", "out.pt", code=64).err, "out.pt: expected a file name that ends in .safetensors or .npz")
    has(room.run("convert", "run", "empty", code=64).err, "empty exists already")
    has(room.run("convert", "run", "no/such/file.npz", code=74).err, "there is no directory no/such")
    write_npy(room.path / "x.npy", (2, 1, 8, 7), [0] * 112)
    has(room.run("predict", "job.json", "--weights", "run", "--input", "x.npy", "-o", "y.npy", code=65).err, "x.npy: an array [2, 1, 8, 7]; expected [samples, 1, 8, 8]")
    write_npy(room.path / "i.npy", (1, 1, 8, 8), [0] * 64, "<i4")
    has(room.run("predict", "job.json", "--weights", "run", "--input", "i.npy", "-o", "y.npy", code=65).err, "an array of integers")
    room.run("predict", "job.json", "--weights", "run", "--input", "none.npy", "-o", "y.npy", code=66)
    has(room.run("predict", "job.json", "--weights", "run", "--input", "i.npy", "-o", "no/y.npy", code=74).err, "there is no directory no")
    assert not (room.path / "y.npy").exists() and not (room.path / "runs").exists()


def resumes():
    room = Room()
    every = ["--set", 'train.checkpoint={"every_steps": 4, "keep": 2}']
    room.write("job.json", job(schedule={"kind": "cosine"}, optimizer={"kind": "adamw", "learning_rate": 0.01}))
    room.write("three.json", job(3, (1, 3, 2), schedule={"kind": "cosine"}, optimizer={"kind": "adamw", "learning_rate": 0.01}))
    room.run("train", "job.json", "--run-dir", "full", *every)
    assert sorted(p.name for p in (room.path / "full/checkpoints").iterdir()) == ["step-16", "step-20"]
    # A copy of the run as it was at step 16, with steps that are done again.
    def as_at_16(name):
        shutil.copytree(room.path / "full", room.path / name)
        shutil.rmtree(room.path / name / "checkpoints/step-20")
    as_at_16("again")
    (room.path / "again/weights.safetensors.new-4711-3").write_text("what a killed process was writing")
    done = room.run("train", "job.json", "--resume", "again", *every)
    assert not (room.path / "again/weights.safetensors.new-4711-3").exists()
    has(done.err, "resuming from again/checkpoints/step-16")
    has(done.out, "steps          20, 4 of them now in ")
    assert room.json("again/run.json")["steps_before"] == 16 and room.json("full/run.json")["steps_before"] == 0
    assert losses(room, "again") == losses(room, "full") and room.json("again/run.json")["steps"] == 20
    assert (room.path / "again/weights.safetensors").read_bytes() == (room.path / "full/weights.safetensors").read_bytes()
    # Without the job; on other ranks and cuts; into another directory.
    as_at_16("own job")
    room.run("train", "--resume", "own job")
    assert losses(room, "own job") == losses(room, "full")
    room.run("train", "three.json", "--resume", "full/checkpoints/step-16", "--run-dir", "three")
    room.run("train", "--resume", "full/checkpoints/step-16", "--run-dir", "without a job")
    assert losses(room, "without a job") == {step: loss for step, loss in losses(room, "full").items() if step > 16}
    three = losses(room, "three")
    assert sorted(three) == [17, 18, 19, 20] and all(abs(loss - losses(room, "full")[step]) < 1e-5 for step, loss in three.items()), three
    assert len(room.json("three/run.json")["ranks"]) == 3 and room.json("three/step_times.json")["last_step"] == 20
    # In other batches the schedule ends at the new last step.
    falls = job(epochs=3, schedule={"kind": "linear", "final": 0.001}, optimizer={"kind": "sgd", "learning_rate": 0.01})
    del falls["train"]["max_steps"]
    falls["data"]["samples"] = 64
    room.run("train", room.write("falls.json", falls), "--run-dir", "falls", "--set", 'train.checkpoint={"every_steps": 4, "keep": 9}')
    for batch, last in [(2, 12 + 48), (16, 12 + 6)]:
        room.run("train", "falls.json", "--resume", "falls/checkpoints/step-12", "--run-dir", f"falls by {batch}", "--set", f"train.batch={batch}")
        rates = {line["step"]: line["learning_rate"] for line in map(json.loads, open(room.path / f"falls by {batch}/metrics.jsonl"))}
        assert max(rates) == last and abs(rates[last] - 0.001) < 1e-12 and rates[last - 1] > 0.00101, (batch, rates)
    # Under the user's own mpiexec.
    mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
    as_at_16("mpiexec")
    has(room.run("train", "job.json", "--resume", "mpiexec", before=[mpiexec, "-n", "2"]).err, "resuming from mpiexec/checkpoints/step-16")
    assert losses(room, "mpiexec") == losses(room, "full")
    # The files of the run are the same if they cannot be copied.
    as_at_16("no room")
    files = {p: p.read_bytes() for p in (room.path / "no room").iterdir() if p.is_file()}
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    has(room.run("train", "job.json", "--resume", "no room", code=74, preexec_fn=small_files).err, "no room/.before/job.resolved.json: ")
    assert {p: p.read_bytes() for p in (room.path / "no room").iterdir() if p.is_file()} == files
    # What is damaged is named, the one before it is taken.
    as_at_16("bad")
    shutil.copytree(room.path / "full/checkpoints/step-20", room.path / "bad/checkpoints/step-20")
    shutil.copytree(room.path / "full/checkpoints/step-16", room.path / "bad/checkpoints/step-18")
    shard = room.path / "bad/checkpoints/step-20/rank-1.bin"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    done = room.run("train", "job.json", "--resume", "bad")
    has(done.err, "step-20/rank-1.bin: bytes ", "are damaged", "trying the checkpoint before it", "step-18: its manifest is of step 16",
        "resuming from bad/checkpoints/step-16")
    assert losses(room, "bad") == losses(room, "full") and not (room.path / "bad/checkpoints/step-18").exists()
    as_at_16("worse")
    shard = room.path / "worse/checkpoints/step-16/rank-1.bin"
    before = {p: p.read_bytes() for p in (room.path / "worse").glob("*.json*")}
    for damage in [lambda raw: raw[:-1], lambda raw: raw[:50] + b"?" + raw[51:]]:
        good = shard.read_bytes()
        shard.write_bytes(damage(good))
        has(room.run("train", "job.json", "--resume", "worse", code=65).err, "worse: none of its checkpoints can be read:", "rank-1.bin")
        shard.write_bytes(good)
    (room.path / "worse/checkpoints/step-16/complete").unlink()
    has(room.run("train", "job.json", "--resume", "worse/checkpoints/step-16", code=65).err, "not a complete checkpoint: it has no complete")
    assert before == {p: p.read_bytes() for p in (room.path / "worse").glob("*.json*")}
    # It cannot be written: a warning, once for each.
    for step in range(4, 21, 4):
        (room.path / f"taken/checkpoints/step-{step}").mkdir(parents=True)
        (room.path / f"taken/checkpoints/step-{step}/mine").touch()
    (room.path / "taken/.motley").touch()
    err = room.run("train", "job.json", "--run-dir", "taken", "--overwrite", *every).err
    assert err.count("warning: no checkpoint at step 20") == 1 and err.count("warning: no checkpoint at step") == 5, err
    assert err.count(", training goes on: ") == 4 and "step 20: " in err, err
    has(err, "warning: the weights of step 20 are kept in weights.safetensors only")
    assert room.json("taken/run.json")["checkpoints_failed"] == 5 and room.json("full/run.json")["checkpoints_failed"] == 0
    assert (room.path / "taken/weights.safetensors").read_bytes() == (room.path / "full/weights.safetensors").read_bytes()
    # Another batch size: the data goes on at the same sample, and a note says so.
    as_at_16("batch")
    has(room.run("train", "job.json", "--resume", "batch", "--set", "train.batch=4", "--set", "data.samples=64").err, "note: the checkpoint was saved with batches of 8 of 64 samples, this job has batches of 4 of 64")
    # A directory is the same however it is written; another seed is said.
    for i, words in enumerate([("auto", "--run-dir", "./DIR"), ("auto", "--run-dir", "DIR/"), ("./DIR/",), ("DIR/../DIR/checkpoints/step-16/",)]):
        as_at_16(f"written{i}")
        has(room.run("train", "job.json", "--resume", *[w.replace("DIR", f"written{i}") for w in words]).err, f"resuming from", "checkpoints/step-16")
        assert losses(room, f"written{i}") == losses(room, "full"), words
    as_at_16("seed")
    has(room.run("train", "job.json", "--resume", "seed", "--set", "train.seed=9").err, "note: the checkpoint was saved with the seed 1, this job has 9")
    # Of another network: named, whatever else differs.
    for steps, kind in [(3, "sgd"), (40, "sgd"), (40, "adam")]:
        shutil.rmtree(room.path / "unlike", ignore_errors=True)
        as_at_16("unlike")
        other = job(max_steps=steps)
        other["model"]["layers"][0]["out"] = {"filters": 5}
        other["layout"]["split"]["filters"]["parts"] = [3, 2]
        other["train"]["optimizer"] = {"kind": kind, "learning_rate": 0.05}
        has(room.run("train", room.write("unlike.json", other), "--resume", "unlike", code=65).err,
            "step-16: saved with another network", '"conv2d_1.weight": [6, 1, 3, 3], expected [5, 1, 3, 3]')
    # Refused.
    kept = {p: p.read_bytes() for p in (room.path / "full").iterdir() if p.is_file()}
    as_it_was = lambda: kept == {p: p.read_bytes() for p in (room.path / "full").iterdir() if p.is_file()}
    has(room.run("train", "job.json", "--resume", "full").err, "the run is complete: nothing is left to train")
    assert as_it_was()
    other = 'train.optimizer={"kind":"sgd","learning_rate":0.1}'
    for words, code in [(("--resume", "full", "--set", other), 65), (("--run-dir", "full", "--overwrite", "--set", "mesh.devices.0.memory_bytes=1000"), 69)]:
        room.run("train", "job.json", *words, code=code)
        assert as_it_was() and (room.path / "full/checkpoints/step-16/complete").exists(), words
    # A resume into another directory that is refused does not block it.
    room.run("train", "job.json", "--resume", "full/checkpoints/step-16", "--run-dir", "elsewhere", "--set", other, code=65)
    room.run("train", "job.json", "--resume", "full/checkpoints/step-16", "--run-dir", "elsewhere")
    # What is left of a run that had trained all its steps.
    (room.path / "full/run.json").rename(room.path / "run.json")
    (room.path / "full/weights.safetensors").unlink()
    has(room.run("train", "job.json", "--resume", "full").err, "nothing is left to train after step 20")
    assert (room.path / "full/weights.safetensors").read_bytes() == kept[room.path / "full/weights.safetensors"]
    assert json.loads((room.path / "full/run.json").read_text())["test_accuracy"] == json.loads((room.path / "run.json").read_text())["test_accuracy"]
    # Died before its first checkpoint.
    shutil.copytree(room.path / "full", room.path / "early")
    shutil.rmtree(room.path / "early/checkpoints")
    has(room.run("train", "job.json", "--resume", "auto", "--run-dir", "early", code=66).err, "is complete and has no checkpoint")
    (room.path / "early/run.json").unlink()
    has(room.run("train", "job.json", "--resume", "auto", "--run-dir", "early").err, "starting a new one")
    for words, code, part in [(("full", "--set", "train.max_steps=19"), 78, "nothing is left to train"), (("nowhere",), 66, "no such run directory or checkpoint"), (("job.json",), 64, "is a file"),
                              (("full", "--overwrite"), 64, "give only one of them"), (("full", "--run-dir", "x"), 64, "leave --run-dir out"), ((".",), 65, "neither a run directory")]:
        has(room.run("train", "job.json", "--resume", *words, code=code).err, part)
    has(room.run("train", "job.json", "--resume", "full/checkpoints/step-16", "--run-dir", "x", "--set", 'train.optimizer={"kind":"sgd","learning_rate":0.1}', code=65).err,
        'its state of a parameter is "mean" and "square", expected "velocity"')
    for bad, part in [({}, "(when to save)"), ({"every_steps": 1, "every_epochs": 1}, "found 2"), ({"every_steps": 0}, "every_steps"), ({"every_seconds": 0}, "above 0"), ({"every_stps": 1}, "every_steps")]:
        has(room.run("check", "job.json", "--set", "train.checkpoint=" + json.dumps(bad), code=78).err, "/train/checkpoint", part)
    # A run that is overwritten loses its checkpoints too.
    room.run("train", "job.json", "--run-dir", "full", "--overwrite", "--set", "train.max_steps=2")
    assert not (room.path / "full/checkpoints").exists()
    has(room.run("train", "job.json", "--resume", "full", "--set", "train.max_steps=4", code=66).err, "full has no checkpoint")
    # By epochs (there are 8 steps in one), by seconds.
    room.run("train", "job.json", "--run-dir", "epochs", "--set", 'train.checkpoint={"every_epochs": 1}')
    assert sorted(p.name for p in (room.path / "epochs/checkpoints").iterdir()) == ["step-16", "step-20", "step-8"]
    room.run("train", "job.json", "--run-dir", "seconds", "--set", 'train.checkpoint={"every_seconds": 1e-9, "keep": 100}')
    assert len(list((room.path / "seconds/checkpoints").iterdir())) > 5


def stopped_runs():
    """A signal leaves a checkpoint; --resume finds the run, and ends as a run that was never stopped."""
    room = Room()
    room.write("job.json", job(max_steps=100000000))
    taken, size = [], 0
    for sent in [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT]:
        more = ["--resume"] if taken else []
        process = room.start("train", "job.json", *more)
        wait_for(lambda: any(p.stat().st_size > size + 1000 for p in room.path.glob("runs/*/metrics.jsonl")), "steps are done")
        process.send_signal(sent)
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 75, (process.returncode, err)
        [run] = (room.path / "runs").iterdir()
        steps = json.loads((run / "run.json").read_text())["steps"]
        assert [p.name for p in (run / "checkpoints").iterdir() if p.name == f"step-{steps}"] and (run / "weights.safetensors").exists()
        has(err, f"to continue from step {steps}: motley train --resume runs/{run.name}")
        if taken:
            has(err, f"resuming from runs/{run.name}/checkpoints/step-{taken[-1]}")
        taken.append(steps)
        size = (run / "metrics.jsonl").stat().st_size
    assert taken == sorted(set(taken)), taken
    # Of runs of one second the last by name is taken, in whatever order the directory lists them.
    of_one_second = [room.path / "runs" / f"{name}{run.name[run.name.index('-2'):]}" for name in ("y", "x", "z", "w")]
    for copy in of_one_second:
        shutil.copytree(run, copy)
    has(room.run("train", "--resume", "--set", f"train.max_steps={taken[-1] + 1}").err, f"resuming from runs/{of_one_second[2].name}/")
    for copy in of_one_second:
        shutil.rmtree(copy)
    # A run of another file's job of the same name is not taken.
    (room.path / "other").mkdir()
    room.write("other/job.json", job(max_steps=2))
    has(room.run("train", "other/job.json", "--resume", "auto").err, f"runs/{run.name} is not resumed: it is a run of another job of this name, job.json", "starting a new one")
    [other] = [p for p in (room.path / "runs").iterdir() if p != run]
    shutil.rmtree(other)
    total = taken[-1] + 10
    room.run("train", "job.json", "--resume", "auto", "--set", f"train.max_steps={total}")
    room.run("train", "job.json", "--run-dir", "whole", "--set", f"train.max_steps={total}")
    assert losses(room, f"runs/{run.name}") == losses(room, "whole")
    # It is done now: the next one is a new run, and says so.
    has(room.run("train", "job.json", "--resume", "--set", "train.max_steps=2").err, "no run to resume: starting a new one")
    assert len(list((room.path / "runs").iterdir())) == 2
    # Killed: what was kept before counts.
    process = room.start("train", "job.json", "--run-dir", "killed", "--set", 'train.checkpoint={"every_steps": 50}')
    wait_for(lambda: len(list((room.path / "killed/checkpoints").glob("step-*/complete"))) >= 2, "checkpoints are there")
    for pid in ranks_of(process.pid).values():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    last = max(int(p.name[5:]) for p in (room.path / "killed/checkpoints").iterdir() if (p / "complete").exists() and p.suffix != ".new")
    room.run("train", "job.json", "--run-dir", "killed", "--resume", "--set", f"train.max_steps={last + 5}")
    room.run("train", "job.json", "--run-dir", "whole", "--overwrite", "--set", f"train.max_steps={last + 5}")
    assert losses(room, "killed") == losses(room, "whole") and not list((room.path / "killed/checkpoints").glob("*.new"))


def exchange_names(table):
    """Of the rows that are exchanges, per rank."""
    return [{row["name"] for row in rank["rows"] if row["group"] == "exchanges"} for rank in table["ranks"]]


def traces():
    room = Room()
    # Nothing is measured for given parts: no simulated side, and a word about it.
    room.write("job.json", job())
    done = room.run("train", "job.json", "--run-dir", "plain", "--trace", "plain.json")
    has(done.err, "no profile")
    shown = room.json("plain.json")
    assert {e["args"]["name"] for e in shown["traceEvents"] if e["name"] == "process_name"} == {"rank 0 measured", "rank 1 measured"}
    run = room.json("plain/run.json")
    assert all(0 < rank["feed_seconds"] < 1 and 0 <= rank["disturbed"] <= 1 for rank in run["ranks"]), run
    assert run["disturbed"] == max(rank["disturbed"] for rank in run["ranks"])
    has(done.out, "disturbed", "feed")
    has(room.run("trace", "plain").out, "predicted step  unknown", "update of dense_3.weight")
    # With one, measured and simulated side by side.
    measured = job()
    measured["layout"]["split"]["filters"]["parts"] = "even"
    measured["profile"] = {"path": "p.json"}
    room.write("measured.json", measured)
    room.run("profile", "measured.json", "-o", "p.json", "--budget-seconds", "3")
    room.run("train", "measured.json", "--run-dir", "run", "--trace", "shown.json")
    shown = room.json("shown.json")["traceEvents"]
    pids = {e["pid"]: e["args"]["name"] for e in shown if e["name"] == "process_name"}
    assert sorted(pids.values()) == ["rank 0 measured", "rank 0 simulated", "rank 1 measured", "rank 1 simulated"], pids
    counts = {name: {} for name in pids.values()}
    for event in shown:
        if event["ph"] == "X":
            per_step = counts[pids[event["pid"]]]
            per_step[event["args"]["step"]] = per_step.get(event["args"]["step"], 0) + 1
    for rank in ["rank 0", "rank 1"]:
        assert counts[rank + " measured"] == counts[rank + " simulated"] and len(counts[rank + " measured"]) == 20, counts
    text, table = room.run("trace", "run").out, json.loads(room.run("trace", "run", "--format", "json").out)
    assert table == room.json("run/step_times.json")
    # By time, the largest first; by the difference from the prediction where --by says so.
    times = [[row["measured_seconds"]["median"] for row in rank["rows"]] for rank in table["ranks"]]
    assert times == [sorted(its, reverse=True) for its in times], times
    by_error = json.loads(room.run("trace", "run", "--format", "json", "--by", "error").out)
    errors = [[abs(row["difference_seconds"]) for row in rank["rows"]] for rank in by_error["ranks"]]
    assert errors == [sorted(its, reverse=True) for its in errors], errors
    assert sorted(room.run("trace", "run", "--by", "error").out.splitlines()) == sorted(room.run("trace", "run", "--by", "time").out.splitlines())
    # Chrome's trace of any run, without --trace: the last steps of what --trace wrote.
    room.run("trace", "run", "--chrome", "later.json")
    later = room.json("later.json")["traceEvents"]
    of_step = lambda events: [(e["name"], e["pid"], e["dur"], e["args"]) for e in events if e["ph"] == "X" and e["args"]["step"] == 20 and e["pid"] % 2 == 0]
    assert of_step(later) == of_step(shown) != [], (of_step(later)[:3], of_step(shown)[:3])
    assert {e["args"]["step"] for e in later if e["ph"] == "X"} == set(range(11, 21))
    has(room.run("trace", "run", "--chrome", "p.json", code=64).err, "p.json exists and is not a Chrome trace")
    # The names of older runs.
    (room.path / "old").mkdir()
    for new, old in [("run.json", "run.json"), ("step_times.json", "trace.json")]:
        shutil.copy(room.path / "run" / new, room.path / "old" / old)
    assert room.run("trace", "old").out == text
    has(room.run("trace", "old", "--chrome", "old.json", code=66).err, "holds no timeline.json")
    assert table["predicted_step_seconds"] > 0 and table["measured_step_seconds"]["median"] > 0 and len(table["ranks"]) == 2
    names = set.union(*exchange_names(table))
    tensors = {e["tensor"] for e in room.json("run/plan.json")["exchanges"]}
    assert tensors and all(any(tensor in name for name in names) for tensor in tensors), (tensors, names)
    has(text, *names, "conv2d_1.linear forward", "between events", "agree on the loss", "measured step", "disturbed")
    # What is not there, or no run.
    has(room.run("trace", "nowhere", code=66).err, "no such run directory")
    has(room.run("trace", "job.json", code=65).err, "is a file")
    (room.path / "empty").mkdir()
    has(room.run("trace", "empty", code=65).err, "is not a run directory")
    (room.path / "run/step_times.json").write_text("{")
    has(room.run("trace", "run", code=65).err, "step_times.json:1:")
    (room.path / "run/step_times.json").unlink()
    has(room.run("trace", "run", code=66).err, "step_times.json")
    (room.path / "run/timeline.json").write_text('{"version": 1, "steps": [1], "predicted_step_seconds": null, "notes": [], "ranks": [{"device": "a", "items": [], "measured_nanoseconds": [1], "simulated_nanoseconds": []}]}')
    has(room.run("trace", "run", "--chrome", "bad.json", code=65).err, "expected pairs of numbers, found 1")
    assert not (room.path / "bad.json").exists()
    for file, part in [("nowhere/t.json", "there is no directory"), ("empty", "is a directory"), ("/dev/null", "is a pipe or a device")]:
        has(room.run("train", "job.json", "--run-dir", "never", "--trace", file, code=74).err, part)
        assert not (room.path / "never").exists()
    before = (room.path / "job.json").read_text()
    for file, part in [("job.json", "is read by this command too"), ("never/run.json", "a file of the run itself"), ("never/../never/timeline.json", "a file of the run itself")]:
        has(room.run("train", "job.json", "--run-dir", "never", "--trace", file, code=64).err, part)
        assert not (room.path / "never").exists() and (room.path / "job.json").read_text() == before


def texts_of(page):
    """What a page says. It is well-formed but for its head, has no script, and asks for nothing from elsewhere."""
    assert page.startswith("<!doctype html>"), page[:80]
    body = page[page.index("<body>"):page.index("</body>") + 7]
    tree = xml.etree.ElementTree.fromstring(re.sub(r"&(?!amp;|lt;|gt;|quot;)", "&amp;", body))
    assert not re.search(r"<script|<link|<img|<iframe|@import|url\(", page), "the page loads something"
    assert set(re.findall(r"https?://[^\"<> ]*", page)) == {"http://www.w3.org/2000/svg"}, "the page names something elsewhere"
    assert len(tree.findall(".//{http://www.w3.org/2000/svg}svg")) == page.count("<svg")
    return "\n".join(t.strip() for t in tree.itertext() if t.strip())


def reports():
    room = Room()
    # Names that would be elements, and a network of which one layer is by far the slowest.
    room.write("job.json", {**job(evaluate_every_epochs=1, max_steps=24), "profile": {"path": "p.json"}})
    sets = ["--set", 'mesh.devices.1.name="old & <b>slow</b>"', "--set", 'model.layers.0.name="wide"', "--set", "model.layers.0.window=7"]
    room.run("profile", "job.json", *sets, "--set", "layout.split.filters.parts=profile", "-o", "p.json", "--budget-seconds", "3")
    room.run("train", "job.json", *sets, "--run-dir", "one <i>")
    room.run("train", "job.json", *sets, "--set", 'train.schedule={"kind": "cosine"}', "--run-dir", "two")
    has(room.run("report", "one <i>", "two", "-o", "report.html").err, "written: report.html")
    page = (room.path / "report.html").read_text()
    text = texts_of(page)
    has(text, "one <i>", "two", "old & <b>slow</b>", "The slowest layer is wide:", "Loss", "Learning rate", "Test accuracy", "Seconds per step", "Which rank stores what",
        "Seconds of each layer in a step", "One step: number", "How each rank spends a step", "Staircases: wide forward, by number of filters", "Memory over the step",
        "Bytes that each exchange moves", "oneDNN" if "onednn" in room.run("doctor").out else "Eigen", "MPICH", "glibc", "motley 0.")
    assert "prefers-color-scheme: dark" in page
    run = room.json("two/run.json")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", run["started"]) and run["started"] <= run["ended"] and run["motley"], run
    assert all(set(rank["machine"]) == {"host", "model", "library", "mpi", "motley", "system"} for rank in run["ranks"]), run
    # Written again: the same but for the time. Of one run.
    room.run("report", "one <i>", "two", "-o", "report.html")
    assert re.sub(r"Written [^ ]* ", "", (room.path / "report.html").read_text()) == re.sub(r"Written [^ ]* ", "", page)
    room.run("report", "two/", "-o", "one.html")
    has(texts_of((room.path / "one.html").read_text()), "motley report", "two")
    # A failed run, one that is running, one whose ranks were killed, an old one.
    room.run("train", "job.json", *sets, "--set", "train.optimizer.learning_rate=1e30", "--run-dir", "failed", code=70)
    room.run("report", "failed", "-o", "failed.html")
    has(texts_of((room.path / "failed.html").read_text()), "failed (exit 70", "Failed: ", "loss not finite", "There is no timeline.json: the run failed before it was written.", "Memory over the step", "Which rank stores what")
    process = room.start("train", "job.json", *sets, "--set", "train.max_steps=100000000", "--run-dir", "running")
    metrics = room.path / "running/metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 1000, "steps are done")
    room.run("report", "running", "-o", "running.html")
    has(texts_of((room.path / "running.html").read_text()), "not ended", "There is no run.json: the run has not ended", "Loss", "Seconds of each layer")
    process.kill()
    process.communicate(timeout=LIMIT)
    wait_for(lambda: (room.path / "running/run.json").exists(), "its end is written")
    with open(metrics, "a") as more:
        more.write('not a line\n{"step": 12, "lo')
    for name in ["plan.json", "run.json"]:
        (room.path / "running" / name).unlink()
    room.run("report", "running", "-o", "running.html")
    has(texts_of((room.path / "running.html").read_text()), "The last line of metrics.jsonl is not complete", "1 line of metrics.jsonl cannot be read", "The run's plan cannot be read", "Loss")
    (room.path / "p.json").unlink()
    (room.path / "two/timeline.json").write_text("{")
    shutil.copy(room.path / "two/plan.json", room.path / "running/plan.json")
    room.run("report", "two", "-o", "two.html")
    has(texts_of((room.path / "two.html").read_text()), "There is no profile where the run's job says", "timeline.json cannot be read")
    # What is no run, and what would be lost.
    (room.path / "empty").mkdir()
    for words, code, part in [(("nowhere",), 66, "no such run directory"), (("job.json",), 65, "is a file"), (("one <i>", "empty"), 65, "is not a run directory")]:
        has(room.run("report", *words, "-o", "new.html", code=code).err, part)
        assert not (room.path / "new.html").exists()
    for file, part in [("job.json", "exists and is not a page of motley report"), ("two/run.json", "is read by this command too")]:
        before = (room.path / file).read_text()
        has(room.run("report", "two", "-o", file, code=64).err, part)
        assert (room.path / file).read_text() == before
    has(room.run("report", "two", code=64).err, "--output is required")
    has(room.run("report", "-o", "new.html", code=64).err, "RUN is required")


def events_in(path):
    """Records of a TensorBoard event file: (step, scalars); checksums and all."""
    def crc(data):
        value = 0xffffffff
        for byte in data:
            value ^= byte
            for _ in range(8):
                value = (value >> 1) ^ (0x82f63b78 if value & 1 else 0)
        value ^= 0xffffffff
        return ((value >> 15 | value << 17) + 0xa282ead8) & 0xffffffff

    def varint(data, at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7f) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                return value, at

    def fields(data):
        at = 0
        while at < len(data):
            tag, at = varint(data, at)
            size = {0: 0, 1: 8, 5: 4}.get(tag & 7)
            if tag & 7 == 0:
                value, at = varint(data, at)
            else:
                if size is None:
                    size, at = varint(data, at)
                value, at = data[at:at + size], at + size
            yield tag >> 3, value

    data, out = path.read_bytes(), []
    while data:
        [size] = struct.unpack("<Q", data[:8])
        event = data[12:12 + size]
        assert struct.unpack("<I", data[8:12]) == (crc(data[:8]),) and struct.unpack("<I", data[12 + size:16 + size]) == (crc(event),)
        data, its = data[16 + size:], dict(fields(event))
        scalars = {}
        for _, value in fields(its.get(5, b"")):
            one = dict(fields(value))
            scalars[one[1].decode()] = struct.unpack("<f", one[2])[0]
        out.append((its[2], scalars) if 3 not in its else its[3])
    return out


def writes_events():
    room = Room()
    room.write("job.json", job(log="tensorboard", max_steps=20, clip_norm=5, evaluate_every_epochs=1, checkpoint={"every_steps": 10}))
    room.run("train", "job.json", "--run-dir", "run")
    events = room.path / "run/events.out.tfevents.motley"

    def check_events():
        first, *rest = events_in(events)
        assert first == b"brain.Event:2", first
        merged = {}
        for step, scalars in rest:
            merged.setdefault(step, {}).update(scalars)
        lines = [json.loads(line) for line in (room.path / "run/metrics.jsonl").read_text().splitlines()]
        assert list(merged) == [line["step"] for line in lines]
        names = {"loss": "loss", "learning_rate": "learning_rate", "step_seconds": "seconds", "samples_per_second": "samples_per_second", "gradient_norm": "gradient_norm",
                 "test_accuracy": "test_accuracy", "test_loss": "test_loss"}
        for line in lines:
            for tag, key in names.items():
                assert (tag in merged[line["step"]]) == (line.get(key) is not None), (tag, line)
                assert tag not in merged[line["step"]] or math.isclose(merged[line["step"]][tag], line[key], rel_tol=1e-6), (tag, line)
        assert "test_loss" in merged[lines[-1]["step"]]
        return len(lines)

    assert check_events() == 20
    # A run that goes on keeps the steps before it, and drops those of the course that ended.
    room.run("train", "job.json", "--resume", "run/checkpoints/step-10", "--run-dir", "run", "--set", "train.max_steps=15")
    assert check_events() == 15
    room.run("train", "job.json", "--run-dir", "run", "--overwrite", "--set", "train.log=none")
    assert not events.exists()
    has(room.run("check", room.write("bad.json", job(log="wandb")), code=78).err, "/train/log", "tensorboard")


def refusals():
    room = Room()
    room.write("job.json", job())
    no_data = job()
    no_data["data"] = {"kind": "mnist", "path": "nowhere"}
    no_data["model"]["inputs"]["image"].update(rows=28, cols=28)
    no_data["model"]["layers"][-1]["out"] = {"classes": 10}
    has(room.run("train", room.write("no data.json", no_data), code=66).err, "nowhere")
    (room.path / "file").write_text("")
    room.run("train", "job.json", "--run-dir", "file", code=78)
    (room.path / "theirs").mkdir()
    (room.path / "theirs/weights.safetensors").write_text("of another program")
    has(room.run("train", "job.json", "--run-dir", "theirs", code=78).err, "theirs is not empty and is not a run of motley")
    long = "n" * 300
    for words in [("train", "job.json", "--run-dir", long), ("train", "job.json", "--run-dir", long + "/run"), ("trace", long), ("train", "job.json", "--trace", long)]:
        err = room.run(*words, code=74).err
        has(err, "motley: ", long, ": File name too long")
        assert "error" not in err and "unexpected" not in err, err
    has(room.run("train", "job.json", "--run-dir", "caf\udce9", code=64).err, "bytes that are not UTF-8: caf?")
    assert not list(room.path.glob("caf*"))
    together = [subprocess.Popen([MOTLEY, "train", "job.json"], cwd=room.path, env=room.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(3)]
    assert [(p.communicate()[1], p.returncode)[1] for p in together] == [0, 0, 0]  # each has a directory of its own
    assert room.run("plan", "job.json", "-o", "no/such/folder/plan.json", code=74)
    with open("/dev/full", "w") as full:
        process = subprocess.run([MOTLEY, "plan", "job.json"], cwd=room.path, env=room.env, stdout=full, stderr=subprocess.PIPE)
    assert process.returncode == 74, process
    mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
    has(room.run("train", "job.json", before=[mpiexec, "-n", "3"], code=78).err, "3 ranks", "2 devices")
    # The user's own mpiexec.
    room.run("train", "job.json", "--run-dir", "own", before=[mpiexec, "-n", "2"])
    assert room.json("own/run.json")["status"] == "done"
    has(room.run("train", "job.json", "--run-dir", "own", before=[mpiexec, "-n", "2"], code=78).err, "--overwrite")
    assert json.loads(room.run("verify", "job.json", "--format", "json", before=[mpiexec, "-n", "2"]).out)["ok"]
    assert json.loads(room.run("plan", "job.json", "--format", "json", before=[mpiexec, "-n", "2"]).out)["cuts"]
    has(room.run("train", "job.json", "--set", "mesh.devices.1.threads=4096", "--run-dir", "crowd", code=69).err, '"cpu 1" requests 4096 threads')
    not_finite = job(optimizer={"kind": "sgd", "learning_rate": 1e30})
    room.run("train", room.write("not finite.json", not_finite), "--run-dir", "nan", code=70)
    run = room.json("nan/run.json")
    assert run["status"] == "failed" and run["code"] == 70 and "step" in run["reason"], run


def endless(room, directory, *more):
    room.write("job.json", job(max_steps=100000000))
    process = room.start("train", "job.json", "--run-dir", directory, "--trace", "shown.json", *more)
    metrics = room.path / directory / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 1000, "steps are done")
    return process


def stops():
    room = Room()
    for sent in [signal.SIGINT, signal.SIGTERM]:
        process = endless(room, "run")
        # While it runs no other run may use its directory.
        has(room.run("train", "job.json", "--run-dir", "run", "--overwrite", code=78).err, "used by another")
        process.send_signal(sent)
        process.communicate(timeout=LIMIT)
        assert process.returncode == 75, process.returncode
        run = room.json("run/run.json")
        assert run["status"] == "stopped" and run["steps"] > 0, run
        lines = (room.path / "run/metrics.jsonl").read_text().splitlines()
        assert json.loads(lines[-1])["step"] == run["steps"]
        assert max(e["args"].get("step", 0) for e in room.json("shown.json")["traceEvents"]) == run["steps"]
        assert room.json("run/step_times.json")["last_step"] == run["steps"]
        shutil.rmtree(room.path / "run")
        (room.path / "shown.json").unlink()
    # Before the ranks are ready: nothing is kept.
    for after in [0.0, 0.005, 0.01, 0.02, 0.04]:
        process = room.start("train", "job.json", "--run-dir", "new/run")
        wait_for(lambda: (room.path / "new").exists() or process.poll() is not None, "it starts")
        time.sleep(after)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 75, (process.returncode, out, err)
        if (room.path / "new").exists():
            assert room.json("new/run/run.json")["status"] == "stopped"
            shutil.rmtree(room.path / "new")
    # Nothing to save: at once, and not by the launcher's patience of 20 s.
    measured = job()
    measured["model"]["inputs"]["image"].update(rows=64, cols=64)
    measured["layout"]["split"]["filters"]["parts"] = "profile"
    measured["profile"] = {"path": "none.json"}
    room.write("measured.json", measured)
    for words in [("verify", "job.json", "--steps", "1000000"), ("profile", "measured.json", "-o", "p.json"), ("train", "measured.json", "--run-dir", "new")]:
        process = room.start(*words)
        wait_for(lambda: len(ranks_of(process.pid)) == 2, "ranks run")
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=15)
        assert process.returncode == 75, (words, process.returncode)
        assert not (room.path / "new").exists() and not (room.path / "p.json").exists()
    assert not list((room.path / "tmp").iterdir())


def paths_through_links():
    """What follows LINK/.. is beside what the link leads to, for all files of a run and of a job."""
    room = Room()
    (room.path / "real/sub").mkdir(parents=True)
    (room.path / "link").symlink_to("real/sub")
    small = job(1, (6,), checkpoint={"every_steps": 10})
    room.write("job.json", small)
    room.run("train", "job.json", "--quiet", "--run-dir", "link/../run")
    assert (room.path / "real/run/checkpoints/step-20").is_dir() and not (room.path / "run").exists()
    room.run("train", "job.json", "--quiet", "--resume", "link/../run", "--set", "train.max_steps=22")
    assert room.json("real/run/run.json")["steps"] == 22
    for name, classes in ("real", 4), ("", 5):  # the second place is where the text alone would lead
        folder = room.path / name / "data"
        folder.mkdir()
        write_npy(folder / "x.npy", (16, 1, 8, 8), [0.0] * 1024)
        write_npy(folder / "y.npy", (16,), [classes - 1] * 16, "<i4")
    small["data"] = {"kind": "npy", "images": "../data/x.npy", "labels": "../data/y.npy"}
    room.write("real/sub/job.json", small)
    room.run("check", "link/job.json")
    has(room.run("plan", "job.json", "--set", "layout.split.filters=\"all\"", "--set", 'profile.path="job.json/p.json"', code=74).err,
        "job.json")


def keeps_other_files():
    """A named output replaces neither what is read nor a file of another kind."""
    room = Room()
    small = job(1, (6,), max_steps=2)
    room.write("mesh.json", {"version": 1, **small["mesh"]})
    for name, values, kind in [("x", [0.5] * 64 * 8, "<f4"), ("test_x", [0.25] * 64 * 8, "<f4"), ("y", [1] * 8, "<i4"), ("test_y", [2] * 8, "<i4")]:
        write_npy(room.path / f"{name}.npy", (8, 1, 8, 8) if "x" in name else (8,), values, kind)
    small["mesh"] = "mesh.json"
    small["data"] = {"kind": "npy", "images": "x.npy", "labels": "y.npy", "test_images": "test_x.npy", "test_labels": "test_y.npy"}
    room.write("job.json", small)
    room.write("notes.txt", "what I think\n")
    room.run("train", "job.json", "--run-dir", "run")
    write_npy(room.path / "input.npy", (1, 1, 8, 8), [0.5] * 64)
    predict = ("predict", "job.json", "--weights", "run", "--input", "input.npy", "-o")
    before = {f: f.read_bytes() for f in room.path.rglob("*") if f.is_file()}
    for words in [("plan", "job.json", "-o", "job.json"), ("plan", "job.json", "-o", "mesh.json"), ("plan", "job.json", "--format", "json", "-o", "./job.json"),
                  ("plan", "job.json", "-o", "notes.txt"), ("plan", "job.json", "-o", "run/metrics.jsonl"), ("explain", "job.json", "--svg", "job.json"),
                  ("explain", "job.json", "--svg", "notes.txt"), ("model", "lenet5", "-o", "job.json"), ("doctor", "--mesh", "job.json"), ("doctor", "-o", "notes.txt"),
                  ("profile", "job.json", "-o", "job.json"), ("train", "job.json", "--trace", "job.json"), ("convert", "run/weights.safetensors", "run/weights.safetensors"),
                  (*predict, "job.json"), (*predict, "test_x.npy"), (*predict, "x.npy"), (*predict, "input.npy"), (*predict, "run/weights.safetensors")]:
        has(room.run(*words, code=64).err, f"{words[-1]} ", "; give another name")
    (room.path / "link.json").symlink_to("job.json")
    has(room.run("plan", "job.json", "-o", "link.json", code=64).err, "link.json is read by this command too")
    (room.path / "link.json").unlink()
    assert before == {f: f.read_bytes() for f in room.path.rglob("*") if f.is_file()}
    # What motley wrote is replaced.
    (room.path / "empty.csv").touch()
    for _ in range(2):
        room.run("plan", "job.json", "-o", "plan.json")
        room.run("explain", "job.json", "--svg", "plan.svg")
        room.run("model", "lenet5", "-o", "lenet5.json")
        room.run("doctor", "--mesh", "node.json")
        room.run("convert", "run", "w.npz")
        room.run("convert", "run", "w.safetensors")
        for name in ["p.npy", "p.csv", "p.json", "empty.csv"]:
            room.run(*predict, name)
    assert (room.path / "p.csv").read_text().startswith("sample,class,probability")


def contents(*folders):
    """Every path in them, with what it is, its bytes and its time: equal if nothing was touched."""
    out = {}
    for path in (p for folder in folders for p in [folder, *folder.rglob("*")]):
        facts = path.lstat()
        data = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        out[path] = (facts.st_mode, facts.st_ino, data, None if path.is_dir() else facts.st_mtime_ns)
    return out


def links_in_run_directories():
    """A run directory that someone else has prepared: what is no plain file or directory is named, and nothing is touched."""
    room = Room()
    small = room.write("job.json", job(1, (6,), checkpoint={"every_steps": 10}))
    room.run("train", small, "--run-dir", "victim")
    (room.path / "file").write_text("precious")
    files = [".lock", ".ranks.lock", ".motley", ".job", ".axes.json", "job.resolved.json", "command.json", "plan.json", "metrics.jsonl", "run.json", "trace.json", "step_times.json", "timeline.json", "profile.json",
             "events.out.tfevents.motley", "weights.safetensors", "damaged.json"]
    links = [(name, target) for name in files for target in ("../file", "nowhere")]
    links += [(".before", "../victim"), ("checkpoints", "../victim/checkpoints"), (".dropped", "../victim"), (".ranks", "../victim"), ("checkpoints/step-10", "../../victim/checkpoints/step-10"),
              (".before/metrics.jsonl", "../../file"), (".before/checkpoints", "../../victim/checkpoints"), ("checkpoints/step-7.new", "../../victim/checkpoints/step-10")]
    for name, target in links:
        made = room.path / "rd" / name
        made.parent.mkdir(parents=True)
        (room.path / "rd/.motley").touch()
        if name == ".motley":
            made.unlink()
        made.symlink_to(target)
        before = contents(room.path / "rd", room.path / "victim", room.path / "file")
        for more in [], ["--overwrite"]:
            has(room.run("train", small, "--run-dir", "rd", *more, code=78).err, f"rd/{name} is a symbolic link; expected the ")
            assert before == contents(room.path / "rd", room.path / "victim", room.path / "file"), name
        assert not (room.path / "rd/nowhere").exists() and not (room.path / "nowhere").exists()
        shutil.rmtree(room.path / "rd")
    # Pipes, and files where directories belong.
    for name, make, says in [(".job", os.mkfifo, "is a pipe; expected a file"), ("plan.json", os.mkfifo, "is a pipe; expected a file"), ("trace.json", os.mkfifo, "is a pipe; expected a file"),
                             ("checkpoints", lambda p: p.touch(), "is a file; expected a directory"), ("run.json", lambda p: p.mkdir(), "is a directory; expected a file")]:
        (room.path / "rd").mkdir()
        make(room.path / "rd" / name)
        has(room.run("train", small, "--run-dir", "rd", code=78).err, f"rd/{name} {says}")
        shutil.rmtree(room.path / "rd")
    # A resumed run: the same.
    for name in ["metrics.jsonl", "plan.json", "command.json"]:
        shutil.copytree(room.path / "victim", room.path / "rd")
        (room.path / "rd" / name).unlink()
        (room.path / "rd" / name).symlink_to("../file")
        has(room.run("train", "--resume", "rd", "--set", "train.max_steps=40", code=78).err, f"rd/{name} is a symbolic link")
        shutil.rmtree(room.path / "rd")
    assert (room.path / "file").read_text() == "precious"
    # A link to the directory itself is followed.
    (room.path / "real").mkdir()
    (room.path / "link").symlink_to("real")
    room.run("train", small, "--run-dir", "link")
    assert (room.path / "link").is_symlink() and room.json("real/run.json")["status"] == "done"


def directories_of_others():
    """Only an empty directory or a run of motley is written into; of a run only what is its own is removed."""
    room = Room()
    small = room.write("job.json", job(1, (6,), checkpoint={"every_steps": 10, "keep": 2}))
    room.run("train", small, "--run-dir", "run", "--set", "train.max_steps=200")
    for name, fill in [("checkpoints", lambda at: shutil.copytree(room.path / "run/checkpoints", at / "checkpoints")),
                       ("another", lambda at: ((at / "checkpoints/step-5").mkdir(parents=True), (at / "checkpoints/step-5/model.pt").write_text("weights"))),
                       ("plan", lambda at: (at / "plan.json").write_text("{}")), ("trace", lambda at: (at / "trace.json").write_text("{}")),
                       ("command", lambda at: (at / "command.json").write_text("[]")), ("job", lambda at: (at / ".job").write_text("mine")),
                       ("notes", lambda at: (at / "notes.txt").write_text("mine"))]:
        at = room.path / name
        at.mkdir()
        fill(at)
        before = contents(at)
        for more in [], ["--overwrite"]:
            has(room.run("train", small, "--run-dir", name, "--set", "train.max_steps=30", *more, code=78).err, f"{name} is not empty and is not a run of motley")
            assert before == contents(at), name
    # Runs from before the mark are resumed and overwritten; what another program has put there stays.
    (room.path / "run/.motley").unlink()
    foreign = room.path / "run/checkpoints/step-5"
    foreign.mkdir()
    (foreign / "model.pt").write_text("weights")
    room.run("train", "--resume", "run", "--set", "train.max_steps=230")
    assert (room.path / "run/.motley").is_file() and room.json("run/run.json")["steps"] == 230
    assert sorted(p.name for p in (room.path / "run/checkpoints").iterdir()) == ["step-220", "step-230", "step-5"]
    (room.path / "run/.motley").unlink()
    has(room.run("train", small, "--run-dir", "run", code=78).err, "run holds a run")
    room.run("train", small, "--run-dir", "run", "--overwrite")
    assert sorted(p.name for p in (room.path / "run/checkpoints").iterdir()) == ["step-10", "step-20", "step-5"] and (foreign / "model.pt").read_text() == "weights"
    # What a killed rank was writing is gone at the run's end too, not only at the next one's start.
    process = endless(room, "unfinished")
    for name in ["plan.json.new-4711-0", "theirs.new-4711-0"]:
        (room.path / "unfinished" / name).touch()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 75 and [p.name for p in (room.path / "unfinished").glob("*.new-*")] == ["theirs.new-4711-0"]
    small = room.write("job.json", job(1, (6,), checkpoint={"every_steps": 10, "keep": 2}))
    # Of a killed process's remains: an empty directory with a lock.
    (room.path / "killed").mkdir()
    (room.path / "killed/.lock").write_text("4711")
    room.run("train", small, "--run-dir", "killed")


def files_of_another_user():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("skipped: needs root and setpriv")
        return
    room = Room()
    small = room.write("job.json", job(1, (6,)))
    room.run("train", small, "--run-dir", "run")
    os.chown(room.path / "run/plan.json", 65534, 65534)
    before = contents(room.path / "run")
    has(room.run("train", small, "--run-dir", "run", "--overwrite", code=78).err, "run/plan.json belongs to user 65534; expected a file of user 0")
    assert before == contents(room.path / "run")
    # And from the other side: a directory that root has prepared.
    (room.path / "shared").mkdir()
    (room.path / "shared/metrics.jsonl").write_text("root's")
    os.chmod(room.path / "shared", 0o777)
    for place in room.path, room.path / "tmp":
        os.chmod(place, 0o777)
    err = room.run("train", small, "--run-dir", "shared", before=["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"], code=78).err
    has(err, "shared/metrics.jsonl belongs to user 0")
    assert (room.path / "shared/metrics.jsonl").read_text() == "root's"


def run_directory_removed():
    room = Room()
    room.write("job.json", job(max_steps=1000000))
    for end in ["rename", "remove"]:
        checkpoints = ["--set", 'train.checkpoint={"every_steps": 20}'] if end == "rename" else []
        process = room.start("train", "job.json", "--run-dir", "run", *checkpoints)
        metrics = room.path / "run/metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.stat().st_size > 1000, "steps are done")
        wait_for(lambda: not checkpoints or [p for p in (room.path / "run").glob("checkpoints/step-*/complete") if p.parent.suffix != ".new"], "a checkpoint is there")
        (room.path / "run").rename(room.path / "elsewhere") if end == "rename" else shutil.rmtree(room.path / "run")
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 74, (process.returncode, out, err)
        has(err, "run was renamed or removed while")
        assert "died" not in err, err
        assert not (room.path / "run").exists(), "it was not made again"
    left = {p.name for p in (room.path / "elsewhere").iterdir()}
    assert not left & {".lock", ".ranks.lock", ".ranks", "weights.safetensors"} and not [n for n in left if ".new-" in n], left
    newest = max(int(p.name[5:]) for p in (room.path / "elsewhere/checkpoints").iterdir() if p.suffix != ".new")
    room.run("train", "--resume", "elsewhere", "--set", f"train.max_steps={newest + 5}")


def pipes():
    """A pipe that a user names is written into; one that no process reads is an error, not a wait."""
    room = Room()
    room.write("job.json", job())
    os.mkfifo(room.path / "pipe.json")
    has(room.run("check", "pipe.json", code=66).err, "pipe.json is a pipe; expected a file")
    for words in [("plan", "job.json", "-o", "pipe.json"), ("model", "lenet5", "-o", "pipe.json")]:
        has(room.run(*words, code=74).err, "pipe.json: no process reads this pipe")
        reader = subprocess.Popen(["cat", "pipe.json"], cwd=room.path, stdout=subprocess.PIPE)
        keeps = os.open(room.path / "pipe.json", os.O_WRONLY)  # returns once the reader is there
        room.run(*words)
        os.close(keeps)
        text = reader.communicate(timeout=LIMIT)[0]
        assert json.loads(text)["version" if words[0] == "model" else "cuts"]


def deaths_under_mpiexec():
    """mpiexec kills all ranks when one dies; run.json says so all the same, and nothing is left."""
    room = Room()
    room.write("job.json", job(max_steps=100000000))
    mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
    for victim in [0, 1]:
        process = room.start("train", "job.json", "--run-dir", f"own{victim}", before=[mpiexec, "-n", "2"])
        metrics = room.path / f"own{victim}/metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.stat().st_size > 1000, "steps are done")
        os.kill(ranks_of(process.pid)[victim], signal.SIGKILL)
        process.communicate(timeout=LIMIT)
        wait_for(lambda: (room.path / f"own{victim}/run.json").exists(), "run.json is written")
        run = room.json(f"own{victim}/run.json")
        assert run["status"] == "failed" and run["code"] == 86 and run["steps"] > 0 and "killed" in run["reason"], run
        wait_for(lambda: not (room.path / f"own{victim}/.lock").exists(), "the lock is gone")
    # One that ends or stays away before MPI_Init leaves the others in it.
    for setting, program, code, said in [("MOTLEY_CORES=100000", MOTLEY, 78, "is not a list of cores"), ("MOTLEY_START_SECONDS=3", "true", 86, "MPI_Init has not returned after 3 s")]:
        words = [str(mpiexec), "-genv", *setting.split("=")] if program == "true" else [str(mpiexec)]
        late = [program] if program == "true" else ["-env", *setting.split("="), program, "train", "job.json", "--run-dir", "late"]
        done = subprocess.run([*words, "-n", "1", *late, ":", "-n", "1", MOTLEY, "train", "job.json", "--run-dir", "late"], cwd=room.path, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == code, (done.returncode, done.stderr)
        has(done.stderr, said)


def deaths():
    room = Room()
    process = endless(room, "run")
    ranks = ranks_of(process.pid)
    assert sorted(ranks) == [0, 1], ranks
    os.kill(ranks[1], signal.SIGKILL)
    begun = time.monotonic()
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 86, (process.returncode, err)
    assert time.monotonic() - begun < 20  # far below MOTLEY_HUNG_SECONDS, which would end it too
    has(err, "rank 1", "cpu 1", "there is no checkpoint to continue from")
    run = room.json("run/run.json")
    assert run["status"] == "failed" and run["code"] == 86 and run["rank"] == 1 and "rank 1" in run["reason"], run
    assert run["test_accuracy"] is None and run["seconds"] is None and run["ranks"][0]["memory_bytes"] is None and run["steps"] > 0 and len(run["ranks"]) == 2
    # It still counts as a run.
    room.run("train", "job.json", "--run-dir", "run", code=78)


def launcher_killed():
    """Its ranks end in order if mpiexec, whose pipes are broken, lives so long, and say so; if they cannot, run.json says what happened all the same."""
    room = Room()
    for ranks_are_killed in [False, True]:
        name = "all" if ranks_are_killed else "launcher"
        process = endless(room, name)
        ranks = ranks_of(process.pid)
        assert sorted(ranks) == [0, 1], ranks
        for pid in ranks.values() if ranks_are_killed else []:
            os.kill(pid, signal.SIGSTOP)  # so that none ends in order meanwhile
        process.kill()
        for pid in ranks.values() if ranks_are_killed else []:
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=LIMIT)
        wait_for(lambda: not (room.path / name / ".lock").exists(), "the lock is gone")
        run = room.json(f"{name}/run.json")
        assert run["steps"] > 0 and len(run["ranks"]) == 2, run
        if ranks_are_killed or run["status"] != "stopped":
            assert run["status"] == "failed" and run["code"] == 86 and f"the launcher (process {process.pid}) was killed" in run["reason"], run
        assert not (room.path / name / ".ranks").exists()
        for pid in ranks.values():
            wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the ranks are gone")
        room.run("train", "job.json", "--run-dir", name, code=78)  # it holds a run


def restarts():
    room = Room()
    room.write("job.json", job(max_steps=20000, checkpoint={"every_steps": 200}))
    room.run("train", "job.json", "--run-dir", "whole")
    process = room.start("train", "job.json", "--run-dir", "run", "--restart", "2")
    wait_for(lambda: (room.path / "run/checkpoints/step-200/complete").exists(), "a checkpoint is there")
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    has(err, "rank 1", "restart 1 of 2: from run/checkpoints/step-")
    assert "restart 2" not in err
    assert losses(room, "run") == losses(room, "whole") and room.json("run/run.json")["status"] == "done"
    # Without a checkpoint from the beginning; after the last restart it is an error as before.
    process = endless(room, "none", "--restart", "1")
    first, metrics = ranks_of(process.pid), room.path / "none/metrics.jsonl"
    os.kill(first[0], signal.SIGKILL)
    wait_for(lambda: len(ranks_of(process.pid)) == 2 and not set(first.values()) & set(ranks_of(process.pid).values()), "it is started again")
    begun = metrics.stat().st_size  # by the first ranks, or nothing
    wait_for(lambda: metrics.stat().st_size not in (0, begun) and metrics.stat().st_size > 1000, "it runs again")
    os.kill(ranks_of(process.pid)[0], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 86, (process.returncode, err)
    has(err, "restart 1 of 1: from the beginning, there is no checkpoint yet")
    run = room.json("none/run.json")
    assert run["status"] == "failed" and run["code"] == 86, run
    # Stopped before the first step of a restart: the weights are those of the checkpoint that it went on from.
    room.write("job.json", job(max_steps=100000000, checkpoint={"every_steps": 200}))
    process = room.start("train", "job.json", "--run-dir", "early", "--restart", "2")
    wait_for(lambda: list((room.path / "early/checkpoints").glob("step-*/complete")), "a checkpoint is there")
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    wait_for(lambda: (room.path / "early/.before").exists(), "it is started again")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 75, (process.returncode, err)
    run = room.json("early/run.json")
    assert run["status"] == "stopped" and (room.path / f"early/checkpoints/step-{run['steps']}").exists(), run
    room.run("convert", f"early/checkpoints/step-{run['steps']}", "same.safetensors")
    assert (room.path / "same.safetensors").read_bytes() == (room.path / "early/weights.safetensors").read_bytes()
    # What is overwritten is gone with the first step, and not a start before it: a rank dies before the first step, another after it.
    room.write("old.json", job(max_steps=20, checkpoint={"every_steps": 10}))
    room.run("train", "old.json", "--run-dir", "over")
    room.write("new.json", job(max_steps=5000, seed=2))
    room.run("train", "new.json", "--run-dir", "whole2")
    process = room.start("train", "new.json", "--run-dir", "over", "--overwrite", "--restart", "2")
    wait_for(lambda: 1 in ranks_of(process.pid), "ranks are there")
    first = ranks_of(process.pid)
    os.kill(first[1], signal.SIGKILL)
    before_a_step = (room.path / "over/.before").exists()
    wait_for(lambda: len(ranks_of(process.pid)) == 2 and not set(first.values()) & set(ranks_of(process.pid).values()), "they are started again")
    metrics = room.path / "over/metrics.jsonl"
    wait_for(lambda: not (room.path / "over/.before").exists() and metrics.exists() and metrics.stat().st_size > 1000, "steps are done")
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and before_a_step, (process.returncode, before_a_step, err)
    assert err.count("from the beginning, there is no checkpoint yet") == 2 and not (room.path / "over/checkpoints").exists(), err
    assert losses(room, "over") == losses(room, "whole2")
    # From the checkpoint that was chosen, as long as no step was done.
    room.run("train", "job.json", "--run-dir", "chosen", "--set", "train.max_steps=800")
    process = room.start("train", "job.json", "--resume", "chosen/checkpoints/step-400", "--restart", "1", "--set", "train.max_steps=800")
    wait_for(lambda: 1 in ranks_of(process.pid), "ranks are there")
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    has(err, "restart 1 of 1: from chosen/checkpoints/step-400")
    # Not the launcher's own: refused.
    mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
    has(room.run("train", "job.json", "--run-dir", "own", "--restart", "1", before=[mpiexec, "-n", "2"], code=64).err, "--restart works only where")


def stops_while_a_rank_hangs():
    """A stop request that a hanging rank cannot follow is no reason to start again."""
    room = Room()
    room.env["MOTLEY_HUNG_SECONDS"] = "3"
    room.write("job.json", job(dtype="f64", max_steps=3000, checkpoint={"every_steps": 200}))
    process = room.start("train", "job.json", "--run-dir", "run", "--restart", "3")
    wait_for(lambda: (room.path / "run/checkpoints/step-200/complete").exists(), "a checkpoint is there")
    os.kill(ranks_of(process.pid)[1], signal.SIGSTOP)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 75 and "restart 1" not in err, (process.returncode, err)
    assert room.json("run/run.json")["status"] == "stopped"
    assert not (room.path / "run/.ranks.lock").exists() and not (room.path / "run/.lock").exists()


def leaves_out_lost_devices():
    """A rank that is lost again before a step: the others go on, with its parts."""
    room = Room()
    room.write("job.json", job(3, (3, 2, 1), dtype="f64", max_steps=3000, checkpoint={"every_steps": 200}))
    room.run("train", "job.json", "--run-dir", "whole")
    process = room.start("train", "job.json", "--run-dir", "run", "--restart", "2")
    wait_for(lambda: (room.path / "run/checkpoints/step-200/complete").exists(), "a checkpoint is there")
    first = ranks_of(process.pid)
    os.kill(first[1], signal.SIGKILL)
    wait_for(lambda: has_reported(ranks_of(process.pid).get(1, first[1]), 1, first[1]), "all are started again")
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    has(err, "restart 1 of 2: from run/checkpoints/step-", "rank 1 (cpu 1) was lost twice without a completed step in between", "continuing with the remaining devices: cpu 0, cpu 2",
        "restart 2 of 2")
    run, resolved = room.json("run/run.json"), room.json("run/job.resolved.json")
    assert run["status"] == "done" and run["steps"] == 3000 and len(run["ranks"]) == 2, run
    assert resolved["layout"]["split"]["filters"]["parts"] == [5, 1], resolved["layout"]
    whole, kept = losses(room, "whole"), losses(room, "run")
    assert kept.keys() == whole.keys() and all(abs(kept[step] - loss) <= 1e-9 * abs(loss) for step, loss in whole.items())


def several_inputs():
    """A network of a picture, its mask and a word, on arrays: trained, evaluated and predicted under cuts."""
    room, samples = Room(), 12
    document = job(max_steps=6)
    document["model"] = {"inputs": {"image": {"batch": 4, "channels": 1, "rows": 5, "cols": 4}, "mask": {"batch": 4, "rows": 5, "cols": 4}, "word": {"dtype": "i32", "batch": 4}},
                         "layers": [{"op": "conv2d", "name": "c", "out": {"f": 5}, "window": 3, "padding": "same", "activation": "relu"},
                                    {"op": "mul", "name": "masked", "from": ["c", "mask"]}, {"op": "embedding", "name": "e", "from": "word", "rows": {"vocabulary": 7}, "out": {"f": 5}},
                                    {"op": "add", "from": ["masked", "e", "e"]}, {"op": "dense", "out": {"classes": 3}}],
                         "loss": {"op": "softmax_cross_entropy", "over": "classes"}}
    document["layout"] = {"version": 1, "split": {"f": {"axis": "all", "parts": [4, 1]}}}
    room.write("made_up.json", document)
    room.run("verify", "made_up.json")
    room.run("verify", "made_up.json", "--inference", "--dump", "dump")
    assert sorted(f.name for f in (room.path / "dump/inputs").iterdir()) == ["image.npy", "label.npy", "mask.npy", "word.npy"]
    write_npy(room.path / "x.npy", (samples, 1, 5, 4), [(n * 7 % 11) / 11 for n in range(samples * 20)])
    write_npy(room.path / "mask.npy", (samples, 5, 4), [n % 3 % 2 for n in range(samples * 20)])
    write_npy(room.path / "word.npy", (samples,), [n % 7 for n in range(samples)], "<i8")
    write_npy(room.path / "y.npy", (samples,), [n % 3 for n in range(samples)], "<i8")
    names = {"mask": "mask.npy", "word": "word.npy"}
    document["data"] = {"kind": "npy", "images": "x.npy", "labels": "y.npy", "inputs": names, "test_images": "x.npy", "test_labels": "y.npy", "test_inputs": names}
    room.write("job.json", document)
    room.run("train", "job.json", "--run-dir", "run")
    document["layout"]["split"] = {"batch": {"axis": "all", "parts": [1, 3]}}
    room.write("other.json", document)
    for name in ["job", "other"]:
        room.run("predict", name + ".json", "--weights", "run", "--input", "word=word.npy", "--input", "x.npy", "--input", "mask=mask.npy", "-o", name + ".npy")
    one, two = (struct.unpack("<36f", npy((room.path / (name + ".npy")).read_bytes())[2]) for name in ["job", "other"])
    assert max(abs(a - b) for a, b in zip(one, two)) < 1e-5
    right = sum(max(range(3), key=lambda c, n=n: one[3 * n + c]) == n % 3 for n in range(samples))
    assert abs(json.loads(room.run("eval", "job.json", "--weights", "run", "--format", "json").out)["accuracy"] - right / samples) < 1e-9
    has(room.run("predict", "job.json", "--weights", "run", "--input", "x.npy", "-o", "z.npy", code=64).err, "--input mask=FILE")
    write_npy(room.path / "word.npy", (samples - 1,), [0] * (samples - 1), "<i8")
    refused = room.run("check", "job.json", code=65).err  # both keys name the file: the first is wrong, and said
    has(refused, "/data/inputs/word: ", "/data/test_inputs/word: ", "word.npy: 11 samples for the 12 of ", "/x.npy")
    assert refused.count("error:") == 2, refused  # each key that names it
    write_npy(room.path / "word.npy", (samples,), [n % 8 for n in range(samples)], "<i8")
    has(room.run("check", "job.json", code=65).err, "/data/inputs/word: ", "word.npy: sample 7 holds 7; expected an index of a row, 0 to 6")
    refused = room.run("check", "job.json", "--set", "data.inputs.word=y.npy", "--set", "data.labels=none.npy", code=66).err
    has(refused, "/data/labels: ", "none.npy: ", "/data/test_inputs/word: ", "word.npy: sample 7 holds 7")
    assert refused.count("error:") == 2, refused
    write_npy(room.path / "column.npy", (samples, 1), [0] * samples, "<i8")  # of a model's input that has the batch alone
    has(room.run("check", "job.json", "--set", "data.inputs.word=column.npy", code=65).err, "/data/inputs/word: ", "column.npy: an array [12, 1]; expected [samples]")
    has(room.run("predict", "job.json", "--weights", "run", "--input", "x.npy", "--input", "mask=mask.npy", "--input", "word=column.npy", "-o", "z.npy", code=65).err, "expected [samples]")
    unknown = room.run("check", "job.json", "--set", 'data.test_inputs={"wort": "word.npy", "mask": "mask.npy"}', code=78).err
    has(unknown, 'no further input "wort"', 'the model\'s input "word" has no file', "word.npy: sample 7 holds 7")
    assert unknown.count("error:") == 3, unknown
    write_npy(room.path / "word.npy", (samples,), [n % 7 for n in range(samples)], "<i8")
    has(room.run("predict", "job.json", "--weights", "run/weights.safetensors", "--input", "x.npy", "--input", "mask=mask.npy", "--input", "word=word.npy", "-o",
                 "run/weights.safetensors", code=64).err, "is read by this command too and would be overwritten")
    has(room.run("check", "job.json", "--set", "train.batch=13", code=78).err, "/train/batch: a batch of 13 is more than the 12 samples of the data")
    has(room.run("predict", "job.json", "--weights", "run", "--input", "wort=word.npy", "-o", "z.npy", code=64).err, 'no input "wort"; did you mean "word"?')
    del document["data"]["inputs"]["word"]
    room.write("job.json", document)
    has(room.run("train", "job.json", "--run-dir", "other", code=78).err, '"word" has no file')
    document["data"] = {"kind": "fashion_mnist"}
    document["model"]["inputs"]["image"].update(rows=28, cols=28)
    document["model"]["inputs"]["mask"].update(rows=28, cols=28)
    room.write("job.json", document)
    has(room.run("check", "job.json", code=78).err, 'the model has further inputs ("mask")')


def evaluates_by_epoch():
    room = Room()
    document = job(epochs=3)
    del document["train"]["max_steps"]
    document["data"]["samples"] = 40
    room.write("job.json", document)
    room.run("train", "job.json", "--run-dir", "plain")
    run = room.run("train", "job.json", "--run-dir", "run", "--set", "train.evaluate_every_epochs=1", "--progress", "plain")
    assert re.search(r"epoch 1: test accuracy \d+\.\d\d %, loss .*\] 100 %  step 15  loss \S+  \S+ \S+  test accuracy \d+\.\d\d %  .* samples/s", run.err, re.S), run.err
    lines = [json.loads(line) for line in (room.path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "test_accuracy" in line] == [5, 10, 15] and all(line["samples_per_second"] > 0 for line in lines)
    assert losses(room, "run") == losses(room, "plain")
    ended = room.json("run/run.json")
    assert ended["test_loss"] == lines[-1]["test_loss"] == room.json("plain/run.json")["test_loss"]
    assert ended["test_accuracy"] == lines[-1]["test_accuracy"] and lines[4]["test_loss"] != lines[9]["test_loss"]
    tested = {line["step"]: line["test_loss"] for line in lines if "test_loss" in line}
    # The evaluation at the end is in the last line too, wherever in the epochs that is.
    room.run("train", "job.json", "--run-dir", "second", "--set", "train.evaluate_every_epochs=2")
    found = [json.loads(line) for line in (room.path / "second/metrics.jsonl").read_text().splitlines()]
    assert {line["step"]: line["test_loss"] for line in found if "test_loss" in line} == {step: tested[step] for step in (10, 15)}, found
    # A run that was stopped in an evaluation makes it when it continues.
    more = ["--set", "train.evaluate_every_epochs=1", "--set", 'train.checkpoint={"every_steps": 5, "keep": 9}']
    room.run("train", "job.json", "--run-dir", "cut", *more)
    for step in (10, 15):
        shutil.rmtree(room.path / f"cut/checkpoints/step-{step + 5}", ignore_errors=True)
        before = [{**line, **({"test_loss": None, "test_accuracy": None} if line["step"] == step else {})} for line in lines if line["step"] <= step]
        (room.path / "cut/metrics.jsonl").write_text("".join(
            json.dumps({key: value for key, value in line.items() if value is not None}) + "\n" for line in before))
        room.write("cut/run.json", {**room.json("cut/run.json"), "status": "stopped"})
        done = room.run("train", "job.json", "--resume", "cut", *more)
        has(done.err, f"resuming from cut/checkpoints/step-{step}")
        found = [json.loads(line) for line in (room.path / "cut/metrics.jsonl").read_text().splitlines()]
        assert {line["step"]: line["test_loss"] for line in found if "test_loss" in line} == tested and len(found) == 15, found


def decided_by_evaluations():
    """The best checkpoint, an end without gains, a rate that falls: what is missing is said, what is kept is what was evaluated."""
    room = Room()
    document = job(epochs=40, evaluate_every_epochs=1, keep_best="test_loss", stop_after_evaluations_without_gain=3,
                   optimizer={"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9},
                   schedule={"kind": "plateau", "factor": 0.5, "patience": 0})
    del document["train"]["max_steps"]
    document["data"]["samples"] = 40
    room.write("job.json", document)
    run = room.run("train", "job.json", "--run-dir", "run")
    ended = room.json("run/run.json")
    best = ended["best"]
    lines = [json.loads(line) for line in (room.path / "run/metrics.jsonl").read_text().splitlines()]
    tested = {line["step"]: line["test_loss"] for line in lines if "test_loss" in line}
    assert ended["status"] == "done" and ended["stopped_early"] and ended["steps"] < 200 and best["evaluations_without_gain"] == 3, ended
    assert best["value"] == min(tested.values()) == tested[best["step"]] and ended["steps"] == best["step"] + 15, (best, tested)
    assert sorted(p.name for p in (room.path / "run/checkpoints").iterdir()) == sorted([f"step-{best['step']}", f"step-{ended['steps']}"])
    has(run.out, f"best           test_loss {best['value']:.4g} after step {best['step']}, kept in run/{best['checkpoint']}")
    has(run.err, f"training ends after step {ended['steps']}: test_loss has not gained in 3 evaluations since step {best['step']}",
        "the learning rate falls from 0.1 to 0.05 after step")
    for weights, step in [(f"run/{best['checkpoint']}", best["step"]), ("run", ended["steps"])]:
        found = json.loads(room.run("eval", "job.json", "--weights", weights, "--format", "json").out)
        assert abs(found["loss"] - tested[step]) < 1e-12, (weights, found, tested)
    # Complete; with more patience it goes on; from the best checkpoint, as a job that was killed, it ends as it did.
    has(room.run("train", "--resume", "run").err, "the run is complete: it ended early; a larger train.stop_after_evaluations_without_gain")
    assert room.json("run/run.json") == ended
    shutil.copytree(room.path / "run", room.path / "again")
    shutil.rmtree(room.path / f"again/checkpoints/step-{ended['steps']}")
    room.run("train", "--resume", "again")
    assert losses(room, "again") == losses(room, "run") and room.json("again/run.json")["best"] == best
    room.run("train", "--resume", "run", "--set", "train.stop_after_evaluations_without_gain=4")
    assert room.json("run/run.json")["steps"] > ended["steps"]
    # A run that ends before anything is evaluated; a schedule that ends elsewhere.
    has(room.run("train", "job.json", "--run-dir", "short", "--set", "train.max_steps=4").err,
        "note: the run of 4 steps ends before the first evaluation in training, after step 5 (train.evaluate_every_epochs)")
    assert room.json("short/run.json")["best"]["checkpoint"] == "checkpoints/step-4"
    for schedule in [{"kind": "one_cycle"}, {"kind": "polynomial", "power": 2}]:
        room.run("train", "job.json", "--run-dir", schedule["kind"], "--set", "train.max_steps=10", "--set", "train.schedule=" + json.dumps(schedule))
        err = room.run("train", "--resume", schedule["kind"], "--set", "train.max_steps=20").err
        assert re.search(r"note: step 10 had the learning rate \S+, in this job it has \S+ \(the schedule ends at step 20\)", err), err
    # Where nothing is evaluated.
    def refused(where, *parts, **more):
        changed = json.loads(json.dumps(document))
        changed["train"].update(more)
        changed["train"] = {key: value for key, value in changed["train"].items() if value is not None}
        has(room.run("check", room.write("bad.json", changed), code=78).err, *[f"/train/{one}" for one in where], *parts)
    every = ["keep_best", "stop_after_evaluations_without_gain", "schedule/kind"]
    refused(every, 'nothing is evaluated in training; add "evaluate_every_epochs": 1 to "train"', evaluate_every_epochs=None)
    refused(["keep_best"], "\"accuracy\" is not known here (known: test_loss, test_accuracy)", keep_best="accuracy")
    refused(["stop_after_evaluations_without_gain"], "expected an integer", stop_after_evaluations_without_gain=0)
    refused(["schedule/minimum"], "expected at most the optimizer's learning_rate, 0.1, found 0.5", schedule={"kind": "plateau", "minimum": 0.5})
    write_npy(room.path / "x.npy", [16, 1, 8, 8], [0.5] * 1024)
    write_npy(room.path / "y.npy", [16], [0] * 16, "<i4")
    document["data"] = {"kind": "npy", "images": "x.npy", "labels": "y.npy"}
    refused(every, 'add "test_images" and "test_labels", or "validation": 0.1 to "data", which has no test part')
    document["data"]["validation"] = 0.5
    room.run("check", room.write("good.json", document))
    document["data"] = {"kind": "synthetic"}
    document["model"]["loss"] = {"op": "mean_squared_error"}
    refused(["keep_best"], "the loss mean_squared_error has no accuracy; watch \"test_loss\"", keep_best="test_accuracy")


def verifies_inference():
    room = Room()
    norm = job()
    norm["model"]["layers"].insert(1, {"op": "batch_norm"})
    norm["model"]["layers"].insert(2, {"op": "dropout", "rate": 0.5})
    for parts in [[4, 2], [6, 0]]:
        norm["layout"]["split"]["filters"]["parts"] = parts
        found = json.loads(room.run("verify", room.write("job.json", norm), "--inference", "--format", "json", "--dump", "dump").out)
        assert found["ok"] and found["f64"].keys() == {"loss", "logits"} and found["f64"]["logits"] <= 1e-11 and found["f32"]["loss"] <= 1e-5, found
    has(room.run("verify", "job.json", "--inference").out, "logits", "ok: the sharded network computes what the unsharded one does")
    descr, shape, raw = npy((room.path / "dump/weights_before/batch_norm_2.running_var.npy").read_bytes())
    assert (descr, shape) == ("<f8", [6]) and all(0.5 < v < 1.5 and v != 1 for v in struct.unpack("<6d", raw))
    for name in ["inputs/image.npy", "inputs/label.npy", "logits.npy", "loss.npy", "f32/logits.npy", "manifest.json"]:
        assert (room.path / "dump" / name).exists(), name


def progress():
    import pty
    room = Room()
    room.write("job.json", job(max_steps=2000))
    for mode, terminal, term, rewritten in [("auto", True, "xterm", True), ("auto", True, "dumb", False), ("plain", True, "xterm", False),
                                            ("auto", False, "xterm", False)]:
        leader, follower = pty.openpty()
        read, write = os.pipe()
        env = {**room.env, "TERM": term}
        env.pop("NO_COLOR", None)
        process = subprocess.Popen([MOTLEY, "train", "job.json", "--run-dir", "run", "--overwrite", "--progress", mode], cwd=room.path, env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=follower if terminal else write)
        os.close(follower)
        os.close(write)
        said = b""
        with contextlib.suppress(OSError):  # a terminal whose other end is closed
            while block := os.read(leader if terminal else read, 65536):
                said += block
        os.close(leader)
        os.close(read)
        assert process.wait(timeout=LIMIT) == 0
        assert (b"\r" in said.replace(b"\r\n", b"\n")) == rewritten, (mode, terminal, term, said)
        assert b"step" in said
    quiet = room.run("train", "job.json", "--run-dir", "run", "--overwrite", "--log-level", "error", "--set", "train.max_steps=3")
    assert quiet.err == "", quiet.err
    # Where both streams are one terminal or file, the table comes after the last line of progress, and that has the table's accuracy.
    for mode, steps in [("auto", 30), ("plain", 30), ("auto", 1), ("plain", 1), ("auto", 33)]:
        leader, follower = pty.openpty()
        words = ["--progress", mode, "--set", f"train.max_steps={steps}", "--set", "train.evaluate_every_epochs=1"]
        process = subprocess.Popen([MOTLEY, "train", "job.json", "--run-dir", "run", "--overwrite", *words], cwd=room.path,
                                   env={**room.env, "TERM": "xterm", "COLUMNS": "200"}, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower)
        os.close(follower)
        said = b""
        with contextlib.suppress(OSError):
            while block := os.read(leader, 65536):
                said += block
        os.close(leader)
        assert process.wait(timeout=LIMIT) == 0
        before, table = said.decode().replace("\r\n", "\n").split("\nrun directory  run\n")
        accuracy = re.search(r"\ntest accuracy  (\S+ %);", table)[1]
        assert "[####" not in table and "epoch" not in table, said
        last = re.split("[\r\n]", before)[-1]
        assert last.startswith("[####################] 100 %") and (accuracy in last or len(last) == 79), (last, table)
    # A long evaluation is counted; an emulated slow device makes it long.
    slow = job(max_steps=2)
    slow["mesh"]["devices"][0] = {"name": "slow", "kind": "emulated", "of": {"kind": "cpu"}, "slowdown": 1000}
    slow["data"]["samples"] = 12000
    room.write("slow.json", slow)
    for mode in ["auto", "plain"]:
        run = room.run("train", "slow.json", "--run-dir", "slow", "--overwrite", "--progress", mode)
        assert re.search(r"\] 100 %.*  evaluating \d+ of \d+ samples\n", run.err), run.err
        assert re.search(r"evaluating \d+ of \d+ samples\n", room.run("eval", "slow.json", "--weights", "slow", "--progress", mode).err)


def optimizers():
    """LAMB, decay of weights alone, averages: verify, train, resume; what is kept is what was evaluated."""
    room = Room()
    its = job(average=0.9, clip_norm=1.0, accumulate=2, epochs=2, evaluate_every_epochs=1, checkpoint={"every_steps": 4})
    del its["train"]["max_steps"]
    its["train"]["optimizer"] = {"kind": "lamb", "learning_rate": 0.02, "weight_decay": 0.1, "decay": "weights"}
    room.write("job.json", its)
    found = json.loads(room.run("verify", "job.json", "--batch", "6", "--format", "json").out)
    assert found["ok"] and max(found["f64"].values()) < 1e-12, found
    room.run("train", "job.json", "--run-dir", "run", "--dump", "dump")
    run = room.json("run/run.json")
    test = json.loads(room.run("eval", "job.json", "--weights", "run", "--format", "json").out)
    assert test == {"loss": run["test_loss"], "accuracy": run["test_accuracy"], "samples": 16}, (test, run)
    last = sorted((room.path / "run/checkpoints").iterdir(), key=lambda p: int(p.name.split("-")[1]))[-1]
    test = json.loads(room.run("eval", "job.json", "--weights", str(last), "--format", "json").out)
    assert test["loss"] == run["test_loss"], (test, run)
    name = "dense_3.weight"  # averages lag behind what was trained
    kept, trained = safetensors(room.path / "run/weights.safetensors")[name][2], npy((room.path / f"dump/weights_after/{name}.npy").read_bytes())[2]
    assert kept != trained
    whole = safetensors(room.path / "run/weights.safetensors")
    room.run("train", "job.json", "--run-dir", "first", "--set", "train.epochs=1")
    room.run("train", "job.json", "--resume", "first", "--set", "train.epochs=2")
    assert safetensors(room.path / "first/weights.safetensors") == whole
    plain = json.loads(json.dumps(its))
    del plain["train"]["average"]
    # Without averages it goes on from the parameters, as a run that never had them does.
    plain["train"]["epochs"] = 3
    room.run("train", room.write("plain.json", plain), "--run-dir", "never")
    room.run("train", "plain.json", "--resume", "first")
    assert safetensors(room.path / "first/weights.safetensors") == safetensors(room.path / "never/weights.safetensors")


def other_losses():
    """Each loss under cut classes and samples: verify, train, and what eval says of the run's weights."""
    room = Room()
    for n, loss in enumerate([{"op": "softmax_cross_entropy", "over": "classes", "label_smoothing": 0.1, "ignore_index": 2},
                              {"op": "mean_squared_error"}, {"op": "binary_cross_entropy", "labels": "truth"},
                              {"op": "mean_absolute_error"}, {"op": "huber", "delta": 0.3}]):
        its = job(accumulate=2)
        its["model"]["loss"] = loss
        its["layout"]["split"]["classes"] = {"axis": "all", "parts": [1, 3]}
        room.write("job.json", its)
        found = json.loads(room.run("verify", "job.json", "--batch", "6", "--format", "json", "--dump", f"dump{n}").out)
        assert found["ok"] and max(found["f64"].values()) < 1e-13, found
        room.run("train", "job.json", "--run-dir", f"run{n}")
        run, test = room.json(f"run{n}/run.json"), json.loads(room.run("eval", "job.json", "--weights", f"run{n}", "--format", "json").out)
        assert test == {"loss": run["test_loss"], "accuracy": run["test_accuracy"], "samples": 16}, (test, run)
        assert (test["accuracy"] is None) == (n > 0) and run["test_loss"] > 0, test
        steps = [json.loads(line)["loss"] for line in (room.path / f"run{n}/metrics.jsonl").read_text().splitlines()]
        assert sum(steps[-5:]) < 0.98 * sum(steps[:5]), steps
        has(room.run("eval", "job.json", "--weights", f"run{n}").out, "samples   16", *(["accuracy "] if n == 0 else []))
        label = npy((room.path / f"dump{n}/inputs/{loss.get('labels', 'label')}.npy").read_bytes())
        assert (label[0], label[1]) == (("<i8", [6]) if n == 0 else ("<f8", [6, 4])), label[:2]
    # Real labels from arrays, of any type of number; and labels that are ignored.
    values = [0.5 * (k % 3) for k in range(16 * 64)]
    write_npy(room.path / "x.npy", [16, 1, 8, 8], values)
    write_npy(room.path / "y.npy", [16, 4], [k % 2 for k in range(64)], "|u1")
    write_npy(room.path / "classes.npy", [16], [k % 4 if k % 3 else -100 for k in range(16)], "<i8")
    arrays = job(epochs=1)
    arrays["data"] = {"kind": "npy", "images": "x.npy", "labels": "y.npy", "test_images": "x.npy", "test_labels": "y.npy"}
    has(room.run("check", room.write("arrays.json", arrays), code=65).err, "/data/labels: ", "y.npy: an array [16, 4]; expected [samples], a label for each")
    arrays["model"]["loss"] = {"op": "binary_cross_entropy"}
    room.write("arrays.json", arrays)
    room.run("train", "arrays.json", "--run-dir", "arrays")
    assert room.json("arrays/run.json")["test_accuracy"] is None and room.json("arrays/run.json")["test_loss"] > 0
    arrays["data"].update(labels="classes.npy", test_labels="classes.npy")
    has(room.run("check", room.write("arrays.json", arrays), code=65).err, "classes.npy: an array [16]; expected [samples, 4]")
    arrays["model"]["loss"] = {"op": "softmax_cross_entropy", "over": "classes"}
    has(room.run("check", room.write("arrays.json", arrays), code=65).err, "classes.npy: sample 0 has the label -100; expected 0 to 3")
    arrays["model"]["loss"]["ignore_index"] = -100
    room.write("arrays.json", arrays)
    room.run("train", "arrays.json", "--run-dir", "ignored")
    right = room.json("ignored/run.json")["test_accuracy"] * 10  # ten labels count
    assert abs(right - round(right)) < 1e-9, right
    # A real label that is not finite is an error of its file, found before any rank computes.
    write_npy(room.path / "real.npy", [16, 4], [0.25] * 64)
    write_npy(room.path / "nan.npy", [16, 4], [0.25] * 50 + [float("nan")] + [0.25] * 13)
    arrays["model"]["loss"] = {"op": "mean_squared_error"}
    # A test loss that is not finite is an error; the weights are kept.
    write_npy(room.path / "huge.npy", [16, 4], [1e200] * 64, "<f8")
    arrays["data"].update(labels="real.npy", test_labels="huge.npy")
    room.write("arrays.json", arrays)
    has(room.run("train", "arrays.json", "--run-dir", "huge", code=70).err, "the test loss after step ", " is not finite: weights or test samples are too large")
    assert room.json("huge/run.json")["status"] == "failed" and (room.path / "huge/weights.safetensors").exists()
    for key in ["labels", "test_labels"]:
        arrays["data"].update(labels="real.npy", test_labels="real.npy")
        arrays["data"][key] = "nan.npy"
        room.write("arrays.json", arrays)
        for words in [("check", "arrays.json"), ("train", "arrays.json", "--run-dir", "nan"), ("eval", "arrays.json", "--weights", "arrays")]:
            has(room.run(*words, code=65).err, f"/data/{key}: ", "nan.npy: sample 12 has the label nan; expected finite numbers")
        assert not (room.path / "nan").exists()
    pictures = job()
    pictures["model"]["loss"] = {"op": "mean_squared_error"}
    pictures["data"] = {"kind": "mnist", "path": "."}
    has(room.run("check", room.write("pictures.json", pictures), code=78).err, "/model/loss/op: labels of mnist are classes; expected softmax_cross_entropy")


def other_launchers():
    """Processes that another launcher started, and that cannot find each other, would each train the complete job: refused, with nothing left."""
    room = Room()
    room.write("job.json", job())
    for name, variables in {"srun": {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}, "Open MPI's mpirun": {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1"},
                            "MVAPICH's mpirun_rsh": {"MV2_COMM_WORLD_SIZE": "2"}, "flux run": {"FLUX_JOB_SIZE": "2", "FLUX_TASK_RANK": "1"},
                            "jsrun": {"JSM_NAMESPACE_SIZE": "2", "JSM_NAMESPACE_RANK": "0"}, "the mpiexec of Cray PALS": {"PMI_SIZE": "2", "PALS_RANKID": "0"},
                            "torchrun": {"WORLD_SIZE": "2", "RANK": "0", "TORCHELASTIC_RUN_ID": "none"}}.items():
        before = ["env", *(f"{key}={value}" for key, value in variables.items())]
        for words in [("train", "job.json", "--run-dir", "run"), ("verify", "job.json")]:
            has(room.run(*words, before=before, code=78).err, f"{name} started 2 " + ("tasks without PMI" if name == "srun" else "processes that cannot find each other"),
                "the mesh has 2 devices; start motley alone",
                "srun --mpi=pmi2 -n 2" if name == "srun" else "MPICH's mpiexec -n 2")
        assert not (room.path / "run").exists()
    # One process alone starts its ranks itself, whatever started it; so does one with leftovers.
    for variables in ["OMPI_COMM_WORLD_SIZE=1", "SLURM_STEP_NUM_TASKS=2", "WORLD_SIZE=2", "PMI_SIZE=2"]:
        assert json.loads(room.run("verify", "job.json", "--steps", "1", "--format", "json", before=["env", variables]).out)["ok"], variables


def layers_called_as_gpt2s():
    """Square weights of layers that are called as GPT-2's are read as they were written; GPT-2's own are [in, out], which its biases show."""
    room = Room()
    its = job(ranks=1, parts=[6])
    its["model"] = {"inputs": {"image": {"batch": 8, "a": 2}},
                    "layers": [{"op": "dense", "name": "h.0.c_attn", "out": {"b": 2}}, {"op": "dense", "name": "h.0.c_proj", "out": {"classes": 2}}],
                    "loss": {"op": "softmax_cross_entropy", "over": "classes"}}
    its["layout"] = {"split": {}}
    room.write("job.json", its)
    room.run("train", "job.json", "--run-dir", "run")
    run = room.json("run/run.json")
    room.run("convert", "run", "run.npz")
    room.run("convert", "run.npz", "kept")
    for weights in ["run", "run.npz", "kept"]:
        test = json.loads(room.run("eval", "job.json", "--weights", weights, "--format", "json").out)
        assert test["loss"] == run["test_loss"], (weights, test, run)
    room.run("train", "job.json", "--resume", "kept", "--run-dir", "again", "--set", "train.max_steps=1", "--set", "train.optimizer.learning_rate=0")
    assert {name: its[2] for name, its in safetensors(room.path / "again/weights.safetensors").items()} == \
        {name: its[2] for name, its in safetensors(room.path / "run/weights.safetensors").items()}


def begins_with_weights():
    """train.initial: all but what is new must fit, before anything is measured; what is new is drawn; read before the first step only."""
    room = Room()
    its = job(checkpoint={"every_steps": 5})
    its["model"]["layers"].insert(1, {"op": "batch_norm", "name": "bn1"})
    its["layout"]["split"]["filters"] = "all"  # parts that need a profile
    other = json.loads(json.dumps(its))
    other["model"]["layers"][-1]["out"] = {"classes": 7}
    other["layout"]["split"]["filters"] = {"axis": "all", "parts": [4, 2]}
    room.run("train", room.write("seven.json", other), "--run-dir", "seven")
    seven = safetensors(room.path / "seven/weights.safetensors")
    write_safetensors(room.path / "seven.safetensors", {name: t for name, t in seven.items() if name != "conv2d_1.bias"} | {"more": seven["conv2d_1.bias"]})
    room.write("job.json", its)
    its["train"]["initial"] = {"weights": "seven.safetensors"}
    room.write("tune.json", its)
    wrong = ["/train/initial/weights: ", '"conv2d_1.bias" [6] is missing', '"more" [6] is not in the network',
             '"dense_4.weight": [7, 6, 4, 4], expected [4, 6, 4, 4]', '"dense_4.bias": [7], expected [4]']
    for words in [("check", "tune.json"), ("train", "tune.json", "--run-dir", "run"), ("train", "job.json", "--weights", "seven.safetensors", "--run-dir", "run")]:
        err = room.run(*words, code=65).err
        has(err, *wrong)
        has(err, 'to begin with the rest and draw what differs: "initial": { "weights": ..., "new": ["conv2d_1.bias", "dense_4.*", "more"] }')
        assert err.count("error: ") == 4 and "measuring" not in err and "rank" not in err, err
    for words in [("eval", "job.json", "--weights", "seven.safetensors"), ("train", "job.json", "--resume", "seven", "--run-dir", "seven"),
                  ("train", "job.json", "--resume", "seven/checkpoints/step-20", "--run-dir", "on")]:
        err = room.run(*words, code=65).err
        has(err, '"dense_4.weight": [7, 6, 4, 4], expected [4, 6, 4, 4]', *(wrong[1:3] if words[0] == "eval" else []))
        assert "measuring" not in err and "[rank" not in err and not (room.path / "on").exists(), err
    room.run("convert", "seven.safetensors", "kept")
    has(room.run("train", "job.json", "--resume", "kept", "--run-dir", "on", code=65).err, *wrong[1:4])
    has(room.run("check", "tune.json", "--set", "train.initial.weights=none.safetensors", code=66).err, "/train/initial/weights: ", "none.safetensors: cannot be opened")
    # What is new.
    good = ["--set", 'train.initial={"weights": "seven", "new": ["dense_4"]}', "--set", 'layout.split.filters={"axis": "all", "parts": [5, 1]}']
    for new, said in [("dense_5.*", '"dense_5.*" matches no parameter; did you mean "dense_4.*"?'), ("fc", '"fc" matches no parameter; one of the names is ')]:
        has(room.run("check", "job.json", "--set", f'train.initial={{"weights": "seven", "new": ["dense_4", "{new}"]}}', code=78).err, "/train/initial/new: ", said)
    has(room.run("check", "job.json", "--set", 'train.initial={"weights": "seven", "new": [""]}', code=78).err, "/train/initial/new/0: expected a name of parameters")
    room.run("check", "job.json", "--set", 'train.initial={"weights": "seven.safetensors", "new": ["conv2d_1.bias", "dense_4.*", "more"]}')
    room.run("train", "job.json", *good, "--run-dir", "tuned", "--dump", "dump")
    room.run("train", "job.json", *good[2:], "--run-dir", "drawn", "--dump", "drawn dump")
    for name in seven:
        begin, drawn = [(room.path / folder / f"weights_before/{name}.npy").read_bytes() for folder in ["dump", "drawn dump"]]
        assert (begin == drawn) == name.startswith("dense_4"), name
        if not name.startswith("dense_4"):
            assert npy(begin)[2] == seven[name][2], name
    # As many classes: all of it, by --weights too; the run and a checkpoint serve as a file does.
    four = safetensors(room.path / "tuned/weights.safetensors")
    for number, weights in enumerate(["tuned", "tuned/weights.safetensors", "tuned/checkpoints/step-20"]):
        room.run("train", "job.json", *good[2:], "--weights", weights, "--run-dir", f"again{number}", "--dump", f"dump{number}", "--set", "train.max_steps=6")
        for name, tensor in four.items():
            assert npy((room.path / f"dump{number}/weights_before/{name}.npy").read_bytes())[2] == tensor[2], name
    # It is read before the first step only: a run goes on without it.
    shutil.rmtree(room.path / "tuned")
    shutil.rmtree(room.path / "seven")
    room.run("train", "--resume", "again0", "--set", "train.max_steps=8")
    room.run("train", "job.json", *good[2:], "--weights", "gone", "--resume", "auto", "--run-dir", "again0", "--set", "train.max_steps=9")
    assert room.json("again0/run.json")["steps"] == 9
    has(room.run("train", "job.json", "--weights", "again0", "--resume", "again0", code=64).err, "--weights begins a run, --resume again0 continues one")
    has(room.run("train", "job.json", "--weights", "gone", "--run-dir", "new", code=66).err, "gone")


def tables_of_positions():
    """A table of another length is refused with the dim's name, and loads where the model has its length; of a longer one the first rows count."""
    room = Room()
    its = job(ranks=1, parts=[6], max_steps=2)
    zoo = {"zoo": "gpt", "layers": 1, "heads": 2, "width": 0.0208, "classes": 16, "inputs": {"tokens": {"dtype": "i32", "batch": 8, "positions": 4}}}
    its["model"] = {**zoo, "context": 12}
    its["layout"] = {"split": {}}
    room.write("job.json", its)
    room.run("train", "job.json", "--run-dir", "run")
    its["model"] = zoo
    room.write("published.json", its)
    err = room.run("check", "published.json", "--set", "train.initial.weights=run", code=65).err
    has(err, '"wpe.weight": [12, 16], expected [1024, 16] (dim "context"); to begin with the rest and draw what differs: "initial": { "weights": ..., "new": ["wpe.*"] }')
    room.run("check", "published.json", "--set", 'train.initial={"weights": "run", "new": ["wpe.*"]}')
    has(room.run("eval", "published.json", "--weights", "run", code=65).err, '"wpe.weight": [12, 16], expected [1024, 16] (dim "context")')
    # The rows after the input's positions decide nothing.
    run = safetensors(room.path / "run/weights.safetensors")
    kind, shape, values = run["wpe.weight"]
    write_safetensors(room.path / "short.safetensors", {**run, "wpe.weight": (kind, [4, 16], values[:4 * 16 * 4])})
    losses = [json.loads(room.run("eval", "published.json", "--set", f"model.context={rows}", "--weights", weights, "--format", "json").out)["loss"]
              for rows, weights in [(12, "run"), (4, "short.safetensors")]]
    assert losses[0] == losses[1], losses


def freezes():
    """What is frozen stays as it is, has no optimizer state, and may be another set when a run goes on."""
    room = Room()
    its = job(checkpoint={"every_steps": 10}, freeze=["conv2d_1"], clip_norm=1.0)
    its["train"]["optimizer"]["weight_decay"] = 0.1
    room.write("job.json", its)
    room.run("train", "job.json", "--run-dir", "run", "--dump", "dump")
    pairs = {name: [(room.path / f"dump/weights_{when}/{name}.npy").read_bytes() for when in ["before", "after"]]
             for name in ["conv2d_1.weight", "conv2d_1.bias", "dense_3.weight", "dense_3.bias"]}
    assert {name: a == b for name, (a, b) in pairs.items()} == {name: name.startswith("conv") for name in pairs}
    kept = [(t["name"], t["slot"]) for t in room.json("run/checkpoints/step-20/manifest.json")["tensors"]]
    assert sorted(kept) == sorted([(name, "") for name in pairs] + [("dense_3.bias", "velocity"), ("dense_3.weight", "velocity")]), kept
    assert json.loads(room.run("verify", "job.json", "--format", "json").out)["ok"]
    # What other ranks read of it is sent once.
    by_batch = ["--set", 'layout={"split": {"batch": {"axis": "all", "parts": [5, 3]}}}']
    bytes_of = {}
    for frozen in ["[]", '["conv2d_1"]']:
        room.run("train", "job.json", *by_batch, "--run-dir", "bytes", "--overwrite", "--set", f"train.freeze={frozen}")
        bytes_of[frozen] = (room.json("bytes/run.json")["bytes_predicted"], room.json("bytes/run.json")["bytes_counted"])
    (all_of_it, same), (less, also) = bytes_of.values()
    assert all_of_it == same > less == also > 0, bytes_of
    has(room.run("plan", "job.json", *by_batch).out, "note: frozen parameters are sent in the first step and kept, up to ")
    passes = room.run("explain", "job.json", "--full").out
    assert not re.search(r"conv2d_1\S* backward", passes) and re.search(r"dense_\d\S* backward", passes), passes
    # Another set.
    more = ["--set", "train.max_steps=24"]
    err = room.run("train", "job.json", "--resume", "run", *more, "--set", 'train.freeze=["dense_3.bias"]').err
    has(err, "note: the checkpoint was saved with conv2d_1.weight, conv2d_1.bias frozen: the optimizer's state of what is trained now begins at 0",
        "note: the checkpoint's optimizer state of dense_3.bias is left out: this job has them frozen")
    assert "frozen" not in room.run("train", "job.json", "--resume", "run", "--set", "train.max_steps=26", "--set", 'train.freeze=["dense_3.bias"]').err
    # A schedule that ends later has another rate at the step where it goes on: said once.
    cosine = ["--set", 'train.schedule={"kind": "cosine"}']
    room.run("train", "job.json", "--run-dir", "cosine", *cosine)
    has(room.run("train", "job.json", "--resume", "cosine", *cosine, "--set", "train.max_steps=40").err,
        "note: step 20 had the learning rate 0, in this job it has 0.026 (the schedule ends at step 40)")
    assert "learning rate" not in room.run("train", "job.json", "--resume", "cosine", *cosine, "--set", "train.max_steps=40", "--progress", "never").err
    # Groups: a factor of 0 moves nothing.
    still = ["--set", "train.freeze=[]", "--set", 'train.groups=[{"match": "conv2d_1", "learning_rate_factor": 0}, {"match": "*.bias", "weight_decay": 0}]']
    room.run("train", "job.json", "--run-dir", "still", "--dump", "still dump", *still)
    for name in pairs:
        a, b = [(room.path / f"still dump/weights_{when}/{name}.npy").read_bytes() for when in ["before", "after"]]
        assert (a == b) == name.startswith("conv"), name
    assert json.loads(room.run("verify", "job.json", "--format", "json", *still).out)["ok"]
    # The plan does not depend on groups.
    assert room.run("plan", "job.json", "--format", "json", *still).out == room.run("plan", "job.json", "--format", "json", "--set", "train.freeze=[]").out
    room.write("bad.json", job(freeze=["conv2d_2", "dense_3"], groups=[{"match": "*.wieght"}, {"match": "dense_3", "learning_rate_factor": -1, "decay": 0}, {}]))
    has(room.run("check", "bad.json", code=78).err, "/train/freeze/0: \"conv2d_2\" matches no parameter; did you mean \"conv2d_1\"?",
        "/train/groups/0/match: \"*.wieght\" matches no parameter; did you mean \"*.weight\"?", "/train/groups/1/learning_rate_factor: expected a number of at least 0, found -1",
        "/train/groups/1/decay: unknown key", "/train/groups/2: \"match\" is missing")
    has(room.run("check", room.write("all.json", job(freeze=["*"])), code=78).err, "/train/freeze: all parameters are frozen: there is nothing to train")


TESTS = [usage, doctor, one_core_of_two_units, gpu_not_here, checks, foreign_words, axes_auto, axes_auto_goes_on, plan_and_run_files, large_files, schemas, plans, modelled, explains, notes, given_plans, measured_plans, real_steps, little_memory, verifies, trains, continues_from_weights, begins_with_weights, tables_of_positions, freezes, keeps_weights, layers_called_as_gpt2s, own_data, wide_tokens, several_inputs, stores_in_bf16, sums_with_parameters, names_of_layers, closed_pipe, full_pipes, refuses_weights, resumes, stopped_runs, traces, reports, writes_events, refusals, other_launchers, stops, paths_through_links, links_in_run_directories, directories_of_others, files_of_another_user, keeps_other_files, pipes, run_directory_removed, deaths, deaths_under_mpiexec, launcher_killed, restarts, stops_while_a_rank_hangs, leaves_out_lost_devices, evaluates_by_epoch, decided_by_evaluations, optimizers, other_losses, verifies_inference, progress]


def main(tests):
    wanted, failed = sys.argv[2:], []
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        begun = time.monotonic()
        try:
            test()
            verdict = "ok"
        except Exception:
            traceback.print_exc()
            failed.append(test.__name__)
            verdict = "FAILED"
        print(f"{verdict:7}{test.__name__:16}{time.monotonic() - begun:6.1f} s", flush=True)
    for path in Room.all:
        shutil.rmtree(path)
    print("failed: " + ", ".join(failed) if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(TESTS))
