"""Exact sums of numbers and their powers, against Python's integers, for every instruction set."""

from fractions import Fraction

import numpy as np
import pytest

from treeinner import _core

LIMBS = {"sums": 5, "squares": 5, "fourths": 10}
LAST_UNIT = 88  # the last limb counts units of 2^-88


@pytest.fixture(autouse=True, params=_core.instruction_sets())
def instruction_set(request):
    before = _core.instruction_set()
    _core.use_instruction_set(request.param)
    yield
    _core.use_instruction_set(before)


def add_exact(values, scale=1.0, *, n_clusters=None, cluster=None, limbs=LIMBS):
    """Whether all numbers fit, and the limbs of each power: ([clusters,] columns, limbs)."""
    shape = (values.shape[1],) if n_clusters is None else (n_clusters, values.shape[1])
    out = {name: np.zeros((*shape, n), np.int64) for name, n in limbs.items()}
    fits = _core.add_exact(values, scale, out["sums"], out.get("squares"), fourths=out.get("fourths"), cluster=cluster)
    return fits, out


def whole(limbs):
    """Limbs as Python's integers: (...)."""
    return sum(limbs[..., -1 - i].astype(object) << 32 * i for i in range(limbs.shape[-1]))


def expected(values, scale):
    """Column sums of the powers in units of the last limb: each number is rounded to a unit, half to even."""
    x = values * scale
    squares = x * x
    far = squares * _core.FOURTH_SCALE**2
    powers = {"sums": x, "squares": squares, "fourths": far * far}
    return {
        name: [sum(round(Fraction(p) * 2**LAST_UNIT) for p in column) for column in power.T.tolist()]
        for name, power in powers.items()
    }


def numbers(rng, n_rows, n_columns, most=36):
    """Numbers of all sizes up to 2^most, zeros, powers of two and halves of units among them."""
    x = np.ldexp(rng.uniform(-1, 1, (n_rows, n_columns)), rng.integers(-100, most + 1, (n_rows, n_columns)))
    x[rng.random(x.shape) < 0.1] = 0.0
    powers = rng.random(x.shape) < 0.1
    x[powers] = np.ldexp(1.0, rng.integers(-90, most, powers.sum()))
    return x


@pytest.mark.parametrize("n_columns", [1, 8, 33])
@pytest.mark.parametrize("most", [-6, 3, 36])  # tiles that need few limbs, and all
def test_sums_are_those_of_integers(n_columns, most):
    values = numbers(np.random.default_rng(most + 10), 150, n_columns, most)
    for scale in (1.0, 0.25):
        fits, out = add_exact(values / scale, scale)
        assert fits
        for name, total in expected(values, 1.0).items():
            assert whole(out[name]).tolist() == total, name


def test_fourth_powers_are_as_exact_as_squares():
    """Shares far below the model's own scale, as those of a rare class: their fourth powers would be lost at 2^-88."""
    x = np.full((50, 1), 2.0**-40)
    fits, out = add_exact(x)
    assert fits
    assert whole(out["squares"]).tolist() == [50 * 2**8]
    assert whole(out["fourths"]).tolist() == [50 * 2 ** (LAST_UNIT + 96 - 160)]


def test_the_same_bits_in_any_order():
    rng = np.random.default_rng(1)
    values = numbers(rng, 300, 20)
    whole_batch = add_exact(values)[1]
    values = rng.permutation(values)
    parts = [add_exact(part)[1] for part in np.split(values, [1, 64, 190])]
    for name, limbs in whole_batch.items():
        np.testing.assert_array_equal(sum(part[name] for part in parts), limbs)


@pytest.mark.parametrize("order", ["sorted", "mixed", "own"])
def test_clusters_are_summed_as_if_alone(order):
    rng = np.random.default_rng(2)
    values = numbers(rng, 400, 37)
    cluster = np.arange(400) if order == "own" else rng.choice([0, 1, 3, 4], p=[0.7, 0.1, 0.1, 0.1], size=400)
    cluster = np.sort(cluster) if order == "sorted" else rng.permutation(cluster)
    n_clusters = int(cluster.max()) + 2  # cluster 2 and the last one have no rows
    fits, out = add_exact(values, 0.5, n_clusters=n_clusters, cluster=cluster)
    assert fits
    for c in range(n_clusters):
        alone = add_exact(values[cluster == c], 0.5)[1]
        for name, limbs in alone.items():
            np.testing.assert_array_equal(out[name][c], limbs)


@pytest.mark.parametrize(("name", "n"), [("sums", 3), ("sums", 5), ("squares", 5), ("squares", 7), ("fourths", 10)])
def test_what_does_not_fit_is_refused(name, n):
    """n limbs take powers below 2^(32 n - 80): those of fourths are of numbers times 2^24."""
    bits = 32 * n - 80
    limit = {"sums": 2.0**bits, "squares": 2.0 ** (bits / 2), "fourths": 2.0 ** (bits / 4 - 24)}[name]
    limbs = {"sums": 10, name: n}
    below = np.array([[0.0, 1.0], [np.nextafter(limit, 0), 1.0]])
    fits, out = add_exact(below, limbs=limbs)
    assert fits
    assert abs(out[name][:, 0]).max() <= 2**40
    for bad in (limit, -limit, np.inf, -np.inf, np.nan):
        assert not add_exact(np.array([[1.0, 0.0], [1.0, bad]]), limbs=limbs)[0]


def test_shapes_that_do_not_go_together_are_refused():
    values, cluster = np.ones((4, 3)), np.array([0, 1, 1, 0])
    of = {"limbs": np.zeros((3, 5), np.int64), "clusters": np.zeros((2, 3, 5), np.int64)}
    assert _core.add_exact(values, 1.0, of["clusters"], None, cluster=cluster)
    for sums, clusters in [
        (of["limbs"], cluster),  # no limbs of the clusters
        (of["clusters"], None),
        (of["clusters"], cluster[:3]),
        (of["clusters"], np.array([0, 1, 2, 0])),
        (of["clusters"], np.array([0, 1, -1, 0])),
        (np.zeros((2, 5), np.int64), None),
        (np.zeros((3, 2), np.int64), None),
        (np.zeros((3, 11), np.int64), None),
        (np.zeros(15, np.int64), None),
    ]:
        with pytest.raises(ValueError, match="treeinner core"):
            _core.add_exact(values, 1.0, sums, None, cluster=clusters)
    with pytest.raises(ValueError, match="fourth powers 10"):
        _core.add_exact(values, 1.0, None, None, fourths=of["limbs"])


def test_limbs_are_never_a_copy():
    """Sums that went into a converted copy would be lost in silence."""
    for limbs in (np.zeros((2, 5), np.int32), np.zeros((2, 10), np.int64)[:, ::2], np.zeros((5, 2), np.int64).T):
        with pytest.raises(TypeError):
            _core.add_exact(np.ones((3, 2)), 1.0, limbs, None)
        with pytest.raises(TypeError):
            _core.add_exact(np.ones((3, 2)), 1.0, None, None, fourths=limbs)
