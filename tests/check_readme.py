# SPDX-License-Identifier: Apache-2.0
"""README's C++ example is examples/train_fashion_mnist.cpp, letter for letter; every file that a page links to exists."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
readme = (root / "README.md").read_text()
blocks = [b for b in re.findall(r"^```cpp\n(.*?)^```", readme, re.M | re.S) if "#include <motley/motley.h>" in b]
example = (root / "examples/train_fashion_mnist.cpp").read_text()
example = example[example.index("#include"):]
if blocks != [example]:
    sys.exit("README.md's example (%d found) and examples/train_fashion_mnist.cpp differ" % len(blocks))
pages = [p for p in root.rglob("*.md") if not p.relative_to(root).parts[0].startswith((".", "build", "runs"))]
links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S))]
missing = [f"{page.relative_to(root)}: {link}" for page, link in links if not (page.parent / link).exists()]
print("\n".join(missing + [f"{len(links)} links, {len(missing)} missing"]))
sys.exit(1 if missing else 0)
