"""Find misspelt options and settings before torch is imported.

The schemas need torch, so this composes with empty ones. Types and values are checked later, with the real ones.
"""

import re
from collections.abc import Iterable, Sequence

from hydra.core.config_store import ConfigStore

from fedpan_exp.config.hydra_config import compose_config, own_config_store
from fedpan_exp.config.hydra_errors import as_user_errors
from fedpan_exp.config.yaml_names import all_names, groups, names_in_group
from fedpan_exp.system.paths import CONF, SWEEPS

# All options of these groups have the settings of one schema, whether or not their YAML files have a line for each.
ONE_SCHEMA = ("dataset", "pan", "logger")


def check_names(overrides: Sequence[str], is_sweep: bool) -> None:
    """Raise UserError for a name that is no setting, or no option of its group."""
    with own_config_store(), as_user_errors(overrides):
        _register_empty_schemas()
        compose_config(*(_suspects(overrides) if is_sweep else overrides))


def _register_empty_schemas() -> None:
    store = ConfigStore.instance().store
    store(name="schema", node={group: dict.fromkeys(names_in_group(group)) for group in ONE_SCHEMA})
    for group in groups():
        for path in (CONF / group).glob("*.yaml"):
            for schema in re.findall(r"\bschema/(\w+)", path.read_text(encoding="utf-8")):
                store(group=f"{group}/schema", name=schema, node={}, package=group)
    for path in SWEEPS.glob("*.yaml"):
        store(group="sweeps", name=path.stem, node={}, package="_global_")


def _suspects(overrides: Iterable[str]) -> list[str]:
    """What can be checked although each job has other values: names that no option knows, and single options."""
    suspects = []
    for override in overrides:
        name, _, value = override.partition("=")
        if not re.fullmatch(r"(?!hydra\.)[\w.]+", name):  # +name, ~name, hydra/launcher, hydra.launcher, group@package
            continue
        is_option = name in (*groups(), "sweeps") and re.fullmatch(r"\w+", value)
        if name not in all_names() or is_option:
            suspects.append(override if is_option else f"{name}=null")
    return suspects
