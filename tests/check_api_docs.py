# SPDX-License-Identifier: Apache-2.0
"""Doxygen makes the API reference without a warning (every public declaration is documented, every link resolves), and every public header
puts its declarations into a group of docs/api.dox. check_api_docs.py SOURCE_ROOT; skipped (77) where Doxygen is not installed."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(sys.argv[1])
groups = set(re.findall(r"@defgroup (\w+)", (root / "docs/api.dox").read_text())) - {"users", "extenders"}
wrong, used = [], set()
for header in sorted((root / "include/motley").glob("*.h")):
    text = header.read_text()
    named = re.findall(r"^/// @addtogroup (\w+)$", text, re.M)
    used.update(named)
    if "/// @file\n" not in text:
        wrong.append(f"include/motley/{header.name}: no /// @file, so its declarations outside of classes are left out")
    if "namespace motley {" in text and (len(named) != 1 or named[0] not in groups):
        wrong.append(f"include/motley/{header.name}: expected /// @addtogroup GROUP once, GROUP one of {', '.join(sorted(groups))}")
wrong += [f"docs/api.dox: no header is in the group {group}" for group in sorted(groups - used)]
if wrong:
    sys.exit("\n".join(wrong))
if not shutil.which("doxygen"):
    print("no doxygen: scripts/deps docs installs it")
    sys.exit(77)
with tempfile.TemporaryDirectory() as out:
    done = subprocess.run(["doxygen", "docs/Doxyfile"], cwd=root, env={**os.environ, "MOTLEY_DOCS": out}, capture_output=True, text=True)
    pages = {group: pathlib.Path(out, f"html/group__{group}.html").exists() for group in groups}
if done.returncode or done.stderr or not all(pages.values()):
    sys.exit(f"{done.stderr}doxygen: exit code {done.returncode}, pages {pages}")
print(f"{len(pages)} groups, no warning")
