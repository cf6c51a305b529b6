"""Alias of `python -m fedpan_exp.runs`, for one release."""

from fedpan_exp.runs import main
from fedpan_exp.system.console import warn

if __name__ == "__main__":
    warn("fedpan_exp.ledger is now fedpan_exp.runs; the old name will be removed in the next release")
    main()
