"""Arrays as the kernels take them, for tests of readers."""

from types import SimpleNamespace

from treeinner import kernels


def table(rows):
    return SimpleNamespace(n_rows=len(rows), block_rows=None, block=lambda a, b: rows[a:b])


def margins(model, rows):
    """Margins of a Model: (rows, outputs)."""
    return model.trees.base + kernels.predict(model.trees.forest, table(rows), n_jobs=1)


def leaves(model, rows):
    """The library's numbers of the leaves: (rows, trees)."""
    return kernels.apply(model.trees.forest, table(rows), n_jobs=1)
