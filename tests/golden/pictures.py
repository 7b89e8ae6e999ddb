#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py SOURCE_ROOT: writes tests/golden/pictures.json, what Pillow 12 and torchvision make of pictures.
`scaled`: of a pattern, a region of it in another size; `files`: the photographs of configs/data/photos as torchvision's transforms see them."""
import json
import pathlib
import sys

import numpy as np
from PIL import Image, ImageOps, __version__
from torchvision.transforms import CenterCrop, Compose, Resize

assert __version__.startswith("12."), __version__  # 13 scales tall pictures down before across: up to 1 of 255 elsewhere
ROOT = pathlib.Path(sys.argv[1])


def pattern(rows, cols, channels):
    r, c, k = np.mgrid[0:rows, 0:cols, 0:channels]
    return ((r * r * 7 + c * 13 + r * c * 3 + k * 101) % 256).astype(np.uint8)


def scaled(rows, cols, channels, region, to):
    top, bottom, left, right = region
    part = Image.fromarray(pattern(rows, cols, channels).squeeze()[top:bottom, left:right])
    pixels = np.asarray(part.resize((to[1], to[0]), Image.BILINEAR))
    return {"rows": rows, "cols": cols, "channels": channels, "region": region, "to": to, "pixels": pixels.tobytes().hex()}


def seen(name, transform, channels, how):
    picture = ImageOps.exif_transpose(Image.open(ROOT / name)).convert("RGB" if channels == 3 else "L")
    return {"file": name, "channels": channels, **how, "pixels": np.asarray(transform(picture)).tobytes().hex()}


CASES = [(240, 400, 3, (0, 240, 0, 400), (9, 8)), (400, 240, 3, (0, 400, 0, 240), (8, 9)), (17, 9, 1, (0, 17, 0, 9), (23, 31)), (33, 57, 3, (3, 30, 10, 57), (10, 11)),
         (20, 20, 3, (0, 20, 0, 20), (20, 7)), (20, 20, 1, (0, 20, 0, 20), (7, 20)), (5, 6, 3, (2, 3, 4, 5), (3, 4)), (500, 3, 1, (0, 500, 0, 3), (2, 30)), (64, 64, 3, (1, 64, 0, 63), (13, 12))]
files = []
for label, cls in enumerate(["ball", "cup", "house"]):
    for name in sorted((ROOT / "configs/data/photos/train" / cls).glob("[0-7].*")):
        path = name.relative_to(ROOT).as_posix()
        files.append(seen(path, Resize((11, 9)), 3 if label else 1, {"rows": 11, "cols": 9, "shorter": 0}))
        files.append(seen(path, Compose([Resize(13), CenterCrop((10, 12))]), 3, {"rows": 10, "cols": 12, "shorter": 13}))
out = json.dumps({"scaled": [scaled(*case) for case in CASES], "files": files}, indent=0)
(ROOT / "tests/golden/pictures.json").write_text(out + "\n")
