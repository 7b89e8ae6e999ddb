# SPDX-License-Identifier: Apache-2.0
"""Pictures in, names out: the program on folders of unlike pictures, from outside. pictures_test.py MOTLEY [NAME...]"""
import csv
import json
import struct
import sys

from cli_test import Room, has, job, main, npy, png, write_npy

CLASSES = ["anchor", "cup", "dog"]
SIZES = [(9, 14), (20, 11), (8, 8), (31, 17), (12, 40), (16, 16)]


def picture(path, cls, n, channels=3):
    """A pattern that tells the class, in a size of its own."""
    rows, cols = SIZES[n % len(SIZES)]
    value = lambda r, c, k: (200 if [r * 2 < rows, c * 2 < cols, (r * 2 < rows) == (c * 2 < cols)][cls] else 40) + (7 * n + 3 * r + 5 * c + 11 * k) % 30
    png(path, rows, cols, [min(255, value(r, c, k)) for r in range(rows) for c in range(cols) for k in range(channels)], channels)


def folder(room, name="pictures", train=8, test=3, part="test"):
    for label, cls in enumerate(CLASSES):
        for i in range(train):
            picture(room.path / name / "train" / cls / f"{i:02}.png", label, i * 3 + label, [1, 3, 4][i % 3])
        for i in range(test):
            picture(room.path / name / part / cls / f"{i:02}.png", label, 50 + i * 3 + label)
    return name


def broken(path):
    """Damages the pixels of a PNG, not its headers."""
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 1
    path.write_bytes(raw)


def job_on(data, ranks=2, layout=None, **train):
    out = job(ranks=ranks, **{"batch": 6, "max_steps": None, "epochs": 2, **train})
    out["train"] = {k: v for k, v in out["train"].items() if v is not None}
    out["model"]["inputs"]["image"] = {"batch": 6, "channels": 3, "rows": 8, "cols": 8}
    out["model"]["layers"][-1]["out"] = {"classes": 3}
    out["layout"] = {"split": layout or {"batch": {"axis": "all", "parts": "even"}}}
    out["data"] = {"kind": "folder", "path": "pictures", "resize": 8, **data}
    return out


def losses(room, run):
    return [json.loads(line)["loss"] for line in (room.path / run / "metrics.jsonl").read_text().splitlines()]


def near(a, b, most=1e-5):
    return len(a) == len(b) and all(abs(x - y) <= most for x, y in zip(a, b))


