"""The exceptions a user may meet.

    TreeInnerError
    ├── ModelError (ValueError)          the model itself is broken: truncated file, child out of range, NaN leaf
    ├── UnsupportedModelError (TypeError)  a healthy model of a kind we do not read, with what to do instead
    ├── UnknownParameterError (ValueError) something the model does not say and the user must: learning_rate, ...
    ├── DataError (ValueError)           X, y or weights do not fit the model
    └── MissingDependencyError (ImportError)  an optional library is needed; the message says how to install it

Each also derives from the built-in exception that callers of scikit-learn would expect.
"""

__all__ = [
    "DataError",
    "MissingDependencyError",
    "ModelError",
    "TreeInnerError",
    "UnknownParameterError",
    "UnsupportedModelError",
]


class TreeInnerError(Exception):
    """Base of every exception raised on purpose by treeinner."""


class ModelError(TreeInnerError, ValueError):
    """The model or its file is malformed."""


class UnsupportedModelError(TreeInnerError, TypeError):
    """The model is of a kind that treeinner does not read; the message says what to do instead."""


class UnknownParameterError(TreeInnerError, ValueError):
    """A training parameter is not stored in the model and could not be inferred; pass it by name."""


class DataError(TreeInnerError, ValueError):
    """The table, target or weights do not fit the model."""


class MissingDependencyError(TreeInnerError, ImportError):
    """An optional library is needed for this call."""
