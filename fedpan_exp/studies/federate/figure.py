"""How federated training is drawn: the functions that claims/paper.yaml names, and the picture of a run."""

from fedpan_exp.studies.federate.curves import draw_run, norm_variants, off_on_curves
from fedpan_exp.studies.federate.lines import best_A, off_on, pans
from fedpan_exp.studies.federate.scores import scenes

__all__ = ["best_A", "norm_variants", "off_on", "off_on_curves", "pans", "scenes"]
RUN_PLOTS = {"curves": draw_run}
