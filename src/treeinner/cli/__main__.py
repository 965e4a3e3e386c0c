"""`python -m treeinner.cli` is `treeinner`."""

from treeinner.cli import main

if __name__ == "__main__":
    main()
