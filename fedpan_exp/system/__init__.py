"""What everything else stands on: errors, console, signals, files written atomically, random generators, paths."""
