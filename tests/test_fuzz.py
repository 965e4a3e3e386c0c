"""A bounded part of tests/fuzz.py: damaged model files give an answer or one of our errors."""

import os

import pytest

from tests import fuzz

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of memory and time are those of Unix")


@pytest.mark.parametrize("form", fuzz.FORMATS)
def test_damaged_files_are_refused_by_name(form):
    assert fuzz.fuzz(60, 0, formats=(form,), jobs=1) == []


@pytest.mark.parametrize("form", fuzz.FORMATS)
def test_a_mutant_is_made_of_its_number_and_the_seed_alone(form):
    mutants = {fuzz.mutant(form, 5, number) for number in range(20)}
    assert len(mutants) == 20
    assert mutants == {fuzz.mutant(form, 5, number) for number in range(20)}


def test_what_comes_out_wrongly_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr("treeinner.read_model", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fuzz.try_out(tmp_path / "mutant.json")
