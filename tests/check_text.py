# SPDX-License-Identifier: Apache-2.0
"""Every source has its licence line, nothing left to do in it, no path of somebody's machine and no word of a list; folder READMEs are
short; every public header is named where it is installed; no committed file is large."""
import pathlib
import re
import subprocess
import sys

FOLDERS = ("include", "lib", "mesh", "kernels", "profiler", "app", "tests", "bench", "examples", "scripts", ".ci", "docs", "configs")
SOURCES = {".h", ".cpp", ".cu", ".inl", ".py", ""}  # scripts have no suffix
TEXTS = SOURCES | {".md", ".json", ".build", ".txt", ".in"}
FORBIDDEN = [(re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b"), "something left to do"),
             (re.compile(r"(?<![\w./])/(home|root|work|mnt|Users)/"), "a path of somebody's machine"),
             (re.compile(r"\b(the hou" r"se|held aga" r"inst|made-" r"up|whoe" r"ver|nobo" r"dy|everybo" r"dy|ane" r"w|told ap" r"art|rides al" r"ong)\b", re.I),
              "a word that is not a term of the field")]
LONG = 400  # lines of a source that aims too high: listed, not refused
LARGE = 1 << 18  # bytes of a committed file: what is larger was not written here, or belongs elsewhere


def check(root, file):
    path, lines = file.relative_to(root).as_posix(), file.read_text().splitlines()
    if file.suffix in SOURCES and not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        yield f"{path}:1: no line 'SPDX-License-Identifier: Apache-2.0'"
    for number, line in enumerate(lines, 1):
        for pattern, what in FORBIDDEN:
            if pattern.search(line):
                yield f"{path}:{number}: {what}: {line.strip()}"
    if file.name == "README.md" and file.parent != root and len(lines) > 60:
        yield f"{path}: {len(lines)} lines; a folder's README has 60 at most"
    if file.suffix in SOURCES and len(lines) > LONG:
        print(f"note: {path}: {len(lines)} lines")


def large(root):
    if not (root / ".git").exists():  # an unpacked archive
        return
    command = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z"]
    for name in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]:
        if (root / name).is_file() and (root / name).stat().st_size > LARGE:
            yield f"{name}: {(root / name).stat().st_size} bytes; at most {LARGE} are committed"


def main(root):
    files = [root / "README.md", root / "meson.build"]
    for folder in FOLDERS:
        files += sorted(p for p in (root / folder).rglob("*") if p.is_file() and p.suffix in TEXTS and "__pycache__" not in p.parts)
    wrong = [text for file in files if file.exists() for text in check(root, file)]
    wrong += large(root)
    named = re.findall(r"'(\w+)'", (root / "include/motley/meson.build").read_text())
    wrong += [f"include/motley/meson.build: {h.stem} is not named" for h in (root / "include/motley").glob("*.h") if h.stem not in named]
    print("\n".join(wrong + [f"{len(files)} files, {len(wrong)} wrong"]))
    return 1 if wrong else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
