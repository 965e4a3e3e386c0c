"""Arguments and options that commands share, and what their texts mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from treeinner.cli import output

__all__ = ["Method", "Score", "option", "parse_groups", "parse_rounds"]


class Method(StrEnum):
    """Attributions, as `attribute` names them."""

    predecomp = "predecomp"
    saabas = "saabas"
    treeshap = "treeshap"


class Score(StrEnum):
    """Scores, as `importance` names them."""

    tree_inner = "tree_inner"
    forest_inner = "forest_inner"
    abs = "abs"
    total_gain = "total_gain"
    permutation = "permutation"


ABOUT_ROWS = "About the rows"
ABOUT_MODEL = "About the model"
ABOUT_OUTPUT = "Output"

MODEL_HELP = (
    "Model file: XGBoost .json or .ubj, LightGBM .txt, CatBoost .cbm or .json, or an Ensemble saved by treeinner."
)
DATA_HELP = "Rows that the model has not seen: Parquet, CSV or Feather, with the columns it was trained on."
TARGET_HELP = "Column with the true value of every row. Repeat it for models of several targets."
WEIGHT_HELP = "Column with the weight of every row."
CLUSTERS_HELP = "Column that tells which rows belong together (a patient, a day); only clusters count as independent."
QUERY_HELP = "Column with the query of every row, for ranking models."
ROWS_HELP = "Take a random sample of so many rows."
SEED_HELP = "Which random sample (and which shuffles, for permutation)."
GROUPS_HELP = (
    "Features to be taken as one: NAME=a,b,c (repeat it for more groups), or a JSON file with an object of lists."
)
METHOD_HELP = f"How a prediction is split over its features: {', '.join(Method)}; by default predecomp."
OBJECTIVE_HELP = "The loss, if the model does not tell it, by a library's name such as reg:squarederror."
IN_TRAINING = "of training, if the model does not tell it."
RANGE_HELP = "Boosting rounds to use, such as 0:50; by default those that the model itself predicts with."
OUTPUT_HELP = "Write to a file: .csv, .parquet, .json or .md; - is stdout. Without it, a table to read."
FORMAT_HELP = f"If the name of the output does not tell: {', '.join(output.Format)}; with -o - by default csv."
TOP_HELP = "Show only so many, best first; 0 for all. By default 30 on a terminal, else all."


def option(*names: str, help: str, panel: str, **more: Any) -> Any:
    """An option under a heading of the help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


Model = Annotated[Path, typer.Argument(metavar="MODEL", help=MODEL_HELP, show_default=False)]
Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
MaybeData = Annotated[Path | None, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]

Target = Annotated[list[str] | None, option("--target", "-y", help=TARGET_HELP, panel=ABOUT_ROWS, metavar="COLUMN")]
Weight = Annotated[str | None, option("--weight", help=WEIGHT_HELP, panel=ABOUT_ROWS, metavar="COLUMN")]
Clusters = Annotated[str | None, option("--clusters", help=CLUSTERS_HELP, panel=ABOUT_ROWS, metavar="COLUMN")]
Query = Annotated[str | None, option("--query", help=QUERY_HELP, panel=ABOUT_ROWS, metavar="COLUMN")]
SampleRows = Annotated[int | None, option("--rows", help=ROWS_HELP, panel=ABOUT_ROWS, min=1, metavar="N")]
Seed = Annotated[int, option("--seed", help=SEED_HELP, panel=ABOUT_ROWS, min=0, metavar="N")]

Groups = Annotated[list[str] | None, option("--groups", help=GROUPS_HELP, panel=ABOUT_MODEL, metavar="NAME=a,b")]
MethodOption = Annotated[Method, option("--method", help=METHOD_HELP, panel=ABOUT_MODEL, metavar="NAME")]
Objective = Annotated[str, option("--objective", help=OBJECTIVE_HELP, panel=ABOUT_MODEL, metavar="NAME")]
LearningRate = Annotated[
    float | None,
    option("--learning-rate", help=f"Learning rate {IN_TRAINING}", panel=ABOUT_MODEL, metavar="NUMBER"),
]
RegLambda = Annotated[
    float | None,
    option("--reg-lambda", help=f"l2 penalty {IN_TRAINING}", panel=ABOUT_MODEL, metavar="NUMBER"),
]
RegAlpha = Annotated[
    float | None,
    option("--reg-alpha", help=f"l1 penalty {IN_TRAINING}", panel=ABOUT_MODEL, metavar="NUMBER"),
]
IterationRange = Annotated[
    str | None, option("--iteration-range", help=RANGE_HELP, panel=ABOUT_MODEL, metavar="START:STOP")
]

Output = Annotated[str | None, option("--output", "-o", help=OUTPUT_HELP, panel=ABOUT_OUTPUT, metavar="FILE")]
FormatOption = Annotated[output.Format | None, option("--format", help=FORMAT_HELP, panel=ABOUT_OUTPUT, metavar="NAME")]
Top = Annotated[int | None, option("--top", help=TOP_HELP, panel=ABOUT_OUTPUT, min=0, metavar="N")]
Jobs = Annotated[
    int,
    option("--jobs", "-j", help="Threads; all cores by default.", panel=ABOUT_OUTPUT, metavar="N"),
]


def parse_groups(texts: Sequence[str] | None) -> dict[str, list[str | int]] | None:
    """Read --groups: NAME=a,b,c, or the path of a JSON file."""
    if not texts:
        return None
    groups: dict[str, list[str | int]] = {}
    for text in texts:
        name, equals, members = text.partition("=")
        file = Path(text)
        if file.suffix.lower() == ".json" or (not equals and file.is_file()):
            more = _groups_of_file(file)
        elif equals and name and members:
            more = {name: [member.strip() for member in members.split(",")]}
        else:
            raise typer.BadParameter(f"{text!r} is neither NAME=a,b,c nor a JSON file.", param_hint="--groups")
        for group in more:
            if group in groups:
                raise typer.BadParameter(f"the group {group!r} is there twice.", param_hint="--groups")
        groups |= more
    return groups


def _groups_of_file(file: Path) -> dict[str, list[str | int]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise typer.BadParameter(f"there is no file {file}.", param_hint="--groups") from None
    except ValueError as error:
        raise typer.BadParameter(f"{file} is not JSON ({error}).", param_hint="--groups") from None
    if not isinstance(content, dict) or not all(isinstance(members, list) for members in content.values()):
        wanted = '{"colour": ["red", "blue"]}'
        raise typer.BadParameter(f"{file} must hold an object of lists, such as {wanted}.", param_hint="--groups")
    return content


def parse_rounds(text: str | None) -> tuple[int, int] | None:
    """Read --iteration-range: START:STOP, or :STOP."""
    if text is None:
        return None
    start, colon, stop = text.partition(":")
    if not colon or not stop.isdigit() or not (start.isdigit() or start == ""):
        raise typer.BadParameter(f"{text!r} is not START:STOP, such as 0:50.", param_hint="--iteration-range")
    return int(start or 0), int(stop)
