#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch makes of two unequal CPUs, for a table beside motley's: the quickstart's network and VGG-11, one core each, a fast device
beside a slow one. unequal_torch.py [--net NAME]... [--fast ISA] [--slow ISA] [--rounds N] [--json FILE]

alone: one process on the fast device. ddp: DistributedDataParallel (gloo), half of the batch each. ddp by hand: the batch cut by the two
devices' own speeds, losses weighted by hand so that the gradient is right. dtensor: the filters of a convolution over two devices by
DTensor, compared with the convolution itself. f32, channels last; medians of steps, all in turn. Exit 77 where python has no torch.

A device is slow by what its libraries may use: oneDNN (ONEDNN_MAX_CPU_ISA), ATen (ATEN_CPU_CAPABILITY) and MKL
(MKL_ENABLE_INSTRUCTIONS), as `isa` of a motley device caps oneDNN and the own kernels."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    print("python3 has no torch")
    sys.exit(77)
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CAPS = {  # what each of the libraries calls it
    "sse41": {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "all": {},
}
BATCH = {"quickstart": 64, "vgg11": 32}


def network(name):
    if name == "quickstart":  # configs/models/quickstart.json
        return nn.Sequential(nn.Conv2d(1, 40, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(40, 64, 3, padding=1), nn.ReLU(),
                             nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10)), 1, 28
    if name == "vgg11":  # configs/models/vgg11.json
        layers, channels = [], 3
        for filters in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()] if filters else [nn.MaxPool2d(2)]
            channels = filters or channels
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), 3, 32
    sys.exit(f"no network {name!r} (known: {', '.join(BATCH)})")


class Trained:
    """A network that trains on `images` samples; the loss is weighted so that the mean over ranks is the mean over samples."""

    def __init__(self, name, images, parallel):
        torch.manual_seed(1)
        model, channels, size = network(name)
        model = model.to(memory_format=torch.channels_last)
        self.model = DistributedDataParallel(model) if parallel else model
        self.image = torch.rand(images, channels, size, size).to(memory_format=torch.channels_last)
        self.label = torch.randint(0, 10, (images,))
        self.weight = images * (dist.get_world_size() if parallel else 1) / BATCH[name]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        (nn.functional.cross_entropy(self.model(self.image), self.label) * self.weight).backward()
        self.optimizer.step()


def seconds_of(run):
    """Of the second of two steps, which both ranks begin together."""
    for _ in range(2):
        dist.barrier()
        start = time.perf_counter()
        if run is not None:
            run.step()
        dist.barrier()
    return time.perf_counter() - start


def dtensor_says():
    """Whether a convolution whose filters are sharded by DTensor equals the convolution."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(1)
    weight, image = torch.randn(40, 8, 3, 3), torch.randn(4, 8, 14, 14)
    try:
        out = nn.functional.conv2d(distribute_tensor(image, mesh, [Replicate()]), distribute_tensor(weight, mesh, [Shard(0)]), padding=1)
        whole = out.full_tensor()
    except Exception as error:  # in its own words
        return f"refused: {str(error).strip().splitlines()[0][:200]}"
    right = nn.functional.conv2d(image, weight, padding=1)
    if whole.shape != right.shape:
        return f"wrong: a result of {list(whole.shape)}, expected {list(right.shape)}; no error"
    return "right" if torch.allclose(whole, right, atol=1e-4) else "wrong numbers; no error"


def measure(name, rounds):
    """One row, on rank 0."""
    torch.set_num_threads(1)
    batch, rank = BATCH[name], dist.get_rank()
    alone = Trained(name, batch, False)
    each = [0.0, 0.0]
    for _ in range(3):
        for r in range(2):
            each[r] = seconds_of(alone if r == rank else None)
    both = [each]
    dist.broadcast_object_list(both, 0)
    fast, slow = both[0]
    share = min(batch - 1, max(1, round(batch * slow / (fast + slow))))  # of the fast one
    runs = {"alone": alone if rank == 0 else None, "ddp": Trained(name, batch // 2, True),
            "ddp_by_hand": Trained(name, share if rank == 0 else batch - share, True)}
    times = {key: [] for key in runs}
    for _ in range(rounds):
        for key, run in runs.items():
            times[key].append(seconds_of(run))
    row = {key + "_seconds": statistics.median(list_) for key, list_ in times.items()}
    return {"net": name, "batch": batch, "slow_alone_seconds": slow, **row, "parts_by_hand": [share, batch - share], "dtensor": dtensor_says(),
            "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--net", action="append")
    parser.add_argument("--fast", default="avx2", choices=CAPS)
    parser.add_argument("--slow", default="sse41", choices=CAPS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    args = parser.parse_args()
    nets = args.net or list(BATCH)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        rows = [{"fast": args.fast, "slow": args.slow, **measure(name, args.rounds)} for name in nets]
        if dist.get_rank() == 0:
            for r in rows:
                print(f"{r['net']}: {r['fast']} alone {r['alone_seconds'] * 1e3:.1f} ms, {r['slow']} alone {r['slow_alone_seconds'] * 1e3:.1f} ms, "
                      f"DDP {r['ddp_seconds'] * 1e3:.1f} ms, DDP {r['parts_by_hand']} by hand {r['ddp_by_hand_seconds'] * 1e3:.1f} ms; "
                      f"DTensor, filters of a convolution: {r['dtensor']} (torch {r['torch']})")
            if args.json:
                with open(args.json, "w", encoding="utf-8") as file:
                    json.dump(rows, file, indent=1)
        dist.destroy_process_group()
        return 0
    cores = sorted(os.sched_getaffinity(0))
    ranks = []
    for rank, isa in enumerate((args.fast, args.slow)):
        env = {**os.environ, **CAPS[isa], "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517",
               "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        ranks.append(subprocess.Popen(["taskset", "-c", str(cores[0 if rank == 0 else -1]), sys.executable, *sys.argv], env=env))
    return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
