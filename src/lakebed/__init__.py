"""Lakebed: a lakehouse table engine in Python."""
