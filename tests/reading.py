"""The readers of single libraries with their options as keywords, as tests write them."""

from pathlib import Path

from treeinner import readers
from treeinner.options import ReadOptions


class Reader:
    """A reader's module."""

    def __init__(self, library):
        self.module = readers.reader(library)

    def read(self, model, **options):
        return self.module.read(model, ReadOptions(**options))

    def read_path(self, path, **options):
        return self.module.read_path(Path(path), ReadOptions(**options))

    def read_document(self, document, **options):
        return self.module.read_document(document, ReadOptions(**options))

    def __getattr__(self, name):
        return getattr(self.module, name)


xgboost, lightgbm, catboost, sklearn = map(Reader, ("xgboost", "lightgbm", "catboost", "sklearn"))
