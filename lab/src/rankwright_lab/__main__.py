"""``python -m rankwright_lab`` is the command line of the laboratory."""

from rankwright_lab.cli import main

if __name__ == "__main__":
    main()
