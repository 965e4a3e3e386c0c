"""Damage to LightGBM's model text: its lines, the words of a line, trees, parameters."""

import re

from tests.fuzz.documents import TOKENS
from tests.hostile.mutants import NUMBERS, Rng, byte_changed, bytes_overwritten, chosen, cut_off

WORDS = [
    "", "x", "1_0", "1e5", "0x10", "1.5", "+1", "-0", "nan", "-nan", "inf", "-inf", "infinity", "1e999", "1e-400",
    "1d5", "1,5",
    "1e", "\u0661", "2147483648", "4294967296", "-2147483649", "1e308", "1=2", "1\t2", "1  2", " ", "1\x002",
]  # fmt: skip


def lines_of(data: bytes) -> list[str]:
    return data.decode().split("\n")


def written(lines: list[str], rng: Rng) -> bytes:
    """The text; nine times of ten with tree_sizes that are right, without which LightGBM reads no tree."""
    text = "\n".join(lines)
    if rng.random() < 0.9:
        text = with_sizes(text)
    return text.encode(errors="surrogatepass")


def with_sizes(text: str) -> str:
    blocks = re.findall(r"(?:^|(?<=\n))Tree=.*?(?=\nTree=|\nend of trees)", text, re.DOTALL)
    sizes = " ".join(str(len(block.encode(errors="surrogatepass")) + 1) for block in blocks)
    return re.sub(r"\ntree_sizes=.*", f"\ntree_sizes={sizes}", text, count=1)


def a_line(lines: list[str], rng: Rng, pattern: str = "=") -> int:
    return int(chosen(rng, [i for i, line in enumerate(lines) if re.search(pattern, line)] or range(len(lines))))


def word_changed(data: bytes, rng: Rng) -> bytes:
    lines = lines_of(data)
    at = a_line(lines, rng)
    key, _, value = lines[at].partition("=")
    words = value.split(" ")
    near = [str(int(rng.integers(-5, 8))), f"{rng.normal():.6g}", *words]
    words[int(rng.integers(len(words)))] = chosen(rng, chosen(rng, [near, near, WORDS, [str(n) for n in NUMBERS]]))
    lines[at] = f"{key}={' '.join(words)}"
    return written(lines, rng)


def words_resized(data: bytes, rng: Rng) -> bytes:
    lines = lines_of(data)
    at = a_line(lines, rng)
    key, _, value = lines[at].partition("=")
    words = value.split(" ")
    ways = [words[:-1], words[1:], words * 2, words[::-1], [], [*words, words[-1]], ["", *words], [*words, ""]]
    lines[at] = f"{key}={' '.join(chosen(rng, ways))}"
    return written(lines, rng)


def line_lost_or_moved(data: bytes, rng: Rng) -> bytes:
    lines = lines_of(data)
    at, other = a_line(lines, rng, "."), a_line(lines, rng, ".")
    way = int(rng.integers(4))
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(other, lines[at])
    elif way == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = chosen(
            rng, ["", "x", "=", "==", lines[at] + "=", lines[at].upper(), " " + lines[at], lines[at] + " "]
        )
    return written(lines, rng)


def value_swapped(data: bytes, rng: Rng) -> bytes:
    """The value of a line is that of another line of the same name, or of any."""
    lines = lines_of(data)
    at = a_line(lines, rng)
    key = lines[at].partition("=")[0]
    other = a_line(lines, rng, f"^{re.escape(key)}=" if rng.random() < 0.7 else "=")
    lines[at] = f"{key}={lines[other].partition('=')[2]}"
    return written(lines, rng)


def tree_changed(data: bytes, rng: Rng) -> bytes:
    """Trees lost, twice, in another order; a shape of its own."""
    head, found, rest = data.decode().partition("\nTree=")
    body, end, tail = rest.partition("\nend of trees")
    blocks = body.split("\nTree=")
    at = int(rng.integers(len(blocks)))
    way = int(rng.integers(5))
    if way == 0:
        del blocks[at]
    elif way == 1:
        blocks.append(blocks[at])
    elif way == 2:
        blocks.reverse()
    elif way == 3:
        blocks[at] = re.sub(r"num_leaves=\d+", f"num_leaves={chosen(rng, [0, 1, 2, 3, -1, 10**9])}", blocks[at])
    else:
        blocks[at] = re.sub(r"is_linear=0", "is_linear=1", blocks[at])
    return written((head + "".join(found + block for block in blocks) + end + tail).split("\n"), rng)


def parameter_changed(data: bytes, rng: Rng) -> bytes:
    lines = lines_of(data)
    at = a_line(lines, rng, r"^\[\w+: |^pandas_categorical|^objective=")
    key, colon, value = lines[at].rstrip("]").partition(":")
    new = chosen(rng, chosen(rng, [WORDS, TOKENS, [str(n) for n in NUMBERS], ["a,b", "1,2,3", "rf", "dart", "[[1]]"]]))
    lines[at] = f"{key}{colon} {new}]" if lines[at].startswith("[") else f"{key}{colon}{new}"
    del value
    return written(lines, rng)


def objective_changed(data: bytes, rng: Rng) -> bytes:
    names = [
        "regression", "binary sigmoid:1", "binary sigmoid:-1", "binary sigmoid:nan", "binary sigmoid:0",
        "multiclass num_class:3",
        "multiclass num_class:x", "multiclass num_class:0", "multiclassova num_class:2 sigmoid:1", "poisson", "gamma",
        "tweedie",
        "quantile", "huber", "fair", "lambdarank", "rank_xendcg", "cross_entropy", "custom", "", "regression sqrt",
        "mape", "x:",
    ]  # fmt: skip
    return re.sub(rb"\nobjective=.*", b"\nobjective=" + chosen(rng, names).encode(), data, count=1)


def ends_of_lines(data: bytes, rng: Rng) -> bytes:
    ways = [data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\r"), data.replace(b"\n\n", b"\n"),
            data.replace(b"\n", b"\n\n"),
            data + b"\nTree=9\n", data + data, data.rstrip(), b"\n" + data, data.replace(b" ", b"  "),
            data.replace(b" ", b"\t"),
            data.replace(b"\n", b" \n")]  # fmt: skip
    return with_sizes(chosen(rng, ways).decode()).encode() if rng.random() < 0.7 else chosen(rng, ways)


DAMAGES = [
    word_changed, word_changed, word_changed, word_changed, words_resized, line_lost_or_moved, value_swapped,
    value_swapped,
    tree_changed, parameter_changed, parameter_changed, objective_changed, ends_of_lines, byte_changed, cut_off,
    bytes_overwritten,
]  # fmt: skip
