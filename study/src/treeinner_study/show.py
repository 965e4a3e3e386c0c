"""write_outputs(): tables, figures, claims and the page, from stored results."""

from __future__ import annotations

from pathlib import Path

from treeinner_study import paired_table, reference_table, summary, table
from treeinner_study.claims import check_claims
from treeinner_study.cost import cost_of, spoken_cost
from treeinner_study.figures import figure_names, save, sweep_figure
from treeinner_study.illustrations import illustrate
from treeinner_study.page import page
from treeinner_study.records import read_study

__all__ = ["write_outputs"]


def write_outputs(results: Path, out: Path) -> list[Path]:
    """Write everything a study shows.

    Parameters
    ----------
    results : Path
        Folder with results.parquet and meta.json.
    out : Path
        Folder for table.csv, table.md, table.tex, references.csv, references.md, pairs.csv, pairs.md, claims.md,
        index.html and figures/.
        Files of an earlier run are replaced; figures that these results do not allow are removed.

    Returns
    -------
    list of Path
        What was written. The same results give the same bytes.
    """
    study = read_study(results)
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):  # a figure of other results must not pass for one of these
        old.unlink()
    rows, claims = table.compare_with_paper(study), check_claims(study)
    figures = [save(sweep_figure(study, *name), folder / f"{'-'.join(name)}.svg") for name in figure_names(study)]
    illustrations = illustrate(folder)
    cost = spoken_cost(cost_of(results, study.meta)) if study.problems else []
    texts = {
        "table.csv": table.to_csv(rows),
        "table.md": table.to_markdown(rows, summary.how_sentences(study)),
        "table.tex": table.to_latex(rows),
        "references.csv": reference_table.to_csv(study),
        "references.md": reference_table.to_markdown(study),
        "pairs.csv": paired_table.to_csv(study),
        "pairs.md": paired_table.to_markdown(study),
        "claims.md": summary.to_markdown(study, claims),
        "index.html": page(study, rows, claims, illustrations, cost),
    }
    written = []
    for name, text in texts.items():
        path = out / name
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return [*written, *figures, *(i.path for i in illustrations)]
