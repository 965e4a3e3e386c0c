"""What `make demo` shows: a model trained on real data with noise columns, and where its predictions come from."""

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import treeinner as ti

CARDINALITIES = (2, 10, 100, 442)  # a noise column with more distinct values offers more chances to overfit


def make_data(seed=0):
    """Diabetes progression of 442 patients, ten real measurements, and four columns of pure noise."""
    rng = np.random.default_rng(seed)
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    for n in CARDINALITIES:
        X[f"noise_{n}"] = rng.integers(0, n, len(X)).astype(float)
    return train_test_split(X, y, test_size=0.4, random_state=seed)


def main():
    X_train, X_valid, y_train, _ = make_data()
    model = xgb.XGBRegressor(n_estimators=200, max_depth=4, learning_rate=0.05, reg_lambda=1.0)
    model.fit(X_train, y_train)

    a = ti.attribute(model, X_valid)
    margin = model.predict(X_valid, output_margin=True)

    print(f"{ti.read_model(model)}\ninstruction set: {ti.instruction_set()}\n")
    print("Where three predictions come from (PreDecomp, the largest contributions of each):\n")
    for i in range(3):
        largest = np.argsort(-np.abs(a.values[i]))[:5]
        print(f"patient {X_valid.index[i]}: predicted {margin[i]:.2f}, average {a.base_values[i]:.2f}")
        for k in largest:
            print(f"    {a.feature_names[k]:>10} = {X_valid.iloc[i, k]:8.3f}   {a.values[i, k]:+8.2f}")
        rest = a.values[i].sum() - a.values[i, largest].sum()
        total = a.base_values[i] + a.values[i].sum()
        print(f"    {'the rest':>10}              {rest:+8.2f}")
        print(f"    {'sum':>10}              {total:8.2f}   (the model itself: {margin[i]:.2f})\n")
    worst = np.abs(a.base_values + a.values.sum(axis=1) - margin).max()
    print(f"Largest difference between the sum and the model's own margin, over {len(margin)} rows: {worst:.1e}")


if __name__ == "__main__":
    main()
