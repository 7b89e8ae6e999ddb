#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py FOLDER [NETWORK...]: what PyTorch computes of the zoo's networks at an eighth of their width, in f64: two training steps, then an
inference. Writes FOLDER/<network>.json, which golden_test.cpp compares with motley. With --check it compares with the files that are
there instead (a test where torch, torchvision and transformers are installed; exit code 77 where they are not).

Of each tensor the file holds a fingerprint: its largest magnitude and its products with two vectors of random numbers. All values that
go in are random numbers of their tensor's name and their row-major position, so the files stay small."""
import json
import math
import pathlib
import sys
import zlib

try:
    import numpy as np
    import torch
    import torchvision
    from torch import nn
    from torch.nn import functional
    from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CLASSES, RATE, MOMENTUM = 5, 0.05, 0.9


def numbers(name, count):
    """In [-1, 1): splitmix64 (Steele, Lea, Flood, OOPSLA 2014), started from the name's CRC-32."""
    with np.errstate(over="ignore"):
        z = np.uint64(zlib.crc32(name.encode()) << 32) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1


def initial(name, shape):
    u = numbers(name, math.prod(shape))
    if name.endswith(".weight") and len(shape) > 1:
        return u * math.sqrt(6 / math.prod(shape[1:]))
    if name.endswith((".weight", ".running_var")):
        return 1 + u / 4
    return u / 10


def fingerprint(name, values):
    v = values.detach().double().numpy().ravel()
    return [float(abs(v).max()), *(float(v @ numbers(f"{name}:{k}", v.size)) for k in "ab")]


def named(name, tensor, heads):
    """The parts of a tensor as motley calls and shapes them."""
    if ".in_proj_" in name:
        prefix, kind = name.split(".in_proj_")
        for what, part in zip(("query", "key", "value"), tensor.chunk(3)):
            yield f"{prefix}.{what}.{kind}", part.view(heads, -1, *part.shape[1:])
        return
    name = name.removeprefix("transformer.")
    if ".attn.c_attn." in name:  # GPT-2's linear layers are called Conv1D, their weights transposed
        prefix, kind = name.split(".c_attn.")
        for what, part in zip(("query", "key", "value"), tensor.T.chunk(3) if kind == "weight" else tensor.chunk(3)):
            yield f"{prefix}.{what}.{kind}", part.unflatten(0, (heads, -1))
        return
    if name.endswith((".c_proj.weight", ".c_fc.weight")):
        tensor = tensor.T
    if name.startswith("bert.") and ".self." in name:
        tensor = tensor.unflatten(0, (heads, -1))
    for theirs, ours in ((".attn.c_proj.", ".attn.out."), (".attention.output.dense.", ".attention.self.out."), ("cls.predictions.bias", "cls.predictions.decoder.bias")):
        name = name.replace(theirs, ours)
    if name in ("class_token", "encoder.pos_embedding"):
        name, tensor = name.replace(".", "_") + ".weight", tensor[0]
    for part in ("encoder.ln.", "heads.head.", "up1.up.", "up2.up.", "up3.up.", "up4.up.", "outc.conv."):
        if name.startswith(part):
            name = name.replace(".", "_", 1)
    yield name.replace(".out_proj.", ".out."), tensor


