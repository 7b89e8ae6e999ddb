#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_networks.py MOTLEY [COUNT [FIRST]]: random model files under random uneven layouts, `motley verify --dump` against PyTorch
computing the same file in f64, in as many micro-batches: logits, loss, every gradient. A number determines a case. Run by hand: needs
torch."""
import contextlib
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch.nn import functional as F

ACTIVATIONS = {"elu": F.elu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "hard_swish": F.hardswish,
               "relu": F.relu, "relu6": F.relu6, "sigmoid": torch.sigmoid, "silu": F.silu, "tanh": torch.tanh, "none": lambda x: x}


class Named:
    """A tensor with a name per dim."""

    def __init__(self, dims, values):
        self.dims, self.values = list(dims), values
        assert len(self.dims) == values.dim() and values.numel() > 0

    def ordered(self, dims):
        return self.values.permute([self.dims.index(d) for d in dims])


def pair(value, default):
    value = default if value is None else value
    return [value, value] if isinstance(value, int) else value


def paddings(layer, sizes, window, stride, dilation):
    p = layer.get("padding", "valid")
    if p == "valid":
        return [[0, 0], [0, 0]]
    if p == "same":
        out = []
        for k in range(2):
            count = -(-sizes[k] // stride[k])
            total = max(0, (count - 1) * stride[k] + dilation[k] * (window[k] - 1) + 1 - sizes[k])
            out.append([total // 2, total - total // 2])
        return out
    return [[p, p], [p, p]] if isinstance(p, int) else p


def windowed(layer, x, compute):
    """compute(values [n.., c, rows, cols], stride, ...) over the slid dims; the others keep their order."""
    over = layer.get("over", x.dims[-2:])
    channel = layer.get("in", x.dims[x.dims.index(over[0]) - 1])
    rest = [d for d in x.dims if d not in [channel, *over]]
    values = x.ordered([*rest, channel, *over])
    lead = values.shape[:len(rest)]
    sizes = values.shape[-2:]
    window, dilation = pair(layer.get("window"), list(sizes)), pair(layer.get("dilation"), 1)
    stride = pair(layer.get("stride"), window if "pool" in layer["op"] else 1)
    pads = paddings(layer, sizes, window, stride, dilation)
    y = compute(values.reshape(-1, *values.shape[-3:]), window, stride, dilation, pads)
    out = next(iter(layer["out"])) if "out" in layer else channel
    named = Named([*rest, out, *over], y.reshape(*lead, *y.shape[-3:]))
    dims = [out if d == channel else d for d in x.dims]
    return Named(dims, named.ordered(dims))


def padded(x, pads, value=0.0):
    return F.pad(x, (*pads[1], *pads[0]), value=value)


def pool(layer, x):
    def compute(v, window, stride, dilation, pads):
        if layer["op"] == "max_pool2d":
            return F.max_pool2d(padded(v, pads, -math.inf), window, stride)
        ones = padded(torch.ones_like(v), pads)
        area = window[0] * window[1]
        return F.avg_pool2d(padded(v, pads), window, stride) * area / (F.avg_pool2d(ones, window, stride) * area)
    return windowed(layer, x, compute)


def dense(layer, x, weight):
    keep = layer.get("keep", x.dims[:1])
    gone = [d for d in x.dims if d not in keep]
    (out, size), = layer["out"].items()
    w = weight("weight", [size, *(x.values.shape[x.dims.index(d)] for d in gone)])
    y = x.ordered([*keep, *gone]).flatten(len(keep)) @ w.flatten(1).T
    if layer.get("bias", True):
        y = y + weight("bias", [size])
    at = x.dims.index(gone[0])
    dims = [d for d in x.dims[:at] if d in keep] + [out] + [d for d in x.dims[at:] if d in keep]
    named = Named([*keep, out], y)
    return Named(dims, named.ordered(dims))


def norm(layer, x, weight, trains=True):
    op, eps = layer["op"], layer.get("epsilon", 1.1920928955078125e-07 if layer["op"] == "rms_norm" else 1e-5)
    if op == "group_norm":
        of = layer.get("of", x.dims[1])
        others = [d for d in x.dims[1:] if d != of]
        v = x.ordered([x.dims[0], of, *others])
        size = v.shape[1]
        grouped = v.reshape(len(v), layer["groups"], -1)  # F.group_norm refuses groups of one element
        grouped = grouped - grouped.mean(2, keepdim=True)
        affine = [weight(what, [size]).reshape(1, size, *[1] * len(others)) for what in ("weight", "bias")]
        y = (grouped / torch.sqrt((grouped * grouped).mean(2, keepdim=True) + eps)).reshape(v.shape) * affine[0] + affine[1]
        return Named(x.dims, Named([x.dims[0], of, *others], y).ordered(x.dims))
    if op == "batch_norm":
        of = layer.get("of", x.dims[1])
        over, affine = [d for d in x.dims if d != of], [of]
    else:
        over = affine = [d for d in x.dims if d in layer.get("over", x.dims[-1:])]
    if op == "batch_norm" and "parts" in layer:  # each device's samples for themselves
        whole = {k: v for k, v in layer.items() if k != "parts"}
        parts = [norm(whole, Named(x.dims, v), weight).values for v in x.values.split(layer["parts"]) if len(v) > 0]
        return Named(x.dims, torch.cat(parts))
    axes = [x.dims.index(d) for d in over]
    v = x.values
    if op != "rms_norm":
        v = v - v.mean(axes, keepdim=True)
    v = v / torch.sqrt((v * v).mean(axes, keepdim=True) + eps)
    shape = [n if d in affine else 1 for d, n in zip(x.dims, x.values.shape)]
    sizes = [n for d, n in zip(x.dims, x.values.shape) if d in affine]
    v = v * weight("weight", sizes).reshape(shape)
    return Named(x.dims, v + weight("bias", sizes).reshape(shape) if op != "rms_norm" else v)


def attention(layer, x, mask, weight):
    (heads, count), = layer["heads"].items()
    n, positions, hidden = x.values.shape
    def linear(what, v):
        y = v @ weight(what + ".weight", [hidden, hidden]).reshape(hidden, hidden).T
        return y + weight(what + ".bias", [hidden]).flatten() if layer.get("bias", True) else y
    q, k, v = (linear(what, x.values).reshape(n, positions, count, -1).transpose(1, 2) for what in ("query", "key", "value"))
    seen = torch.ones(positions, positions).tril() if layer.get("causal", False) else torch.ones(positions, positions)
    seen = seen[None, None] * (mask.values[:, None, None, :] > 0 if mask else 1)
    y = F.softmax((q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(seen == 0, -math.inf), -1).nan_to_num() @ v
    return Named(x.dims, linear("out", y.transpose(1, 2).reshape(n, positions, hidden)))


def binary(op, tensors):
    dims = max((t.dims for t in tensors), key=len)
    out = None
    for t in tensors:
        inside = [d for d in dims if d in t.dims]
        v = t.ordered(inside)
        v = v[tuple(slice(None) if d in t.dims else None for d in dims)]
        out = v if out is None else out + v if op == "add" else out * v
    return Named(dims, out)


def apply(layer, inputs, weight):
    op, x = layer["op"], inputs[0] if inputs else None
    if op in ("conv2d", "conv_transpose2d"):
        (_, size), = layer["out"].items()
        groups = layer.get("groups", 1)
        def compute(v, window, stride, dilation, pads):
            bias = weight("bias", [size]) if layer.get("bias", True) else None
            if op == "conv2d":
                w = weight("weight", [size, v.shape[1] // groups, *window])
                return F.conv2d(padded(v, pads), w, bias, stride, 0, dilation, groups)
            w = weight("weight", [v.shape[1], size // groups, *window])
            return F.conv_transpose2d(v, w, bias, stride, layer.get("padding", 0), layer.get("output_padding", 0), groups, dilation)
        y = windowed(layer, x, compute)
    elif op in ("max_pool2d", "avg_pool2d"):
        y = pool(layer, x)
    elif op == "global_avg_pool2d":
        y = Named(x.dims[:-2], x.values.mean((-2, -1)))
    elif op == "upsample2d":
        y = windowed(layer, x, lambda v, *_: F.interpolate(v, scale_factor=layer["scale"], mode=layer.get("mode", "nearest")))
    elif op == "dense":
        y = dense(layer, x, weight)
    elif op.endswith("_norm"):
        y = norm(layer, x, weight)
    elif op == "attention":
        y = attention(layer, x, inputs[1] if len(inputs) > 1 else None, weight)
    elif op == "softmax":
        y = Named(x.dims, torch.softmax(x.values, x.dims.index(layer.get("over", x.dims[-1]))))
    elif op == "leaky_relu":
        y = Named(x.dims, F.leaky_relu(x.values, layer.get("slope", 0.01)))
    elif op in ("add", "mul"):
        y = binary(op, inputs)
    elif op == "concat":
        at = x.dims.index(layer["in"])
        dims = [next(iter(layer["out"])) if d == layer["in"] else d for d in x.dims]
        y = Named(dims, torch.cat([t.ordered(x.dims) for t in inputs], at))
    elif op == "transpose":
        y = Named(layer["order"], x.ordered(layer["order"]))
    elif op == "slice":
        at = x.dims.index(layer["in"])
        dims = [next(iter(layer["out"])) if d == layer["in"] else d for d in x.dims]
        y = Named(dims, x.values.narrow(at, layer["range"][0], layer["range"][1] - layer["range"][0]))
    elif op == "embedding":
        (_, rows), = layer["rows"].items()
        (out, size), = layer["out"].items()
        y = Named([*x.dims, out], F.embedding(x.values, weight("weight", [rows, size])))
    elif op == "parameter":
        y = Named(layer["shape"], weight("weight", list(layer["shape"].values())))
    else:
        y = Named(x.dims, ACTIVATIONS[op](x.values))
    return Named(y.dims, ACTIVATIONS[layer.get("activation", "none")](y.values))


def evaluate(model, inputs, weight):
    values = {name: Named(spec, inputs[name]) for name, spec in dims_of(model).items() if name in inputs}
    last = next(iter(values.values()))
    for layer in model["layers"]:
        names = layer.get("from", [])
        read = [values[n] for n in ([names] if isinstance(names, str) else names)] or [last]
        last = values[layer["name"]] = apply(layer, [] if layer["op"] == "parameter" else read,
                                             lambda what, shape, of=layer: weight(of.get("weight", of["name"]) if what == "weight" else of["name"], what, shape))
    return last


def dims_of(model):
    return {name: [d for d in spec if d != "dtype"] for name, spec in model["inputs"].items()}


class Generator:
    def __init__(self, number):
        self.r, self.number = random.Random(number), 0
        self.layers, self.values = [], {}

    def one(self, *options):
        return self.r.choice(options)

    def fresh(self, prefix):
        self.number += 1
        return f"{prefix}{self.number}"

    def add(self, **layer):
        layer = {k: v for k, v in layer.items() if v is not None}
        layer.setdefault("name", self.fresh(layer["op"] + "_l"))
        names = layer.get("from", [])
        read = [self.values[n] for n in ([names] if isinstance(names, str) else names)] or [self.last]
        y = apply(layer, read, lambda what, shape: torch.ones(*shape, dtype=torch.float64))
        assert 0 < y.values.numel() < 20000 or layer["op"] == "conv2d" and layer["window"] == 1
        self.layers.append(layer)
        self.last = self.values[layer["name"]] = y
        return layer["name"]

    def activation(self):
        return self.one("none", "none", *ACTIVATIONS)

    def image_layer(self):
        x, r = self.last, self.r
        rows, cols = x.dims[-2:]
        channels = x.values.shape[1]
        kind = self.one("conv", "conv", "conv", "norm", "norm", "pool", "act", "binary", "slice", "concat", "gate", "up")
        if kind == "conv":
            op = self.one("conv2d", "conv2d", "conv2d", *NEW_CONVS)
            groups = self.one(1, 1, *(g for g in range(1, channels + 1) if channels % g == 0))
            window = self.one(1, 2, 3, [r.randint(1, 3), r.randint(1, 3)])
            padding = self.one("valid", "same", "same", 1, [[r.randint(0, 2), r.randint(0, 2)], [r.randint(0, 2), r.randint(0, 2)]])
            more = {}
            if op == "conv_transpose2d":
                stride = self.one(1, 2, 3)
                padding, more = self.one(0, 1), {"output_padding": r.randint(0, stride - 1) if stride > 1 else None}
            else:
                stride = self.one(None, None, 2, [1, 2], 3)
            self.add(op=op, out={self.fresh("f"): groups * r.randint(1, 4)}, window=window, groups=groups if groups > 1 else None, stride=stride,
                     dilation=self.one(None, None, 2), padding=padding, bias=self.one(None, False), activation=self.activation(), **more)
        elif kind == "norm":
            op = self.one("batch_norm", "layer_norm", "rms_norm", *NEW_NORMS)
            more = {}
            if op == "batch_norm":
                more = {"of": self.one(None, None, cols), "statistics": self.one(None, None, "global", "local")}
            elif op == "group_norm":
                more = {"groups": self.one(*(g for g in range(1, channels + 1) if channels % g == 0))}
            else:
                more = {"over": self.one(None, x.dims[1:], x.dims[1:2], x.dims[2:])}
            self.add(op=op, epsilon=self.one(None, 1e-3), activation=self.activation(), **more)
        elif kind == "pool":
            op = self.one("max_pool2d", "avg_pool2d")
            window = self.one(2, 3, [1, 2])
            padding = self.one("valid", "same", [[0, 0], [0, 1]] if window == [1, 2] else [[1, 0], [0, 1]])
            self.add(op=op, window=window, stride=self.one(None, 1, 2, [2, 1]), padding=padding)
        elif kind == "act":
            op = self.one(*[a for a in ACTIVATIONS if a != "none"], "leaky_relu", "softmax")
            self.add(op=op, slope=self.one(None, 0.3) if op == "leaky_relu" else None, over=x.dims[1] if op == "softmax" else None)
        elif kind == "binary":
            same = [n for n, v in self.values.items() if v.dims == x.dims and v.values.shape == x.values.shape and v is not x]
            self.add(op=self.one("add", "mul"), **{"from": [self.layers[-1]["name"], self.one(*same)]})
        elif kind == "slice" and channels > 1:
            a = r.randint(0, channels - 1)
            b = r.randint(a + 1, channels)
            self.add(op="slice", **{"in": x.dims[1]}, range=[a, b], out={self.fresh("s"): b - a})
        elif kind == "concat":
            same = [n for n, v in self.values.items() if v.dims == x.dims and v.values.shape == x.values.shape and v is not x]
            names = [self.layers[-1]["name"], self.one(*same)]
            self.add(op="concat", **{"from": names, "in": x.dims[1]}, out={self.fresh("j"): 2 * channels})
        elif kind == "gate":  # squeeze and excitation
            of = self.layers[-1]["name"]
            self.add(op="global_avg_pool2d")
            if len(set(self.last.dims)) == 2:
                d = self.last.dims[1]
                self.add(op="dense", out={self.fresh("g"): 3}, activation="relu")
                self.add(op="dense", out={d: channels}, activation="sigmoid")
                self.add(op="mul", **{"from": [of, self.layers[-1]["name"]]})
        elif kind == "up" and NEW_UPS:
            self.add(op="upsample2d", scale=self.one(1, 2, 3), mode=self.one("nearest", "bilinear"))

    def token_layer(self, count):
        x, r = self.last, self.r
        hidden = x.dims[-1]
        kind = self.one("attention", "attention", "mlp", "norm", "act", "add")
        if kind == "attention":
            self.add(op="attention", heads={self.fresh("h"): self.one(*(h for h in range(1, x.values.shape[2] + 1) if x.values.shape[2] % h == 0))},
                     causal=self.one(None, True), bias=self.one(None, False),
                     **({"from": [self.layers[-1]["name"], "mask"]} if "mask" in self.values and r.random() < 0.7 else {}))
        elif kind == "mlp":
            self.add(op="dense", keep=x.dims[:2], out={self.fresh("m"): r.randint(2, 7)}, activation=self.activation())
            self.add(op="dense", keep=x.dims[:2], out={hidden: x.values.shape[2]}, bias=self.one(None, False))
        elif kind == "norm":
            self.add(op=self.one("layer_norm", "rms_norm"), over=self.one(None, x.dims[1:]))
        elif kind == "act":
            self.add(op=self.one(*[a for a in ACTIVATIONS if a != "none"]))
        else:
            same = [n for n, v in self.values.items() if v.dims == x.dims and v is not x]
            self.add(op="add", **{"from": [self.layers[-1]["name"], self.one(*same)]})

    def model(self):
        r = self.r
        batch = r.randint(2, 5)
        tokens = r.random() < 0.3
        loss = {"op": "softmax_cross_entropy", "over": "classes"}
        if tokens:
            positions, vocabulary, hidden = r.randint(2, 6), r.randint(3, 9), self.one(4, 6, 8)
            inputs = {"tokens": {"dtype": "i32", "batch": batch, "positions": positions}}
            self.last = self.values["tokens"] = Named(["batch", "positions"], torch.zeros(batch, positions, dtype=torch.long))
            self.add(op="embedding", rows={"vocabulary": vocabulary}, out={"hidden": hidden})
            if r.random() < 0.5:
                inputs["mask"] = {"batch": batch, "positions": positions}
                self.values["mask"] = Named(inputs["mask"], torch.ones(batch, positions, dtype=torch.float64))
            if r.random() < 0.5:
                p = self.add(op="parameter", shape={"positions": positions, "hidden": hidden}, initial="normal", deviation=0.5)
                self.add(op="add", **{"from": [self.layers[0]["name"], p]})
        else:
            inputs = {"image": {"batch": batch, "channels": r.randint(1, 4), "rows": r.randint(3, 8), "cols": r.randint(3, 8)}}
            self.last = self.values["image"] = Named(inputs["image"], torch.ones(*inputs["image"].values(), dtype=torch.float64))
        wanted = len(self.layers) + r.randint(2, 7)
        for _ in range(60):
            if len(self.layers) >= wanted:
                break
            with contextlib.suppress(AssertionError, RuntimeError, IndexError, ValueError):
                self.token_layer(vocabulary) if tokens else self.image_layer()
        if tokens and r.random() < 0.5:
            loss["over"] = "vocabulary"
            self.add(op="dense", keep=self.last.dims[:2], out={"vocabulary": vocabulary}, weight=self.layers[0]["name"], bias=False)
        elif tokens:
            self.add(op="dense", keep=self.last.dims[:2], out={"classes": r.randint(2, 6)})
        elif r.random() < 0.3:
            self.add(op="conv2d", out={"classes": r.randint(2, 5)}, window=1)
        else:
            self.add(op="dense", out={"classes": r.randint(2, 6)})
        kind = self.one("plain", "plain", "smooth", "ignore", "mean_squared_error", "binary_cross_entropy")
        if kind == "smooth":
            loss["label_smoothing"] = self.one(0.1, 0.5)
        elif kind == "ignore":
            loss["ignore_index"] = self.one(0, 1, 9)
        elif kind != "plain":
            loss = {"op": kind}
        return {"inputs": inputs, "layers": self.layers, "loss": loss}

    def layout(self, model):
        r = self.r
        sizes = {}
        for spec in model["inputs"].values():
            sizes.update({d: n for d, n in spec.items() if d != "dtype"})
        for layer in model["layers"]:
            for key in ("out", "heads", "rows", "shape"):
                for d, n in layer.get(key, {}).items():
                    sizes.setdefault(d, n)
        axes = self.one([("all", r.randint(1, 4))], [("a", 2), ("b", 2)])
        split = {}
        for d in r.sample(sorted(sizes), min(len(sizes), r.randint(1, 4))):
            axis, count = r.choice(axes)
            cuts = sorted(r.randint(0, sizes[d]) for _ in range(count - 1))
            split[d] = {"axis": axis, "parts": [b - a for a, b in zip([0, *cuts], [*cuts, sizes[d]])]}
        return axes, split


def loss_of(spec, logits, label):
    if "over" not in spec:
        of = F.mse_loss if spec["op"] == "mean_squared_error" else F.binary_cross_entropy_with_logits
        return of(logits.values, label)
    rest = [d for d in logits.dims if d != spec["over"]]
    rows, labels = logits.ordered([*rest, spec["over"]]).flatten(0, -2), label.flatten().long()
    if (labels == spec.get("ignore_index", -100)).all():
        return 0 * rows.sum()
    return F.cross_entropy(rows, labels, ignore_index=spec.get("ignore_index", -100), label_smoothing=spec.get("label_smoothing", 0.0))


def case(motley, number, folder):
    g = Generator(number)
    model = g.model()
    axes, split = g.layout(model)
    ranks = math.prod(n for _, n in axes)
    batch = next(iter(model["inputs"].values()))["batch"]
    accumulate = g.one(1, 1, *(n for n in range(2, batch + 1) if batch % n == 0))
    if accumulate > 1:
        split.pop("batch", None)  # its parts would be those of a micro-batch
    job = {"version": 1, "mesh": {"axes": [{"name": a, "size": n} for a, n in axes], "devices": [{"kind": "cpu"} for _ in range(ranks)]},
           "model": model, "data": {"kind": "synthetic"},
           "train": {"batch": batch, "max_steps": 1, "accumulate": accumulate, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}}
    dump = folder / f"dump{number}"
    while True:
        job["layout"] = {"version": 1, "split": split}
        (folder / "job.json").write_text(json.dumps(job))
        done = subprocess.run([motley, "verify", folder / "job.json", "--batch", str(batch), "--steps", "1", "--dump", dump], capture_output=True, text=True)
        if "does not depend on this input" in done.stderr:
            return ""  # a mask that no layer took
        if done.returncode != 78 or not split:
            break
        split.popitem()  # two dims of one tensor on one axis
    if done.returncode != 0:
        return f"exit code {done.returncode}:\n{done.stdout}{done.stderr}"
    files = {p.stem: np.load(p) for p in (dump / "weights_before").glob("*.npy")}
    weights = {name: torch.from_numpy(v).double().requires_grad_() for name, v in files.items()}
    inputs = {name: torch.from_numpy(np.load(dump / f"inputs/{name}.npy")) for name in model["inputs"] if (dump / f"inputs/{name}.npy").exists()}
    inputs = {name: v.long() if "dtype" in model["inputs"][name] else v.double() for name, v in inputs.items()}
    label = torch.from_numpy(np.load(dump / "inputs/label.npy"))
    for layer in model["layers"]:
        if layer.get("statistics") == "local" and "batch" in split:
            layer["parts"] = split["batch"]["parts"]
    parts = [evaluate(model, {name: v.chunk(accumulate)[m] for name, v in inputs.items()}, lambda layer, what, shape: weights[f"{layer}.{what}"])
             for m in range(accumulate)]
    logits = Named(parts[0].dims, torch.cat([p.values for p in parts], parts[0].dims.index("batch")))
    loss_of(model["loss"], logits, label).backward()
    loss = loss_of(model["loss"], logits, label)
    pairs = {"logits": (np.load(dump / "logits.npy"), logits.values.detach().numpy()), "loss": (np.load(dump / "loss.npy").ravel(), np.array([loss.item()]))}
    most = max(float(w.grad.abs().max()) for w in weights.values() if w.grad is not None)
    for name, w in weights.items():
        if w.grad is not None:
            pairs["gradient of " + name] = (np.load(dump / f"gradients/{name}.npy"), w.grad.numpy())
    for what, (mine, truth) in pairs.items():
        if mine.shape != truth.shape:
            return f"{what}: {mine.shape}, expected {truth.shape}"
        scale = max(abs(truth).max(), 1e-6 * most if what.startswith("gradient") else 0, 1e-30)
        if not abs(mine - truth).max() <= 1e-8 * scale:
            return f"{what}: differs by {abs(mine - truth).max() / scale:.1e}"
    return ""


NEW_CONVS, NEW_NORMS, NEW_UPS = ["conv_transpose2d"], ["group_norm"], True
if __name__ == "__main__":
    program = pathlib.Path(sys.argv[1]).resolve()
    count, first = (int(sys.argv[2]) if len(sys.argv) > 2 else 100), (int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    torch.set_num_threads(1)
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(first, first + count):
            said = case(program, number, pathlib.Path(temporary))
            if said:
                wrong += 1
                kept = pathlib.Path(f"case{number}.json")
                kept.write_text((pathlib.Path(temporary) / "job.json").read_text())
                print(f"case {number} ({kept}): {said}")
    print(f"{count - wrong} of {count} as PyTorch {torch.__version__}")
    sys.exit(wrong > 0)
