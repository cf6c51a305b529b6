"""Turn errors of Hydra and OmegaConf into one line: the setting, the rule, the value, the closest valid name."""

import re

from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from fedpan_exp.system.errors import hint, listed
from fedpan_exp.system.paths import CONF, SWEEPS

HYDRA_ERRORS = (HydraException, OmegaConfBaseException)
NOTHING_CHOSEN = "Config group override must be"  # Hydra raises a bare ValueError for group=null
EXTRAS = {  # option -> the package that provides it
    "hydra/launcher/joblib": "hydra-joblib-launcher",
    "hydra/launcher/submitit_slurm": "hydra-submitit-launcher",
    "hydra/launcher/submitit_local": "hydra-submitit-launcher",
    "hydra/launcher/ray": "hydra-ray-launcher",
    "hydra/sweeper/optuna": "hydra-optuna-sweeper",
}
KINDS = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false", "String": "a string"}


def one_line(error: Exception, overrides: list[str]) -> str:
    text = str(error)
    if text.startswith(NOTHING_CHOSEN):
        return f"a group must have one of its options, got {listed([o for o in overrides if o.endswith('=null')])}"
    missing = error.missing_cfg_file or "" if isinstance(error, MissingConfigException) else ""
    if missing in EXTRAS:
        return f"{missing} needs its package: pip install {EXTRAS[missing]}"
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, option = missing.rpartition("/")
        files = (SWEEPS if group == "sweeps" else CONF / group).glob("*.yaml")
        options = sorted(path.stem for path in files) or error.options  # Hydra's own groups have no files in conf/
        return f"{group} must be {listed(options, 'or')}, got {option}{hint(option, options)}"
    if isinstance(error, OverrideParseException):
        return f"cannot read {error.override!r}; settings are written name=value, as in pan.A=0.1"
    if unknown := re.search(r"Could not override '([^']+)'", text):
        return _unknown(unknown[1].split("@")[0], overrides)
    cause = str(error.__cause__ or error)
    wrong = re.search(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", cause + text, re.S)
    key = re.search(r"full_key: (\S+)", cause + text)
    if wrong and key:
        return f"{key[1]} must be {KINDS.get(wrong[2], wrong[2])}, got {wrong[1]}"
    return " ".join(line.strip() for line in text.splitlines() if line.strip())[:300]


def _unknown(name: str, overrides: list[str]) -> str:
    names = _settings(overrides)
    section = name.rpartition(".")[0]
    siblings = [known.rpartition(".")[2] for known in names if section and known.rpartition(".")[0] == section]
    return f"{name} is not a setting" + (f"; {section} has {listed(siblings)}" if siblings else hint(name, names))


def _settings(overrides: list[str]) -> list[str]:
    """List all valid setting names for the chosen config groups."""
    from hydra import compose, initialize_config_dir

    groups = [path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra"]
    choices = [override for override in overrides if override.split("=")[0] in groups]
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        try:
            cfg = compose("config", choices)
        except HYDRA_ERRORS:
            cfg = compose("config")
    return [*groups, *_names(cfg)]


def _names(cfg: DictConfig, prefix: str = "") -> list[str]:
    names = []
    for key in map(str, cfg):
        names.append(f"{prefix}{key}")
        node = cfg._get_node(key)  # unresolved: an interpolation may fail here
        if isinstance(node, DictConfig):
            names += _names(node, f"{prefix}{key}.")
    return names
