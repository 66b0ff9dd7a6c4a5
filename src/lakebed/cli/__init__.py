"""The command line: every command calls the library and shows what it returns."""
