"""From a fitted model, or its file, to a Model. What is special about a library is known in its file alone.

    model       read_model and Model; files are recognised by their content
    unwrap      pipelines, searches and other wrappers; the members of averages
    columns     who gets the credit: features, groups, raw columns of a pipeline
    trees       the arrays, and the only check that the kernels rely on
    methods     node values of each attribution
    xgboost, lightgbm, catboost, sklearn, treelite     one library each: `read`, and `read_file`

Belongs here: everything that depends on which library trained the model. Does not: losses, scores, tables.
"""

from treeinner.read.model import Model, Told, read_model

__all__ = ["Model", "Told", "read_model"]
