"""What one process does to the files of a table, in Arrow. It never knows Spark."""
