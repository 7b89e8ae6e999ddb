# SPDX-License-Identifier: Apache-2.0
"""Includes go one way: base < mesh | kernels (blind to each other) < profiler < lib < app; vendors stay in their folders."""
import pathlib
import re
import sys

LEVEL = {"base": 0, "mesh": 1, "kernels": 1, "profiler": 2, "lib": 3, "app": 4}
# Public headers lie in one folder; those below lib, by layer. All others are lib's.
PUBLIC = {"dims": "base", "dtype": "base", "error": "base", "device": "base", "partition": "base",
          "mesh": "mesh", "layout": "mesh", "exchange": "mesh", "schedule": "mesh", "redistribute": "mesh", "transport": "mesh", "mpi": "mesh",
          "kernel_spec": "kernels", "backend": "kernels", "profile": "profiler"}
# What only some files may include: pattern of the include, pattern of the file.
VENDORS = [(r"(motley/)?mpi\.h", r"mesh/|include/motley/mpi\.h"), (r"(oneapi/dnnl/)?dnnl.*", r"kernels/cpu/"), (r"nccl.*", r"mesh/nccl/"),
           (r"(cuda|cudnn|cublas|nvrtc|nvml).*", r"kernels/cuda/|mesh/nccl/"), (r"Eigen/.*|unsupported/Eigen/.*", r"kernels/"),
           (r"nlohmann/.*", r"lib/base/json\w*\.cpp"), (r"CLI/.*|CLI11.*", r"app/"), (r"zlib\.h", r"lib/train/"),
           (r"xxh.*\.h", r"lib/base/")]


def layer_of(path):  # "lib/base/json.cpp", "include/motley/dims.h"
    if path.startswith("include/motley/"):
        return PUBLIC.get(pathlib.PurePath(path).stem, "lib")
    return "base" if path.startswith("lib/base/") else path.split("/")[0]


def included_layer(include, quoted):
    if include.startswith("motley/"):
        return layer_of("include/" + include)
    first = include.split("/")[0]
    if not quoted or "/" not in include:
        return None
    return first if first in LEVEL else "lib"  # "graph/passes.h": lib/ is searched too


def main(root):
    wrong, seen = [], 0
    for folder in ("include", "lib", "mesh", "kernels", "profiler", "app"):
        for file in sorted(p for p in (root / folder).rglob("*") if p.suffix in (".h", ".cpp", ".cu", ".inl")):
            path = file.relative_to(root).as_posix()
            seen += 1
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
                if not match:
                    continue
                include, here, there = match[2], layer_of(path), included_layer(match[2], match[1] == '"')
                if there and there != here and LEVEL[there] >= LEVEL[here]:
                    wrong.append(f"{path}:{number}: {here} may not include {there}'s {include}")
                wrong += [f"{path}:{number}: {include} may be included in {where} only"
                          for vendor, where in VENDORS if re.fullmatch(vendor, include) and not re.match(where, path)]
    print("\n".join(wrong + [f"{seen} files, {len(wrong)} wrong includes"]))
    return 1 if wrong or not seen else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
