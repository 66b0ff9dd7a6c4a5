"""``python -m lakebed.cli`` is the command ``lakebed``."""

from lakebed.cli.main import main

if __name__ == "__main__":
    main()
