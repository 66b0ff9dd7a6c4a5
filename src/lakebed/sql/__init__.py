"""SQL: statements become calls of the table API; what is not about our tables goes to Spark as it is."""
