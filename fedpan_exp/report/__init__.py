"""Figures, tables and a page from run folders; reads nothing but their files."""

from fedpan_exp.report.frame import load, records

__all__ = ["load", "records"]