def unlike_pictures():
    """Pictures of any size are scaled; every layout sees the same samples, random crops too."""
    room = Room()
    folder(room)
    (room.path / "pictures/train/cup/x.webp").write_bytes(b"RIFF\0\0\0\0WEBP")
    (room.path / "pictures/train/cup/._00.png").write_bytes(b"")
    out = room.run("check", room.write("job.json", job_on({}))).out
    has(out, "job.json: job, nothing wrong", "data: 33 pictures in 3 classes; 1 file of another kind ignored (train/cup/x.webp); 1 hidden file ignored (train/cup/._00.png)",
        "data: 6 pictures with alpha, which is dropped", "data: trains on 24 samples; evaluates the 9 of test")
    assert [line.split() for line in out.splitlines() if line.strip().startswith(("class", *CLASSES))] == [["class", "train", "test"]] + [[c, "8", "3"] for c in CLASSES], out
    err = room.run("train", "job.json", "--run-dir", "plain").err
    has(err, "data: 33 pictures in 3 classes")
    crops = {"augment": {"flip": True, "random_crop": {"scale": [0.3, 1], "ratio": [0.8, 1.25]}}, "normalize": {"mean": [0.4], "std": [0.3]}}
    for shape in [{}, {"resize": [8, 8]}, {"resize": {"shorter": 9, "crop": 8}}, {"resize": {"shorter": 8, "crop": [8, 8]}, **crops}, crops]:
        room.write("job.json", job_on(shape))
        room.run("train", "job.json", "--run-dir", "batch", "--overwrite")
        room.write("rows.json", job_on(shape, ranks=3, layout={"rows": {"axis": "all", "parts": [4, 3, 1]}}))
        room.run("train", "rows.json", "--run-dir", "rows", "--overwrite")
        assert len(losses(room, "batch")) == 8 and near(losses(room, "batch"), losses(room, "rows")), (shape, losses(room, "batch"), losses(room, "rows"))
        if shape in ({}, {"resize": [8, 8]}):
            assert losses(room, "batch") == losses(room, "plain")
        else:
            assert losses(room, "batch") != losses(room, "plain"), shape
    room.write("one.json", job_on(crops, ranks=1))
    room.run("train", "one.json", "--run-dir", "one")
    assert near(losses(room, "one"), losses(room, "batch"))
    room.run("verify", "job.json", "--steps", "1")

    def refused(data, code, *parts):
        has(room.run("check", room.write("bad.json", job_on(data)), code=code).err, *parts)
    wrong = job_on({})
    del wrong["data"]["resize"]
    err = room.run("check", room.write("bad.json", wrong), code=65).err
    has(err, "/data/path", "00.png: an image of 9 x 14 (rows, columns); expected 8 x 8; \"resize\": [8, 8] would scale all pictures", "and 17 more")
    assert err.count('"path": "pictures"') == 1, err  # the place in the job is shown once
    refused({"resize": 9}, 78, "/data/resize", "pictures become 9 x 9, the model's input has 8 x 8")
    refused({"resize": {"shorter": 7, "crop": 8}}, 78, "/data/resize/shorter", "the crop of 8 x 8 does not fit", "expected at least 8")
    refused({"resize": {"shorter": 9}}, 78, "/data/resize", '"crop" is missing')
    refused({"resize": [8, 8, 8]}, 78, "/data/resize", "expected [rows, columns], found 3 numbers")
    refused({"resize": 0}, 78, "/data/resize", "from 1 to")
    refused({"resize": "8"}, 78, "/data/resize", '"shorter": 256')
    refused({"damaged": "ignore"}, 78, "/data/damaged", "error")
    refused({"validation": 1}, 78, "/data/validation", "below 1")
    refused({"validation": 0.001}, 78, "/data/validation", "takes none of the 24 samples")
    refused({"augment": {"random_crop": {"scale": [0.5, 0.2]}}}, 78, "/data/augment/random_crop/scale", "the smaller one first")
    refused({"augment": {"random_crop": True}}, 78, "/data/augment/random_crop", '"ratio": [0.75, 1.33] }, or {} for these, found true')
    refused({"augment": {"random_crop": {"scale": [0, 1]}}}, 78, "/data/augment/random_crop/scale/0", "above 0")
    other = job()
    other["data"] = {"kind": "synthetic", "resize": 8, "augment": {"random_crop": {}}}
    err = room.run("check", room.write("bad.json", other), code=78).err
    has(err, "/data/resize", '"resize" is a key of folder data')
    del other["data"]["resize"]
    has(room.run("check", room.write("bad.json", other), code=78).err, "/data/augment/random_crop", "synthetic data does not have")


def other_folders():
    """What is evaluated is said: a folder val or Test in the place of test, or none."""
    room = Room()
    for part, name in [("val", "v"), ("Test", "t")]:
        folder(room, name, part=part)
        (room.path / name / part / "dog").rename(room.path / name / "kept")
        (room.path / name / part / "dog").mkdir()  # an empty class
        room.write(f"{name}.json", job_on({"path": name}))
        has(room.run("check", f"{name}.json").out, "1 class is empty", f"evaluates the 6 of {part}")
        room.run("train", f"{name}.json", "--run-dir", name + " run", "--set", "train.max_steps=2")
        assert room.json(f"{name} run/run.json")["test_accuracy"] is not None
        assert json.loads(room.run("eval", f"{name}.json", "--weights", name + " run", "--format", "json").out)["samples"] == 6
    folder(room, "v", train=0)  # both val and test
    has(room.run("check", "v.json").out, "1 folder beside it is not used (val)", "evaluates the 9 of test")
    folder(room, "n", test=0)
    room.write("n.json", job_on({"path": "n"}))
    has(room.run("check", "n.json").out, "evaluates nothing: there is no folder test or val beside train")
    has(room.run("train", "n.json", "--run-dir", "n run", "--set", "train.max_steps=2").err, "evaluates nothing")


