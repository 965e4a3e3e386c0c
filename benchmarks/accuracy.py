"""Errors of the kernels against exact numbers: writes docs/evidence/accuracy.md.

python benchmarks/accuracy.py          all of it, some minutes of one core
python benchmarks/accuracy.py --few    the smaller half, printed

Exact numbers, errors and their scales are in tests/kernels/accuracy.py; tests/kernels/test_accuracy.py holds a part of
this to its bounds.
"""

import argparse
import sys
import time
import warnings
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests import oracle  # noqa: E402
from tests.forests import Recipe, make_trees  # noqa: E402
from tests.kernels import accuracy  # noqa: E402
from tests.kernels.accuracy import DIGITS, U, bushes, rows, target, with_leaves, worst  # noqa: E402
from tests.kernels.models import attribute, chain, predict  # noqa: E402

from treeinner import kernels  # noqa: E402
from treeinner.score.sums import exact_sums  # noqa: E402

HEAD = """# How accurate the numbers are

Every kernel against exact numbers: sums in exact fractions, TreeSHAP, means by cover and losses in decimals of 60 digits
(`tests/kernels/accuracy.py`, which calls no kernel for them). Written by

    python benchmarks/accuracy.py

which took {seconds:.0f} seconds of one core, with the instruction set {instructions}; all instruction sets give the same bits. An **error** is
the largest difference from the exact number over the rows and features of a line, relative to a scale that is named with it.
**U** is 2^-53 = 1.1e-16, the error of one rounding in float64. `tests/kernels/test_accuracy.py` holds smaller cases of these to the bounds.

## Bounds

| what | bound | scale |
|---|---|---|
| predictions (margins) | 4 U | base score and the leaves that the row reaches, by their sizes |
| attribution by path: PreDecomp | 4 U | the node values on the row's paths, by their sizes |
| attribution by path: Saabas | 4 U, and U / share where a leaf has a share of the cover above 2^-10 and a value that makes up for it | the same |
| base value of Saabas and TreeSHAP | the same | base score and every tree's cover-weighted mean of \\|leaf\\| |
| TreeSHAP, up to 100 features and 1,000 splits on a path, ratios of covers up to 1e30 | 4 U | the largest \\|leaf\\| of every tree, added up |
| centred score | 4e-9, and U times base score and number of trees | mean over the rows of the scale of their shares |
| row shares, trees of at most 64 leaves | 2e-7, and the same | a row's sum over the trees of the largest step from the root times the residuals, counted from the root |
| row shares, larger trees | 2e-8, and the same | the same |
| exact sums | 2^-89 of a unit per number; the unit is a power of two near the largest share | |
| residuals in the core: logistic, softmax | 4 U | 1 |
| residuals in the core: Poisson | 4 U, of margins between -708 and 708 | target and prediction |

These are the bounds of the tests, with room above what is seen below; they are measured, not proven. That sums of thousands of
numbers are off by a few U has a reason: roundings are random, and the scale grows with the number of terms faster than they add up.

What the bounds do not say:

- **Small numbers beside large ones.** An error is relative to the scale, not to the number itself. Two trees that give a feature 1e9 and
  -1e9 leave an attribution of 1 with an error of 1e-7. A probability near 1 with label 1 has a residual of 1 - p, good to 1e-16, not to 16
  digits.
- **Residuals far from 0.** A residual is the target less a margin. With a base score of 1e9, each of them is off by 1e-7 from the start, and
  by up to as much again in every round. Attributions do not see the base score: theirs is the bound above.
- **Standard errors, p values.** They come from row shares, whose 2e-7 is far below their own uncertainty. The scores themselves do not
  come from row shares.
- **A leaf far out of proportion** costs scores their digits, because gradients are summed as integers in units of 2^-32 of the largest leaf
  value over its learning rate (2^-44 where the largest leaf is 2^28 times the median). See the table of scores below; there `importance`
  warns from 1e10 on that the scores may be off, and by how much at most, which is some 40 times what is seen.

Found by these measurements and mended: the quadrature of TreeSHAP, whose weights came from numpy and lost digits with more than 20
features on a path (12 U at 100 features); the part of a rare leaf of huge value in the base value and in Saabas (all of it at 1e-17
of the cover); the unit of the gradients, which followed a single huge leaf without a limit and without a word.
"""  # noqa: E501


# -- models and errors beside those of the tests ---------------------------------------------------------------------
def path_tree(depth, n_columns, share):
    """A tree that is one path; a row of ones goes all the way down."""
    return chain(depth, n_columns, share=share, thresholds=0.5)


