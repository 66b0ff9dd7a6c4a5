"""What every contender is asked to do, one module for each kind of work."""
