# SPDX-License-Identifier: Apache-2.0
"""motley svm from outside. svm_test.py MOTLEY; with --libsvm compared with libsvm's own programs, skipped (77) where these are not installed."""
import gzip
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MOTLEY = str(pathlib.Path(sys.argv[1]).resolve())
LIMIT = 120  # seconds, of one command
SPEEDS = [{"isa": "avx2"}, {"isa": "sse41"}, {}]  # unlike ranks: their products are rounded differently
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
BREAST_CANCER = pathlib.Path("/usr/lib/python3/dist-packages/sklearn/datasets/data/breast_cancer.csv")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("MOTLEY_", "PMI", "HYDRA"))}


def run(folder, *words, code=0, program=MOTLEY):
    done = subprocess.run([program, *map(str, words)], cwd=folder, env=ENV, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT)
    assert done.returncode == code, f"{words}: exit {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
    return done


def write_mesh(folder, ranks):
    devices = [{"name": f"cpu {r}", "kind": "cpu", "threads": 1, **SPEEDS[r % 3]} for r in range(ranks)]
    (folder / f"mesh{ranks}.json").write_text(json.dumps({"version": 1, "axes": [{"name": "all", "size": ranks}], "devices": devices}))
    return f"mesh{ranks}.json"


def write_samples(folder, name, rows):
    """rows: (label, {index: value}); six digits, so that they are the same in a model of libsvm, which has eight"""
    lines = [f"{label} " + " ".join(f"{i}:{v:.6g}" for i, v in sorted(x.items()) if v != 0) for label, x in rows]
    (folder / name).write_text("\n".join(lines) + "\n")
    return name


def synthetic(samples, features, density, seed, classes=2):
    draw = random.Random(seed)
    out = []
    for _ in range(samples):
        x = {i + 1: draw.uniform(-1, 1) for i in range(features) if draw.random() < density}
        score = sum(v if i % 2 else v * v - 0.3 for i, v in x.items()) + draw.uniform(-0.3, 0.3)
        out.append(((1 if score > 0 else -1) if classes == 2 else min(classes - 1, max(0, int(score + classes / 2))), x))
    return out


