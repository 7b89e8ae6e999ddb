# SPDX-License-Identifier: Apache-2.0
"""What a built and an installed motley load: nothing from the current directory, nothing from outside the installation."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1]).resolve()
PLANTED = 'extern "C" int puts(const char*); __attribute__((constructor)) static void run() { puts("PLANTED CODE RAN"); }\n'


def run(*command, **more):
    return subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def check_run_paths(root):
    """Every ELF file's run path has only absolute folders and those relative to the file itself."""
    files = [path for path in root.rglob("*") if path.suffix not in (".o", ".a") and is_elf(path)]
    for path in files:
        paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", run("readelf", "-d", "-W", path).stdout)
        wrong = [one for found in paths for one in found.split(":") if not re.match(r"\$ORIGIN(/|$)|/", one)]
        if wrong:
            sys.exit(f"{path} searches libraries in {wrong}, relative to the current directory")
    return len(files)


def plant(file, source):
    file.parent.mkdir(parents=True, exist_ok=True)
    done = run(os.environ.get("CXX", "c++"), "-shared", "-fPIC", "-x", "c++", "-o", file, source)
    if done.returncode:
        sys.exit(f"no library could be made to plant:\n{done.stdout}")


with tempfile.TemporaryDirectory(prefix="motley-loads-") as folder:
    there = pathlib.Path(folder)
    source = there / "planted.cpp"
    source.write_text(PLANTED)
    done = run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", there / "installed")
    if done.returncode:
        sys.exit(done.stdout)
    count = check_run_paths(build) + check_run_paths(there / "installed")

    # Libraries that the program needs, in the current directory and in folders of it that a run path could name by mistake.
    work = there / "work"
    for name in ("X" * 20, "X", ".", "lib"):
        plant(work / name / "libhwloc.so.15", source)
    done = run(build / "motley", "--version", cwd=work)
    if done.returncode or "PLANTED" in done.stdout:
        sys.exit(f"{build}/motley loads libraries from the current directory:\n{done.stdout}")

    # A copy of the program and its library; modules around it, and in the current directory.
    prefix = there / "prefix"
    (prefix / "alice/lib").mkdir(parents=True)
    shutil.copy2(build / "motley", prefix / "alice/motley")
    shutil.copy2(build / "lib/libmotley.so.0", prefix / "alice/lib/libmotley.so.0")
    for place in ("kernels/cuda", "alice/kernels/cuda", "alice/lib/kernels/cuda", "alice", "", "work"):
        plant(prefix / place / "motley_cuda.so", source)
    env = {key: value for key, value in os.environ.items() if key != "MOTLEY_CUDA"}
    done = run(prefix / "alice/motley", "doctor", cwd=prefix / "work", env=env)
    if "PLANTED" in done.stdout or "motley_cuda.so is not here" not in done.stdout:
        sys.exit(f"a module outside the installation is used:\n{done.stdout}")
    # Beside the library, but not motley's: refused before it is loaded. So is one of another version.
    beside = prefix / "alice/lib/motley_cuda.so"
    plant(beside, source)
    done = run(prefix / "alice/motley", "doctor", cwd=prefix / "work", env=env)
    if "PLANTED" in done.stdout or "is not a CUDA module of motley" not in done.stdout:
        sys.exit(f"a module without motley's note is loaded:\n{done.stdout}")
    note = ('__attribute__((section(".note.motley"), used, aligned(4))) static const struct { unsigned a, b, c; char name[8], version[32]; }'
            ' kNote = {7, 32, 1, "motley", "0.0.1"};\n')
    source.write_text(PLANTED + note)
    plant(beside, source)
    done = run(prefix / "alice/motley", "doctor", cwd=prefix / "work", env=env)
    if "PLANTED" in done.stdout or "is of motley 0.0.1" not in done.stdout:
        sys.exit(f"a module of another version is loaded:\n{done.stdout}")
print(f"{count} ELF files; planted libraries and modules were not loaded")
