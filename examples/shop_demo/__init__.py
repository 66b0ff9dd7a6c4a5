"""The parts of the demo: `make demo`."""
