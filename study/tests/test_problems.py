"""The study's data: every generator against the formulas that the paper gives, or that its program ran."""

import itertools

import numpy as np
import pytest
from chip_files import CHIP_FOLDER, needs_chip
from sklearn.feature_selection import f_classif, f_regression
from sklearn.metrics import roc_auc_score

from treeinner_study import chip
from treeinner_study.measure import area_under_curve
from treeinner_study.names import PROBLEMS, StudyError
from treeinner_study.problems import PROCESSES, Data, Seeds, make_data, permuted_labels
from treeinner_study.references import f_test, linear_t

CHIP_CLASSES, CHIP_NUMBERS, SIMULATED_CLASSES, SIMULATED_NUMBERS = PROBLEMS
FIVE_SIGMA = 5.0  # a right generator fails about once in a million


def draw(problem, process="as_run", replication=0, seed=0):
    files = chip.load_chip(chip.find_chip(CHIP_FOLDER)) if problem.dataset == "ChIP" else None
    return make_data(problem, process, Seeds(seed, problem, replication).generator("data"), files)


def signal(data, X):
    """Mean of the relevant features, each on [0, 1]."""
    if X.shape[1] == 80:
        return X[:, data.relevant].astype(float).mean(axis=1)
    numbers = np.flatnonzero(data.relevant) + 1
    return (X[:, data.relevant] / numbers).astype(float).mean(axis=1)


def logistic(x):
    return 1 / (1 + np.exp(-x))


# -- features ----------------------------------------------------------------------------------------------------
def test_simulated_feature_j_is_uniform_on_0_to_j():
    data = draw(SIMULATED_NUMBERS)
    assert data.X_train.shape == data.X_valid.shape == (1000, 50)
    both = np.concatenate([data.X_train, data.X_valid])
    for j in range(1, 51):
        values, counts = np.unique(both[:, j - 1], return_counts=True)
        assert values.tolist() == list(range(j + 1))
        expected = 2000 / (j + 1)
        chi2 = ((counts - expected) ** 2 / expected).sum()
        # chi-square with j degrees of freedom has mean j and variance 2 j; 6 sigma, since its tail is longer
        assert chi2 < j + 6 * np.sqrt(2 * j) + 10
    correlation = np.corrcoef(both.T)[np.triu_indices(50, 1)]
    assert np.abs(correlation).max() < FIVE_SIGMA / np.sqrt(2000)


def test_five_of_the_first_ten_are_relevant_in_simulated():
    chosen = [np.flatnonzero(draw(SIMULATED_CLASSES, replication=i).relevant) for i in range(40)]
    assert all(len(c) == 5 and c.max() < 10 for c in chosen)
    assert set(np.concatenate(chosen)) == set(range(10))


@needs_chip
def test_chip_is_scaled_by_the_training_rows_and_its_noise_is_shuffled():
    raw_train, raw_valid = chip.load_chip(chip.find_chip(CHIP_FOLDER))
    assert raw_train.shape == (3912, 80)
    assert raw_valid.shape == (3897, 80)
    data = draw(CHIP_NUMBERS)
    assert data.relevant.sum() == 5
    low, high = raw_train.min(axis=0), raw_train.max(axis=0)
    for raw, X in ((raw_train, data.X_train), (raw_valid, data.X_valid)):
        scaled = ((raw - low) / (high - low)).astype(np.float32)
        np.testing.assert_array_equal(X[:, data.relevant], scaled[:, data.relevant])
        np.testing.assert_array_equal(np.sort(X, axis=0), np.sort(scaled, axis=0))
        moved = (scaled != X).any(axis=0)
        np.testing.assert_array_equal(moved, ~data.relevant)
        # Each column by a shuffle of its own: what was correlated before is not any more.
        noisy = np.flatnonzero(~data.relevant)
        before, after = (np.corrcoef(Z[:, noisy].T)[np.triu_indices(len(noisy), 1)] for Z in (scaled, X))
        assert np.abs(before).max() > 0.8
        assert np.abs(after).max() < 0.2  # heavy tails: far above 5 / sqrt(3900) = 0.08 a shared shuffle would stay
    assert data.X_train.min() == 0
    assert data.X_train.max() == 1
    assert data.X_valid.max() > 1  # the validation rows were not used for the scale