def fashion(classes, samples):
    images = gzip.open(FASHION / "train-images-idx3-ubyte.gz").read(16 + 784 * samples * 12)[16:]
    labels = gzip.open(FASHION / "train-labels-idx1-ubyte.gz").read()[8:]
    chosen = [k for k in range(len(images) // 784) if labels[k] in classes][:samples]
    return [(labels[k], {i + 1: v / 255 for i, v in enumerate(images[784 * k:784 * (k + 1)]) if v}) for k in chosen]


def breast_cancer():
    lines = BREAST_CANCER.read_text().splitlines()[1:]
    table = [[float(v) for v in line.split(",")] for line in lines]
    most = [max(row[i] for row in table) for i in range(30)]
    return [(int(row[30]), {i + 1: row[i] / most[i] for i in range(30)}) for row in table]


def trained(folder, data, *words, model="a.model"):
    return json.loads(run(folder, "svm", "train", data, "-o", model, "--format", "json", "--quiet", *words).stdout)


def coefficients(file):
    """{support vector: coefficient} of a model of two classes"""
    lines = [line.split() for line in file.read_text().split("SV\n", 1)[1].splitlines()]
    return {tuple(float(number) for word in words[1:] for number in word.split(":")): abs(float(words[0])) for words in lines}


def compare(folder, data, kernel, libsvm_kernel, c):
    """objective, rho and support vectors of both, on 1, 2 and 3 unequal ranks"""
    epsilon, numbers = 1e-6, r"[-+\d.e]+"
    theirs = run(folder, "-s", 0, *libsvm_kernel, "-c", c, "-e", epsilon, "-m", 200, data, "their.model", program="svm-train").stdout
    objectives = [float(v) for v in re.findall(rf"obj = ({numbers})", theirs)]
    rhos = [float(v) for v in re.search(r"^rho (.*)$", (folder / "their.model").read_text(), re.M)[1].split()]
    off = rho_off = 0
    for ranks, dtypes in [(1, ["f32"]), (2, ["f32", "f64"]), (3, ["f32"])]:
        for dtype in dtypes:
            ours = trained(folder, data, *kernel, "-c", c, "--epsilon", epsilon, "--mesh", write_mesh(folder, ranks), "--dtype", dtype)
            where = (data, kernel, ranks, dtype)
            assert len(ours["machines"]) == len(objectives), where
            for machine, objective, rho in zip(ours["machines"], objectives, rhos):
                assert machine["converged"] and machine["gap"] <= epsilon and abs(machine["balance"]) <= 1e-12 * c * machine["samples"], (where, machine)
                assert abs(machine["objective"] - objective) <= 1e-6 * abs(objective) + 1e-6, (where, machine, objective)  # six digits are printed
                if machine["support_vectors"] > machine["bounded"]:
                    assert abs(machine["rho"] - rho) <= 2 * epsilon, (where, machine, rho)
                    rho_off = max(rho_off, abs(machine["rho"] - rho))
                off = max(off, abs(machine["objective"] - objective) / abs(objective))
            if len(objectives) > 1:
                continue
            a, b = ({vector for vector, v in coefficients(folder / file).items() if v > 1e-6 * c} for file in ["a.model", "their.model"])
            assert len(a ^ b) <= max(1, 0.01 * len(b)), (where, len(a), len(b), len(a ^ b))
    run(folder, data, "a.model", "their.out", program="svm-predict")
    run(folder, "svm", "predict", data, "a.model", "-o", "our.out", "--mesh", "mesh2.json")
    assert (folder / "their.out").read_text() == (folder / "our.out").read_text(), data
    run(folder, "svm", "predict", data, "their.model", "-o", "again.out", "--mesh", "mesh1.json")
    differ = sum(a != b for a, b in zip((folder / "again.out").read_text().split(), (folder / "our.out").read_text().split()))
    assert differ <= 1, (data, differ)
    print(f"{data}, {' '.join(map(str, kernel))}: as libsvm on 1, 2, 3 ranks (objective {off:.1g} of it away, rho {rho_off:.1g})")


def libsvm(folder):
    if not shutil.which("svm-train") or not shutil.which("svm-predict"):
        print("libsvm is not installed (scripts/deps installs libsvm-tools)")
        return 77
    rbf = lambda g: ((["-g", g]), (["-t", 2, "-g", g]))
    sparse = write_samples(folder, "sparse.txt", synthetic(300, 400, 0.03, 1))
    compare(folder, sparse, *rbf(0.2), 2)
    compare(folder, sparse, ["--kernel", "linear"], ["-t", 0], 1)
    dense = write_samples(folder, "dense.txt", synthetic(400, 8, 1.0, 2))
    compare(folder, dense, *rbf(0.5), 10)
    compare(folder, dense, ["--kernel", "polynomial", "-g", 0.3, "--degree", 2, "--coef0", 1], ["-t", 1, "-g", 0.3, "-d", 2, "-r", 1], 1)
    compare(folder, write_samples(folder, "classes.txt", synthetic(300, 6, 1.0, 3, classes=4)), *rbf(0.4), 3)
    missing = []
    if BREAST_CANCER.exists():
        compare(folder, write_samples(folder, "cancer.txt", breast_cancer()), *rbf(2), 5)
    else:
        missing.append("scikit-learn's breast cancer table")
    if FASHION.exists():
        compare(folder, write_samples(folder, "fashion.txt", fashion({2, 4}, 700)), *rbf(0.02), 1)
        compare(folder, write_samples(folder, "ten.txt", fashion(set(range(10)), 400)), *rbf(0.02), 2)
    else:
        missing.append("Fashion-MNIST")
    print("not here: " + ", ".join(missing) if missing else "all data are here")
    return 0


def heuristics(folder):
    data = write_samples(folder, "many.txt", synthetic(1500, 6, 1.0, 4))
    found = {}
    for shrink in ["never", "adaptive", "early", "lazy"]:
        found[shrink] = trained(folder, data, "-g", 0.3, "-c", 10, "--shrink", shrink, "--dtype", "f64", "--cache-mib", 1, "--mesh", write_mesh(folder, 2))["machines"][0]
    for shrink, its in found.items():
        assert abs(its["objective"] - found["never"]["objective"]) <= 1e-5 * abs(its["objective"]), found
        assert (its["least_active"] < 1500) == (shrink != "never"), found


def long_labels(folder):
    """Predicted labels have all their digits."""
    data = write_samples(folder, "long.txt", [(label, {1: x + 0.01 * k, 2: 0.02 * k}) for k in range(10) for label, x in [(1234567, 1), (-7654321, 0.1)]])
    trained(folder, data, model="long.model")
    run(folder, "svm", "predict", data, "long.model", "-o", "long.out")
    assert set((folder / "long.out").read_text().split()) == {"1234567", "-7654321"}
    run(folder, "svm", "predict", data, "long.model", "-o", "long.out")  # over labels, not over samples
    (folder / "others.txt").write_text("1 1:1\n-1 1:2\n")
    run(folder, "svm", "predict", data, "long.model", "-o", "others.txt", code=64)


def refusals(folder):
    mesh = ["--mesh", write_mesh(folder, 2)]
    for text, said in [("1 1:1\n-1 3:1 2:1\n", "bad.txt:2:8: error: the index 2 follows 3"), ("1 1:1\n1:1\n", "bad.txt:2:1: error: no label"),
                       ("1 1:1\n1 2:1\n", "bad.txt: all 2 samples are of one class, 1"), ("1 1:nan\n", "bad.txt:1:5: error: the value nan is not finite"),
                       (f"1 {2**40}:1\n", "bad.txt:1:3: error: the index 1099511627776 is too large")]:
        (folder / "bad.txt").write_text(text)
        err = run(folder, "svm", "train", "bad.txt", "-o", "x.model", *mesh, code=65).stderr
        assert said in err and not (folder / "x.model").exists(), err
    (folder / "good.txt").write_text("1 1:1\n-1 1:-1\n")
    for words, code, said in [(["-g", "0"], 78, "gamma is 0; expected a number above 0"), (["-g", "-1"], 78, "gamma is -1"), (["-c", "0"], 78, "c is 0"),
                              (["--epsilon", "0"], 78, "epsilon is 0"), (["--kernel", "sigmoid"], 64, "expected rbf|linear|polynomial"),
                              (["--set", "a=1"], 64, "svm train reads none"), (["-o", "none/x.model"], 74, "none")]:
        err = run(folder, "svm", "train", "good.txt", *([] if "-o" in words else ["-o", "x.model"]), *words, *mesh, code=code).stderr
        assert said in err, (words, err)
    (folder / "x.npy").write_bytes(b"")
    assert "--labels" in run(folder, "svm", "train", "x.npy", "-o", "x.model", code=64).stderr
    assert "--labels" in run(folder, "svm", "train", "good.txt", "--labels", "x.npy", "-o", "x.model", code=64).stderr
    run(folder, "svm", "train", "x.npy", "--labels", "x.npy", "-o", "x.model", *mesh, code=65)
    run(folder, "svm", "train", "none.txt", "-o", "x.model", code=66)
    run(folder, "svm", "train", "good.txt", "-o", "good.txt", code=64)
    run(folder, "svm", code=64)
    assert 'did you mean "train"' in run(folder, "svm", "trian", code=64).stderr
    assert "MODEL" in run(folder, "svm", "predict", "--help").stdout
    (folder / "bad.model").write_text("svm_type c_svc\n")
    assert "not a libsvm model file" in run(folder, "svm", "predict", "good.txt", "bad.model", "-o", "out", *mesh, code=65).stderr


def ranks_of(parent):
    """Process ids by rank."""
    out, below = {}, [parent]
    while below:
        pid = below.pop()
        for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            below += [int(child) for child in tasks.read_text().split()]
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for rank in (int(e[9:]) for e in environment if e.startswith(b"PMI_RANK=")):
            out[rank] = min(pid, out.get(rank, pid))
    return out


def begun(folder, model):
    """A training that takes long: hardly any progress at each iteration, and no end."""
    process = subprocess.Popen([MOTLEY, "svm", "train", "long.txt", "-o", model, "-g", "1", "-c", "1e9", "--epsilon", "1e-300", "--dtype", "f64", "--progress", "plain",
                                "--mesh", write_mesh(folder, 2)], cwd=folder, env=ENV, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = process.stderr.readline()
    while line and "iteration" not in line:
        line = process.stderr.readline()
    assert line, process.communicate()
    return process


def stops(folder):
    write_samples(folder, "long.txt", [(label if k % 7 else -label, x) for k, (label, x) in enumerate(synthetic(3000, 3, 1.0, 5))])
    process = begun(folder, "stopped.model")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 75 and "stopped.model has the model that was reached" in err, (process.returncode, out, err)
    run(folder, "svm", "predict", "long.txt", "stopped.model", "-o", "out", "--mesh", "mesh2.json")
    process = begun(folder, "killed.model")
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 86 and "rank 1" in err and not (folder / "killed.model").exists(), (process.returncode, err)


def main():
    with tempfile.TemporaryDirectory(prefix="motley svm ") as folder:
        folder = pathlib.Path(folder)
        if "--libsvm" in sys.argv:
            return libsvm(folder)
        for test in [heuristics, long_labels, refusals, stops]:
            test(folder)
            print(f"ok  {test.__name__}")
    return 0


sys.exit(main())
