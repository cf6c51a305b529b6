"""Many experiments by one command: their grids, their jobs, what they would cost, how far they have come."""