def damaged_pictures():
    """Damaged files end a run, or are left out before its first step by all ranks alike."""
    room = Room()
    folder(room)
    cut = ["train/anchor/01.png", "train/dog/04.png", "train/dog/05.png", "test/cup/02.png"]
    good = {name: (room.path / "pictures" / name).read_bytes() for name in cut}
    for name in cut:
        broken(room.path / "pictures" / name)
    (room.path / "pictures/train/cup/zz.jpg").write_bytes(b"no picture")
    room.write("job.json", job_on({}))
    err = room.run("check", "job.json", "--decode", code=65).err
    has(err, *[f"{name}: a damaged PNG file" for name in cut], "zz.jpg: neither a PNG nor a JPEG file")
    assert err.count('"damaged": "skip" would leave such pictures out') == 1, err
    for name in cut[1:] + ["many"]:  # more than ten of them are all named
        for i in range(4):
            picture(room.path / f"pictures/train/anchor/{i}{name.replace('/', '')}.png", 0, i)
            broken(room.path / f"pictures/train/anchor/{i}{name.replace('/', '')}.png")
    err = room.run("check", "job.json", "--decode", code=65).err
    assert err.count("a damaged PNG file") == 20 and "more" not in err, err
    for file in (room.path / "pictures/train/anchor").glob("?*png.png"):
        file.unlink()
    for file in (room.path / "pictures/train/anchor").glob("?many.png"):
        file.unlink()
    room.run("train", "job.json", "--run-dir", "error", code=65)
    (room.path / "pictures/train/cup/zz.jpg").unlink()  # the others show only when they are decoded
    has(room.run("train", "job.json", "--run-dir", "error", code=65).err, 'a damaged PNG file (', '"damaged": "skip" would leave such pictures out')
    (room.path / "pictures/train/cup/zz.jpg").write_bytes(b"no picture")
    room.write("skip.json", job_on({"damaged": "skip"}))
    has(room.run("check", "skip.json").out, "1 of 34 pictures is damaged and skipped (train/cup/zz.jpg), by their headers", "trains on 24 samples")
    out = room.run("check", "skip.json", "--decode").out
    has(out, "5 of 34 pictures are damaged and skipped (train/anchor/01.png, ", "trains on 21 samples; evaluates the 8 of test")
    has(room.run("check", "skip.json", "--decode", "--set", "train.batch=22", code=78).err, "a batch of 22 is more than the 21 samples")
    # The same samples on 1, 2 and 3 ranks, and as if the damaged files were not there.
    for ranks in [1, 2, 3]:
        room.write(f"{ranks}.json", job_on({"damaged": "skip"}, ranks=ranks))
        err = room.run("train", f"{ranks}.json", "--run-dir", f"run {ranks}", "--set", "train.max_steps=6").err
        has(err, "note: 5 of 34 pictures are damaged and skipped (test/cup/02.png, train/anchor/01.png, train/cup/zz.jpg, ...); damaged.json says why")
        kept = room.json(f"run {ranks}/damaged.json")
        assert [one["file"] for one in kept["damaged"]] == sorted(cut + ["train/cup/zz.jpg"]), kept
        assert kept == room.json("run 1/damaged.json")
        assert near(losses(room, f"run {ranks}"), losses(room, "run 1"))
    # An evaluation leaves out what the run has left out.
    result = json.loads(room.run("eval", "2.json", "--weights", "run 2", "--format", "json").out)
    assert result["samples"] == 8 and result["loss"] == room.json("run 2/run.json")["test_loss"]
    assert json.loads(room.run("eval", "2.json", "--weights", "run 2/weights.safetensors", "--format", "json").out) == result
    # A run that is continued counts the same samples, also where a damaged file has been mended meanwhile.
    more = ["--set", 'train.checkpoint={"every_steps":2}']
    room.run("train", "2.json", "--run-dir", "whole", "--set", "train.max_steps=9", *more)
    room.run("train", "2.json", "--run-dir", "half", "--set", "train.max_steps=4", *more)
    (room.path / "pictures" / cut[0]).write_bytes(good[cut[0]])
    err = room.run("train", "2.json", "--resume", "half", "--set", "train.max_steps=9", *more).err
    assert losses(room, "half") == losses(room, "whole") and "decoding" not in err, err
    err = room.run("train", "2.json", "--resume", "whole/checkpoints/step-8", "--run-dir", "branch", "--set", "train.max_steps=9").err
    assert "decoding" not in err and room.json("branch/damaged.json") == room.json("half/damaged.json")
    # A file that breaks later ends the run.
    later = room.path / "pictures/train/cup/03.png"
    whole = later.read_bytes()
    broken(later)
    err = room.run("train", "2.json", "--resume", "half", "--set", "train.max_steps=18", code=65).err
    assert "03.png: a damaged PNG file" in err and "would leave" not in err, err
    later.write_bytes(whole)
    # Other pictures: decoded again, which is said.
    picture(room.path / "pictures/train/cup/20.png", 1, 3)
    err = room.run("train", "2.json", "--resume", "half", "--set", "train.max_steps=20").err
    has(err, "note: the pictures are not those with which this run began", "4 of 35 pictures are damaged", "of 21 samples, this job has batches of 6 of 23")
    for name in (room.path / "pictures/train/anchor").iterdir():
        name.write_bytes(b"x")
    has(room.run("train", "2.json", "--run-dir", "few", "--set", "train.batch=20", code=78).err, "a batch of 20")


