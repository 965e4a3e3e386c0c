"""The core executes no more instructions than it did: a guard of its speed that no busy machine can upset.

After a change that is meant: `python benchmarks/callgrind.py --update`.
"""

import pytest
from benchmarks import callgrind

reason = callgrind.unavailable()
counted = pytest.mark.skipif(reason is not None, reason=reason or "")


@pytest.fixture(scope="module")
def counts():
    return callgrind.count()


@counted
def test_every_call_was_counted(counts):
    assert counts.keys() == callgrind.bounds().keys()
    assert all(n > callgrind.ROWS * callgrind.TREES for n in counts.values())  # each row meets each tree


@counted
@pytest.mark.parametrize("name", callgrind.bounds())
def test_no_more_instructions_than_stored(counts, name):
    assert counts[name] <= callgrind.bounds()[name], "see benchmarks/callgrind.py"


def test_costs_are_summed_over_the_core_alone():
    # The format of callgrind's files: names are given once, a called function's cost follows its "calls=" line.
    lines = [
        "ob=(1) /usr/lib/libc.so", "fn=(1) memcpy", "10 100",
        "ob=(2) /site/treeinner/_core.abi3.so", "fn=(2) kernel", "1 7", "+2 5",
        "cob=(1)", "cfn=(1)", "calls=3 10", "3 100", "* 11",
        "ob=(1)", "fn=(3) free", "4 50",
        "ob=(2)", "fn=(4) other", "-1 2", "8",
    ]  # fmt: skip
    assert callgrind.in_core("\n".join(lines)) == 7 + 5 + 11 + 2
