"""index.html: everything a study shows, on one page; figures are files beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from treeinner_study import paired_table, reference_table
from treeinner_study.figures import MEASURES, alt_text, caption
from treeinner_study.grid import SWEEPS
from treeinner_study.illustrations import Illustration
from treeinner_study.names import Score
from treeinner_study.problems import PROCESS
from treeinner_study.records import Mean, Study, plus_minus, signed
from treeinner_study.summary import (
    agreement_sentences,
    count_of_claims,
    difference_rows,
    how_sentences,
    missing_sentences,
    what_follows,
)
from treeinner_study.table import BEYOND, Row, best_rows, by_problem, number, risk_sentence
from treeinner_study.verdicts import FAILS, HOLDS, RULES, UNDECIDED, Claim

__all__ = ["page"]

CLASS = {HOLDS: "v-holds", FAILS: "v-fails", UNDECIDED: "v-cannot"}
SECTIONS = {
    "claims": "Which claims hold",
    "art": "State of the art?",
    "pairs": "Our scores at every setting",
    "table": "The table beside the paper's",
    "sweeps": "The sweeps",
    "limits": "Two propositions about infinitely many rows",
    "run": "How it was run",
}


def page(
    study: Study, rows: Sequence[Row], claims: list[Claim], illustrations: Sequence[Illustration], cost: Sequence[str]
) -> str:
    """Write the page; every name and sentence is escaped."""
    parts = {
        "claims": _claims(study, claims),
        "art": _state_of_the_art(study, claims),
        "pairs": _pairs(study),
        "table": _table(rows, how_sentences(study)),
        "sweeps": _sweeps(study),
        "limits": "".join(_illustration(i) for i in illustrations),
        "run": _run(study, cost),
    }
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in SECTIONS.items())
    sections = "".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>{parts[name]}</section>\n' for name, title in SECTIONS.items()
    )
    style = (files("treeinner_study") / "page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        'content="width=device-width, initial-scale=1">\n'
        "<title>The study of TreeInner, run "
        f"again</title>\n<style>\n{style}</style>\n</head>\n<body>\n<header><h1>The study of TreeInner, run "
        f"again</h1>\n{_lead(study, claims)}</header>\n"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>\n{sections}</main>\n</body>\n</html>\n'
    )


def _lead(study: Study, claims: list[Claim]) -> str:
    """What was run, how well it agrees, and what came out, in a few lines."""
    n = len(study.problems)
    what = (
        f"{study.replications} replication{'s' * (study.replications != 1)} of {n} problem{'s' * (n != 1)} at the "
        f"standard setting of XGBoost{_others(study)}, with the scores computed by treeinner."
    )
    missing = missing_sentences(study)
    notice = f'<div class="notice" role="note">{_items(missing)}</div>' if missing else ""
    return (
        _p("The simulation study of “TreeInner” (AISTATS 2023): " + what, "lead")
        + _p(" ".join(agreement_sentences(study)))
        + _p(count_of_claims(claims))
        + notice
    )


def _others(study: Study) -> str:
    others = len(study.settings) - 1
    if others < 1:
        return ""
    return f" and {study.swept_part.replications} at {others} other{'s' * (others != 1)}"


# -- claims ------------------------------------------------------------------------------------------------------
def _claims(study: Study, claims: list[Claim]) -> str:
    if not study.problems:
        return _p("No problem was run, so there is nothing to judge.")
    head = ["claim", "whose", *map(str, study.problems)]
    body = []
    for c in claims:
        found = {f.problem: f for f in c.findings}
        cells = [f'<th scope="row"><a href="#{_anchor(c)}">{escape(c.name)}</a></th>', f"<td>{c.origin}</td>"]
        for p in study.problems:
            verdict = found[p].verdict if p in found else "not judged"
            cells.append(f'<td class="{CLASS.get(verdict, "note")}">{verdict}</td>')
        body.append(cells)
    details = "".join(_claim(c) for c in claims)
    differences = _grid(
        ["score", *map(str, study.problems)],
        (
            [
                f'<th scope="row">{escape(name)}</th>',
                *(f'<td class="n{" clear" * bool(sign)}">{escape(text)}</td>' for text, sign in cells),
            ]
            for name, cells in difference_rows(study)
        ),
        "Paired differences in AUC to TreeInner-Valid-PreDecomp at the standard setting, ± one standard error. Bold: "
        "not 0, each by its own 95 % interval.",
    )
    how = _items(RULES) + _items(how_sentences(study))
    return how + _grid(head, body, "") + differences + f"<h3>One by one</h3>{details}"


def _claim(claim: Claim) -> str:
    rows = (
        [
            f'<th scope="row">{escape(str(f.problem))}</th>',
            f'<td class="{CLASS[f.verdict]}">{f.verdict}</td>',
            f"<td>{escape(f.number)}</td>",
        ]
        for f in claim.findings
    )
    table = _grid(["problem", "verdict", "number ± standard error"], rows, "") if claim.findings else ""
    ours = f" ({claim.note[0].upper()}{claim.note[1:]}.)" if claim.note else ""
    return (
        '<div class="claim" '
        f'id="{_anchor(claim)}"><h3>{escape(claim.name)}</h3>{_p(claim.says + ours)}{_p(claim.rule, "rule")}'
        f"<p><strong>{escape(claim.summary)}</strong></p>{table}</div>"
    )


def _anchor(claim: Claim) -> str:
    return "claim-" + "".join(c if c.isalnum() else "-" for c in claim.name.lower())


def _state_of_the_art(study: Study, claims: list[Claim]) -> str:
    text = _items(what_follows(claims))
    if not study.problems:
        return text
    shown = dict.fromkeys(s for p in study.problems for s in reference_table.reference_rows(study, p))
    references = _grid(
        ["score", *map(str, study.problems)],
        (
            [_name(s), *(f'<td class="n">{escape(reference_table.cell(study, p, s))}</td>' for p in study.problems)]
            for s in shown
        ),
        "AUC ± one standard error; in brackets the paired difference to TreeInner-Valid-PreDecomp.",
    )
    what = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in reference_table.WHAT.items())
    first10 = reference_table.first10_problems(study)
    if not first10:
        return (
            text
            + references
            + f"<dl>{what}</dl>"
            + _p("The AUC among the first 10 features needs Simulated, which was not run.")
        )
    scores = reference_table.all_scores(study, first10)
    inner = _grid(
        ["score", *map(str, first10)],
        (
            [_name(s), *(f'<td class="n">{escape(plus_minus(study.mean(p, s, "auc_first10")))}</td>' for p in first10)]
            for s in scores
        ),
        "AUC among the first 10 features ± one standard error. " + reference_table.FIRST10,
    )
    return (
        f"{text}{references}<dl>{what}</dl><details><summary>The first 10 features of Simulated "
        f"alone</summary>{inner}</details>"
    )


def _name(score: Score) -> str:
    return f'<th scope="row">{escape(reference_table.label(score))}</th>'


# -- our scores at every setting ---------------------------------------------------------------------------------
def _pairs(study: Study) -> str:
    if not study.problems:
        return ""
    out = [_p(paired_table.NOTE)]
    for pair in paired_table.PAIRS:
        found = {(p, s): m for p, s, m in paired_table.paired_rows(study, pair)}
        out.append(f"<h3>{escape(f'{pair.score} less {pair.to}')}</h3>{_p(pair.why)}")
        out.append(_p(paired_table.count_sentence(study, pair)))
        if not found:
            continue
        none = Mean.of(())
        rows = [
            [f'<th scope="row">{escape(paired_table.called(s, study))}</th>']
            + [_difference(found.get((p, s), none)) for p in study.problems]
            for s in paired_table.settings_in_order(study)
        ]
        means = [_difference(paired_table.over_all(study, pair, p)) for p in study.problems]
        rows.append(['<th scope="row">mean over the settings</th>', *means])
        out.append(_grid(["setting", *map(str, study.problems)], rows, "Bold: clearly not 0."))
    links = '<a href="pairs.csv">CSV</a>, <a href="pairs.md">Markdown</a>'
    return "".join(out) + f'<p class="note">Also as {links}.</p>'


def _difference(m: Mean) -> str:
    return f'<td class="n{" clear" * bool(m.sign())}">{escape(signed(m))}</td>'


# -- table -------------------------------------------------------------------------------------------------------
def _table(rows: Sequence[Row], how: Sequence[str]) -> str:
    note = (
        "Mean (sample standard deviation) of the AUC over replications, at the standard setting. The highest mean of "
        f"a problem is bold. z = (ours - paper) / standard error of the difference; {escape(BEYOND)} is marked. Also "
        'as <a href="table.csv">CSV</a>, <a href="table.md">Markdown</a> and <a href="table.tex">LaTeX</a>.'
    )
    out = [f'<p class="note">{note}</p>', _items(how)]
    for problem, part in by_problem(rows):
        best = best_rows(part)
        out.append(f"<h3>{escape(str(problem))}</h3>{_p(risk_sentence(part))}")
        if any(r.auc.n for r in part):
            out.append(
                _grid(
                    ["score", "rows", "attribution", "AUC", "paper", "z"], (_row(r, r.score in best) for r in part), ""
                )
            )
    return "".join(out)


def _row(r: Row, best: bool) -> list[str]:
    ours = f"{number(r.auc.mean, 4)} ({number(r.auc.std, 4, '-')})" if r.auc.n else "not run"
    z = number(r.z, 2, "-") + " beyond" * r.far
    return [
        f'<th scope="row">{escape(r.score.gfa)}</th>',
        f"<td>{escape(r.score.domain)}</td>",
        f"<td>{escape(r.score.ifa or '-')}</td>",
        f'<td class="n{" best" * best}">{ours}</td>',
        f'<td class="n">{r.paper_auc.mean:.4f} ({r.paper_auc.std:.4f})</td>',
        f'<td class="n{" far" * r.far}">{z}</td>',
    ]


# -- figures -----------------------------------------------------------------------------------------------------
def _sweeps(study: Study) -> str:
    out = [
        _p(
            "One parameter is varied, the others keep their standard values. Colour is the score, marker the "
            "attribution, dashes the rows."
        )
    ]
    for sweep in SWEEPS:
        out.append(f'<h3 id="sweep-{sweep}"><code>{sweep}</code></h3>')
        if sweep not in study.swept:
            out.append(_p(f"{sweep} was not swept in this study, so there are no figures of it."))
            continue
        for measure in MEASURES:
            alt = alt_text(study, sweep, measure)
            out.append(_figure(f"{sweep}-{measure}.svg", alt, caption(sweep, measure, study.swept_part.replications)))
    return "".join(out)


def _illustration(shown: Illustration) -> str:
    return f"<h3>{escape(shown.title)}</h3>" + _figure(shown.path.name, shown.alt, shown.caption)


def _figure(name: str, alt: str, text: str) -> str:
    source = f'src="figures/{escape(name)}" alt="{escape(alt)}" loading="lazy"'
    return f"<figure><img {source}><figcaption>{escape(text)}</figcaption></figure>\n"


# -- how it was run ----------------------------------------------------------------------------------------------
def _run(study: Study, cost: Sequence[str]) -> str:
    meta = study.meta
    versions = ", ".join(f"{k} {v}" for k, v in meta.get("versions", {}).items())
    facts = {
        "process": f"{meta.get('process')}: labels {PROCESS.get(str(meta.get('process')), 'drawn otherwise')}",
        "replications": f"{meta.get('replications')} of the standard setting{_others(study)}",
        "seed": meta.get("seed"),
        "versions": versions,
        "processor": f"{meta.get('cpu')} ({meta.get('instruction_set')})",
        "jobs": f"{meta.get('jobs')}, {meta.get('threads_per_job')} thread each",
        "started": meta.get("started"),
        "wall time": _minutes(float(meta.get("wall_seconds", math.nan))),
    }
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items())
    again = (
        _p("To run it again (the seed gives the same numbers on the same versions):")
        + f"<pre>{escape(command(meta))}</pre>"
    )
    files_ = (
        '<p>Numbers: <a href="results/results.parquet">results.parquet</a> (one row per problem, replication, '
        "setting and score), "
        '<a href="results/meta.json">meta.json</a>, <a href="references.csv">references.csv</a>, '
        '<a href="pairs.csv">pairs.csv</a>; text: <a '
        'href="claims.md">claims.md</a>, <a href="references.md">references.md</a>.</p>'
    )
    return f"<dl>{listed}</dl>{_items(cost)}{again}{files_}"


def command(meta: dict[str, Any]) -> str:
    """Write the command that makes this study."""
    words = ["treeinner-study --out study-results", f"--seed {meta.get('seed')}", f"--process {meta.get('process')}"]
    words += ["--quick"] if meta.get("quick") else [f"--replications {meta.get('replications')}"]
    words += [f"--sweep-replications {meta['sweep_replications']}"] if "sweep_replications" in meta else []
    words += [f"--rounds {meta['rounds']}"] if meta.get("rounds") is not None else []
    return "pip install . ./study  # in a clone of treeinner\n" + " ".join([*words, f"--jobs {meta.get('jobs')}"])


def _minutes(seconds: float) -> str:
    return (
        "not stored"
        if math.isnan(seconds)
        else f"{seconds / 60:.1f} minutes"
        if seconds >= 60
        else f"{seconds:.0f} seconds"
    )


# -- pieces ------------------------------------------------------------------------------------------------------
def _p(text: str, css: str = "") -> str:
    return f'<p class="{css}">{escape(text)}</p>\n' if css else f"<p>{escape(text)}</p>\n"


def _items(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(s)}</li>" for s in sentences)
    return f"<ul>{items}</ul>" if items else ""


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]], text: str) -> str:
    """A table of cells that are HTML already; on a narrow screen it scrolls by itself."""
    top = "".join(f'<th scope="col">{escape(h)}</th>' for h in head)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    note = f"<caption>{escape(text)}</caption>" if text else ""
    return (
        '<div class="wide" '
        f'tabindex="0"><table>{note}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>\n'
    )
