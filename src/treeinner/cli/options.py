"""Options that commands share, in bundles: a bundle is a dataclass, and `command` makes an option of each field."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from treeinner.attribution import METHODS
from treeinner.cli import output
from treeinner.cli.errors import guarded
from treeinner.errors import did_you_mean
from treeinner.groups import PREFIX, GroupSpec
from treeinner.scores.setting import SCORE_METHODS

ABOUT_ROWS = "About the rows"
ABOUT_MODEL = "About the model"
ABOUT_OUTPUT = "Output"

MODEL_HELP = "Model file: XGBoost .json or .ubj, LightGBM .txt, CatBoost .cbm or .json, or a file saved by treeinner."
DATA_HELP = (
    "Rows that the model has not seen: Parquet, CSV or Feather files, folders of them or patterns such as "
    "'data/*.parquet', with the columns it was trained on."
)
TARGET_HELP = "Column with the true value of every row. Repeat it for models with several targets."
CLUSTERS_HELP = "Column that tells which rows belong together (a patient, a day); only clusters count as independent."
GROUPS_HELP = (
    "Features to score as one: NAME=a,b,c (repeat it for more groups), a JSON file of lists, or prefix:_ "
    "for columns that pandas.get_dummies made."
)
QID_HELP = "Column with the query of every row, for ranking models."
ROWS_HELP = "Use a random sample of N rows."
SEED_HELP = "Seed of the random sample (or of the shuffles); default 0."
METHOD_HELP = f"How a prediction is split over its features: {', '.join(METHODS)}; default {METHODS[0]}."
SCORE_METHOD_HELP = f"How credit is split over the features: {', '.join(SCORE_METHODS)}; default {SCORE_METHODS[0]}."
OBJECTIVE_HELP = "The loss, if the model does not store it, by a library's name such as reg:squarederror."
IN_TRAINING = "used in training, if the model does not store it."
RANGE_HELP = "Boosting rounds to use, such as 0:50; default: those that the model itself predicts with."
OUTPUT_HELP = "File to write: .csv, .parquet, .json or .md; - is stdout. Without it, a table to read."
FORMAT_HELP = f"Format, if the file name has no known extension: {', '.join(output.Format)}; default with -o -: csv."
TOP_HELP = "Show only the N best; 0 for all. Default: 30 on a terminal, else all."


def option(*names: str, help: str, panel: str, **more: Any) -> Any:
    """An option under a heading of the help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


about_rows = functools.partial(option, panel=ABOUT_ROWS, metavar="COLUMN")
about_model = functools.partial(option, panel=ABOUT_MODEL, metavar="NUMBER")
about_output = functools.partial(option, panel=ABOUT_OUTPUT, metavar="N")


