# SPDX-License-Identifier: Apache-2.0
"""kernels/ computes formulas: no name of a pointwise op, norm, loss or optimizer is in its C++ code but the vendors' own."""
import pathlib
import re
import sys

VENDORS = re.compile(r"eltwise_\w+|CUDNN_\w+")  # oneDNN's and cuDNN's names for formulas that they know
MATHS = {"tanh"}  # a function of formulas too
ALWAYS = {"softmax", "cross_entropy", "momentum", "weight_decay", "dropout", "layer_norm", "batch_norm", "activation"}


def main(root):
    names = set(ALWAYS)
    for file in (root / "lib/graph/ops").glob("*.cpp"):
        names |= set(re.findall(r'\b(?:Pointwise|OptimizerKind)\s+\w+\s*\(\s*"(\w+)"', file.read_text()))
    names -= MATHS
    word = re.compile(r"\b(" + "|".join(sorted(names)) + r")\b", re.IGNORECASE)
    wrong, seen = [], 0
    for file in sorted(p for p in (root / "kernels").rglob("*") if p.suffix in (".h", ".cpp", ".inc", ".cu")):
        seen += 1
        for number, line in enumerate(file.read_text().splitlines(), 1):
            code = VENDORS.sub("", line.split("//")[0])
            if found := word.search(code):
                wrong.append(f'{file.relative_to(root)}:{number}: "{found[1]}" is an op\'s name; write its formula in lib/graph/ops')
    print("\n".join(wrong + [f"{seen} files, {len(names)} names, {len(wrong)} wrong"]))
    return 1 if wrong or not seen or len(names) <= len(ALWAYS) else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
