"""What a study cost, from its stored times: CPU seconds of training against those of the scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from treeinner_study.grid import standard

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
    frame = pd.read_parquet(results / "results.parquet")
    usual = asdict(standard(meta["rounds"]))
    rounds = usual.pop("num_boost_round")
    # The standard model may be cut out of a longer one, whose reading is shared out by rounds.
    trained = frame[(frame[list(usual)] == pd.Series(usual)).all(axis=1)]
    cut = trained[trained["num_boost_round"] == rounds]
    inner = cut[(cut["gfa"] == "TreeInner") & (cut["ifa"] == "PreDecomp")]
    unit = ["dataset", "task", "replication"]
    read = trained[trained["read_seconds"] > 0].drop_duplicates(unit)
    return Cost(
        inner_seconds=float(inner["score_seconds"].sum()),
        read_seconds=float((read["read_seconds"] * rounds / read["num_boost_round"]).sum()),
        standard_seconds=float(cut.drop_duplicates(unit)["alone_seconds"].sum()),
        shap_seconds=float(frame.loc[frame["ifa"] == "TreeSHAP", "score_seconds"].sum()),
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
