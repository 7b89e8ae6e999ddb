#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/fine_tune.md with PyTorch itself: from a torchvision network's file, by the page's commands, to weights in a torchvision module whose logits
are motley's. Skipped (77) where python3 has no torch, torchvision, safetensors. check_fine_tune.py MOTLEY SOURCE_ROOT"""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

MOTLEY, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
FROZEN = ("conv1.", "bn1.", "layer1.", "layer2.")
try:
    import numpy
    import safetensors.torch
    import torch
    import torchvision
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def commands():
    """Of the page, but for those that make a stand-in for torchvision's file."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/fine_tune.md").read_text(), flags=re.M | re.S)
    assert "stand_in" in blocks[0]
    for line in "".join(blocks[1:]).splitlines():
        command, _, comment = line.partition("    # ")
        words = shlex.split(command)
        assert words[0] == "build/motley", line
        yield words[1:], int(comment.split()[1]) if comment.startswith("exit ") else 0


def randomized(net):
    """Nothing at 0 or 1: a tensor that is not loaded shows."""
    for name, values in net.named_buffers():
        if name.endswith("running_mean"):
            values.copy_(0.1 * torch.randn_like(values))
        if name.endswith("running_var"):
            values.copy_(0.5 + torch.rand_like(values))
    for values in net.parameters():
        if values.dim() == 1:
            values.data.add_(0.1 * torch.randn_like(values))
    return net


def main(folder):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    shutil.copytree(ROOT / "configs", folder / "configs")
    begin = randomized(torchvision.models.resnet18(weights=None)).state_dict()
    safetensors.torch.save_file(begin, folder / "resnet18.safetensors")
    for words, code in commands():
        done = subprocess.run([MOTLEY, *words], cwd=folder, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
        assert done.returncode == code, f"{words}: exit {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
        if words[0] == "check":
            assert '"fc.weight": [1000, 512], expected [3, 512]' in done.stderr and "measuring" not in done.stderr, done.stderr
    net = torchvision.models.resnet18(num_classes=3)
    tuned = safetensors.torch.load_file(folder / "runs/tuned/weights.safetensors")
    lacks = net.load_state_dict(tuned, strict=False)
    assert not lacks.unexpected_keys and all(k.endswith("num_batches_tracked") for k in lacks.missing_keys), lacks
    same = {name: torch.equal(begin[name], values) for name, values in dict(net.named_parameters()).items() if not name.startswith("fc.")}
    assert set(name for name in same if name.startswith(FROZEN)) and all(name.startswith(FROZEN) for name in same if same[name]), same
    # layer2 was trained by the last command alone, which went on in the same run.
    x = torch.rand(5, 3, 16, 16)
    numpy.save(folder / "x.npy", x.numpy())
    subprocess.run([MOTLEY, "predict", "configs/jobs/fine_tune.json", "--weights", "runs/tuned", "--input", "x.npy", "-o", "y.npy", "--quiet"], cwd=folder, check=True)
    normalize = json.loads(re.sub(r"^\s*//.*$", "", (ROOT / "configs/jobs/fine_tune.json").read_text(), flags=re.M))["data"]["normalize"]
    mean, std = (torch.tensor(normalize[key]).reshape(3, 1, 1) for key in ("mean", "std"))
    with torch.no_grad():
        expected = net.eval()((x - mean) / std).numpy()
    apart = float(abs(numpy.load(folder / "y.npy") - expected).max() / abs(expected).max())
    print(f"largest difference of the logits: {apart:.1e} of the largest")
    return 0 if apart <= 1e-5 else 1


with tempfile.TemporaryDirectory(prefix="motley-fine-tune-") as made:
    sys.exit(main(pathlib.Path(made)))
