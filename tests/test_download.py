"""Downloads from a real server on this machine, with its whims: cut connections, no ranges, wrong files."""

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from official_files import write_svhn

from fedpan_exp.data.dataset import SOURCES
from fedpan_exp.data.download import Download
from fedpan_exp.data.store import load_or_download, locate
from fedpan_exp.system.errors import DataError

CONTENT = bytes(range(256)) * 4000


class ServerState(ThreadingHTTPServer):
    """Serves `files`; with `cut`, ends each answer after that many bytes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.knows_ranges = True
        self.asked: list[str | None] = []

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: ServerState

    def do_GET(self) -> None:
        self.server.asked.append(self.headers["Range"])
        content = self.server.files.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        start = int(re.findall(r"\d+", self.headers["Range"])[0]) if self.server.knows_ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if self.server.knows_ranges else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ServerState]:
    with ServerState() as server:
        server.files["file.bin"] = CONTENT
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def download(server: ServerState, *names: str) -> Download:
    addresses = tuple(server.address(name) for name in names or ("file.bin",))
    return Download(md5(CONTENT).hexdigest(), addresses)


def test_whole(server, tmp_path):
    assert download(server).into(tmp_path).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_an_interrupted_download_goes_on_or_starts_over(server, tmp_path, knows_ranges):
    server.cut, server.knows_ranges = 300_000, knows_ranges
    with pytest.raises(DataError, match=r"cut off after 300,000 of 1,024,000 bytes"):
        download(server).into(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin.part"]  # not to be taken for the file
    server.cut = None
    assert download(server).into(tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=0-", "bytes=300000-"]


def test_a_part_that_is_all_there(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert download(server).into(tmp_path).read_bytes() == CONTENT


def test_a_part_of_another_file(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    assert download(server).into(tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=14-", "bytes=0-"]


def test_a_file_that_is_another(server, tmp_path):
    server.files["file.bin"] = CONTENT[::-1]
    with pytest.raises(DataError, match=r"what came is not file.bin \(md5 [0-9a-f]{32}, not [0-9a-f]{32}\)"):
        download(server).into(tmp_path)
    assert not list(tmp_path.iterdir())


def test_mirrors_are_tried_in_order(server, tmp_path):
    server.files["mirror/file.bin"] = CONTENT
    assert download(server, "gone/file.bin", "mirror/file.bin").into(tmp_path).read_bytes() == CONTENT
    (tmp_path / "new").mkdir()
    with pytest.raises(
        DataError, match=r"gone/file.bin: HTTP Error 404: Not Found; http.*lost/file.bin: HTTP Error 404"
    ):
        download(server, "gone/file.bin", "lost/file.bin").into(tmp_path / "new")


def test_a_dataset_from_its_official_address(server, tmp_path):
    """Interrupted in the second of two files, then fetched to the end: kept as tensors, nothing left over."""
    data = write_svhn(tmp_path / "there")
    downloads = []
    for path in sorted((tmp_path / "there/svhn").iterdir()):
        content = path.read_bytes()
        server.files[path.name] = content
        downloads.append(Download(md5(content).hexdigest(), (server.address(path.name),)))
    source = replace(SOURCES["svhn"], counts=(60, 20), official=lambda: downloads)
    root = tmp_path / "here"

    second = server.files.pop(downloads[1].name)
    with pytest.raises(DataError, match=r"dataset=svhn is not in dataset.root=.* HTTP Error 404"):
        load_or_download(source, root)
    assert [path.name for path in (root / ".svhn-download").iterdir()] == [downloads[0].name]
    server.files[downloads[1].name] = second
    assert load_or_download(source, root).digest() == data.digest()
    held = locate(source, root)
    assert held is not None
    assert held.verdict == "official"
    assert len(server.asked) == 3  # the first file was not asked for again
    assert sorted(path.name for path in root.iterdir()) == [".svhn.lock", "svhn.safetensors"]


def test_no_network(tmp_path: Path):
    source = replace(
        SOURCES["gtsrb"], official=lambda: [Download("0" * 32, ("http://127.0.0.1:9/GTSRB_Final_Test_GT.zip",))]
    )
    with pytest.raises(DataError) as refusal:
        load_or_download(source, tmp_path)
    message = str(refusal.value)
    assert "\n" not in message
    assert "official address: http://127.0.0.1:9/GTSRB_Final_Test_GT.zip: <urlopen error" in message
    assert "put GTSRB_Final_Test_GT.zip (md5 00000000000000000000000000000000) from https://benchmark.ini" in message
    assert not list(tmp_path.glob("*.safetensors"))
