"""Lakebed on Spark 4: distribution only. No part of it is imported before a session is there to use it."""

from lakebed.spark.session import register

__all__ = ["register"]
