# SPDX-License-Identifier: Apache-2.0
"""Every C++ file is as clang-format 14 (.clang-format) writes it. check_format.py ROOT [CLANG_FORMAT]; 77 (skipped) without that version.

To mend it: git ls-files '*.h' '*.cpp' '*.cu' '*.inc' | xargs clang-format -i
"""
import pathlib
import re
import shutil
import subprocess
import sys

FOLDERS = ("app", "bench", "examples", "include", "kernels", "lib", "mesh", "profiler", "tests")


def main(root, program):
    found = shutil.which(program)
    version = re.search(r"version (\d+)", subprocess.run([found, "--version"], capture_output=True, text=True).stdout) if found else None
    if version is None or version[1] != "14":
        print("clang-format 14 is not installed (scripts/deps format installs it)")
        return 77
    files = sorted(str(p) for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in (".h", ".cpp", ".cu", ".inc"))
    result = subprocess.run([found, "--dry-run", "--Werror", *files], capture_output=True, text=True, cwd=root)
    wrong = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line})
    print("\n".join(wrong + [f"{len(files)} files, {len(wrong)} that clang-format would change"]))
    return 1 if wrong or result.returncode or not files else 0


sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "clang-format"))
