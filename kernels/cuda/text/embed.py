#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py FILE.inc... > texts.cpp: each as motley::cuda::FILE_text(), without its licence line."""
import pathlib
import sys

print('// Made by embed.py.\n#include "kernels/cuda/kernel_text.h"\n\nnamespace motley::cuda {')
for name in sys.argv[1:]:
    path = pathlib.Path(name)
    text = path.read_text(encoding="utf-8").split("\n", 1)[1]
    print(f'\nconst std::string& {path.stem}_text() {{\n  static const std::string text = R"text({text})text";\n  return text;\n}}')
print("\n}  // namespace motley::cuda")
