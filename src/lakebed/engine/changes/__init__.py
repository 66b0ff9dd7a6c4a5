"""Reading changes: the difference of two states of a table, unit by unit."""
