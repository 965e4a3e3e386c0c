"""`python -m treeinner` is `treeinner`."""

from treeinner.show.cli import main

if __name__ == "__main__":
    main()
