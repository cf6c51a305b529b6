"""The front door: compose with Hydra, check, run the study, say what came out. A mistake gets one line."""

import os
import sys
from typing import TYPE_CHECKING, Any

from fedpan_exp.checks import Diverged, UserError
from fedpan_exp.folders import CONF

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main() -> None:
    if {"--help", "-h"} & set(sys.argv[1:]):
        from fedpan_exp.help import help_text  # before torch is loaded: help comes at once

        print(help_text())
        return
    for flag in {"-m", "--multirun"} & set(sys.argv[1:]):  # Hydra takes it only in front of the settings
        sys.argv.remove(flag)
        sys.argv.insert(1, flag)
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra hands us its errors instead of printing them
    import hydra

    from fedpan_exp import config
    from fedpan_exp.refusals import HYDRA_ERRORS, NOTHING_CHOSEN, one_line

    config.register()
    try:
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(run)()
    except UserError as error:
        report(error)
        raise SystemExit(1) from None
    except (*HYDRA_ERRORS, ValueError) as error:
        if not isinstance(error, HYDRA_ERRORS) and not str(error).startswith(NOTHING_CHOSEN):
            raise
        report(UserError(one_line(error, sys.argv[1:])))
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        report(UserError("interrupted; the same command starts the run again"))
        raise SystemExit(130) from None


def run(cfg: "DictConfig") -> float | None:
    """One experiment, as Hydra's job: returns its last-five accuracy, for sweepers that search."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    from fedpan_exp import config
    from fedpan_exp.outcome import announce, conclude
    from fedpan_exp.tracking.record import FINISHED, Record

    try:
        experiment = config.read(cfg)
        settings: Any = OmegaConf.to_container(cfg, resolve=True)
        record = Record(settings, experiment.logger, experiment.study.irrelevant)
        announce(record)
        if record.status in FINISHED and not experiment.rerun:
            return conclude(record, earlier=True)
        try:
            with record:
                experiment.study.run(experiment, record)
        except Diverged:
            conclude(record)  # what came out until then
            raise
        return conclude(record)
    except UserError as error:
        report(error)
        if HydraConfig.get().mode == RunMode.RUN:
            raise SystemExit(1) from None  # not an Exception: Hydra adds nothing to it
        raise  # a sweep goes on, and ends with an error


def report(error: UserError) -> None:
    """Say it once, however many hands the error passes through."""
    from fedpan_exp.console import errors

    if not getattr(error, "reported", False):
        errors.print(f"fedpan_exp: {error}", markup=False)
        error.reported = True  # type: ignore[attr-defined]
