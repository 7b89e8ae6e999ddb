# SPDX-License-Identifier: Apache-2.0
"""bench_results.py FOLDER [--quick]: prints RESULTS.md from FOLDER/NAME.json (rows) and FOLDER/NAME.txt (what NAME printed)."""
import datetime
import json
import pathlib
import sys


def cell(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return value.replace("|", "\\|")
    return json.dumps(value)


def section(name, rows, question):
    keys = list(dict.fromkeys(key for row in rows for key in row))
    # What tells where and with what the rows were made stands once above the table, if it is the same in all.
    about = [k for k in ("machine", "versions") if k in keys and all(row.get(k) == rows[0].get(k) for row in rows)]
    keys = [k for k in keys if k not in about]
    lines = [f"## {name}", "", question, ""]
    lines += [f"{k}: {cell(rows[0][k])}" + ("  " if k != about[-1] else "\n") for k in about]
    lines += ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(cell(row.get(k)) for k in keys) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    how = "scripts/bench" + "".join(" " + a for a in sys.argv[2:])
    print(f"# Results\n\nWritten by `{how}` on {datetime.date.today()}; ratios inside one table hold, seconds are this machine's.\n")
    for file in sorted(folder.glob("*.json")):
        rows = json.loads(file.read_text())
        if not rows:
            sys.exit(f"{file.stem}: no rows")
        question = (file.with_suffix(".txt").read_text().strip().splitlines() or [""])[0]
        print(section(file.stem, rows, question))


main()