def one_of(choices: Sequence[str]) -> Callable[[str | None], str | None]:
    """Check a word against the library's own list."""

    def check(word: str | None) -> str | None:
        if word is not None and word not in choices:
            every = f"{', '.join(choices)}{did_you_mean(word, choices)}"
            raise typer.BadParameter(f"{word!r} is not recognised; choose one of {every}")
        return word

    return check


ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help=MODEL_HELP, show_default=False)]
DataPaths = Annotated[list[Path], typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
MaybeDataPaths = Annotated[list[Path] | None, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
FeatureGroups = Annotated[list[str] | None, about_model("--feature-groups", help=GROUPS_HELP, metavar="NAME=a,b")]
ITERATION_RANGE = about_model("--iteration-range", help=RANGE_HELP, metavar="START:STOP")
SomeMethod = Annotated[str, about_model("--method", help=METHOD_HELP, metavar="NAME", callback=one_of(METHODS))]
ScoreMethod = Annotated[
    str | None, about_model("--method", help=SCORE_METHOD_HELP, metavar="NAME", callback=one_of(SCORE_METHODS))
]
Top = Annotated[int | None, about_output("--top", help=TOP_HELP, min=0)]
Jobs = Annotated[int, about_output("--jobs", "-j", help="Threads; default: all cores.")]
Seed = Annotated[int | None, about_rows("--seed", help=SEED_HELP, min=0, metavar="N")]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of the data that are not features."""

    target: Annotated[list[str] | None, about_rows("--target", "-y", help=TARGET_HELP)] = None
    weight: Annotated[str | None, about_rows("--weight", help="Column with the weight of every row.")] = None
    clusters: Annotated[str | None, about_rows("--clusters", help=CLUSTERS_HELP)] = None
    qid: Annotated[str | None, about_rows("--qid", help=QID_HELP)] = None

    def arguments(self) -> dict[str, Any]:
        """What `importance` takes: names of columns."""
        target = self.target or None
        y = target[0] if target and len(target) == 1 else target
        return {"y": y, "sample_weight": self.weight, "clusters": self.clusters, "qid": self.qid}

    def require_target(self) -> None:
        """Refuse a command without --target."""
        if not self.target:
            raise typer.BadParameter("name the column of the data that has the true values.", param_hint="--target")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A random sample of the rows; without `rows`, all of them."""

    rows: Annotated[int | None, about_rows("--rows", help=ROWS_HELP, min=1, metavar="N")] = None
    seed: Seed = None

    def check(self, columns: Columns, *, shuffles: bool = False) -> None:
        """Refuse a sample that splits queries, and a seed that nothing follows."""
        if self.rows is not None and columns.qid is not None:
            raise typer.BadParameter(
                "a random sample of the rows would split queries; leave it out.", param_hint="--rows"
            )
        if self.seed is not None and self.rows is None and not shuffles:
            raise typer.BadParameter("has no meaning without --rows; leave it out.", param_hint="--seed")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the user says about the model."""

    objective: Annotated[str | None, about_model("--objective", help=OBJECTIVE_HELP, metavar="NAME")] = None
    learning_rate: Annotated[float | None, about_model("--learning-rate", help=f"Learning rate {IN_TRAINING}")] = None
    reg_lambda: Annotated[float | None, about_model("--reg-lambda", help=f"l2 penalty {IN_TRAINING}")] = None
    reg_alpha: Annotated[float | None, about_model("--reg-alpha", help=f"l1 penalty {IN_TRAINING}")] = None
    iteration_range: Annotated[str | None, ITERATION_RANGE] = None

    def options(self) -> dict[str, Any]:
        """What was given, as `read_model` takes it."""
        known = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return known if self.iteration_range is None else known | {"iteration_range": _rounds(self.iteration_range)}


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the result goes."""

    file: Annotated[str | None, about_output("--output", "-o", help=OUTPUT_HELP, metavar="FILE")] = None
    format: Annotated[output.Format | None, about_output("--format", help=FORMAT_HELP, metavar="NAME")] = None


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: a parameter that is a bundle becomes an option for each of its fields."""
    parameters: list[inspect.Parameter] = []
    bundles: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        kind: Any = parameter.annotation
        if is_dataclass(kind):
            bundles[parameter.name] = kind
            parameters += inspect.signature(bundles[parameter.name], eval_str=True).parameters.values()
        else:
            parameters.append(parameter)

    @functools.wraps(function)
    def run(**typed: Any) -> None:
        for name, bundle in bundles.items():
            typed[name] = bundle(**{f.name: typed.pop(f.name) for f in fields(bundle)})
        function(**typed)

    spelled_out = inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in parameters])
    run.__signature__ = spelled_out  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return guarded(run)


def given(*bundles: Any) -> set[str]:
    """Names of the options that the user typed."""
    return {
        f"--{f.name.replace('_', '-')}" for b in bundles for f in fields(b) if getattr(b, f.name) not in (None, [], ())
    }


def parse_groups(texts: Sequence[str] | None) -> GroupSpec | None:
    """Read --feature-groups: NAME=a,b,c, the path of a JSON file, or prefix:_ alone."""
    groups: dict[str, Sequence[str | int]] = {}
    for text in texts or ():
        if text == "original":
            raise _wrong_groups("a model file has no pipeline, so its columns are the original ones; leave it out.")
        if text.startswith(PREFIX):
            if len(texts or ()) > 1:
                raise _wrong_groups(f"{text} groups all columns, so no other groups can stand beside it.")
            return text
        name, equals, members = text.partition("=")
        file = Path(text)
        if file.suffix.lower() == ".json" or (not equals and file.is_file()):
            more = _groups_of_file(file)
        elif equals and name and members:
            more = {name: [member.strip() for member in members.split(",")]}
        else:
            raise _wrong_groups(f"{text!r} is neither NAME=a,b,c nor a JSON file nor prefix:_.")
        twice = groups.keys() & more.keys()
        if twice:
            raise _wrong_groups(f"the group {min(twice)!r} occurs twice.")
        groups |= more
    return groups or None


def _groups_of_file(file: Path) -> dict[str, Sequence[str | int]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _wrong_groups(f"there is no file {file}.") from None
    except ValueError as error:
        raise _wrong_groups(f"{file} is not JSON ({error}).") from None
    if not isinstance(content, dict) or not all(isinstance(members, list) for members in content.values()):
        raise _wrong_groups(f'{file}: expected an object of lists, such as {{"colour": ["red", "blue"]}}.')
    return content


def _wrong_groups(text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint="--feature-groups")


def _rounds(text: str) -> tuple[int, int]:
    """Read --iteration-range: START:STOP, or :STOP."""
    start, colon, stop = text.partition(":")
    if not colon or not stop.isdigit() or not (start.isdigit() or start == ""):
        raise typer.BadParameter(f"{text!r} is not START:STOP, such as 0:50.", param_hint="--iteration-range")
    return int(start or 0), int(stop)
