"""One function a kind of exhibit: a sweep in, a plate (figure, table, findings) out."""
