"""Identity of what enters the sums: only what is the same adds up."""

from __future__ import annotations

import hashlib
import sys
from types import CodeType
from typing import Any

import numpy as np

from treeinner.errors import ModelError
from treeinner.groups import GroupSpec, identity_of
from treeinner.model import Model
from treeinner.scores.setting import Setting
from treeinner.scores.totals import Totals

__all__ = ["fingerprint_of"]

# What decides where a row goes and what it adds to the margin.
ROUTING = (
    "tree_start", "tree_output", "tree_round", "feature", "threshold", "left", "right", "missing_left",
    "category_set", "set_start", "set_codes", "value", "base_score",
)  # fmt: skip
RULES = ("right_if", "float32_input", "category_rule", "zero_as_missing", "base_margin_rule", "column_features")


def fingerprint_of(model: Model, setting: Setting, feature_groups: GroupSpec | None, first: Totals | None) -> str:
    """Digest of a model and settings; first: the sums of the first pass, where this is the second."""
    e, s = setting.ensemble, setting
    digest = hashlib.sha256()
    arrays = [*ROUTING, *({"predecomp": ["node_value", "cover"]}.get(str(s.method), ["cover"]))]
    for name in arrays:
        digest.update(np.ascontiguousarray(getattr(e, name)).tobytes())
    objective = model.options.objective
    loss = None if s.objective is None else (s.objective.name, objective if isinstance(objective, str) else "")
    given = {"method": s.method, "objective": objective}
    functions = [_identity(what, function) for what, function in given.items() if callable(function)]
    choices = (
        s.score, s.method if isinstance(s.method, str) else "", functions, loss, s.over, s.against, s.std_errors,
        s.by_round, identity_of(feature_groups), s.clustered,
    )  # fmt: skip
    params = {k: v for k, v in e.objective_params.items() if k != "classes"}  # labels, which a file may not store
    rules = [e.library, e.schema.n_columns, params, *(getattr(e, rule) for rule in RULES)]
    digest.update(repr((choices, rules, s.scale_bits)).encode())
    if first is not None:
        for array in first.to_arrays()[0].values():
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _identity(what: str, function: Any) -> str:
    """The name that the user gave a function, or its own name and code."""
    told = getattr(function, "fingerprint", None)
    if isinstance(told, str) and told:
        return told
    name, code = getattr(function, "__qualname__", ""), getattr(function, "__code__", None)
    if "<" in name or not name or hasattr(function, "__self__") or (code is not None and not _is_own(function)):
        raise ModelError(
            f"{what}={name or type(function).__name__}: sums by a function without a name of its own cannot be told "
            "from those by another, so they are not saved or added up. Define it at the top level of a module, or "
            f"give it a name: {what}.fingerprint = 'my {what}, version 1'."
        )
    return repr((name, None if code is None else _code(code)))


def _is_own(function: Any) -> bool:
    """Whether nothing but its code decides what a function does, or its module knows it by its name."""
    return (
        not function.__closure__ or getattr(sys.modules.get(function.__module__), function.__name__, None) is function
    )


def _code(code: CodeType) -> tuple[Any, ...]:
    """What a function does; not where it stands."""

    def constant(value: Any) -> Any:
        if isinstance(value, CodeType):
            return _code(value)
        return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)

    return code.co_code, code.co_names, tuple(constant(value) for value in code.co_consts)
