# SPDX-License-Identifier: Apache-2.0
"""What comes from outside: files of any size, strangers at a port, limits of the shell. outside_test.py MOTLEY [NAME...]"""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

from cli_test import LIMIT, MOTLEY, Room, children, endless, has, job, main, ranks_of


def large_json():
    """Neither many complaints nor many values cost more than reading them: what grew with their square took minutes for each of these."""
    room = Room()

    def said(name, text):
        err = room.run("check", room.write(name, text), code=78).err
        assert len(err) < 20_000, len(err)
        return err

    keys = ",".join(f'"k{i}":1' for i in range(300_000))
    has(said("keys.json", '{"version":1,"devices":[],' + keys + "}"), "/k0: unknown key", "and 990 more; what follows was not read")
    has(said("twice.json", "{" + ",".join(['"axes":1'] * 400_000) + "}"), "this key is written twice", "and 990 more; what follows was not read")
    has(said("list.json", '{"version":1,"split":[' + ",".join(["[]"] * 900_000) + "]}"), "expected an object, found a list")
    has(said("words.json", '{"version":1,"split":{"f":{"axis":"all","parts":[' + ",".join(['""'] * 900_000) + "]}}}"), "and 990 more; what follows was not read")
    has(said("values.json", '{"version":1,"split":[' + ",".join(["[]"] * 1_000_001) + "]}"), "more than 1000000 values in one file")
    has(said("bytes.json", '{"version":1,"split":{}' + " " * (4 << 20) + "}"), "larger than 4 MiB, the limit for such a file")
    devices = ",".join(['{"nam":1}'] * 300_000)
    has(said("mesh.json", f'{{"version":1,"axes":[{{"name":"all","size":300000}}],"devices":[{devices}]}}'), "/devices/0/nam: unknown key", "and 990 more")

    def network(layers):
        return '{"version":1,"inputs":{"x":{"b":4,"f":8}},"layers":[{"op":"dense","in":"f","out":{"g":4}},' + ",".join(layers) + '],"loss":{"op":"mean_squared_error"}}'

    has(room.run("check", room.write("deep.json", network(['{"op":"relu"}'] * 40_000))).out, "nothing wrong")
    has(said("from.json", network([f'{{"op":"relu","from":"y{i}"}}' for i in range(80_000)])), 'there is no layer or input "y0" above', "and 990 more")
    inputs = ",".join(f'"i{k}":{{"batch":8,"a":2}}' for k in range(20_000))
    has(said("inputs.json", f'{{"version":1,"inputs":{{{inputs}}},"layers":[{{"op":"relu"}}],"loss":{{"op":"mean_squared_error"}}}}'), "does not depend on this input", "and 990 more")
    has(said("dims.json", '{"version":1,"zoo":"gpt","inputs":{"t":{"dtype":"i32","b":1,"b":1}},"classes":9,"width":0.0625}'), "this key is written twice")
    # A resolved job, a profile, a plan may be larger.
    room.write("large plan.json", '{"decisions":[],"predicted":' + " " * (5 << 20) + "{}}")
    assert "larger than" not in room.run("check", "large plan.json", code=78).err


def words():
    room = Room()
    room.write("job.json", job())
    err = room.run("--run-dir", "x", "train", "job.json", code=64).err
    has(err, "--run-dir belongs after the command: motley train --run-dir")
    has(room.run("train", "--run-dirr", "x", "job.json", code=64).err, 'did you mean "--run-dir"?')
    has(room.run("train", "--resume", "u\udcff", code=66).err, "u\\xFF: ")