def validation_part():
    """A share of each class is evaluated during training; `eval` has the test part."""
    room = Room()
    folder(room, train=10)
    room.write("job.json", job_on({"validation": 0.2}, evaluate_every_epochs=1))
    out = room.run("check", "job.json").out
    has(out, "data: trains on 24 samples; evaluates the 6 of the validation part during training, `motley eval` evaluates the 9 of test")
    assert ["cup", "8", "2", "3"] in [line.split() for line in out.splitlines()]
    # Evaluated: what an array with these pictures as its test part gives.
    figures = []
    for ranks, layout in [(1, None), (2, None), (3, {"rows": {"axis": "all", "parts": [4, 3, 1]}})]:
        room.write(f"{ranks}.json", job_on({"validation": 0.2}, ranks=ranks, layout=layout, evaluate_every_epochs=1))
        room.run("train", f"{ranks}.json", "--run-dir", f"run {ranks}")
        run = room.json(f"run {ranks}/run.json")
        figures.append([run["test_loss"], run["test_accuracy"] * 6])
        assert near(losses(room, f"run {ranks}"), losses(room, "run 1"))
        assert near(figures[-1], figures[0], 1e-5) and abs(figures[0][1] - round(figures[0][1])) < 1e-9, figures
    test = json.loads(room.run("eval", "2.json", "--weights", "run 2", "--format", "json").out)
    assert test["samples"] == 9 and test["loss"] != figures[1][0]
    # Without a test part `eval` has the validation part: the run's own figures.
    (room.path / "pictures/test").rename(room.path / "elsewhere")
    test = json.loads(room.run("eval", "2.json", "--weights", "run 2", "--format", "json").out)
    assert test["samples"] == 6 and test["loss"] == figures[1][0], (test, figures)
    # A run that is continued has the same part; another seed has another one, which is said.
    more = ["--set", 'train.checkpoint={"every_steps":1}']
    room.run("train", "2.json", "--run-dir", "half", "--set", "train.max_steps=5", *more)
    room.run("train", "2.json", "--resume", "half", "--set", "train.max_steps=8", *more)
    assert room.json("half/run.json")["test_loss"] == figures[1][0]
    has(room.run("train", "2.json", "--resume", "half", "--set", "train.max_steps=9", "--set", "train.seed=2").err, "a validation part are not those of its run")
    # Any kind of data.
    other = job(evaluate_every_epochs=1, max_steps=None, epochs=1)
    del other["train"]["max_steps"]
    other["data"] = {"kind": "synthetic", "samples": 80, "validation": 0.25}
    has(room.run("check", room.write("other.json", other)).out, "evaluates the ", "of the validation part during training")
    room.run("train", "other.json", "--run-dir", "other")
    assert room.json("other/run.json")["test_accuracy"] is not None
    has(room.run("check", "other.json", "--set", "train.batch=70", code=78).err, "a batch of 70 is more than the ")


