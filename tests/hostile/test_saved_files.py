"""Saved files that are damaged, made up or malicious: each named case, and some hundreds of mutants from one seed."""

import io
import json
import time
import zipfile
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import treeinner as ti
from tests.forests import Recipe, make_ensemble, make_rows
from tests.hostile.mutants import Saved, mutants, zipped
from treeinner.ensemble import storage

KINDS = ("model", "attribution", "importance")
N_MUTANTS = 140  # of each kind


@cache
def forest():
    made = make_ensemble(Recipe(n_trees=6, depth=3, n_categorical=1), 3)
    return replace(made, library="lightgbm", objective="regression", feature_names=tuple("abcde"))


@cache
def rows():
    return make_rows(forest(), 20, 1), np.linspace(-1, 1, 20)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Kind -> bytes of a good file."""
    folder, (X, y) = tmp_path_factory.mktemp("saved"), rows()
    made = {"model": ti.read_model(forest()), "attribution": ti.attribute(forest(), X)}
    made["importance"] = ti.importance(forest(), X, y)
    for kind, thing in made.items():
        thing.save(folder / kind)
    return {kind: (folder / kind).read_bytes() for kind in KINDS}


def load(path, data):
    path.write_bytes(data)
    return ti.load(path)


def use(thing):
    """Everything that is done with a loaded thing; attributions must add up to the margin."""
    X, y = rows()
    if isinstance(thing, ti.Model):
        margin, e = thing.predict(X, n_jobs=1), thing.ensemble
        largest = max(np.abs(e.value).max(), np.abs(e.base_score).max(), 1.0)
        for method in ("saabas", "treeshap", "predecomp"):
            try:
                found = ti.attribute(thing, X, method=method, n_jobs=1)
            except ti.TreeInnerError:
                continue  # this method alone is refused
            # sums of a few dozen float64 numbers of the size of the largest; node values may be 1e8 times as large
            limit = 1e-12 * largest * (1e8 if method == "predecomp" else 1.0)
            np.testing.assert_allclose(found.values.sum(1) + found.base_values, margin, rtol=0, atol=limit)
        assert np.isfinite(ti.importance(thing, X, y, n_jobs=1).scores).all()
    elif isinstance(thing, ti.Attribution):
        assert np.isfinite(thing.values).all()
        _ = thing[0], thing.base_definition, thing.output_labels
    else:
        _ = thing.verdicts, thing.top(2), thing.title, thing.unit, thing[0], thing.by_round()
    assert repr(thing)
    assert thing._repr_html_()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")  # a mutant may overshoot, for one
def test_mutants_are_errors_that_name_the_file_or_give_right_numbers(kind, saved, tmp_path):
    path, refused, nameless = tmp_path / "mutant.zip", 0, []
    for name, data in mutants(saved[kind], N_MUTANTS, seed=1):
        try:
            thing = load(path, data)
        except ti.TreeInnerError as error:
            nameless += [] if str(path) in str(error) else [(name, str(error))]
            refused += 1
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
        try:
            use(thing)
        except ti.TreeInnerError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name}, when it was used: {error!r}") from error
    assert nameless == []
    assert refused > N_MUTANTS / 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_damage_is_read(kind, saved, tmp_path):
    use(load(tmp_path / "whole", saved[kind]))
    use(load(tmp_path / "packed", Saved.of(saved[kind]).packed()))


@pytest.mark.parametrize("kind", KINDS)
def test_files_from_before_the_checksum_are_read(kind, saved, tmp_path):
    old = Saved.of(saved[kind])
    meta = {name: old.meta[name] for name in ("format", "version", "data")}
    members = {storage.META: json.dumps(meta).encode()} | {name: old.member(name) for name in old.arrays}
    use(load(tmp_path / "old", zipped(members)))


def test_a_checksum_covers_numbers_shapes_and_metadata(saved, tmp_path):
    whole = Saved.of(saved["attribution"])
    whole.packed()
    values, given = whole.arrays["values.npy"], whole.arrays["data.npy"]
    other = {"values.npy": values + 1e-9, "data.npy": given.reshape(given.shape[::-1])}
    for name, array in other.items():
        members = {n: replace_array(whole, n, array if n == name else whole.arrays[n]) for n in whole.arrays}
        meta = json.dumps(whole.meta).encode()
        with pytest.raises(ti.ModelError, match="checksum"):
            load(tmp_path / "changed", zipped(members | {storage.META: meta}))
    members = {n: whole.member(n) for n in whole.arrays}
    meta = json.dumps(whole.meta).replace('"a"', '"z"').encode()
    with pytest.raises(ti.ModelError, match="checksum"):
        load(tmp_path / "changed", zipped(members | {storage.META: meta}))


def replace_array(whole, name, array):
    return replace(whole, arrays={name: array}).member(name)


# -- sizes ---------------------------------------------------------------------------------------------------
def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(saved, tmp_path):
    path, block = tmp_path / "bomb", bytes(2**24)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(storage.META, json.dumps(Saved.of(saved["model"]).meta))
        with archive.open("value.npy", "w", force_zip64=True) as member:
            for _ in range(20):  # 320 MB in 330 kB
                member.write(block)
    start = time.process_time()
    with pytest.raises(ti.ModelError, match=r"bomb.*claims to unpack to 335,5\d\d,\d\d\d bytes"):
        ti.load(path)
    assert time.process_time() - start < 0.2  # reading so many zeros takes longer


def test_a_member_that_unpacks_to_more_than_it_says_is_refused(saved, tmp_path):
    data = bytearray(saved["model"])
    at = data.rindex(b"PK\x01\x02")  # of META; its size is at 24
    data[at + 24 : at + 28] = (100).to_bytes(4, "little")
    with pytest.raises(ti.ModelError, match="is damaged"):
        load(tmp_path / "liar", bytes(data))


def test_what_packs_too_well_is_written_so_that_it_can_be_read(monkeypatch):
    monkeypatch.setattr(storage, "FREE", 2**16)
    zeros, small = np.zeros(100_000), np.arange(3.0)
    for array, packed in ((zeros, False), (small, True)):
        buffer = io.BytesIO()
        storage.write_to(buffer, "kind", 1, {"array": array}, {})
        (entry, _) = zipfile.ZipFile(buffer).infolist()
        assert (entry.compress_type == zipfile.ZIP_DEFLATED) == packed
        np.testing.assert_array_equal(storage.read_from(buffer, "kind", 1, "it")[0]["array"], array)


def test_an_array_that_claims_more_than_its_member_holds_is_not_allocated(saved, tmp_path):
    whole = Saved.of(saved["model"])
    whole.headers["cover.npy"] = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,), }\n"
    with pytest.raises(ti.ModelError, match=r"cover\.npy does not hold"):
        load(tmp_path / "large", whole.packed())


# -- contents ------------------------------------------------------------------------------------------------
def broken(kind, array=None, value=None, at=0, **data):
    """Name of a file -> function that damages it."""

    def damage(whole):
        if array is not None:
            held = whole.arrays[f"{array}.npy"].copy()
            held.reshape(-1)[at] = value
            whole.arrays[f"{array}.npy"] = held
        for name, entry in data.items():
            whole.meta["data"][name.replace("__", ".")] = entry

    return kind, damage


BROKEN = {
    "output out of range": broken("model", "tree_output", 2**31 - 1),
    "tree that begins beyond all numbers": broken("model", "tree_start", [2**63 - 1, -2], at=[1, 2]),
    "leaf of 1e308": broken("model", "value", 1e308, at=-1),
    "base score of 1e308": broken("model", "base_score", 1e308),
    "infinite cover": broken("model", "cover", np.inf),
    "infinite gain": broken("model", "gain", np.inf),
    "negative rate": broken("model", "tree_rate", -0.1),
    "infinite tree weight": broken("model", "tree_weight", np.inf),
    "schema that is a list": broken("model", schema=[]),
    "names that are numbers": broken("model", feature_names=[1, 2, 3, 4, 5]),
    "column that is missing": broken("model", zero_as_missing=[7]),
    "unknown rule": broken("model", right_if="sometimes"),
    "values that are NaN": broken("attribution", "values", np.nan),
    "names that are too few": broken("attribution", feature_names=["a"]),
    "unknown method": broken("attribution", method="guess"),
    "p value of 2": broken("importance", "statistics.p_value", 2.0),
    "negative error": broken("importance", "statistics.std_error", -1.0),
    "confidence of 2": broken("importance", statistics__confidence=2.0),
    "rows that are text": broken("importance", n_rows="many"),
    "unknown score": broken("importance", score_name="best"),
    "notes that are a number": broken("importance", notes=3),
}


@pytest.mark.parametrize("name", BROKEN)
def test_contents_that_cannot_be_are_refused_by_the_name_of_the_file(name, saved, tmp_path):
    kind, damage = BROKEN[name]
    whole = Saved.of(saved[kind])
    damage(whole)
    with pytest.raises(ti.ModelError, match="made-up"):
        load(tmp_path / "made-up", whole.packed())


def test_text_of_no_unicode_and_truth_values_of_no_truth_are_refused(tmp_path):
    for array in (np.array(["ab"]), np.array([True])):
        held = array.copy()
        held.view(np.uint8)[:] = 0xEE
        storage.write(tmp_path / "it", "kind", 1, {"array": held}, {})
        with pytest.raises(ti.ModelError, match=r"it is damaged.*array holds what is not"):
            storage.read(tmp_path / "it", "kind", 1)


def test_metadata_nested_beyond_measure_is_an_error_of_ours(saved, tmp_path):
    whole = Saved.of(saved["model"])
    members = {name: whole.member(name) for name in whole.arrays}
    with pytest.raises(ti.ModelError, match=r"deep.*recursion"):
        load(tmp_path / "deep", zipped(members | {storage.META: b"[" * 200_000}))
