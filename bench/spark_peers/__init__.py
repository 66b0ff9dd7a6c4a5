"""Lakebed on Spark against the published JARs of Delta Lake, Iceberg, Hudi and Paimon, and against plain Parquet.

``python -m bench.spark_peers`` drives; ``worker`` runs inside the environment of a contender, where only PySpark and
the standard library are sure to be there.
"""
