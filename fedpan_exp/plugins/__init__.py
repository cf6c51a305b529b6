"""Plugins: algorithms, models, datasets, partitions, encodings, studies and probes from outside the package.

A plugin is a Python module with tables like ours: `ALGORITHMS = {"mine": Mine}`. It is a file named by a setting
(`plugins=[mine.py]`), or a module that an installed package offers as an entry point of the group `fedpan_exp.plugins`.
"""

from fedpan_exp.plugins.kinds import STUDIES
from fedpan_exp.plugins.plugin import Plugin
from fedpan_exp.plugins.registry import activate, active, described, ensure_active, in_overrides, options, used

__all__ = ["STUDIES", "Plugin", "activate", "active", "described", "ensure_active", "in_overrides", "options", "used"]
