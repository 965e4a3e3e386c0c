"""What a study cost, from its stored times: CPU seconds of training against those of the scores."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeinner.study.grid import Setting, standard
from treeinner.study.store import read_columns

__all__ = ["Cost", "cost_of", "spoken_cost"]


@dataclass(frozen=True)
class Cost:
    """CPU seconds, summed over all replications; shares are of the training time."""

    inner_seconds: float  # TreeInner(PreDecomp), both domains, standard setting
    read_seconds: float  # reading those models
    standard_seconds: float  # training them
    shap_seconds: float  # all scores by TreeSHAP, all settings
    training_seconds: float  # all trainings
    cpu_seconds: float  # everything
    wall_seconds: float
    jobs: int

    @property
    def inner_share(self) -> float:
        """TreeInner(PreDecomp) on both domains over training, at the standard setting."""
        return self.inner_seconds / self.standard_seconds

    @property
    def inner_share_with_reading(self) -> float:
        """The same with reading the model."""
        return (self.inner_seconds + self.read_seconds) / self.standard_seconds

    @property
    def shap_share(self) -> float:
        """All TreeSHAP scores over all trainings."""
        return self.shap_seconds / self.training_seconds

    @property
    def xgboost_share(self) -> float:
        """Training over everything."""
        return self.training_seconds / self.cpu_seconds


def cost_of(results: Path, meta: dict[str, Any]) -> Cost:
    """Add up the times of a study."""
    columns = read_columns(results)
    usual = standard(meta["rounds"])
    inner, shap = 0.0, 0.0
    alone: dict[Any, float] = {}
    read: defaultdict[Any, float] = defaultdict(float)
    rounds: dict[Any, int] = {}
    names = ("dataset", "task", "replication", "gfa", "ifa", "score_seconds", "alone_seconds", "read_seconds")
    picked = zip(*(columns[name] for name in names), _settings(columns), strict=True)
    for dataset, task, replication, gfa, ifa, seconds, alone_seconds, read_seconds, setting in picked:
        unit = dataset, task, replication
        if ifa == "TreeSHAP":
            shap += seconds
        if setting == usual:
            alone[unit] = alone_seconds
            if gfa == "TreeInner" and ifa == "PreDecomp":
                inner += seconds
        # The standard model may be cut out of a longer one, whose reading is shared out by rounds.
        if read_seconds and (setting.eta, setting.max_depth, setting.min_child_weight, setting.reg_lambda) == (
            usual.eta, usual.max_depth, usual.min_child_weight, usual.reg_lambda,
        ):  # fmt: skip
            read[unit], rounds[unit] = read_seconds, setting.num_boost_round
    reading = sum(seconds * usual.num_boost_round / rounds[unit] for unit, seconds in read.items())
    return Cost(
        inner_seconds=inner,
        read_seconds=reading,
        standard_seconds=sum(alone.values()),
        shap_seconds=shap,
        training_seconds=float(meta["training_seconds"]),
        cpu_seconds=float(meta["cpu_seconds"]),
        wall_seconds=float(meta["wall_seconds"]),
        jobs=int(meta["jobs"]),
    )


def spoken_cost(cost: Cost) -> list[str]:
    """Say it in four lines."""
    return [
        f"TreeInner(PreDecomp), both domains, standard setting: {cost.inner_share:.2%} of the training time "
        f"({cost.inner_share_with_reading:.2%} with reading the model).",
        f"All TreeSHAP scores: {cost.shap_seconds:.0f} s of CPU, against {cost.training_seconds:.0f} s of training "
        f"({cost.shap_share:.0%}).",
        f"XGBoost's training: {cost.xgboost_share:.0%} of {cost.cpu_seconds:.0f} s of CPU.",
        f"Wall time: {cost.wall_seconds / 60:.1f} minutes, {cost.jobs} job{'s' * (cost.jobs != 1)}.",
    ]


def _settings(columns: dict[str, list[Any]]) -> list[Setting]:
    names = ("eta", "max_depth", "min_child_weight", "num_boost_round", "reg_lambda")
    return [Setting(*values) for values in zip(*(columns[name] for name in names), strict=True)]
