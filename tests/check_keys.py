# SPDX-License-Identifier: Apache-2.0
"""docs/keys.md is what scripts/key_tables.py makes. check_keys.py MOTLEY SOURCE_ROOT"""
import pathlib
import subprocess
import sys

root = pathlib.Path(sys.argv[2])
made = subprocess.run([sys.executable, root / "scripts/key_tables.py", sys.argv[1]], check=True, capture_output=True, text=True).stdout
if made != (root / "docs/keys.md").read_text():
    sys.exit("docs/keys.md is not what the program reads; run: scripts/key_tables.py build/motley > docs/keys.md")
print(f"docs/keys.md: {len(made.splitlines())} lines, as made")
