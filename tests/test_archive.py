"""Archives of runs: the same numbers as their folders, nothing of the machine."""

import zipfile

import pytest
from run_folders import make_listing, make_run

from fedpan_exp import runs
from fedpan_exp.report import __main__ as report
from fedpan_exp.report import load
from fedpan_exp.report.sweeps import read_sweeps
from fedpan_exp.system.atomic_io import read_json, write_json
from fedpan_exp.tracking.archive import PATHS


@pytest.fixture
def folder(tmp_path):
    made = [make_run(tmp_path / "runs", pan=pan, seed=seed) for pan in (("off", 0.0), ("mul", 0.1)) for seed in (0, 1)]
    make_listing(tmp_path / "runs", "alpha", made, swept=["pan"])
    status = read_json(made[0] / "status.json") | {"host": "secret", "command": ["pan=off", "runs=/home/me/runs"]}
    write_json(made[0] / "status.json", status)
    (made[0] / "weights.safetensors").write_bytes(b"weights")
    return tmp_path / "runs"


def test_an_archive_is_read_like_its_folder(folder, tmp_path, call_main):
    archive = tmp_path / "shared.zip"
    code, out, _ = call_main(runs.main, folder, "--zip", archive)
    assert code == 0
    assert f"4 runs in {archive}" in out.replace("\n", "")
    columns = [name for name in load(folder) if name not in ("folder", *PATHS)]
    assert load(archive)[columns].equals(load(folder)[columns])
    (from_folder,), (from_archive,) = (read_sweeps([path], load(path))[0] for path in (folder, archive))
    assert list(from_archive.runs.index) == list(from_folder.runs.index)
    assert call_main(report.main, archive, "--out", tmp_path / "report").code == 0
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count("in an archive") == 4
    assert "config.yaml</a>" not in page  # in a folder that is gone when the process has ended


def test_an_archive_says_nothing_about_the_machine(folder, tmp_path, call_main):
    assert call_main(runs.main, folder, "--zip", tmp_path / "shared.zip").code == 0
    with zipfile.ZipFile(tmp_path / "shared.zip") as archive:
        names, texts = archive.namelist(), b"".join(map(archive.read, archive.namelist()))
    assert not any(name.endswith("weights.safetensors") for name in names)
    assert b"secret" not in texts
    assert b"/home/me" not in texts
    assert b"pan=off" in texts


def test_only_records_are_extracted(folder, tmp_path, call_main):
    """An archive is not trusted: other members, and those outside of the folder, are left out."""
    archive = tmp_path / "shared.zip"
    assert call_main(runs.main, folder, "--zip", archive).code == 0
    with zipfile.ZipFile(archive, "a") as file:
        for name in ("../../evil/config.yaml", "evil/run.py", "/evil/status.json"):
            file.writestr(name, "{}")
    loaded = load(archive)
    assert len(loaded) == 4
    extracted = loaded["folder"].iloc[0].parent
    assert not list(extracted.rglob("*.py"))
    assert not list(extracted.rglob("evil"))


@pytest.mark.parametrize(
    ("content", "message"), [(b"no zip", "must be a folder of runs or their archive"), (None, "there is no folder")]
)
def test_what_is_no_archive_gets_one_line(tmp_path, call_main, content, message):
    path = tmp_path / "broken.zip"
    if content is not None:
        path.write_bytes(content)
    for module in (runs, report):
        code, _, error = call_main(module.main, path)
        assert code == 1
        assert message in error.replace("\n", " ")
        assert "Traceback" not in error


def test_nothing_finished_is_not_archived(tmp_path, call_main):
    (tmp_path / "runs").mkdir()
    code, _, error = call_main(runs.main, tmp_path / "runs", "--zip", tmp_path / "empty.zip")
    assert code == 1
    assert "no finished run" in error
    assert not (tmp_path / "empty.zip").exists()
