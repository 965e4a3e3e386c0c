from typing import Any

from numpy.typing import NDArray

SHAP_SPLIT_BYTES: int
FOURTHS_EXPONENTS: tuple[int, int]
SWEEP_ROWS: int

def levels() -> list[str]: ...
def use_level(name: str, /) -> str: ...
def preorder(
    tree_start: NDArray[Any],
    left: NDArray[Any],
    right: NDArray[Any],
    order: NDArray[Any],
    depth: NDArray[Any],
    /,
) -> None: ...
def shap_splits(
    tree_start: NDArray[Any],
    left: NDArray[Any],
    right: NDArray[Any],
    cover: NDArray[Any],
    order: NDArray[Any],
    depth: NDArray[Any],
    number: NDArray[Any],
    player: NDArray[Any],
    n_players: int,
    splits: NDArray[Any],
    kinds: NDArray[Any],
    distinct: NDArray[Any],
    /,
) -> None: ...
def add_exact(
    values: NDArray[Any],
    scale: float,
    sums: NDArray[Any] | None,
    squares: NDArray[Any] | None,
    small_fourths: NDArray[Any] | None,
    large_fourths: NDArray[Any] | None,
    /,
) -> bool: ...

class Codes:
    n_rows: int

class PathTable: ...

class CoreShuffle:
    def __init__(self, forest: CoreForest, group_of_column: NDArray[Any], n_groups: int, /) -> None: ...
    def gather(self, parts: list[Codes], step: int, order: NDArray[Any], /) -> Codes: ...
    def changes(self, own: Codes, shuffled: Codes, change: NDArray[Any], /) -> None: ...

class CoreForest:
    def __init__(
        self,
        splits: NDArray[Any],
        first_split: NDArray[Any],
        first_leaf: NDArray[Any],
        tree_output: NDArray[Any],
        leaf_value: NDArray[Any],
        leaf_id: NDArray[Any],
        sets: NDArray[Any],
        n_outputs: int,
        n_planes: int,
        n_players: int,
        code_bytes: int,
        max_depth: int,
        /,
    ) -> None: ...
    def set_binning(
        self,
        columns: NDArray[Any],
        planes: NDArray[Any],
        thresholds: NDArray[Any],
        thresholds32: NDArray[Any],
        codes_of_category: NDArray[Any],
        other_code: NDArray[Any],
        greater_equal: bool,
        float32_input: bool,
        truncate: bool,
        /,
    ) -> None: ...
    def set_shap(
        self,
        splits: NDArray[Any],
        kinds: NDArray[Any],
        n_points: NDArray[Any],
        first_point: NDArray[Any],
        u: NDArray[Any],
        w: NDArray[Any],
        /,
    ) -> None: ...
    def bin(self, addresses: NDArray[Any], strides: NDArray[Any], dtypes: NDArray[Any], n_rows: int, /) -> Codes: ...
    def leaves(self, codes: Codes, out: NDArray[Any], /) -> None: ...
    def margins(self, codes: Codes, tree: int, n: int, out: NDArray[Any], /) -> None: ...
    def leaf_sums(self, codes: Codes, tree: int, n: int, weight: NDArray[Any], sums: NDArray[Any], /) -> None: ...
    def path_table(self, node_value: NDArray[Any], with_scores: bool, /) -> PathTable: ...
    def path(
        self, codes: Codes, tree: int, n: int, table: PathTable, weight: NDArray[Any] | None, sums: NDArray[Any], /
    ) -> None: ...
    def split_scores(
        self, node_value: NDArray[Any], leaf_sums: NDArray[Any], unit: float, out: NDArray[Any], /
    ) -> None: ...
    def centre_values(self, leaf_weights: NDArray[Any], node_value: NDArray[Any], /) -> None: ...
    def push(
        self,
        codes: Codes,
        loss: int,
        loss_scale: float,
        y: NDArray[Any],
        weight: NDArray[Any] | None,
        margin: NDArray[Any],
        out: NDArray[Any],
        /,
    ) -> None: ...
    def boost(
        self,
        codes: Codes,
        loss: int,
        loss_scale: float,
        first_tree: NDArray[Any],
        y: NDArray[Any],
        weight: NDArray[Any] | None,
        margin: NDArray[Any],
        whole_scale: float,
        leaf_sums: NDArray[Any],
        largest: NDArray[Any],
        whole_weight: NDArray[Any] | None,
        leaf_weights: NDArray[Any],
        paths: PathTable | None,
        sums: NDArray[Any],
        /,
    ) -> None: ...
    def shap(
        self,
        codes: Codes,
        tree: int,
        n: int,
        tree_scale: NDArray[Any] | None,
        weight: NDArray[Any] | None,
        sums: NDArray[Any],
        /,
    ) -> None: ...
