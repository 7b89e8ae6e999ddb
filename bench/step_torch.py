#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training steps of bench/step in PyTorch on a GPU, for a table beside motley's: step_torch.py [OPTIONS] [--net NAME[:BATCH]]... [--batch N]... [--json FILE]

  --layout nchw|nhwc|both  the images' order in memory; both (the default): a row for each
  --mode strict|tf32|bf16|defaults, several times   (strict)
     strict    f32 stays f32
     tf32      convolutions and products on tensor cores
     bf16      mixed precision: bf16 convolutions and products, f32 weights; TF32 elsewhere
     defaults  as PyTorch comes: nchw, TF32 in convolutions only, nothing measured
  --deterministic          algorithms with the same bits in every run alone, as motley's
Algorithms are chosen by measurement (cudnn.benchmark) but for defaults; sums may vary from run to run without --deterministic.
Plain SGD with momentum and decay; the least of 15 rounds, each of steps that fill 50 ms. Eager: no CUDA graphs, no torch.compile. Exit 77 where
python has no torch, or torch sees no GPU."""
import argparse
import json
import sys
import time

try:
    import torch
except ImportError:
    print("python3 has no torch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("torch sees no GPU")
    sys.exit(77)
from torch import nn


def network(name):
    """The layers of bench/support/networks.cpp, and the image's channels and size."""
    layers, channels = [], 3

    def conv(filters, window):
        nonlocal channels
        layers.extend([nn.Conv2d(channels, filters, window, padding=window // 2), nn.ReLU()])
        channels = filters

    def dense(*sizes):
        layers.append(nn.Flatten())
        for k, size in enumerate(sizes):
            layers.extend([nn.LazyLinear(size)] + ([nn.ReLU()] if k + 1 < len(sizes) else []))

    if name == "paper_mnist":
        channels = 1
        for filters, window in ((60, 7), (120, 5), (240, 3)):
            conv(filters, window)
        layers.append(nn.AvgPool2d(2))
        dense(128, 10)
        return nn.Sequential(*layers), 1, 28
    if name == "paper_cifar":
        for filters in (60, 120, 240, 480):
            conv(filters, 3)
            conv(filters, 3)
            layers.append(nn.MaxPool2d(2))
        dense(256, 10)
        return nn.Sequential(*layers), 3, 32
    if name == "vgg11":
        for filters in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
            if filters > 0:
                conv(filters, 3)
            else:
                layers.append(nn.MaxPool2d(2))
        dense(512, 10)
        return nn.Sequential(*layers), 3, 32
    if name == "quickstart":
        channels = 1
        for filters in (40, 64):
            conv(filters, 3)
            layers.append(nn.MaxPool2d(2))
        dense(128, 10)
        return nn.Sequential(*layers), 1, 28
    if name in ("resnet18", "resnet50"):
        import torchvision

        model = getattr(torchvision.models, name)(num_classes=10 if name == "resnet18" else 1000)
        if name == "resnet50":
            return model, 3, 224
        model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()  # the small stem
        return model, 3, 32
    if name == "gpt":
        return Gpt(), 0, 128
    sys.exit(f"no network {name!r} (known: quickstart, paper_mnist, paper_cifar, vgg11, resnet18, resnet50, gpt)")


class Gpt(nn.Module):
    """bench/support/networks.cpp: 6 layers of 256 features, 4 heads, 128 positions, 1000 words, the head tied to the embedding."""

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, positions, width = x.shape
            q, k, v = (t.view(n, positions, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, -1))
            h = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(h.transpose(1, 2).reshape(n, positions, width))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))

    def __init__(self, width=256, heads=4, blocks=6, positions=128, words=1000):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Parameter(torch.randn(positions, width) * 0.02)
        self.blocks, self.norm = nn.Sequential(*(self.Block(width, heads) for _ in range(blocks))), nn.LayerNorm(width)

    def forward(self, tokens):
        h = self.norm(self.blocks(self.words(tokens) + self.positions))
        return nn.functional.linear(h, self.words.weight).flatten(0, 1)


def step_seconds(name, batch, layout, bf16):
    torch.manual_seed(1)
    model, channels, size = network(name)
    order = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    model = model.cuda().to(memory_format=order)
    if channels == 0:  # words
        image, label = torch.randint(0, 1000, (batch, size), device="cuda"), torch.randint(0, 1000, (batch * size,), device="cuda")
    else:
        image = torch.rand(batch, channels, size, size, device="cuda").to(memory_format=order)
        label = torch.randint(0, 10, (batch,), device="cuda")
    model(image)  # the lazy layers
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)

    def steps(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
                loss = nn.functional.cross_entropy(model(image), label)
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    steps(5)
    count = max(1, int(0.05 / steps(5)))
    return min(steps(count) for _ in range(15))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--net", action="append")
    arguments.add_argument("--batch", action="append", type=int)
    arguments.add_argument("--layout", choices=["nchw", "nhwc", "both"])
    arguments.add_argument("--mode", action="append", choices=["strict", "tf32", "bf16", "defaults"])
    arguments.add_argument("--deterministic", action="store_true")
    arguments.add_argument("--json")
    args = arguments.parse_args()
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    rows = []
    for mode in args.mode or ["strict"]:
        cudnn.allow_tf32, products.allow_tf32 = mode != "strict", mode in ("tf32", "bf16")
        cudnn.benchmark, cudnn.deterministic = mode != "defaults", args.deterministic
        layouts = ["nchw"] if mode == "defaults" else ["nchw", "nhwc"] if args.layout in (None, "both") else [args.layout]
        for net in args.net or ["paper_mnist", "paper_cifar", "vgg11"]:
            name, _, own_batch = net.partition(":")
            for batch in [int(own_batch)] if own_batch else args.batch or [32, 256]:
                for layout in layouts:
                    if name == "gpt" and layout == "nchw" and len(layouts) > 1:
                        continue  # it has no images
                    seconds = step_seconds(name, batch, layout, mode == "bf16")
                    rows.append({"net": name, "batch": batch, "step_seconds": seconds, "dtype": "bf16" if mode == "bf16" else "f32",
                                 "tf32_convolutions": cudnn.allow_tf32, "tf32_products": products.allow_tf32, "layout": layout,
                                 "deterministic": cudnn.deterministic, "measured_algorithms": cudnn.benchmark, "defaults": mode == "defaults",
                                 "machine": torch.cuda.get_device_name(),
                                 "library": f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn.version()}"})
                    print(f"{name:12} {batch:5} {seconds * 1e3:9.3f} ms  {layout}, {mode}", flush=True)
                    if args.json:  # a run that is stopped keeps its rows
                        with open(args.json, "w", encoding="utf-8") as out:
                            json.dump(rows, out, indent=1)


main()
