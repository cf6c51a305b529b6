"""Memory that a step frees stays with the process for the next step."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
LARGEST = 32 * 1024**2  # that it takes for the latter
NEVER = 2**31 - 1


def keep_freed_memory() -> None:
    """Else gradients go back to the system at every step, and come again as a thousand page faults: 5% of a step of a
    network of 3 million weights. What is kept is no more than was in use at once."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST)
        mallopt(M_TRIM_THRESHOLD, NEVER)
