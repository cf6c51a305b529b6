"""How long a user waits: for help, for an error, for the first round."""

import subprocess
import sys
import tempfile
import time

REFUSALS = {
    "--help": "--help",
    "a misspelt setting, pan.a=1": "pan.a=1",
    "an invalid value, fl_scene.K=-1": "fl_scene.K=-1",
    "a value that does not fit the data, fl_scene.K=1000000": "fl_scene.K=1000000",
}


def seconds_to_end(arg: str) -> float:
    """Wall-clock time of a command that trains nothing."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "fedpan_exp", arg], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def seconds_to_first_round(logger: str) -> float:
    """Wall-clock time until the default job has finished and tested its first round, with its data on disk."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedpan_exp", f"runs={folder}", f"logger={logger}"]
        started = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            next(line for line in process.stdout if "round 1/" in line)
            seconds = time.perf_counter() - started
            process.terminate()
            process.stdout.read()  # its last lines, so that it can end
    return seconds
