"""UBJSON: what was written is read, whatever is wrong with it is one error."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeinner.errors import ModelError
from treeinner.readers.xgboost import ubjson


def text(name):
    return b"L" + struct.pack(">q", len(name.encode())) + name.encode()


def encode(value):
    """UBJSON as XGBoost writes it: integers as short as they go, lengths always with 8 bytes."""
    if isinstance(value, dict):
        return b"{" + b"".join(text(name) + encode(v) for name, v in value.items()) + b"}"
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(encode, value))
    if isinstance(value, str):
        return b"S" + text(value)
    if isinstance(value, np.ndarray):
        mark = {"f4": b"d", "i4": b"l", "u1": b"U", "i8": b"L"}[value.dtype.str[1:]]
        return (
            b"[$" + mark + b"#L" + struct.pack(">q", len(value)) + value.astype(value.dtype.newbyteorder(">")).tobytes()
        )
    for mark, form in (("i", ">b"), ("I", ">h"), ("l", ">i")):
        try:
            return mark.encode() + struct.pack(form, value)
        except struct.error:
            continue
    raise ValueError(value)


def tree(number, n_nodes, deleted=""):
    rng = np.random.default_rng(number)
    return {
        "base_weights": rng.normal(size=n_nodes).astype(np.float32),
        "categories": np.empty(0, np.int32),
        "default_left": rng.integers(0, 2, n_nodes).astype(np.uint8),
        "id": number,
        "sizes": rng.integers(0, 2**40, n_nodes),
        "tree_param": {"num_deleted": deleted, "num_nodes": str(n_nodes)},
    }


def document(trees):
    return encode({"model": {"trees": trees, "trees_behind": [1, 200, 70000]}, "version": [3, 2, 0]})


def same(a, b):
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in b)
    if isinstance(b, np.ndarray):
        return a.dtype.newbyteorder("=") == b.dtype and np.array_equal(a, b)
    if isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40000), st.integers(0, 9), st.sampled_from(["", "0", "12"]))))
def test_what_is_written_is_read(specs):
    trees = [tree(*spec) for spec in specs]
    found = ubjson.parse(document(trees))
    assert found["model"]["trees_behind"] == [1, 200, 70000]
    assert same(found["model"]["trees"], trees)


def test_a_damaged_byte_is_an_error_or_another_number():
    data = document([tree(number, 3) for number in range(5)])
    for at in range(len(data)):
        for byte in (0, 0x7F, 0xFF, data[at] ^ 1):
            damaged = data[:at] + bytes([byte]) + data[at + 1 :]
            try:
                found = ubjson.parse(damaged)
                trees = found.get("model", {}).get("trees", []) if isinstance(found.get("model"), dict) else []
                assert len(list(trees)) <= len(data)
            except ModelError:
                pass


def test_every_truncation_is_an_error():
    data = document([tree(number, 3) for number in range(5)])
    for end in range(1, len(data)):
        with pytest.raises(ModelError):
            ubjson.parse(data[:end])
