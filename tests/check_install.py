# SPDX-License-Identifier: Apache-2.0
"""Installs into an empty folder; a project outside then finds motley by pkg-config, builds and runs: the installed one and the one of the build."""
import os
import pathlib
import subprocess
import sys
import tempfile

source, build = (pathlib.Path(p) for p in sys.argv[1:3])


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


with tempfile.TemporaryDirectory(prefix="motley-install-") as folder:
    there = pathlib.Path(folder)
    run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", there / "installed")
    installed = {p.name for p in there.glob("installed/**/include/motley/*.h")}
    missing = {p.name for p in (source / "include/motley").glob("*.h")} - installed
    if missing:
        sys.exit(f"not installed: {', '.join(sorted(missing))} (add them to include/motley/meson.build)")
    pc = next(there.glob("installed/**/pkgconfig/motley.pc"))
    for kind, path, library in [("installed", pc.parent, pc.parent.parent), ("uninstalled", build / "meson-uninstalled", build / "lib")]:
        env = dict(os.environ, PKG_CONFIG_PATH=str(path.resolve()), LD_LIBRARY_PATH=str(library.resolve()))
        run("meson", "setup", there / f"consumer-{kind}", source / "examples/consumer", env=env)
        run("ninja", "-C", there / f"consumer-{kind}", "-j", "1", env=env)
        printed = run(there / f"consumer-{kind}" / "consumer", env=env)
        expected = "big gpu [0,128)x[0,168)\nrank 1 [0,128)x[168,228)\nrank 2 [0,128)x[228,240)\n"
        if printed != expected:
            sys.exit(f"the consumer of the {kind} library printed\n{printed}instead of\n{expected}")
print(f"{len(installed)} headers installed; consumers built by pkg-config ran")
