"""``python -m rankwright`` is the command line."""

from rankwright.cli import main

if __name__ == "__main__":
    main()
