"""GTSRB (Stallkamp et al., 2012): photographs of various sizes, resized to 32x32.

The training set is the official final one, not torchvision's smaller one.
"""

import csv
import re
from collections.abc import Iterator, Mapping

from fedpan_exp.data.decode import ImageKey, decode
from fedpan_exp.data.download import Download
from fedpan_exp.data.files import File, Files, archive
from fedpan_exp.data.images import DatasetSplits, ImageTensors, label_tensor
from fedpan_exp.data.source import Source
from fedpan_exp.system.errors import DataError, listed

CLASSES, COUNTS, SIZE = 43, (39_209, 12_630), 32
TRAINING, TEST = r"Final_(Training)/Images/(\d+)/([^/]+\.ppm)$", r"Final_(Test)/Images/([^/]+\.ppm)$"
TEST_LABELS = r"(GT-final_test\.csv)$"
PATTERN = re.compile(f"{TRAINING}|{TEST}|{TEST_LABELS}")
BASE_URL = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370"


def _read(files: Files) -> DatasetSplits:
    tables: list[File] = []
    splits = decode(_images(files, tables), SIZE, "decode gtsrb", files.count(sum(COUNTS)))
    present = {
        "training images": "Training" in splits,
        "test images": "Test" in splits,
        "GT-final_test.csv": bool(tables),
    }
    missing = [what for what, is_present in present.items() if not is_present]
    if missing:
        archives = listed(file.name for file in _downloads())
        raise DataError(
            f"{files.folder} lacks {listed(missing)}; it needs {archives}, all as archives or all extracted"
        )

    (train, train_x), (test, test_x) = splits["Training"], splits["Test"]
    test_labels = _read_test_labels(tables[0])
    unlabelled = [key.name for key in test if key.name not in test_labels]
    if unlabelled:
        raise DataError(f"{tables[0].name} has no label for {unlabelled[0]}; replace it")
    return DatasetSplits(
        ImageTensors(train_x, label_tensor([int(key.label) for key in train], CLASSES, str(files.folder))),
        ImageTensors(test_x, label_tensor([test_labels[key.name] for key in test], CLASSES, tables[0].name)),
    )


def _images(files: Files, tables: list[File]) -> Iterator[tuple[ImageKey, File]]:
    """Yield all images; append the table of test labels to `tables`."""
    for match, file in files.matching(PATTERN):
        training, folder, name, test, test_name, table = match.groups()
        if table:
            tables.append(file)
        else:
            yield ImageKey(training or test, folder or "", name or test_name), file


def _read_test_labels(file: File) -> Mapping[str, int]:
    rows = csv.DictReader(file.read().decode("utf-8-sig", "replace").splitlines(), delimiter=";")
    try:
        return {row["Filename"]: int(row["ClassId"]) for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        reason = f"no column {error}" if isinstance(error, KeyError) else f"no class in line {rows.line_num}"
        raise DataError(f"{file.name} has {reason}; replace it with the one in GTSRB_Final_Test_GT.zip") from None


def _downloads() -> list[Download]:
    checksums = {
        "GTSRB_Final_Training_Images.zip": "f33fd80ac59bff73c82d25ab499e03a3",
        "GTSRB_Final_Test_Images.zip": "c7e4e6327067d32654124b0fe9e82185",
        "GTSRB_Final_Test_GT.zip": "fe31e9c9270bbcd7b84b7f21a9d9d9e5",
    }
    return [Download(md5, (f"{BASE_URL}/{name}",)) for name, md5 in checksums.items()]


GTSRB = Source(
    name="gtsrb",
    search_dirs=("GTSRB", "gtsrb"),
    files=PATTERN,
    archives=archive("GTSRB(_Final_(Training_Images|Test_Images|Test_GT))?"),
    read=_read,
    page="https://benchmark.ini.rub.de/gtsrb_dataset.html",
    licence="none named; cite Stallkamp et al. (2012)",
    counts=COUNTS,
    image_bytes=3 * 32 * 32,
    downloads=_downloads,
)
