"""Figures, tables and a page from run folders; reads nothing but their files."""
