# SPDX-License-Identifier: Apache-2.0
"""bench_results.py FOLDER RESULTS.md [--quick]: rewrites the sections of RESULTS.md whose rows are in FOLDER/NAME.json.
The question is the comment at the head of bench/NAME.cpp."""
import datetime
import json
import pathlib
import re
import sys

HEAD = "# Results\n\nRatios inside one table hold; seconds are those of the machine of that run. Written by `scripts/bench`.\n"
ONCE = ("machine", "library", "versions", "threads", "batch")  # said once above a table where all rows agree


def cell(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return value.replace("|", "\\|")
    return "-" if value is None else json.dumps(value)


def question(name):
    lines = pathlib.Path(f"bench/{name}.cpp").read_text().splitlines()[1:]
    text = []
    for line in lines:
        if not line.startswith("// ") or line.startswith("//   "):
            break
        text.append(line[3:].strip())
    return " ".join(text)


def summary(rows):
    """Medians and maxima of what is a ratio to the best, per partner."""
    lines = []
    for partner in dict.fromkeys(row.get("partner_isa") for row in rows):
        for key in (k for k in rows[0] if k.endswith("_over_best")):
            values = sorted(r[key] for r in rows if r.get("partner_isa") == partner and isinstance(r.get(key), (int, float)))
            if values:
                lines.append(f"- {key} beside {partner}: median {values[len(values) // 2]:.3f}, max {values[-1]:.3f}, {len(values)} rows")
    return lines + [""] if lines else []


def section(name, rows, command):
    keys = list(dict.fromkeys(key for row in rows for key in row))
    about = [k for k in ONCE if k in keys and all(row.get(k) == rows[0].get(k) for row in rows)]
    keys = [k for k in keys if k not in about]
    how = f"{datetime.date.today()}, `{command}`" + "".join(f"; {k} {cell(rows[0][k])}" for k in about) + "."
    lines = [f"## {name}", "", question(name), "", how, "", *summary(rows)]
    lines += ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(cell(row.get(k)) for k in keys) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main():
    folder, results = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    old = re.split(r"(?m)^(?=## )", results.read_text())[1:] if results.exists() else []
    sections = {part[3:].split("\n", 1)[0]: part.rstrip() + "\n" for part in old}
    for file in sorted(folder.glob("*.json")):
        rows = json.loads(file.read_text())
        if not rows:
            sys.exit(f"{file.stem}: no rows")
        sections[file.stem] = section(file.stem, rows, " ".join(["build/bench/" + file.stem, *sys.argv[3:]]))
    results.write_text("\n".join([HEAD, *(sections[name] for name in sorted(sections))]))


main()