def path_rows(depth, n_columns):
    """Rows that leave a path at its end, in its middle and near its start."""
    X = np.ones((3, n_columns))
    X[1, min(depth // 2, n_columns - 1)] = X[2, min(1, n_columns - 1)] = 0.0
    return X


def cancelling(n_trees, size):
    """Trees in pairs: each leaf of `size` is taken back by the next tree, but for a number near 1."""
    trees = bushes(2 * n_trees, depth=3)
    sign = np.where(trees.tree_of_node % 2, -1.0, 1.0)
    return with_leaves(trees, sign * size + np.random.default_rng(0).normal(size=trees.n_nodes))


def rare_leaves(share, seed):
    """Trees with leaves that have `share` of their sibling's cover, and values of 1 / share."""
    trees, rng = bushes(10, depth=5, seed=seed), np.random.default_rng(seed)
    cover, value = trees.cover.copy(), np.where(trees.column < 0, rng.normal(size=trees.n_nodes), 0.0)
    for i in np.flatnonzero(trees.column >= 0):
        a, b = (trees.left[i], trees.right[i])[:: 1 if rng.random() < 0.5 else -1]
        if trees.column[a] < 0 and rng.random() < 0.3:
            cover[a], value[a] = share * cover[b], value[a] / share
    return with_leaves(replace(trees, cover=cover), value)


def with_huge_leaf(size, X):
    """Trees of which one has a huge leaf, which none of the rows reaches."""
    trees = bushes(20)
    reached = {oracle.path(trees, tree, row)[-1] for row in X for tree in range(trees.n_trees)}
    value = trees.value[:, 0].copy()
    value[next(i for i in np.flatnonzero(trees.column < 0) if i not in reached)] = size
    return with_leaves(trees, value)


def largest_leaves(trees):
    """Largest |leaf| of every tree, added up."""
    return float(np.maximum.reduceat(np.abs(trees.value[:, 0]), trees.start[:-1]).sum())


def base_error(trees):
    """Of the base value of Saabas and TreeSHAP; scale: the base score and the trees' cover-weighted means of |leaf|."""
    exact, sizes = accuracy.mean_values(trees), accuracy.mean_values(trees, of=abs)
    roots, base = trees.start[:-1].tolist(), Decimal(float(trees.base[0]))
    with localcontext(DIGITS):
        scale = float(abs(base) + sum(sizes[root] for root in roots))
        found = attribute(trees, rows(1, trees.n_columns), "treeshap")[1]
        return worst(found, [base + sum(exact[root] for root in roots)], scale)


def local_accuracy_error(trees, X):
    """Of base value plus TreeSHAP less the prediction; scale: the base score and the largest |leaf| of every tree."""
    values, base = attribute(trees, X, "treeshap")
    off = np.abs(base + values.sum(axis=1) - predict(trees, X)).max()
    return float(off) / (abs(float(trees.base[0])) + largest_leaves(trees))


def exact_sum_error(values):
    """Of sums that do not depend on the order, as they are held; scale: 2^-89 of the unit per number."""
    exponent = -int(np.frexp(np.abs(values).max())[1])
    limbs = np.zeros((1, 5), np.int64)
    exact_sums(values[:, None], exponent, limbs)
    units = (40, 8, -24, -56, -88)
    held = sum(int(limb) * Fraction(2) ** (unit - exponent) for limb, unit in zip(limbs[0], units, strict=True))
    exact = sum(map(Fraction, values.tolist()))
    return float(abs(held - exact) / (len(values) * Fraction(2) ** (-89 - exponent)))


def residual_errors(margins):
    """Of the losses that the core knows, by loss; scale: |target| + |prediction|, for probabilities 1."""
    n, out = len(margins), {}
    with localcontext(DIGITS):
        power = [Decimal(m).exp() for m in margins.tolist()]
        for name, exact in (("logistic", [1 / (1 + 1 / e) for e in power]), ("poisson", power)):
            for y in (0, 1):
                got = core_residuals(1, name, np.full((1, n), float(y)), margins[None])[0]
                scale = [1.0 if name == "logistic" else float(x) + y for x in exact]
                errors = [worst(g, [y - x], s) for g, x, s in zip(got, exact, scale, strict=True)]
                out[name] = max(out.get(name, 0.0), *errors)
        three = np.stack([margins, margins[::-1], np.roll(margins, n // 3)])
        got = core_residuals(3, "softmax", np.zeros((1, n)), three)
        for i in range(n):
            parts = [Decimal(m).exp() for m in three[:, i].tolist()]
            exact = [(k == 0) - part / sum(parts) for k, part in enumerate(parts)]
            out["softmax"] = max(out.get("softmax", 0.0), worst(got[:, i], exact, 1.0))
    return out


def core_residuals(n_outputs, loss, y, margins):
    """Residuals of the core: (outputs, rows)."""
    trees = make_trees(Recipe(n_trees=n_outputs, depth=1, n_outputs=n_outputs), 0)
    n = margins.shape[1]
    margin, out = (kernels.aligned((n_outputs, kernels.padded_rows(n))) for _ in range(2))
    margin[:, :n] = margins
    codes = trees.forest.bin(np.zeros((n, trees.n_columns)))
    trees.forest.core.residuals(codes, kernels.LOSSES[loss], 1.0, y, None, margin, out)
    return out[:, :n]


# -- the page ------------------------------------------------------------------------------------------------------
def table(title, text, columns, lines):
    """A table in Markdown."""
    head = [f"\n## {title}\n", text, "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*head, *("| " + " | ".join(line) + " |" for line in lines), ""])


def units(error):
    """An error in U."""
    return f"{error / U:.2g} U" if error < 1e4 * U else f"{error:.1g}"


def by_trees(few):
    """Errors against the number of trees."""
    lines = []
    for n in (1, 10, 100, 1000) if few else (1, 10, 100, 1000, 10_000):
        e, X = bushes(n), rows(10 if n <= 1000 else 3)
        shap = units(accuracy.shap_error(e, X[:3] if n <= 1000 else X[:1]))
        path = [units(accuracy.path_error(e, X, method)) for method in ("predecomp", "saabas")]
        lines.append([f"{n:,}", units(accuracy.margin_error(e, X)), *path, units(base_error(e)), shap])
    columns = ["trees", "prediction", "PreDecomp", "Saabas", "base value", "TreeSHAP"]
    return table("Number of trees", "Random trees of depth 4, six features, leaves near 1.", columns, lines)


def by_depth(few):
    """Errors against the depth, with one feature per split and with few features."""
    lines = []
    for depth in (1, 5, 10, 20, 30, 40, 64) if few else (1, 5, 10, 20, 30, 40, 64, 100):
        found = []
        for share in (None, 0.999, 0.001):
            e, X = path_tree(depth, depth, share), path_rows(depth, depth)
            found.append(units(accuracy.shap_error(e, X if depth <= 64 else X[:1])))
        lines.append([f"{depth}", f"{depth}", *found, units(accuracy.path_error(e, X))])
    for depth in (30, 100, 300, 1000):
        found = [units(accuracy.shap_error(path_tree(depth, 3, s), path_rows(depth, 3))) for s in (None, 0.999, 0.001)]
        lines.append(
            [f"{depth:,}", "3", *found, units(accuracy.path_error(path_tree(depth, 3, 0.5), path_rows(depth, 3)))]
        )
    text = (
        "One tree that is a single path, with a leaf at every split; rows that leave it at the end, in the middle and "
        "near the start (with 100 features: at the end, where every feature counts). The share is the part of a "
        "split's cover that is in its leaf."
    )
    columns = ["depth", "features", "TreeSHAP, shares 0.05 to 0.95", "share 0.999", "share 0.001", "PreDecomp"]
    return table("Depth", text, columns, lines)


def by_cancellation():
    """Errors of leaves that cancel, and of a large base score."""
    lines = []
    for size in (1.0, 1e3, 1e6, 1e9, 1e12, 1e15):
        e, X = cancelling(50, size), rows(5)
        errors = [accuracy.margin_error(e, X), accuracy.path_error(e, X), accuracy.shap_error(e, X[:3])]
        lines.append(["leaves of alternating sign", f"{size:.0e}", *map(units, errors), ""])
    for base in (1e3, 1e6, 1e9, 1e12):
        e, X = replace(bushes(100), base=[base]), rows(5)
        errors = [accuracy.margin_error(e, X), accuracy.path_error(e, X), accuracy.shap_error(e, X[:3])]
        together = local_accuracy_error(e, X)
        lines.append(["base score", f"{base:.0e}", *map(units, errors), units(together)])
    text = (
        "Trees in pairs, each of which takes the huge leaf of the other back but for a number near 1; then 100 trees "
        "with leaves near 1 on a large base score. Adding up: base value and TreeSHAP against the prediction, relative "
        "to the base score and the largest leaves."
    )
    return table("Cancellation", text, ["", "size", "prediction", "PreDecomp", "TreeSHAP", "adding up"], lines)


def by_cover():
    """Errors with absurd covers."""
    lines = []
    for ratio in (1.0, 1e3, 1e10, 1e20, 1e30):
        for empty in (0.0, 0.2):
            e, X = accuracy.with_covers(bushes(20, depth=6), ratio, empty), rows(5)
            deep = accuracy.with_covers(path_tree(40, 40, 0.5), ratio, empty)
            errors = [accuracy.shap_error(e, X), accuracy.shap_error(deep, path_rows(40, 40)[:2])]
            errors += [accuracy.path_error(e, X, "saabas"), base_error(e)]
            lines.append([f"1 / {ratio:.0e} to {ratio:.0e}", f"{empty:.0%}", *map(units, errors)])
    for share in (1e-2, 1e-3, 1e-4, 1e-8, 1e-14, 1e-20):
        worst = [0.0, 0.0, 0.0]
        for seed in range(3):
            e, X = rare_leaves(share, seed), rows(3)
            found = accuracy.shap_error(e, X), accuracy.path_error(e, X, "saabas"), base_error(e)
            worst = np.maximum(worst, found).tolist()
        lines.append([f"rare leaves of {share:.0e}", "0%", units(worst[0]), "", units(worst[1]), units(worst[2])])
    text = (
        "Ratios of the covers of siblings, drawn log-uniformly; a part of the children has none. Then leaves that have "
        "a small share of their sibling's cover, and values of 1 / share."
    )
    columns = ["covers", "without any", "TreeSHAP, depth 6", "TreeSHAP, 40 features on a path", "Saabas", "base value"]
    return table("Covers", text, columns, lines)


def by_rows(few):
    """Errors of scores against rows, trees and the base score."""
    lines = []

    def add(what, e, X, n=10):
        errors = accuracy.score_errors(e, X, target(e, X), n)
        lines.append([what, f"{len(X):,}", *(f"{error:.1g}" for error in errors)])

    for n in (10, 100, 1000) if few else (10, 100, 1000, 5000):
        add("20 trees", bushes(20), rows(n))
    for n in (1, 100) if few else (1, 100, 500):
        add(f"{n} tree{'s' * (n > 1)}", bushes(n), rows(100))
    add("3 trees of 256 leaves", bushes(3, depth=8, grow=1.0), rows(200))
    for base in (1e6, 1e9, 1e12):
        add(f"100 trees, base score {base:.0e}", replace(bushes(100), base=[base]), rows(100))
    for size in (1e3, 1e6, 1e9, 1e12, 1e15):
        X = rows(200)
        add(f"20 trees, a leaf of {size:.0e} that no row reaches", with_huge_leaf(size, X), X)
    text = "Squared error, noise of size 1. With a leaf of 1e10 and more `importance` warns."
    return table("Scores and row shares", text, ["model", "rows", "centred score", "row shares"], lines)


def of_residuals(few):
    """Errors of the losses in the core, and of exact sums."""
    n = 300 if few else 3000
    margins = np.concatenate([np.linspace(-708, 708, n), np.linspace(-40, 40, n), np.linspace(-1, 1, n)])
    lines = [
        [f"residuals, {name}", f"{3 * n:,} margins", units(error)] for name, error in residual_errors(margins).items()
    ]
    rng = np.random.default_rng(0)
    for spread in (0, 20, 60):
        values = rng.normal(size=10_000) * 2.0 ** -rng.uniform(0, spread, 10_000)
        error = exact_sum_error(values)
        lines.append([f"exact sums of 10,000 numbers, sizes 1 to 2^-{spread}", "", f"{error:.2g} x 2^-89 per number"])
    return table("Residuals and exact sums", "Scales as above.", ["what", "of", "error"], lines)


def main():
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", action="store_true", help="the smaller half, printed")
    few = parser.parse_args().few
    warnings.simplefilter("ignore")  # a huge leaf is told
    start = time.process_time()
    parts = [by_trees(few), by_depth(few), by_cancellation(), by_cover(), by_rows(few), of_residuals(few)]
    head = HEAD.format(seconds=time.process_time() - start, instructions=kernels.instruction_set())
    page = head + "".join(parts)
    if few:
        print(page)
    else:
        (ROOT / "docs" / "evidence" / "accuracy.md").write_text(page)


if __name__ == "__main__":
    main()