def named_classes(room):
    """Trains, and returns the classes' names in the run's files."""
    room.write("job.json", job_on({}, epochs=12, checkpoint={"every_epochs": 6}))
    room.run("train", "job.json", "--run-dir", "run")
    raw = (room.path / "run/weights.safetensors").read_bytes()
    metadata = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    checkpoint = next((room.path / "run/checkpoints").iterdir())
    return [room.json("run/run.json")["classes"], json.loads(metadata["classes"]), json.loads((checkpoint / "manifest.json").read_text())["classes"]], checkpoint


def predicts_pictures():
    """A picture, a folder of them or an array in; logits, a table or JSON with the classes' names out."""
    room = Room()
    folder(room)
    names, checkpoint = named_classes(room)
    assert names == [CLASSES] * 3, names
    room.run("predict", "job.json", "--weights", "run", "--input", "pictures/test", "--top", "2", "-o", "all.csv")
    rows = list(csv.DictReader((room.path / "all.csv").open(newline="")))
    assert [r["sample"] for r in rows] == [f"{c}/{i:02}.png" for c in CLASSES for i in range(3)] and list(rows[0]) == ["sample", "class", "probability", "class_2", "probability_2"]
    right = sum(r["sample"].split("/")[0] == r["class"] for r in rows)
    test = json.loads(room.run("eval", "job.json", "--weights", "run", "--format", "json").out)
    assert right == round(9 * test["accuracy"]) and right >= 6, (rows, test)
    room.run("predict", "job.json", "--weights", "run", "--input", "pictures/test", "--top", "3", "-o", "all.json")
    whole = room.json("all.json")
    assert whole["classes"] == CLASSES and [s["sample"] for s in whole["samples"]] == [r["sample"] for r in rows]
    for sample, row in zip(whole["samples"], rows):
        assert sample["top"][0]["class"] == row["class"] == CLASSES[sample["top"][0]["number"]] and len(sample["top"]) == 3
        assert abs(sum(t["probability"] for t in sample["top"]) - 1) < 1e-6 and abs(sample["top"][0]["probability"] - float(row["probability"])) < 1e-5
        assert max(range(3), key=lambda k: sample["logits"][k]) == sample["top"][0]["number"]
    room.run("predict", "job.json", "--weights", "run", "--input", "pictures/test", "-o", "all.npy")
    descr, shape, raw = npy((room.path / "all.npy").read_bytes())
    logits = struct.unpack("<27f", raw)
    assert (descr, shape) == ("<f4", [9, 3]) and all(abs(a - b) < 1e-6 * max(1, abs(b)) for a, b in zip([v for s in whole["samples"] for v in s["logits"]], logits))
    out = room.run("predict", "job.json", "--weights", checkpoint, "--input", "pictures/test/dog/01.png", "--top", "1").out
    has(out, "pictures/test/dog/01.png: ", " %\n")
    assert out.split()[1] in CLASSES and out.count("\n") == 1
    # Names go with the weights, wherever the pictures are.
    (room.path / "pictures/train").rename(room.path / "gone")
    room.run("convert", "run", "copy.safetensors")
    room.run("convert", "copy.safetensors", "copy")
    lines = room.run("predict", "job.json", "--weights", "run", "--input", "pictures/test", "--top", "1").out
    assert lines == room.run("predict", "job.json", "--weights", "copy", "--input", "pictures/test", "--top", "1").out and lines.count("\n") == 9
    room.run("convert", "copy", "copy.npz")  # which has no place for names
    has(room.run("predict", "job.json", "--weights", "copy.npz", "--input", "pictures/test/dog/01.png", "--top", "3").out, ": ", "0 ", "1 ", "2 ")
    (room.path / "gone").rename(room.path / "pictures/train")
    # An array of the same pixels, and what is wrong.
    pixels = [200] * 192
    png(room.path / "one.png", 8, 8, [200] * 192, 3)
    write_npy(room.path / "one.npy", (1, 3, 8, 8), pixels, "|u1")
    for name in ["one.png", "one.npy"]:
        room.run("predict", "job.json", "--weights", "run", "--input", name, "-o", name + ".out.npy")
    assert (room.path / "one.png.out.npy").read_bytes() == (room.path / "one.npy.out.npy").read_bytes()
    out = room.run("predict", "job.json", "--weights", "run", "--input", "one.npy", "--top", "1").out
    assert out.startswith("0: ")
    bad = lambda code, *words: room.run("predict", "job.json", "--weights", "run", *words, code=code).err
    has(bad(64, "--input", "one.npy"), "expected -o FILE", "--top N")
    has(bad(64, "--input", "one.npy", "-o", "x.txt"), "expected a name that ends in .npy, .csv or .json")
    has(bad(64, "--input", "one.npy", "--top", "0"), "from 1 to")
    has(bad(66, "--input", "none.png", "--top", "1"), "none.png")
    (room.path / "empty").mkdir()
    has(bad(66, "--input", "empty", "--top", "1"), "no .png, .jpg or .jpeg file in it")
    (room.path / "page.png").write_text("<!DOCTYPE html><title>Not found</title>")
    has(bad(65, "--input", "page.png", "--top", "1"), "expected a .npy file, a PNG or JPEG picture, or a folder of these pictures; it is an HTML page")
    (room.path / "pictures/test/dog/01.png").write_bytes((room.path / "pictures/test/dog/01.png").read_bytes()[:30])
    has(bad(65, "--input", "pictures/test", "--top", "1"), "01.png: a damaged PNG file")
    room.write("job.json", job_on({"damaged": "skip"}))
    out = room.run("predict", "job.json", "--weights", "run", "--input", "pictures/test", "--top", "1")
    assert out.out.count("\n") == 8 and "dog/01.png" not in out.out
    has(out.err, "1 of 9 pictures is damaged and skipped (dog/01.png)")
    # Classes of another folder than the weights': said.
    (room.path / "pictures/train/anchor").rename(room.path / "pictures/train/zebra")
    (room.path / "pictures/test/anchor").rename(room.path / "pictures/test/zebra")
    has(room.run("eval", "job.json", "--weights", "run").err, 'note: the weights were trained with other classes: number 0 is "anchor" there and "cup" in the data')


