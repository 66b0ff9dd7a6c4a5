"""The open log: reading any Delta table's log, publishing and checkpointing our own."""
