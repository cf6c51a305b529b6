"""Paths of conf/, sweeps/ and claims/: inside the package in a wheel, next to it in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
_ROOT = PACKAGE if (PACKAGE / "conf").is_dir() else PACKAGE.parent

CONF = _ROOT / "conf"
SWEEPS = _ROOT / "sweeps"
CLAIMS = _ROOT / "claims"
