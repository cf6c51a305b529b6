"""Run the command in a child process, to kill and interrupt it, and read its results."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import torch
from safetensors.torch import load_file

from fedpan_exp import cli
from fedpan_exp.system.atomic_io import read_lines

SMALL = ("dataset=digits", "model.width=32", *(f"fl_scene.{s}" for s in ("K=12", "R=0.5", "E=1", "H=12")))


def child(
    folder: Path,
    *args: str,
    prepare: Callable[[], object] = lambda: None,
    main: Callable[[], object] = cli.main,
) -> int:
    """Start a command in a forked process: importing torch would take longer than the run. Returns its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        folder.mkdir(exist_ok=True)
        os.chdir(folder)
        out = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for standard in (1, 2):
            os.dup2(out, standard)
        sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
        sys.argv = ["fedpan_exp", *args]
        prepare()
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os._exit(code)


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def has_ended(process: int) -> bool:
    """Whether `ended` would return at once."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_for(condition: Callable[[], object], seconds: float = 180, every: float = 0.002) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "timed out"
        time.sleep(every)


def run_folder(folder: Path) -> Path:
    (run,) = (path for path in (folder / "runs").iterdir() if path.name[0] != ".")
    return run


def outcome(folder: Path) -> tuple[str, list[dict]]:
    """Return the hash of the final weights, and all records without the times."""
    run = run_folder(folder)
    records = read_lines(run / "metrics.jsonl")
    timeless = [{name: v for name, v in record.items() if not name.startswith("time/")} for record in records]
    return sha256((run / "weights.safetensors").read_bytes()).hexdigest(), timeless


def assert_same_outcome(one: Path, other: Path) -> None:
    weights, other_weights = (load_file(run_folder(folder) / "weights.safetensors") for folder in (one, other))
    for name, tensor in weights.items():
        assert torch.equal(other_weights[name], tensor)
    lines, other_lines = (read_lines(run_folder(folder) / "metrics.jsonl") for folder in (one, other))
    assert [line["round"] for line in other_lines] == [line["round"] for line in lines]
    for line, other_line in zip(lines, other_lines, strict=True):
        assert other_line["comm/up_bytes"] == line["comm/up_bytes"]
        assert other_line["train/loss"] == line["train/loss"]


def workers_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def torchrun(
    folder: Path,
    *overrides: str,
    node: int = 0,
    nodes: int = 1,
    ranks: int = 2,
    port: int = 0,
    restarts: int = 0,
    program: Sequence[str] = ("-m", "fedpan_exp"),
) -> subprocess.Popen[str]:
    """Start the command by torchrun; `program` runs it."""
    folder.mkdir(exist_ok=True)
    rendezvous = ("--standalone",) if nodes == 1 else (f"--node-rank={node}", "--master-addr=127.0.0.1")
    ports = () if nodes == 1 else (f"--master-port={port}",)
    size = (f"--nnodes={nodes}", f"--nproc-per-node={ranks}", f"--max-restarts={restarts}")
    command = (*size, *rendezvous, *ports, *program, *overrides)
    root = str(Path(__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, "COLUMNS": "300", "GLOO_SOCKET_IFNAME": "lo"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
