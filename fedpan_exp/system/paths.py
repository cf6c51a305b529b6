"""Where conf/ and sweeps/ are: inside the package in a wheel, next to it in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
_HOME = PACKAGE if (PACKAGE / "conf").is_dir() else PACKAGE.parent

CONF = _HOME / "conf"
SWEEPS = _HOME / "sweeps"
