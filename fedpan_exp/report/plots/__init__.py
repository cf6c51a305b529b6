"""One function per kind of figure; each takes a sweep and returns a FigureResult."""
