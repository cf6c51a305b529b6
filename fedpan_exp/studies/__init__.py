"""The questions we ask, one file each: a settings dataclass whose run() answers it."""

from typing import Any

from fedpan_exp.studies.doctor import Doctor
from fedpan_exp.studies.federate import Federate
from fedpan_exp.studies.kept_ratio import KeptRatio
from fedpan_exp.studies.partition import Partition
from fedpan_exp.studies.shuffle_error import ShuffleError

STUDIES: dict[str, Any] = {
    "doctor": Doctor,
    "federate": Federate,
    "kept_ratio": KeptRatio,
    "partition": Partition,
    "shuffle_error": ShuffleError,
}
