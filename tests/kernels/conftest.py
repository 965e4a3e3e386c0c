"""Tests may switch to another instruction set; the next one gets the machine's best again."""

import pytest

from treeinner.kernels import instruction_set
from treeinner.kernels.forest import use_instruction_set


@pytest.fixture(autouse=True)
def restore_instruction_set():
    before = instruction_set()
    yield
    use_instruction_set(before)
