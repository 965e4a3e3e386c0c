"""A handful of rows takes another way to its leaves (core/few.h): the same bits as among many rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeinner.compiled.forest import use_instruction_set

from .forests import make_ensemble, make_rows
from .test_kernels import LEVELS, attribute, recipes, restore_level  # noqa: F401


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=40, deadline=None)
@given(recipe=recipes, n_rows=st.integers(1, 6), behind=st.integers(0, 140), seed=st.integers(0, 2**32 - 1))
def test_few_rows_have_the_bits_they_have_among_many(level, recipe, n_rows, behind, seed):
    use_instruction_set(level)
    e = make_ensemble(recipe, seed)
    X = make_rows(e, 150, seed + 1)
    few = slice(behind, behind + n_rows)
    assert np.array_equal(e.predict(X)[few], e.predict(X[few]))
    assert np.array_equal(e.apply(X)[few], e.apply(X[few]))
    assert np.array_equal(attribute(e, X, "predecomp")[few], attribute(e, X[few], "predecomp"))
    # The last block of the table is few rows behind many.
    assert np.array_equal(e.predict(X)[: 128 + n_rows], e.predict(X[: 128 + n_rows]))
