from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

FOURTH_SCALE: float
SLICE_ROWS: int

def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str, /) -> None: ...
def add_exact(
    values: NDArray[Any],
    scale: float,
    sums: NDArray[Any] | None,
    squares: NDArray[Any] | None,
    /,
    fourths: NDArray[Any] | None = None,
    cluster: NDArray[Any] | None = None,
    order: NDArray[Any] | None = None,
) -> bool: ...

class Codes:
    n_rows: int
    def bytes(self) -> NDArray[Any]: ...

class PathTable: ...
class ShareTable(PathTable): ...
class ShapTable: ...

class Forest:
    def __init__(self, trees: Any, plan: Any, nodes: NDArray[Any], n_players: int, /) -> None: ...
    def numbered(self, out: NDArray[Any], /) -> None: ...
    def new_codes(self, n_rows: int, /) -> Codes: ...
    def bin(self, values: NDArray[Any], n_rows: int, /) -> Codes: ...
    def leaves(self, codes: Codes, out: NDArray[Any], /) -> None: ...
    def margins(self, codes: Codes, tree: int, n: int, out: NDArray[Any], /) -> None: ...
    def leaf_sums(self, codes: Codes, tree: int, n: int, weight: NDArray[Any], sums: NDArray[Any], /) -> None: ...
    def path_table(self, node_value: NDArray[Any], for_scores: bool, /) -> PathTable: ...
    def share_table(
        self, value: NDArray[Any], residual: NDArray[Any], scale: float, own: bool, fixed: ShareTable | None, /
    ) -> ShareTable: ...
    def squares(self, table: PathTable, leaf_weights: NDArray[Any], out: NDArray[Any], /) -> None: ...
    def path(
        self,
        codes: Codes,
        tree: int,
        n: int,
        table: PathTable,
        weight: NDArray[Any] | None,
        sums: NDArray[Any],
        row_weight: NDArray[Any] | None,
        /,
    ) -> None: ...
    def shap_table(
        self, cover: NDArray[Any], quadrature: Callable[[int], tuple[NDArray[Any], NDArray[Any]]], /
    ) -> ShapTable: ...
    def shap(
        self, codes: Codes, tree: int, n: int, table: ShapTable, weight: NDArray[Any] | None, sums: NDArray[Any], /
    ) -> None: ...
    def residuals(
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
        scale: float,
        leaf_sums: NDArray[Any] | None,
        largest: NDArray[Any],
        fixed_weights: NDArray[Any] | None,
        leaf_weights: NDArray[Any] | None,
        paths: PathTable | None,
        sums: NDArray[Any],
        mean_residual: NDArray[Any] | None,
        row_weight: NDArray[Any] | None,
        rule: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]] | None,
        effects: tuple[NDArray[Any], NDArray[Any] | None] | None,
        fixed_shares: tuple[ShareTable, NDArray[Any]] | None,
        /,
    ) -> None: ...
    def redraw(
        self,
        codes: Codes,
        loss: int,
        loss_scale: float,
        first_tree: NDArray[Any],
        trees: NDArray[Any],
        y: NDArray[Any],
        weight: NDArray[Any] | None,
        moved: NDArray[Any],
        scale: float,
        leaf_sums: NDArray[Any],
        largest: NDArray[Any],
        fixed_weights: NDArray[Any],
        leaf_weights: NDArray[Any],
        /,
    ) -> None: ...
    def split_scores(
        self, node_value: NDArray[Any], leaf_sums: NDArray[Any], unit: float, out: NDArray[Any], /
    ) -> None: ...
    def centre_values(self, leaf_weights: NDArray[Any], node_value: NDArray[Any], /) -> None: ...

class Shuffle:
    def __init__(self, forest: Forest, group_of_column: NDArray[Any], n_groups: int, /) -> None: ...
    def changes(self, own: Codes, shuffled: Codes, change: NDArray[Any], /) -> None: ...
