"""File systems, Parquet files and deletion vectors."""
