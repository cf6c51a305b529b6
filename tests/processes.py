"""The command in processes of their own, to be killed and interrupted."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fedpan_exp import cli


def child(folder: Path, *words: str, prepare: Callable[[], object] = lambda: None) -> int:
    """Start the command in a process of its own; forked, because importing torch takes longer than the run."""
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
        sys.argv = ["fedpan_exp", *words]
        prepare()
        cli.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os._exit(code)


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def has_ended(process: int) -> bool:
    """Whether `ended` would answer at once."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_for(condition: Callable[[], object], seconds: float = 180, every: float = 0.002) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(every)
