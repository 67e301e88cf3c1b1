"""``python -m robirank`` is the command ``robirank``."""

from robirank.cli import main

if __name__ == "__main__":
    main()
