#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every motley command that README.md, configs/README.md and docs/*.md show in a ```sh block works from the repository root.
check_commands.py MOTLEY SOURCE_ROOT [PAGE...]

A line runs as it is written, but for the words in SHORTER. It ends with exit code 0, or with N where its comment says `# exit N`. Not run:
lines whose comment says `needs a GPU` or `on a cluster`, and commands that are not motley's (a script must at least exist)."""
import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

MOTLEY, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
LIMIT = 120  # seconds, of one command
NOT_HERE = ("needs a GPU", "on a cluster")
PLANS = ["--set", "train.batch=4", "--set", "profile.measure=never"]  # a profile is measured once, below, and quickly
SHORTER = {"profile": ["--set", "train.batch=4", "--budget-seconds", "4"],
           "plan": PLANS,
           "explain": PLANS,
           "eval": PLANS + ["--set", 'data={"kind":"synthetic"}'],
           "verify": PLANS + ["--steps", "1"],
           "train": PLANS + ["--set", "train.max_steps=3", "--set", 'data={"kind":"synthetic"}']}
WRITES = {"-o", "--output", "--mesh", "--svg", "--run-dir", "--trace", "--chrome", "--dump", ">"}


def lines_of(page):
    """(line number, command, comment) of each command in the page's sh blocks."""
    inside, joined, begun = False, "", 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            inside = line.strip() == "```sh"
            continue
        if not inside:
            continue
        begun = begun if joined else number
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        quote, cut = "", len(joined)
        for at, c in enumerate(joined):
            if quote:
                quote = "" if c == quote else quote
            elif c in "'\"":
                quote = c
            elif c == "#":
                cut = at
                break
        command, comment, joined = joined[:cut].strip(), joined[cut + 1:].strip(), ""
        if command:
            yield begun, command, comment


def read_json(path):
    return json.loads(re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.M))


def even_layout(job):
    """The job's cuts with even parts: their kernels are few, so that a profile takes seconds."""
    layout = read_json(job).get("layout", {})
    if isinstance(layout, str):
        layout = read_json(job.parent / layout)
    split = {dim: {"axis": rule["axis"] if isinstance(rule, dict) else rule, "parts": "even"} for dim, rule in layout.get("split", {}).items() if rule}
    return "layout=" + json.dumps({"version": 1, "split": split})


def job_in(words):
    return next((w for w in words[1:] if w.endswith(".json") and "jobs/" in w), None)


class Runner:
    def __init__(self, folder):
        self.folder, self.done, self.wrong, self.count, self.skipped = folder, {}, [], 0, 0
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MOTLEY_", "PMI", "HYDRA", "SLURM"))}
        self.env["XDG_CACHE_HOME"] = str(folder / "cache")

    def execute(self, words, where, env):
        out = None
        if ">" in words:
            out = where / words[words.index(">") + 1]
            words = words[:words.index(">")]
        result = subprocess.run([str(MOTLEY), *words], cwd=where, env={**self.env, **env}, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT)
        if out:
            out.write_text(result.stdout)
        return result

    def run(self, words, where, env):
        verb = words[0] if words else ""
        more = list(SHORTER.get(verb, []))
        if "--steps" in words and "--steps" in more:
            del more[more.index("--steps"):more.index("--steps") + 2]
        if "--resume" in words and any("train.max_steps=" in w for w in words):  # beyond the steps that are done
            more = SHORTER["train"][:-4] + SHORTER["train"][-2:]
        job = job_in(words)
        if job and "own_" in job and "data" in read_json(where / job) and read_json(where / job)["data"]["kind"] in ("npy", "folder", "tokens"):  # its data are there, and tiny
            more = [w for w in more if not w.startswith("data=")]
            more = [w for i, w in enumerate(more) if w != "--set" or (i + 1 < len(more) and more[i + 1] != "--set")]
        if verb == "profile" and job:
            more += ["--set", even_layout(where / job)]
        at = words.index(">") if ">" in words else len(words)
        run = words[:at] + more + words[at:]
        if job and more[:4] == PLANS:
            self.measure_once(words, job, where, env)
        return self.measure(run, where, env) if verb == "profile" else self.execute(run, where, env)

    def measure(self, words, where, env):
        """On a machine that is busy the short budget may not do."""
        result = self.execute(words, where, env)
        if result.returncode != 0 and "budget" in result.stderr:
            result = self.execute(["30" if before == "--budget-seconds" else w for before, w in zip(["", *words], words)], where, env)
        return result

    def measure_once(self, words, job, where, env):
        """A profile of the mesh of this command, where it needs one: what a user's first plan measures by itself."""
        sets = [w for pair in zip(words, words[1:]) if pair[0] == "--set" for w in pair]
        probe = self.execute(["plan", job, *sets, *PLANS], where, env)
        if probe.returncode != 66 or "no profile" not in probe.stderr:
            return
        path = next((w.split("=", 1)[1].strip('"') for w in sets if w.startswith("profile.path=")), None)
        self.measure(["profile", job, *sets, *SHORTER["profile"], "--set", even_layout(where / job), *(["-o", path] if path else [])], where, env)

    def line(self, page, number, command, comment, where):
        place = f"{page}:{number}"
        words, env = shlex.split(command), {}
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            key, value = words.pop(0).split("=", 1)
            env[key] = value
        if not words:
            return
        if words[0].startswith("scripts/") and not (ROOT / words[0]).exists():
            self.wrong.append(f"{place}: there is no {words[0]}")
        if words[0] not in ("motley", "build/motley") or any(text in comment for text in NOT_HERE):
            self.skipped += 1
            return
        if any(w in ("|", "&&", ";", "<", "&") for w in words):
            self.wrong.append(f"{place}: one plain command per line, please: {command}")
            return
        words = [f for w in words[1:] for f in (sorted(os.path.relpath(m, where) for m in glob.glob(str(where / w))) or [w] if "*" in w else [w])]
        expected = re.search(r"\bexit (\d+)", comment)
        expected = int(expected.group(1)) if expected else 0
        key = None if WRITES & set(words) or env else (tuple(words), expected)
        if key in self.done and key is not None and (words[0] != "train"):
            return
        begun = time.monotonic()
        try:
            result = self.run(words, where, env)
            code, said = result.returncode, (result.stdout[-600:] + result.stderr[-1200:])
        except subprocess.TimeoutExpired:
            code, said = None, f"no end within {LIMIT} s"
        self.count += 1
        good = code == expected
        print(f"{time.monotonic() - begun:5.1f} s  {'ok  ' if good else 'FAIL'}  {place}: {command}", flush=True)
        if good:
            self.done[key] = True
        else:
            self.wrong.append(f"{place}: {command}\n  exit {code}, not {expected}\n" + "\n".join("  " + l for l in said.splitlines()))


def main():
    pages = [ROOT / p for p in sys.argv[3:]] or [ROOT / "README.md", ROOT / "configs/README.md", *sorted((ROOT / "docs").glob("*.md"))]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="motley-commands-") as folder:
        runner = Runner(pathlib.Path(folder))
        for page in pages:
            name = page.relative_to(ROOT)
            where = pathlib.Path(folder) / str(name).replace("/", "_")
            where.mkdir()
            shutil.copytree(ROOT / "configs", where / "configs")
            for number, command, comment in lines_of(page):
                runner.line(name, number, command, comment, where)
    for text in runner.wrong:
        print("\n" + text)
    print(f"{runner.count} commands run, {len(runner.wrong)} wrong, {runner.skipped} lines not run, {time.monotonic() - begun:.0f} s")
    return 1 if runner.wrong or runner.count == 0 else 0


sys.exit(main())
