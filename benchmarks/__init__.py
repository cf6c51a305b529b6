"""Speed and memory, as ratios of alternating measurements: `make bench`."""
