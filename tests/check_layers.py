# SPDX-License-Identifier: Apache-2.0
"""Includes go one way: base < mesh | kernels < profiler < lib < app, and inside lib: graph < plan < program < balance < explain | run | weights | pictures < train | svm < config | report.
Folders of one level do not see each other; vendors stay in their folders."""
import pathlib
import re
import sys

ORDER = [["base"], ["mesh", "kernels"], ["profiler"], ["graph"], ["plan"], ["program"], ["balance"], ["explain", "run", "weights", "pictures"], ["train", "svm"], ["config", "report"], ["app"]]
LEVEL = {folder: level for level, folders in enumerate(ORDER) for folder in folders}
# Public headers lie in one folder: each belongs to the folder that implements it.
PUBLIC = {header: folder for folder, headers in {
    "base": "dims dtype error device partition", "mesh": "mesh layout exchange schedule redistribute transport mpi", "kernels": "kernel_spec formula backend",
    "profiler": "profile", "graph": "graph learning_rate ops optimizer step", "plan": "plan rules", "program": "program", "balance": "arrange balance_dim", "run": "batch executor state runtime measure",
    "train": "data data_changes data_files dataset measure_steps predictor trainer weights", "svm": "svm", "config": "motley"}.items() for header in headers.split()}
# What only some files may include: pattern of the include, pattern of the file.
VENDORS = [(r"(motley/)?mpi\.h", r"mesh/|include/motley/mpi\.h"), (r"(oneapi/dnnl/)?dnnl.*", r"kernels/cpu/"), (r"nccl.*", r"mesh/nccl/"),
           (r"(cuda|cudnn|cublas|nvrtc|nvml).*", r"kernels/cuda/|mesh/nccl/"), (r"Eigen/.*|unsupported/Eigen/.*", r"kernels/eigen/"),
           (r"nlohmann/.*", r"lib/base/json\w*\.cpp"), (r"CLI/.*|CLI11.*", r"app/"), (r"zlib\.h", r"lib/(train|weights)/"),
           (r"png\.h", r"lib/pictures/png\.cpp"), (r"jpeglib\.h|jerror\.h", r"lib/pictures/jpeg\.cpp"), (r"libexif/.*", r"lib/pictures/exif\.cpp"), (r"xxh.*\.h", r"lib/base/"),
           # What x86 has instructions for has a portable twin beside it.
           (r"\w+intrin\.h|cpuid\.h", r"kernels/loops/loops\.cpp|lib/base/store_fence\.h")]


def layer_of(path):  # "lib/base/json.cpp", "include/motley/dims.h", "mesh/mesh.cpp"
    parts = path.split("/")
    if path.startswith("include/motley/"):
        return PUBLIC[pathlib.PurePath(path).stem]
    return parts[1] if parts[0] == "lib" else parts[0]


def included_layer(include, quoted):
    if include.startswith("motley/"):
        return layer_of("include/" + include)
    first = include.split("/")[0]
    return first if quoted and "/" in include and first in LEVEL else None  # "graph/passes.h": lib/ is searched too


def main(root):
    wrong, seen = [], 0
    for folder in ("include", "lib", "mesh", "kernels", "profiler", "app"):
        for file in sorted(p for p in (root / folder).rglob("*") if p.suffix in (".h", ".cpp", ".cu", ".inl") and p.parent.name != "pch"):
            path = file.relative_to(root).as_posix()
            seen += 1
            if path.startswith("include/motley/") and file.stem not in PUBLIC:
                wrong.append(f"{path}: name its folder in PUBLIC")
                continue
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
