"""`python -m treeinner_study` is the command `treeinner-study`."""

from treeinner_study.cli import main

if __name__ == "__main__":
    main()
