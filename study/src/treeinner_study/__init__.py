"""The simulation study of the TreeInner paper: four problems, five sweeps, 20 replications, every table and figure.

`run.run_study` runs what is missing and stores it; `show.write_outputs` writes tables, figures and the page from what
is stored. The command `treeinner-study` does both. Nothing is imported here: every worker imports this package.
"""
