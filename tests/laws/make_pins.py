"""Store what the installed edition answers: `python -m tests.laws.make_pins`, or `... models` for the model files.

The pins are those of the second edition. Make them again only where a difference is intended, and say so in README.md.
"""

import json
import sys
import warnings

import numpy as np

from tests.laws.settings import FITTED, HERE, PINS, QUERY, SELECTIONS, SETTINGS, Setting, answer, data, fitted, support


def make_models():
    """Write the models that tests/golden does not have: two of ranking, one of LightGBM that starts from 0."""
    import lightgbm as lgb
    import xgboost as xgb

    names, grade, sizes = data()["names"].tolist(), data()["y_class"][:300], np.bincount(QUERY[:300])
    X, y = (part[:300] for part in Setting("regression").rows())
    rows = xgb.DMatrix(X, grade, qid=QUERY[:300], feature_names=names)
    shape = {"objective": "rank:ndcg", "eta": 0.3, "max_depth": 3, "nthread": 1, "seed": 1}
    xgb.train(shape, rows, 8).save_model(HERE / "models" / "rank.ubj")
    plain = {"num_leaves": 8, "learning_rate": 0.3, "lambda_l2": 1.5, "min_data_in_leaf": 8, "num_threads": 1}
    plain |= {"seed": 1, "deterministic": True, "force_row_wise": True, "verbosity": -1}
    ranking, graded = {"objective": "lambdarank", **plain}, lgb.Dataset(X, grade, group=sizes, feature_name=names)
    lgb.train(ranking, graded, 8).save_model(HERE / "models" / "lambdarank.txt")
    from_zero = {"objective": "regression", "boost_from_average": False, **plain}
    lgb.train(from_zero, lgb.Dataset(X, y, feature_name=names), 8).save_model(HERE / "models" / "from_zero.txt")


def make_pins():
    """Answer every question and write the numbers as one array with an index."""
    found = {(name, ask): answer(setting, ask) for name, setting in SETTINGS.items() for ask in setting.asks}
    found |= {("selection", name): {"support": support(name).astype(np.float64)} for name in SELECTIONS}
    found |= {("predict", name): {"prediction": fitted(name).predict(Setting(name).rows()[0])} for name in FITTED}
    parts = [(*key, name, array) for key, arrays in found.items() for name, array in arrays.items()]
    index = json.dumps([(setting, ask, name, array.shape) for setting, ask, name, array in parts])
    np.savez_compressed(PINS, values=np.concatenate([array.ravel() for *_, array in parts]), index=index)
    print(f"{len(SETTINGS)} settings, {len(parts)} arrays, {PINS.stat().st_size:,} bytes")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    make_models() if sys.argv[1:] == ["models"] else make_pins()