# -- labels ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("problem", [SIMULATED_NUMBERS, pytest.param(CHIP_NUMBERS, marks=needs_chip)])
def test_noise_of_regression(problem, process):
    data = draw(problem, process)
    for X, y in (data.rows("Train"), data.rows("Valid")):
        s = signal(data, X)
        noise = y - s
        deviation = 100 * s.var() if process == "as_run" else 10 * s.std()
        n = len(y)
        assert abs(noise.std() / deviation - 1) < FIVE_SIGMA / np.sqrt(2 * n)
        assert abs(noise.mean()) < FIVE_SIGMA * deviation / np.sqrt(n)
        assert abs(np.corrcoef(noise, s)[0, 1]) < FIVE_SIGMA / np.sqrt(n)


def test_the_processes_differ_in_the_size_of_the_noise_only():
    run, written = (draw(SIMULATED_NUMBERS, process) for process in PROCESSES)
    np.testing.assert_array_equal(run.X_train, written.X_train)
    s = signal(run, run.X_train)
    # float32 labels: 1e-5 of the noise
    np.testing.assert_allclose((run.y_train - s) / (100 * s.var()), (written.y_train - s) / (10 * s.std()), atol=1e-5)


@pytest.mark.parametrize(
    ("problem", "process", "slope", "intercept"),
    [
        (SIMULATED_CLASSES, "as_run", 2, 0),
        (SIMULATED_CLASSES, "as_written", 2, -1),
        pytest.param(CHIP_CLASSES, "as_run", 4, 0, marks=needs_chip),
        pytest.param(CHIP_CLASSES, "as_written", 2, -1, marks=needs_chip),
    ],
)
def test_chance_of_a_label_is_logistic(problem, process, slope, intercept):
    s, y = [], []
    for i in range(40 if problem.dataset == "Simulated" else 8):
        data = draw(problem, process, i)
        for X, labels in (data.rows("Train"), data.rows("Valid")):
            s.append(signal(data, X))
            y.append(labels)
    s, y = np.concatenate(s), np.concatenate(y)
    assert set(y.tolist()) == {0.0, 1.0}
    p = logistic(slope * s + intercept)
    edges = np.quantile(s, np.linspace(0, 1, 9))
    for low, high in itertools.pairwise(edges):
        here = (s >= low) & (s <= high)
        error = np.sqrt((p[here] * (1 - p[here])).sum())
        assert abs((y[here] - p[here]).sum()) < FIVE_SIGMA * error
    # The slope is told apart: the labels go with the signal as the logistic curve says, not with twice or half of it.
    score = ((y - p) * (s - s.mean())).sum() / np.sqrt((p * (1 - p) * (s - s.mean()) ** 2).sum())
    assert abs(score) < FIVE_SIGMA
    other = logistic((6 - slope) * (s - s.mean()) + np.log(y.mean() / (1 - y.mean())))
    wrong = ((y - other) * (s - s.mean())).sum() / np.sqrt((other * (1 - other) * (s - s.mean()) ** 2).sum())
    assert abs(wrong) > FIVE_SIGMA


def test_the_placebo_shuffles_the_labels_of_both_halves():
    data = draw(SIMULATED_NUMBERS)
    placebo = permuted_labels(data, Seeds(0, SIMULATED_NUMBERS, 0).generator("placebo"))
    assert placebo.X_train is data.X_train
    for domain in ("Train", "Valid"):
        (_, y), (_, shuffled) = data.rows(domain), placebo.rows(domain)
        np.testing.assert_array_equal(np.sort(y), np.sort(shuffled))
        assert (y != shuffled).mean() > 0.9


