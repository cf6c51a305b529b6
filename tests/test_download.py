"""Downloads from a local HTTP server: cut connections, no range support, wrong files."""

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


class FileServer(ThreadingHTTPServer):
    """Serve `files`; close the connection after `cut` bytes, if set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.supports_ranges = True
        self.requested_ranges: list[str | None] = []

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        self.server.requested_ranges.append(self.headers["Range"])
        content = self.server.files.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        start = int(re.findall(r"\d+", self.headers["Range"])[0]) if self.server.supports_ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if self.server.supports_ranges else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as server:
        server.files["file.bin"] = CONTENT
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def download(server: FileServer, *names: str) -> Download:
    urls = tuple(server.url(name) for name in names or ("file.bin",))
    return Download(md5(CONTENT).hexdigest(), urls)


def test_a_complete_download(server, tmp_path):
    assert download(server).fetch_to(tmp_path).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("supports_ranges", [True, False])
def test_an_interrupted_download_resumes_or_starts_over(server, tmp_path, supports_ranges):
    server.cut, server.supports_ranges = 300_000, supports_ranges
    with pytest.raises(DataError, match=r"cut off after 300,000 of 1,024,000 bytes"):
        download(server).fetch_to(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin.part"]  # cannot be mistaken for the complete file
    server.cut = None
    assert download(server).fetch_to(tmp_path).read_bytes() == CONTENT
    assert server.requested_ranges == ["bytes=0-", "bytes=300000-"]


def test_a_partial_file_that_is_already_complete(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert download(server).fetch_to(tmp_path).read_bytes() == CONTENT


def test_a_partial_file_with_other_content(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    assert download(server).fetch_to(tmp_path).read_bytes() == CONTENT
    assert server.requested_ranges == ["bytes=14-", "bytes=0-"]


def test_a_download_with_the_wrong_checksum(server, tmp_path):
    server.files["file.bin"] = CONTENT[::-1]
    with pytest.raises(DataError, match=r"the downloaded file is not file.bin \(md5 [0-9a-f]{32}, not [0-9a-f]{32}\)"):
        download(server).fetch_to(tmp_path)
    assert not list(tmp_path.iterdir())


def test_mirrors_are_tried_in_order(server, tmp_path):
    server.files["mirror/file.bin"] = CONTENT
    assert download(server, "gone/file.bin", "mirror/file.bin").fetch_to(tmp_path).read_bytes() == CONTENT
    (tmp_path / "new").mkdir()
    with pytest.raises(
        DataError, match=r"gone/file.bin: HTTP Error 404: Not Found; http.*missing/file.bin: HTTP Error 404"
    ):
        download(server, "gone/file.bin", "missing/file.bin").fetch_to(tmp_path / "new")


def test_a_dataset_from_its_official_address(server, tmp_path):
    """A download that failed at the second of two files is completed: tensors are saved, temporary files deleted."""
    data = write_svhn(tmp_path / "server")
    downloads = []
    for path in sorted((tmp_path / "server/svhn").iterdir()):
        content = path.read_bytes()
        server.files[path.name] = content
        downloads.append(Download(md5(content).hexdigest(), (server.url(path.name),)))
    source = replace(SOURCES["svhn"], counts=(60, 20), downloads=lambda: downloads)
    root = tmp_path / "local"

    second = server.files.pop(downloads[1].name)
    with pytest.raises(DataError, match=r"dataset=svhn is not in dataset.root=.* HTTP Error 404"):
        load_or_download(source, root)
    assert [path.name for path in (root / ".svhn-download").iterdir()] == [downloads[0].name]
    server.files[downloads[1].name] = second
    assert load_or_download(source, root).digest() == data.digest()
    located = locate(source, root)
    assert located is not None
    assert located.verdict == "official"
    assert len(server.requested_ranges) == 3  # the first file was not requested again
    assert sorted(path.name for path in root.iterdir()) == [".svhn.lock", "svhn.safetensors"]


def test_no_network(tmp_path: Path):
    source = replace(
        SOURCES["gtsrb"], downloads=lambda: [Download("0" * 32, ("http://127.0.0.1:9/GTSRB_Final_Test_GT.zip",))]
    )
    with pytest.raises(DataError) as refusal:
        load_or_download(source, tmp_path)
    message = str(refusal.value)
    assert "\n" not in message
    assert "official address: http://127.0.0.1:9/GTSRB_Final_Test_GT.zip: <urlopen error" in message
    assert "put GTSRB_Final_Test_GT.zip (md5 00000000000000000000000000000000) from https://benchmark.ini" in message
    assert not list(tmp_path.glob("*.safetensors"))
