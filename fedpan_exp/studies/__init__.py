"""Studies: one file per research question, with a settings dataclass whose run() answers it."""

from fedpan_exp.studies.centralize import Centralize
from fedpan_exp.studies.divergence import Divergence
from fedpan_exp.studies.doctor import Doctor
from fedpan_exp.studies.federate import Federate
from fedpan_exp.studies.fusion import Fusion
from fedpan_exp.studies.kept_ratio import KeptRatio
from fedpan_exp.studies.matching import Matching
from fedpan_exp.studies.partition import Partition
from fedpan_exp.studies.preference import Preference
from fedpan_exp.studies.shuffle_error import ShuffleError
from fedpan_exp.studies.shuffle_federate import ShuffleFederate
from fedpan_exp.studies.shuffle_test import ShuffleTest
from fedpan_exp.studies.study import Study

STUDIES: dict[str, type[Study]] = {
    "centralize": Centralize,
    "divergence": Divergence,
    "doctor": Doctor,
    "federate": Federate,
    "fusion": Fusion,
    "kept_ratio": KeptRatio,
    "matching": Matching,
    "partition": Partition,
    "preference": Preference,
    "shuffle_error": ShuffleError,
    "shuffle_federate": ShuffleFederate,
    "shuffle_test": ShuffleTest,
}
