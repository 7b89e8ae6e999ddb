#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training steps of bench/step in PyTorch on a GPU, for a table beside motley's: step_torch.py [--net NAME]... [--batch N]... [--json FILE]
f32 without TF32, channels-last, deterministic algorithms chosen by measurement (cudnn.benchmark), plain SGD with momentum and decay; the least
of 15 rounds, each of steps that fill 50 ms. Exit 77 where python has no torch, or torch sees no GPU."""
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
    sys.exit(f"no network {name!r} (known: paper_mnist, paper_cifar, vgg11)")


def step_seconds(name, batch):
    torch.manual_seed(1)
    model, channels, size = network(name)
    model = model.cuda().to(memory_format=torch.channels_last)
    image = torch.rand(batch, channels, size, size, device="cuda").to(memory_format=torch.channels_last)
    label = torch.randint(0, 10, (batch,), device="cuda")
    model(image)  # the lazy layers
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)

    def steps(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(image), label).backward()
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
    arguments.add_argument("--json")
    asked = arguments.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
    rows = []
    for name in asked.net or ["paper_mnist", "paper_cifar", "vgg11"]:
        for batch in asked.batch or [32, 256]:
            seconds = step_seconds(name, batch)
            print(f"{name:12} {batch:5} {seconds * 1e3:9.3f} ms")
            rows.append({"net": name, "batch": batch, "step_seconds": seconds, "machine": torch.cuda.get_device_name(), "library": f"PyTorch {torch.__version__}"})
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


main()