class Shortcut(nn.Module):
    """Every second row and column, new channels zero on both sides."""

    def __init__(self, before, after):
        super().__init__()
        self.pad = (0, 0, 0, 0, (after - before) // 2, after - before - (after - before) // 2)

    def forward(self, x):
        return functional.pad(x[:, :, ::2, ::2], self.pad)


class CifarBlock(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.shortcut = Shortcut(before, after) if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class CifarResNet(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 2, 3, 1, 1, bias=False), nn.BatchNorm2d(2)
        for stage in range(3):
            blocks = [CifarBlock(2 << max(stage - (b == 0), 0), 2 << stage, 2 if stage and b == 0 else 1) for b in range((depth - 2) // 6)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


def resnet(block, counts):
    net = torchvision.models.ResNet(block, counts, num_classes=CLASSES)
    net.inplanes = 8
    net.conv1, net.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
    for stage, count in enumerate(counts):
        setattr(net, f"layer{stage + 1}", net._make_layer(block, 8 << stage, count, stride=2 if stage else 1))
    net.fc = nn.Linear(64 * block.expansion, CLASSES)
    return net


def vgg(features, norms):
    """torchvision's layers; images of 32x32 leave one pixel, which its adaptive pool to 7x7 would only repeat."""
    net = torchvision.models.VGG(torchvision.models.vgg.make_layers(features, batch_norm=norms), num_classes=CLASSES, dropout=0.0)
    net.avgpool = nn.Identity()
    net.classifier[0], net.classifier[3], net.classifier[6] = nn.Linear(64, 512), nn.Linear(512, 512), nn.Linear(512, CLASSES)
    return net


def mobilenet():
    settings = [[t, c // 8, n, s] for t, c, n, s in
                [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]]]
    net = torchvision.models.MobileNetV2(CLASSES, width_mult=1.0, inverted_residual_setting=settings, round_nearest=1, dropout=0.0)
    first, last = net.features[0], net.features[18]
    first[0], first[1] = nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4)
    block = net.features[1].conv  # reads the first one's 4 channels
    block[0][0], block[0][1], block[1] = nn.Conv2d(4, 4, 3, 1, 1, groups=4, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1, bias=False)
    last[0], last[1] = nn.Conv2d(40, 160, 1, bias=False), nn.BatchNorm2d(160)
    net.classifier[1] = nn.Linear(160, CLASSES)
    return net


def lenet():
    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(3, 1, 5), nn.Conv2d(1, 2, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(50, 15), nn.Linear(15, 11), nn.Linear(11, CLASSES)

        def forward(self, x):
            x = functional.avg_pool2d(torch.tanh(self.conv1(x)), 2)
            x = functional.avg_pool2d(torch.tanh(self.conv2(x)), 2).flatten(1)
            return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))

    return LeNet()


class Twice(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        n = torch.nn
        self.double_conv = n.Sequential(n.Conv2d(i, o, 3, padding=1, bias=False), n.BatchNorm2d(o), n.ReLU(), n.Conv2d(o, o, 3, padding=1, bias=False), n.BatchNorm2d(o), n.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), Twice(i, o))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(i, o, 2, stride=2), Twice(i, o)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class Out(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    """Layers called as in github.com/milesial/Pytorch-UNet."""
    def __init__(self, c, classes):
        super().__init__()
        self.inc = Twice(3, c)
        for k in range(4):
            setattr(self, f"down{k + 1}", Down(c << k, c << k + 1))
            setattr(self, f"up{k + 1}", Up(c << 4 - k, c << 3 - k))
        self.outc = Out(c, classes)

    def forward(self, x):
        skips = [self.inc(x)]
        for k in range(4):
            skips.append(getattr(self, f"down{k + 1}")(skips[-1]))
        x = skips.pop()
        for k in range(4):
            x = getattr(self, f"up{k + 1}")(x, skips.pop())
        return self.outc(x)


def vit():
    return torchvision.models.VisionTransformer(image_size=64, patch_size=16, num_layers=12, num_heads=12, hidden_dim=96, mlp_dim=384,
                                                num_classes=CLASSES)


def gpt():
    return GPT2LMHeadModel(GPT2Config(vocab_size=CLASSES, n_embd=96, n_layer=12, n_head=12, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                      bos_token_id=None, eos_token_id=None))


def bert():
    return BertForMaskedLM(BertConfig(vocab_size=CLASSES, hidden_size=96, num_hidden_layers=12, num_attention_heads=12, intermediate_size=384,
                                      hidden_dropout_prob=0, attention_probs_dropout_prob=0, pad_token_id=None))


A = [8, "M", 16, "M", 32, 32, "M", 64, 64, "M", 64, 64, "M"]
D = [8, 8, "M", 16, 16, "M", 32, 32, 32, "M", 64, 64, 64, "M", 64, 64, 64, "M"]
Basic, Bottleneck = torchvision.models.resnet.BasicBlock, torchvision.models.resnet.Bottleneck
NETWORKS = {"lenet5": (lenet, 32), "vgg11": (lambda: vgg(A, False), 32), "vgg16_bn": (lambda: vgg(D, True), 32),
            "resnet20": (lambda: CifarResNet(20), 32), "resnet56": (lambda: CifarResNet(56), 32),
            "resnet18": (lambda: resnet(Basic, [2, 2, 2, 2]), 64), "resnet34": (lambda: resnet(Basic, [3, 4, 6, 3]), 64),
            "resnet50": (lambda: resnet(Bottleneck, [3, 4, 6, 3]), 64), "mobilenet_v2": (mobilenet, 64), "vit": (vit, 64), "unet": (lambda: UNet(8, CLASSES), 32),
            "gpt": (gpt, 7), "bert": (bert, 7)}


def golden(name):
    make, size = NETWORKS[name]
    net = make().double()
    heads, reads_tokens = 12, name in ("gpt", "bert")

    def fingerprints(tensors):
        return {key: fingerprint(key, part) for whole, tensor in tensors for key, part in named(whole, tensor, heads)}

    def classes(of, shape):
        return torch.from_numpy(((numbers(of, math.prod(shape)) + 1) / 2 * CLASSES).astype(np.int64)).reshape(shape)

    def logits():
        return net(image).logits.movedim(2, 1) if reads_tokens else net(image)

    state = [*net.named_parameters(), *(buffer for buffer in net.named_buffers() if ".running_" in buffer[0])]
    for whole, tensor in state:
        for key, part in named(whole, tensor.data, heads):
            part.copy_(torch.from_numpy(initial(key, part.shape)).reshape(part.shape))
    image = classes("image", (4, size)) if reads_tokens else torch.from_numpy(numbers("image", 4 * 3 * size * size)).reshape(4, 3, size, size)
    label = classes("label", (4, size, size) if name == "unet" else (4, size) if reads_tokens else (4,))
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    out = {"network": name, "size": size, "losses": []}
    net.train()
    for step in range(2):
        optimizer.zero_grad()
        loss = functional.cross_entropy(logits(), label)
        loss.backward()
        if step == 0:
            out["gradients"] = fingerprints((key, p.grad) for key, p in net.named_parameters())
        optimizer.step()
        out["losses"].append(loss.item())
    out["state"] = fingerprints(state)
    net.eval()
    with torch.no_grad():
        out["logits"] = fingerprint("logits", logits().movedim(1, 2) if reads_tokens else logits())
    return out


def apart(a, b):
    """The largest difference of two fingerprints, or of those in dicts, divided by the largest magnitude. Next to a millionth of the
    others' a gradient is rounding alone (that of a bias before a norm)."""
    if not isinstance(a, dict):
        a, b = {"": a}, {"": b}
    assert a.keys() == b.keys(), set(a) ^ set(b)
    most = max(print_[0] for print_ in a.values())
    return max(abs(x - y) / max(a[key][0], 1e-6 * most) for key in a for x, y in zip(a[key], b[key]))


folder, check = pathlib.Path(sys.argv[1]), "--check" in sys.argv
for network in [n for n in NETWORKS if n in sys.argv] or NETWORKS:
    file, made = folder / f"{network}.json", golden(network)
    if not check:
        lines = json.dumps(made).replace("], ", "],\n").replace("{", "{\n")
        file.write_text(lines + "\n")
        continue
    there = json.loads(file.read_text())
    worst = max(*(apart(there[key], made[key]) for key in ("gradients", "state", "logits")), abs(max(there["losses"]) - max(made["losses"])))
    print(f"{network}: {worst:.1e}")
    assert worst < 1e-8, network