def predicts_tokens():
    """Files of tokens and arrays of them; other kinds of files are not taken for tokens."""
    room = Room()
    text = job(max_steps=2)
    text["layout"] = {"split": {"hidden": {"axis": "all", "parts": [1, 3]}}}
    text["model"] = {"inputs": {"image": {"batch": 8, "positions": 4, "dtype": "i32"}},
                     "layers": [{"op": "embedding", "rows": {"vocabulary": 30000}, "out": {"hidden": 4}}, {"op": "dense", "in": ["hidden"], "out": {"classes": 30000}}],
                     "loss": {"op": "softmax_cross_entropy", "over": "classes"}}
    (room.path / "t.bin").write_bytes(struct.pack("<400H", *[71 * k % 29000 for k in range(400)]))
    write_npy(room.path / "t.npy", (200,), [k % 50 for k in range(200)], "<i8")
    (room.path / "t.txt").write_text("Two hundred characters of plain text would be a hundred tokens of sixteen bits.\n" * 20)
    text["data"] = {"kind": "tokens", "path": "t.bin"}
    room.run("train", room.write("text.json", text), "--run-dir", "run")
    room.run("predict", "text.json", "--weights", "run", "--input", "t.bin", "-o", "bin.npy")
    write_npy(room.path / "ids.npy", (100, 4), [71 * k % 29000 for k in range(400)], "<i4")
    room.run("predict", "text.json", "--weights", "run", "--input", "ids.npy", "-o", "ids.out.npy")
    assert npy((room.path / "bin.npy").read_bytes())[1] == [100, 4, 30000]
    assert (room.path / "bin.npy").read_bytes() == (room.path / "ids.out.npy").read_bytes()
    room.run("predict", "text.json", "--weights", "run", "--input", "t.bin", "--top", "2", "-o", "bin.csv")
    rows = list(csv.DictReader((room.path / "bin.csv").open(newline="")))
    assert len(rows) == 400 and list(rows[5]) == ["sample", "positions", "class", "probability", "class_2", "probability_2"] and (rows[5]["sample"], rows[5]["positions"]) == ("1", "1")
    for name, kind in [("t.npy", "a .npy file"), ("t.txt", "a text")]:
        for key in ["path", "test_path"]:
            data = {"kind": "tokens", "path": "t.bin", key: name}
            for verb in ["check", "train"]:
                has(room.run(verb, room.write("bad.json", {**text, "data": data}), code=65).err, f"/data/{key}: ", f"{name}: expected the numbers of tokens alone, 16 bits each", f"it is {kind}")
    has(room.run("predict", "text.json", "--weights", "run", "--input", "t.txt", "-o", "x.npy", code=65).err, "it is a text")


