"""The settings of the paper's study: five sweeps around one standard setting, and which trainings they need.

A sweep varies one parameter and leaves the others at their standard values, so the standard setting lies in all five:
26 listed settings are 22 distinct ones. A model of 1000 rounds holds those of 200 to 800 rounds, so 18 trainings make
them all; for squared error, where every row weighs 1, `min_child_weight` 0.5 and 1 are the same model: 17 trainings.

`standard(rounds)` and `sweeps(rounds)` are the same grid with another number of standard rounds (a miniature for
tests): the numbers of rounds keep their proportions. `rounds=None` is the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace

__all__ = ["STANDARD", "SWEEPS", "Setting", "Training", "settings_of", "standard", "sweeps", "trainings"]


@dataclass(frozen=True, order=True)
class Setting:
    """Training parameters of one model, by XGBoost's names."""

    eta: float = 0.01
    max_depth: int = 4
    min_child_weight: float = 1.0
    num_boost_round: int = 400
    reg_lambda: float = 1.0


STANDARD = Setting()
SWEEPS: dict[str, tuple[Setting, ...]] = {
    "eta": tuple(replace(STANDARD, eta=x) for x in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)),
    "max_depth": tuple(replace(STANDARD, max_depth=x) for x in (2, 4, 6, 8, 10)),
    "min_child_weight": tuple(replace(STANDARD, min_child_weight=x) for x in (0.5, 1.0, 2.0, 4.0, 8.0)),
    "num_boost_round": tuple(replace(STANDARD, num_boost_round=x) for x in (200, 400, 600, 800, 1000)),
    "reg_lambda": tuple(replace(STANDARD, reg_lambda=x) for x in (0.0, 0.1, 1.0, 10.0, 100.0)),
}


@dataclass(frozen=True)
class Training:
    """One model to be trained, and the settings that are cut out of it."""

    setting: Setting  # what is trained; its num_boost_round is the largest of `settings`
    settings: tuple[Setting, ...]  # in ascending order of num_boost_round; of equal models the trained one comes first


def standard(rounds: int | None = None) -> Setting:
    """Return the standard setting, with `rounds` boosting rounds instead of 400."""
    return _scaled(STANDARD, rounds)


def sweeps(rounds: int | None = None) -> dict[str, tuple[Setting, ...]]:
    """Return the five sweeps, with `rounds` boosting rounds in the standard setting instead of 400."""
    return {name: tuple(_scaled(setting, rounds) for setting in settings) for name, settings in SWEEPS.items()}


def settings_of(names: Iterable[str], rounds: int | None = None) -> tuple[Setting, ...]:
    """Return the distinct settings of some sweeps, the standard one among them, sorted."""
    grid = sweeps(rounds)
    unknown = [name for name in names if name not in grid]
    if unknown:
        raise ValueError(f"There is no sweep {unknown[0]!r}; choose among {', '.join(grid)}.")
    return tuple(sorted({standard(rounds), *(setting for name in names for setting in grid[name])}))


def trainings(settings: Iterable[Setting], task: str) -> tuple[Training, ...]:
    """Return the models to be trained for some settings of a task, none of them twice."""
    together: dict[tuple[float, ...], list[Setting]] = {}
    for setting in sorted(set(settings)):
        # With squared error a row's hessian is 1, and a child of less than one row cannot be.
        weight = max(setting.min_child_weight, 1.0) if task == "regression" else setting.min_child_weight
        together.setdefault(astuple(replace(setting, min_child_weight=weight, num_boost_round=0)), []).append(setting)
    made = []
    for members in together.values():
        members.sort(key=lambda s: (s.num_boost_round, -s.min_child_weight))
        made.append(Training(max(members, key=lambda s: (s.num_boost_round, s.min_child_weight)), tuple(members)))
    return tuple(made)


def _scaled(setting: Setting, rounds: int | None) -> Setting:
    if rounds is None:
        return setting
    return replace(setting, num_boost_round=max(1, round(setting.num_boost_round * rounds / STANDARD.num_boost_round)))
