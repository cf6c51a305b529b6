"""Alias of `python -m fedpan_exp.misalignment`, for one release."""

from fedpan_exp.misalignment import main
from fedpan_exp.system.console import warn

if __name__ == "__main__":
    warn("fedpan_exp.thermometer is now fedpan_exp.misalignment; the old name will be removed in the next release")
    main()
