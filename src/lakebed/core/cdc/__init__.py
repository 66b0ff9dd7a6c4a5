"""Change messages of other databases (Debezium, Maxwell, Canal) as rows with row kinds.

A message is an object of its own, with its own schema, until its images of rows are known: that much is done message
by message. From there on values are converted by column.
"""
