"""One state per day in a folder, and the question at the end of the half-year: which month went wrong, and why?

    python examples/daily.py [folder]

Bikes of a town are counted by the hour. Every night the hours of the day are summed, in one pass, into a small file,
and the hours themselves may be thrown away. Months are compared with the same month of the year before. In September
somebody joins the weather of the wrong hours; in November a bridge is closed, and rush hours are not what they were.
"""

from __future__ import annotations

import gzip
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost as xgb

import treeinner as ti

BREAKS = ("2025-09", "2025-11")


def bikes(year: str, rng: np.random.Generator, *, broken: bool = False) -> pd.DataFrame:
    """Hours of a year with their weather and the bikes that were counted, on a log scale."""
    when = pd.date_range(year, periods=365 * 24, freq="h")
    season = np.cos((when.day_of_year.to_numpy() - 200) / 365 * 2 * np.pi)
    rows = pd.DataFrame({"date": when, "hour": when.hour, "weekday": when.day_of_week})
    rows["temperature"] = 12 + 9 * season + 4 * rng.normal(size=len(when))
    rows["rain"] = rng.exponential(0.5, len(when)) * (rng.random(len(when)) < 0.2)
    rows["wind"] = rng.gamma(3, 4, len(when))
    rush = np.isin(rows["hour"], (7, 8, 17, 18)) & (rows["weekday"] < 5)
    month = when.strftime("%Y-%m")
    pull = np.where((month == BREAKS[1]) & broken, 0.2, 1.2)
    rows["bikes"] = 3 + pull * rush + 0.05 * rows["temperature"] - 0.4 * rows["rain"] + 0.4 * rng.normal(size=len(when))
    wrong = (month == BREAKS[0]) & broken  # the rows of another station
    rows.loc[wrong, "temperature"] = rows.loc[wrong, "temperature"].sample(frac=1, random_state=0).to_numpy()
    return rows


def keep(folder: Path, model: ti.Model, reference: ti.Importance, rows: pd.DataFrame) -> None:
    """What every night does: sum the rows of each day and keep the sums."""
    for day, own in rows.groupby(rows["date"].dt.date):
        state = ti.ImportanceAccumulator(model, reference=reference, n_jobs=1)
        state.update(own.drop(columns=["date", "bikes"]), own["bikes"], batch_id=str(day))
        (folder / f"{day}.pickle.gz").write_bytes(gzip.compress(pickle.dumps(state), 1))


def window(folder: Path, days: str) -> ti.ImportanceAccumulator:
    """All rows of some days, such as 2025-09-*, from their states."""
    files = folder.glob(f"{days}.pickle.gz")
    return sum(pickle.loads(gzip.decompress(path.read_bytes())) for path in files)


def main(folder: Path) -> dict[str, ti.Comparison]:
    """Keep a year, then ask."""
    rng = np.random.default_rng(0)
    old, new = bikes("2024", rng), bikes("2025", rng, broken=True)
    seen = rng.random(len(old)) < 0.5
    train, held_out = old[seen].drop(columns="date"), old[~seen]
    fitted = xgb.XGBRegressor(n_estimators=40, max_depth=4, learning_rate=0.2, n_jobs=1)
    model = ti.read_model(fitted.fit(train.drop(columns="bikes"), train["bikes"]))
    reference = ti.importance(model, held_out.drop(columns="date"), "bikes")
    kept = pd.concat([held_out, new])
    keep(folder, model, reference, kept[kept["date"].dt.month > 6])

    print("month    loss a year ago, now   pays less (q <= 0.1)")
    found = {}
    for month in sorted({path.name[4:7] for path in folder.glob("2025-*")}):
        before, after = (window(folder, f"{year}{month}-*") for year in (2024, 2025))
        change = before.compare(after, names=(f"2024{month}", f"2025{month}"))
        worse = [f"{change.feature_names[k]} +{change.change.score[k]:.3f}" for k in change.order]
        worse = [text for text, k in zip(worse, change.order, strict=True) if change.verdicts[k] == "worse"]
        print(f"2025{month}       {change.loss_before:8.3f} {change.loss_after:8.3f}   {', '.join(worse)}")
        found[f"2025{month}"] = change
    print(f"\n{found[BREAKS[0]]}")
    return found


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