def figures_per_class():
    """eval --per-class against counts of predictions; masks by intersection over union."""
    room = Room()
    folder(room)
    named_classes(room)
    plain = json.loads(room.run("eval", "job.json", "--weights", "run", "--format", "json").out)
    found = json.loads(room.run("eval", "job.json", "--weights", "run", "--per-class", "--format", "json").out)
    assert {k: found[k] for k in plain} == plain and "confusion" not in plain
    room.run("predict", "job.json", "--weights", "run", "--input", "pictures/test", "-o", "p.csv")
    confusion = [[0] * 3 for _ in CLASSES]
    for row in csv.DictReader((room.path / "p.csv").open(newline="")):
        confusion[CLASSES.index(row["sample"].split("/")[0])][CLASSES.index(row["class"])] += 1
    assert found["confusion"] == confusion and [c["class"] for c in found["classes"]] == CLASSES
    assert [c["accuracy"] for c in found["classes"]] == [confusion[k][k] / 3 for k in range(3)] and found["top5_accuracy"] == 1
    has(room.run("eval", "job.json", "--weights", "run", "--per-class").out, "class ", "taken for", *CLASSES)
    # Masks: labels per pixel.
    masks = job(max_steps=6)
    masks["model"]["layers"] = [{"op": "conv2d", "out": {"filters": 6}, "window": 3, "padding": "same"}, {"op": "conv2d", "out": {"kinds": 3}, "window": 1}]
    masks["model"]["loss"] = {"op": "softmax_cross_entropy", "over": "kinds", "ignore_index": 255}
    value = lambda n, i: (n * 37 + i * 11) % 256
    labels = [255 if i % 9 == 0 else value(n, i) // 86 for n in range(24) for i in range(64)]
    write_npy(room.path / "x.npy", (24, 1, 8, 8), [value(n, i) for n in range(24) for i in range(64)], "|u1")
    write_npy(room.path / "y.npy", (24, 8, 8), labels, "|u1")
    masks["data"] = {"kind": "npy", "images": "x.npy", "labels": "y.npy", "test_images": "x.npy", "test_labels": "y.npy"}
    room.run("train", room.write("masks.json", masks), "--run-dir", "masks")
    found = json.loads(room.run("eval", "masks.json", "--weights", "masks", "--per-class", "--format", "json").out)
    room.run("predict", "masks.json", "--weights", "masks", "--input", "x.npy", "-o", "m.npy")
    _, shape, raw = npy((room.path / "m.npy").read_bytes())
    assert shape == [24, 3, 8, 8]
    out = struct.unpack(f"<{24 * 192}f", raw)
    answers = [max(range(3), key=lambda k: out[(n * 3 + k) * 64 + i]) for n in range(24) for i in range(64)]
    pairs = [(y, a) for y, a in zip(labels, answers) if y != 255]
    for k, its in enumerate(found["classes"]):
        both, either = sum(y == a == k for y, a in pairs), sum(k in (y, a) for y, a in pairs)
        assert its["count"] == sum(y == k for y, _ in pairs) and its["class"] == str(k)
        assert its["iou"] == (both / either if either else None), (k, its, both, either)
    known = [c["iou"] for c in found["classes"] if c["iou"] is not None]
    assert abs(found["mean_iou"] - sum(known) / len(known)) < 1e-12
    has(room.run("eval", "masks.json", "--weights", "masks", "--per-class").out, "mean IoU", "IoU")


TESTS = [unlike_pictures, other_folders, damaged_pictures, validation_part, predicts_pictures, predicts_tokens, figures_per_class]

if __name__ == "__main__":
    sys.exit(main(TESTS))