def test_a_replication_depends_on_its_own_seed_alone():
    def content(data: Data):
        return data.X_train.tobytes() + data.y_train.tobytes() + data.X_valid.tobytes() + data.y_valid.tobytes()

    one = content(draw(SIMULATED_CLASSES, replication=3))
    assert one == content(draw(SIMULATED_CLASSES, replication=3))
    others = [
        draw(SIMULATED_CLASSES, replication=4),
        draw(SIMULATED_CLASSES, replication=3, seed=1),
        draw(SIMULATED_NUMBERS, replication=3),
    ]
    assert len({one, *map(content, others)}) == 4


# -- files -------------------------------------------------------------------------------------------------------
@needs_chip
def test_the_four_files_have_the_known_hashes():
    import hashlib

    for name, known in chip.FILES.items():
        assert hashlib.sha256((CHIP_FOLDER / name).read_bytes()).hexdigest() == known


def test_files_that_are_missing_or_others_are_refused(tmp_path, monkeypatch):
    with pytest.raises(StudyError, match=r"does not contain X_train\.csv .* --chip-dir"):
        chip.find_chip(tmp_path)
    for name in chip.FILES:
        (tmp_path / name).write_text(",0\n0,1\n")
    monkeypatch.setenv(chip.ENVIRONMENT, str(tmp_path))
    with pytest.raises(StudyError, match=r"SHA-256 differs.* --chip-dir"):
        chip.find_chip()


def test_without_a_network_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    import pooch

    monkeypatch.delenv(chip.ENVIRONMENT, raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path)
    monkeypatch.setattr(chip, "SOURCE", "http://127.0.0.1:9/")  # nobody listens there
    with pytest.raises(StudyError, match=r"could not be fetched.*02_enhancer.*--chip-dir or TREEINNER_CHIP\.$"):
        chip.find_chip()


@needs_chip
def test_fetched_files_are_checked_by_their_hash(tmp_path, monkeypatch):
    import functools
    import http.server
    import threading

    import pooch

    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(CHIP_FOLDER))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.delenv(chip.ENVIRONMENT, raising=False)
        monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path)
        monkeypatch.setattr(chip, "SOURCE", f"http://127.0.0.1:{server.server_port}/")
        folder = chip.find_chip()
        monkeypatch.setitem(chip.FILES, "X_test.csv", "0" * 64)
        (folder / "X_test.csv").unlink()
        with pytest.raises(StudyError, match="could not be fetched"):
            chip.find_chip()
        server.shutdown()
    assert (folder / "X_train.csv").read_bytes() == (CHIP_FOLDER / "X_train.csv").read_bytes()


# -- references --------------------------------------------------------------------------------------------------
def test_f_test_is_scikit_learns():
    for problem, theirs in ((SIMULATED_CLASSES, f_classif), (SIMULATED_NUMBERS, f_regression)):
        data = draw(problem)
        expected = theirs(data.X_train.astype(float), data.y_train.astype(float))[0]
        # both round their sums of 1000 terms
        np.testing.assert_allclose(f_test(data.X_train, data.y_train), expected, rtol=1e-6)


def test_linear_t_is_the_root_of_what_a_feature_takes_off_the_residuals():
    data = draw(SIMULATED_NUMBERS)
    X, y = data.X_train[:, :8].astype(float), data.y_train.astype(float)
    design = np.column_stack([np.ones(len(y)), X])

    def rest(columns):
        fit = design[:, columns] @ np.linalg.lstsq(design[:, columns], y, rcond=None)[0]
        return ((y - fit) ** 2).sum()

    every = list(range(9))
    whole = rest(every)
    f = [(rest([c for c in every if c != k]) - whole) / (whole / (len(y) - 9)) for k in range(1, 9)]
    np.testing.assert_allclose(linear_t(X, y) ** 2, f, rtol=1e-6)  # differences of sums of squares lose digits


def test_area_under_curve_is_scikit_learns_ties_included():
    rng = np.random.default_rng(0)
    for _ in range(20):
        positive = rng.permutation(np.arange(50) < 5)
        score = rng.integers(0, 8, 50).astype(float)
        # exact up to the rounding of sums of ranks
        assert area_under_curve(positive, score) == pytest.approx(roc_auc_score(positive, score), abs=1e-12)
