"""The lowest layer: errors, console output, signals, atomic file writes, random generators, paths."""
