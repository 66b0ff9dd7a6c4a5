"""Lakebed and those it is compared with, each behind the same few verbs and in a process of its own."""
