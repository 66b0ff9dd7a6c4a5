"""What merging rows is made of: where they are, how they are read, and how those of one key become one."""