def limits_of_the_shell():
    room = Room()
    room.write("job.json", job(max_steps=2))

    def limited(limit, *command):
        return subprocess.run(["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", MOTLEY, *command], cwd=room.path, env=room.env, capture_output=True, text=True, timeout=LIMIT)

    for limit, text in [("-s 512", "the stack's limit of this shell is 512 KiB (ulimit -s); motley needs 1024 KiB"), ("-f 1000", "(ulimit -f)")]:
        done = limited(limit, "train", "job.json", "--run-dir", "run")
        assert done.returncode == 69, (limit, done.returncode, done.stderr)
        has(done.stderr, text)
        assert not (room.path / "run/metrics.jsonl").exists()


def other_names():
    """Files with another name, and what a killed start has left."""
    room = Room()
    room.write("job.json", job(max_steps=2))
    kept = room.write("kept", "precious")
    for folder, name in [("dump", "batches.npy"), ("dumped", "weights_before")]:
        (room.path / folder).mkdir()
        (room.path / folder / name).symlink_to(kept)
        has(room.run("train", "job.json", "--run-dir", "none", "--dump", folder, code=64).err, f"--dump {folder}/{name} is a link")
    (room.path / "full").mkdir()
    room.write("full/rank-0.bin", "precious")
    has(room.run("train", "job.json", "--run-dir", "none", "--dump", "full", code=64).err, "full/rank-0.bin is not of an earlier dump")
    (room.path / "linked").mkdir()
    os.link(room.path / "kept", room.path / "linked/.lock")
    has(room.run("train", "job.json", "--run-dir", "linked", code=78).err, "linked/.lock is a hard link")
    assert (room.path / "kept").read_text() == "precious" and not (room.path / "none").exists()
    (room.path / "killed").mkdir()
    (room.path / "killed/.motley.new-123-0").touch()
    room.run("train", "job.json", "--run-dir", "killed", "--set", 'train.checkpoint={"every_steps":2}')
    assert not (room.path / "killed/.motley.new-123-0").exists()
    shutil.copytree(room.path / "killed", room.path / "snapshot", copy_function=os.link)
    before = (room.path / "snapshot/metrics.jsonl").read_text()
    room.run("train", "--resume", "killed", "--set", "train.max_steps=4")
    assert (room.path / "snapshot/metrics.jsonl").read_text() == before != (room.path / "killed/metrics.jsonl").read_text()


def ports_of(pid):
    """Ports at which a process listens, and whether at all addresses."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    out = []
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            out.append(int(fields[1].split(":")[1], 16))
    return out


def is_mpiexec(pid):
    return b"mpiexec" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]


@contextlib.contextmanager
def running(room):
    process = endless(room, "run")
    try:
        yield process
    finally:
        if process.poll() is None:  # an assertion has failed
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT)


def strangers():
    """A connection to mpiexec's port, which ends mpiexec, does not reach it once the ranks run."""
    room = Room()
    with running(room) as process:
        ports = ports_of([pid for pid in children(process.pid) if is_mpiexec(pid)][0])
        assert ports, "mpiexec listens at no port"
        time.sleep(0.5)  # two beats: the launcher has seen that all ranks are ready
        for port in ports:
            stranger = socket.socket()
            stranger.settimeout(0.5)
            try:
                stranger.connect(("127.0.0.1", port))
                raise AssertionError("connected")
            except TimeoutError:
                pass
            stranger.close()
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        assert process.returncode == 75 and room.json("run/run.json")["status"] == "stopped"
    # On one host the ranks have no port of their own; an mpiexec that is ended is said to be what ended.
    shutil.rmtree(room.path / "run")
    with running(room) as process:
        mpiexec = [pid for pid in children(process.pid) if is_mpiexec(pid)][0]
        ranks = ranks_of(process.pid).values()
        assert len(ranks) == 2 and all(set(ports_of(pid)) <= set(ports_of(mpiexec)) for pid in ranks)  # which they have inherited
        os.kill(mpiexec, signal.SIGKILL)
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 86, (process.returncode, err)
        has(err, "mpiexec was ended by signal 9")


if __name__ == "__main__":
    sys.exit(main([large_json, words, limits_of_the_shell, other_names, strangers]))
