"""Looks at an installation and at a warehouse, and says what is wrong and what would help."""
