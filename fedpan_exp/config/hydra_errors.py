"""Turn errors of Hydra and OmegaConf into one line: the setting, the rule, the value, the closest valid name."""

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from fedpan_exp.config.hydra_config import compose_config
from fedpan_exp.config.sweep_file import GRID_KEYS
from fedpan_exp.system.errors import UserError, hint, listed
from fedpan_exp.system.paths import CONF

HYDRA_ERRORS = (HydraException, OmegaConfBaseException)
NOTHING_CHOSEN = "Config group override must be"  # Hydra raises a bare ValueError for group=null
UNKNOWN_IN_FILE = re.compile(
    r"In '([^']+)': \w+ raised while composing config:\s*Key '.+' not in '\w+'\s+full_key: (\S+)"
)
EXTRAS = {  # option -> the package that provides it
    "hydra/launcher/joblib": "hydra-joblib-launcher",
    "hydra/launcher/submitit_slurm": "hydra-submitit-launcher",
    "hydra/launcher/submitit_local": "hydra-submitit-launcher",
    "hydra/launcher/ray": "hydra-ray-launcher",
    "hydra/sweeper/optuna": "hydra-optuna-sweeper",
}
KINDS = {  # a message of OmegaConf -> what the value must be
    r"Value '(?P<value>.*)' of type '\w+' could not be converted to Integer": "a whole number",
    r"Value '(?P<value>.*)' of type '\w+' could not be converted to Float": "a number",
    r"Value '(?P<value>.*)' is not a valid bool": "true or false",
    r"is not a ListConfig, list or tuple": "a list, as in {setting}=[{value}]",
    r"is not Optional": "a value",
    r"Cannot convert '\w+' to string|is incompatible with type hint": "a single value",
    r"Invalid type assigned: .* is not a subclass": "set by its parts, as in training.lr=0.1",
}


@contextmanager
def as_user_errors(overrides: Sequence[str]) -> Iterator[None]:
    """Raise errors of Hydra and OmegaConf as UserError."""
    try:
        yield
    except HYDRA_ERRORS as error:
        raise UserError(one_line(error, overrides)) from None
    except ValueError as error:
        if not str(error).startswith(NOTHING_CHOSEN):
            raise
        raise UserError(one_line(error, overrides)) from None


def one_line(error: Exception, overrides: Sequence[str]) -> str:
    text = str(error)
    if text.startswith(NOTHING_CHOSEN):
        no_options = [o for o in overrides if o.lower().endswith(("=null", "=true", "=false"))]
        return f"a group must have one of its options, got {listed(no_options)}"
    missing = error.missing_cfg_file or "" if isinstance(error, MissingConfigException) else ""
    if missing in EXTRAS:
        return f"{missing} needs its package: pip install {EXTRAS[missing]}"
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, option = missing.rpartition("/")
        options = [name for name in error.options if name != "schema"]
        return f"{group} must be {listed(options, 'or')}, got {option}{hint(option, options)}"
    if isinstance(error, OverrideParseException):
        return _unreadable(str(error.override))
    if several := re.search(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", text):
        return f"a single run must have one value per setting, got {several[1]}; -m runs a sweep over several"
    if unknown := re.search(r"Could not override '([^']+)'", text):
        return _unknown(unknown[1].split("@")[0], overrides)
    if unknown := UNKNOWN_IN_FILE.search(text):
        return _unknown(unknown[2], overrides, unknown[1])
    if missing_value := re.search(r"missing mandatory value: (\S+)", text):
        return f"{missing_value[1]} must be given, got nothing"
    if wrong := _wrong_type(str(error.__cause__ or "") + text):
        return wrong
    return " ".join(line.strip() for line in text.splitlines() if line.strip())[:300]


def _wrong_type(text: str) -> str | None:
    """The setting, what its value must be and what it is; None if the error is of another kind."""
    setting, override = re.search(r"full_key: (\S+)", text), re.search(r"Error merging override [^=]+=(.*)", text)
    value = override[1] if override else ""
    for pattern, rule in KINDS.items():
        if setting and (found := re.search(pattern, text, re.DOTALL)):
            got = value or (found.groupdict().get("value") or "nothing")
            return f"{setting[1]} must be {rule.format(setting=setting[1], value=got)}, got {got}"
    return None


def _unreadable(override: str) -> str:
    """Hydra's syntax gives a meaning to some characters; a value in quotes may have any."""
    name, _, value = override.partition("=")
    if re.fullmatch(r"[\w.+/@]+", name) and re.fullmatch(r"[^\[{(\"'][^\"']*", value):
        quoted = shlex.quote(f'{name}="{value}"')
        return f"cannot read {override!r}: a value with such characters must be in quotes: {quoted}"
    return f"cannot read {override!r}; settings are written name=value, as in pan.A=0.1"


def _unknown(name: str, overrides: Sequence[str], file: str = "") -> str:
    names = [*_settings(overrides), *(GRID_KEYS if file.startswith("sweeps/") else ())]
    section = name.rpartition(".")[0]
    siblings = [known.rpartition(".")[2] for known in names if section and known.rpartition(".")[0] == section]
    advice = f"; {section} has {listed(siblings)}" if siblings else hint(name, names)
    return f"{name}{f' in {file}.yaml' if file else ''} is not a setting{advice}"


def _settings(overrides: Sequence[str]) -> list[str]:
    """List all valid setting names for the chosen config groups."""
    groups = [path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra"]
    choices = [override for override in overrides if override.split("=")[0] in groups]
    try:
        cfg = compose_config(*choices)
    except HYDRA_ERRORS:
        cfg = compose_config()
    return [*groups, *_names(cfg)]


def _names(cfg: DictConfig, prefix: str = "") -> list[str]:
    names = []
    for key in map(str, cfg):
        names.append(f"{prefix}{key}")
        node = cfg._get_node(key)  # unresolved: an interpolation may fail here
        if isinstance(node, DictConfig):
            names += _names(node, f"{prefix}{key}.")
    return names
