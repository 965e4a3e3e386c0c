"""CatBoost models -> Ensemble, by way of the library's own format, .cbm, or of its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from treeinner.ensemble import Ensemble, NodeValues
from treeinner.ensemble.validation import inner_by_depth
from treeinner.errors import MissingDependencyError, ModelError, TreeInnerError, UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._open import class_names, parse_json
from treeinner.readers._trees import add_up, handed_over
from treeinner.readers.catboost import ctr
from treeinner.readers.catboost.cbm import read_cbm
from treeinner.readers.catboost.document import read_json, version_of
from treeinner.readers.catboost.settings import Settings
from treeinner.readers.catboost.trees import Document, Features, Trees, node_values
from treeinner.readers.catboost.trial import require_survivor
from treeinner.readers.newer import explained
from treeinner.tables import Schema, Table

__all__ = ["custom_gradient", "make_table", "pool", "read", "read_path"]


# -- what the package calls ---------------------------------------------------------------------------------
def read(model: Any, options: ReadOptions) -> Ensemble:
    """Read a fitted CatBoost, CatBoostRegressor, CatBoostClassifier or CatBoostRanker.

    `reg_lambda` is the l2 term as it enters a leaf: `l2_leaf_reg` times the mean weight of the training rows. CatBoost
    stores neither the weights nor their number, so PreDecomp needs it if rows were weighted and the trees do not tell
    (`penalty`). Leaf weights that are whole numbers, without class weights, are taken for unweighted rows.
    """
    if "CatBoost" not in class_names(model, "catboost"):
        raise UnsupportedModelError(f"A {type(model).__name__} is not a CatBoost model; pass a fitted CatBoost object.")
    data = model._serialize_model()
    return _read(lambda: read_cbm(data), options, version_of(data))


def read_path(path: Path, options: ReadOptions) -> Ensemble:
    """Read a file written by `save_model`, format="cbm" or "json"; CatBoost need not be installed."""
    data = path.read_bytes()
    version = version_of(data)
    if data.startswith(b"CBM1"):
        return _read(lambda: read_cbm(data), options, version)
    document = parse_json(data, path, constants=False)
    return _read(lambda: read_json(document, version), options, version)


def pool(model: Any, X: Any, y: Any, weight: Any, baseline: Any, group_id: Any) -> Any:
    """Rows as an estimator's fit takes them for early stopping, with their weights and margins."""
    import catboost

    known = {name: model.get_params().get(name) for name in ("cat_features", "text_features", "embedding_features")}
    return catboost.Pool(X, y, weight=weight, baseline=baseline, group_id=group_id, **known)


def make_table(model: Any, X: Any, ensemble: Ensemble) -> Table | None:
    """X as the columns of an ensemble with categorical features; None if the ensemble takes X itself.

    `model` is the object, or the path of the file, that the ensemble was read from; X is whatever its
    predict() takes.
    """
    if not ensemble.schema.external:
        return None
    if isinstance(model, str | Path):
        model = _load(Path(model))
    return ctr.leaf_table(model, X, ensemble)


def custom_gradient(model: Any) -> Callable[[Any, Any], Any] | None:
    """Gradient of the object that an estimator was given as its loss; None if it was not."""
    loss = model.get_params().get("loss_function")
    by_row = getattr(loss, "calc_ders_multi", None)
    if by_row is None and not hasattr(loss, "calc_ders_range"):
        return None

    def gradient(y: Any, margin: Any) -> Any:
        # CatBoost's derivatives are those of what it maximises.
        if by_row is not None:
            return -np.array([by_row(m, target, 1.0)[0] for m, target in zip(margin, y, strict=True)])
        return -np.array([first for first, _ in loss.calc_ders_range(margin, y, None)])

    gradient.__name__ = type(loss).__name__
    return gradient


# -- the library's files ------------------------------------------------------------------------------------
def _load(path: Path) -> Any:
    try:
        import catboost
    except ImportError as error:
        raise MissingDependencyError(
            f"Reading {path} needs CatBoost: `pip install catboost`, or save the model with format='json'."
        ) from error
    with path.open("rb") as file:
        format = "cbm" if file.read(4) == b"CBM1" else "json"
    require_survivor(path, format)
    try:
        return catboost.CatBoost().load_model(str(path), format=format)
    except catboost.CatBoostError as error:
        raise ModelError(f"CatBoost cannot load {path}: {error}") from error


