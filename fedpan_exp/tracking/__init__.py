"""What a run leaves behind: its folder, its records, its trace in W&B."""
