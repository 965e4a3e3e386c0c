"""Fuzzers of every format that treeinner reads: `make fuzz`, or `python -m tests.fuzz --help`.

    seeds        small model files of many kinds, made by the installed libraries
    documents    damage to what JSON and UBJSON hold, and to how they are written
    texts        damage to LightGBM's model text
    flat         damage to CatBoost's .cbm
    formats      a mutant from (format, number, seed): damage of one of the seeds
    judge        what is done with a mutant, and what must hold
    library      what the library itself says of it, in a process of its own
    driver       processes, limits, counts, and where a run continues

Damage to the archives that we write ourselves is in tests/hostile/mutants.py, which the test suite uses too.
"""
