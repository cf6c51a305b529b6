"""GTSRB (Stallkamp et al., 2012): the official final training set, not torchvision's smaller one; photographs of
many sizes, resized to 32x32."""

import csv
import re
from collections.abc import Iterator, Mapping

from fedpan_exp.data.decode import Picture, decode
from fedpan_exp.data.download import Download
from fedpan_exp.data.files import File, Files, archive
from fedpan_exp.data.images import DatasetSplits, ImageTensors, labels
from fedpan_exp.data.source import Source
from fedpan_exp.system.errors import DataError, listed

CLASSES, COUNTS, SIZE = 43, (39_209, 12_630), 32
TRAINING, TEST = r"Final_(Training)/Images/(\d+)/([^/]+\.ppm)$", r"Final_(Test)/Images/([^/]+\.ppm)$"
TEST_LABELS = r"(GT-final_test\.csv)$"
PATTERN = re.compile(f"{TRAINING}|{TEST}|{TEST_LABELS}")
ADDRESS = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370"


def _read(files: Files) -> DatasetSplits:
    tables: list[File] = []
    splits = decode(_pictures(files, tables), SIZE, "decode gtsrb", files.count(sum(COUNTS)))
    found = {
        "training images": "Training" in splits,
        "test images": "Test" in splits,
        "GT-final_test.csv": bool(tables),
    }
    missing = [what for what, is_there in found.items() if not is_there]
    if missing:
        archives = listed(file.name for file in _official())
        raise DataError(f"{files.folder} lacks {listed(missing)}; it takes {archives}, all packed or all unpacked")

    (train, train_x), (test, test_x) = splits["Training"], splits["Test"]
    classes = _test_labels(tables[0])
    unlabelled = [picture.name for picture in test if picture.name not in classes]
    if unlabelled:
        raise DataError(f"{tables[0].name} has no label for {unlabelled[0]}; replace it")
    return DatasetSplits(
        ImageTensors(train_x, labels([int(picture.label) for picture in train], CLASSES, str(files.folder))),
        ImageTensors(test_x, labels([classes[picture.name] for picture in test], CLASSES, tables[0].name)),
    )


def _pictures(files: Files, tables: list[File]) -> Iterator[tuple[Picture, File]]:
    """All images; the table of test labels goes into `tables` on the way."""
    for match, file in files.matching(PATTERN):
        training, folder, name, test, test_name, table = match.groups()
        if table:
            tables.append(file)
        else:
            yield Picture(training or test, folder or "", name or test_name), file


def _test_labels(file: File) -> Mapping[str, int]:
    rows = csv.DictReader(file.read().decode("utf-8-sig", "replace").splitlines(), delimiter=";")
    try:
        return {row["Filename"]: int(row["ClassId"]) for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        reason = f"no column {error}" if isinstance(error, KeyError) else f"a row without a class, line {rows.line_num}"
        raise DataError(f"{file.name} has {reason}; take the one out of GTSRB_Final_Test_GT.zip") from None


def _official() -> list[Download]:
    checksums = {
        "GTSRB_Final_Training_Images.zip": "f33fd80ac59bff73c82d25ab499e03a3",
        "GTSRB_Final_Test_Images.zip": "c7e4e6327067d32654124b0fe9e82185",
        "GTSRB_Final_Test_GT.zip": "fe31e9c9270bbcd7b84b7f21a9d9d9e5",
    }
    return [Download(md5, (f"{ADDRESS}/{name}",)) for name, md5 in checksums.items()]


GTSRB = Source(
    name="gtsrb",
    search_dirs=("GTSRB", "gtsrb"),
    files=PATTERN,
    archives=archive("GTSRB(_Final_(Training_Images|Test_Images|Test_GT))?"),
    read=_read,
    page="https://benchmark.ini.rub.de/gtsrb_dataset.html",
    licence="none named; cite Stallkamp et al. (2012)",
    counts=COUNTS,
    official=_official,
)
