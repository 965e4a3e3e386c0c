"""report(): what a model learned, as one HTML file to hand to somebody."""

from treeinner.page.build import report

__all__ = ["report"]
