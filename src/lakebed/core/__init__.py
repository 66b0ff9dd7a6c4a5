"""Pure ideas of the engine: no I/O, no Spark, no database."""
