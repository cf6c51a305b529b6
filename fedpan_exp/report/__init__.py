"""Run folders in, pictures and tables out; reads files only."""