# -- the document -------------------------------------------------------------------------------------------
@contextmanager
def _damage_is_a_model_error() -> Iterator[None]:
    try:
        with np.errstate(all="ignore"):  # numbers out of range become infinite, and the Ensemble refuses those
            yield
    except TreeInnerError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ModelError(
            f"This is not a CatBoost model, or a damaged one ({type(error).__name__}: {error}); save it again."
        ) from error


def _read(document: Callable[[], Document], options: ReadOptions, version: tuple[int, ...] = ()) -> Ensemble:
    if options.reg_alpha:
        raise ValueError(
            f"reg_alpha={options.reg_alpha} was given, but CatBoost has no l1 term, only l2_leaf_reg; leave it out."
        )
    with explained("CatBoost", version), _damage_is_a_model_error():
        found = document()
    options.rates(len(found.trees.start) - 1)  # a wrong number of them is the user's error
    with explained("CatBoost", version), _damage_is_a_model_error():
        ensemble = _build(found, options)
    return ensemble if options.iteration_range is None else ensemble.slice_rounds(*options.iteration_range)


def _build(document: Document, options: ReadOptions) -> Ensemble:
    features, trees, scale = document.features, document.trees, document.scale
    splits = features.splits
    settings = Settings.of(document.info)
    columns = _columns(trees, features)
    n_trees, n_outputs = len(trees.start) - 1, trees.value.shape[1]
    value = trees.value if scale == 1 else trees.value * scale
    levels = inner_by_depth(trees.left, trees.right, trees.start[:-1])
    cover = add_up(trees.weight.copy(), trees.left, trees.right, levels)
    told = options.rates(n_trees)
    rates = np.full(n_trees, settings.learning_rate) if told is None else told
    has_ctr = bool(np.any(splits.look_up(lambda source: source.kind, -1, trees.split) == 2))

    @_damage_is_a_model_error()
    def work_out() -> NodeValues:
        lam, doubt = options.reg_lambda, ""
        if lam is None:
            lam, doubt = settings.reg_lambda(document, rates)
        reasons = settings.reasons(has_ctr) or ([doubt] if doubt else [])
        return NodeValues(
            node_values(trees, value, cover, levels, lam),
            params={} if lam is None else {"reg_lambda": lam, "reg_alpha": 0.0},
            needs=() if lam is not None else ("reg_lambda",),
            exactness="; ".join(reasons) or "exact",
            value_doubts=tuple(reasons),
        )

    external, names, numbered = columns.external, features.names, None
    if external:  # columns are not features; those without names go by CatBoost's own, their numbers
        names, numbered = None, tuple(map(str, range(features.n_features)))
    schema = Schema(n_columns=columns.n_columns, names=names, categorical=columns.categorical, external=external)
    arrays = handed_over(
        tree_start=trees.start,
        tree_output=np.zeros(n_trees, np.int32),
        tree_round=np.arange(n_trees, dtype=np.int32),
        tree_weight=np.full(n_trees, scale),
        tree_rate=rates,
        feature=columns.feature,
        threshold=columns.threshold,
        left=trees.left,
        right=trees.right,
        missing_left=splits.look_up(lambda source: source.missing_left, True, trees.split),
        category_set=columns.category_set,
        value=value,
        cover=cover,
        gain=np.where(trees.split < 0, 0.0, np.nan),  # CatBoost stores no gain
        leaf_id=trees.leaf_id,
        set_start=np.arange(len(columns.set_codes) + 1),
        set_codes=np.array(columns.set_codes, dtype=np.int32),
        base_score=np.broadcast_to(document.bias, (n_outputs,)),
    )
    return Ensemble(
        **arrays,
        schema=schema,
        library="catboost",
        objective=settings.objective,
        objective_params=settings.objective_params(),
        params=settings.params() | columns.params(features.names is not None),
        float32_input=True,
        output_names=settings.output_names(n_outputs),
        feature_names=features.names or numbered,
        column_features=columns.column_features,
        work_out=work_out,
    )


def _columns(trees: Trees, features: Features) -> ctr.Columns:
    if not features.categorical:
        return ctr.plain_columns(features.splits, trees.split, features.n_features)
    # Also if no split is on a category: a table of hashed strings is none of our business.
    if trees.symmetric:
        return ctr.symmetric_columns(features.splits, trees.split, trees.start)
    return ctr.path_columns(features.splits, trees.split, trees.right, trees.start)
