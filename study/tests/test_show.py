"""What a study shows: every file is opened, every number is computed a second time, verdicts follow the numbers."""

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from treeinner_study import illustrations, show, summary, table
from treeinner_study.claims import check_claims
from treeinner_study.figures import COLORS, MARKERS, MEASURES, compact, figure_names, save, sweep_figure
from treeinner_study.grid import STANDARD, SWEEPS, settings_of, standard
from treeinner_study.names import BEST, GAIN, PROBLEMS, SCORES, Problem, Score, StudyError
from treeinner_study.records import Mean, read_study
from treeinner_study.summary import what_follows
from treeinner_study.verdicts import FAILS, HOLDS, UNDECIDED

SETTING = ["eta", "max_depth", "min_child_weight", "num_boost_round", "reg_lambda"]
KEY = ["dataset", "task", "gfa", "domain", "ifa"]
REFERENCES = [
    ("F-test", "Train", ""), ("Linear |t|", "Train+Valid", ""), ("Placebo TreeInner", "Valid", "PreDecomp"),
    ("Minus total gain", "Train", ""),
]  # fmt: skip


def make_frame(replications=6, problems=PROBLEMS, sweeps=tuple(SWEEPS), rounds=None, seed=0):
    """Rows as a study stores them, around the paper's own means."""
    rng = np.random.default_rng(seed)
    paper = {
        (r["dist"], r["task"], r["gfa"], r["domain"], r["ifa"].replace("Permutation", "")): r
        for r in table.paper_rows()
    }
    rows = []
    for problem in problems:
        for replication in range(replications):
            for setting in settings_of(sweeps, rounds):
                risk = float(paper[(*problem, *SCORES[0])]["risk_mean"]) * (1 + 0.01 * rng.normal())
                scores = [*SCORES, *(map(Score._make, REFERENCES) if setting == standard(rounds) else ())]
                for score in scores:
                    known = paper.get((*problem, *score), {"auc_mean": 0.5, "auc_std": 0.1})
                    auc = float(np.clip(float(known["auc_mean"]) + 0.3 * float(known["auc_std"]) * rng.normal(), 0, 1))
                    below = score.domain == "Valid" and score.gfa == "TreeInner"
                    rows.append({
                        "dataset": problem.dataset, "task": problem.task, "process": "as_run",
                        "replication": replication, **{n: getattr(setting, n) for n in SETTING}, **score._asdict(),
                        "auc": auc, "risk": risk,
                        "auc_first10": 0.9 * auc if problem.dataset == "Simulated" else math.nan,
                        "score_noisy": (-0.03 if below else 0.08) + 0.01 * rng.normal(),
                        "score_signal": 0.3 + 0.01 * rng.normal(),
                        "error": 10 ** rng.normal(-7.8, 0.2) if score == GAIN else math.nan,
                        "score_seconds": 0.1, "train_seconds": 2.0, "read_seconds": 0.1, "alone_seconds": 1.0,
                    })  # fmt: skip
    return pd.DataFrame(rows)


def make_meta(**changes):
    meta = {
        "seed": 7, "process": "as_run", "replications": 6, "rounds": None, "quick": False, "instruction_set": "avx2",
        "versions": {"treeinner": "0.1", "xgboost": "3.2", "numpy": "2", "python": "3.11"}, "cpu": "<b>A & B</b>",
        "threads_per_job": 1, "jobs": 2, "started": "2026-01-01T00:00:00+00:00", "wall_seconds": 90.0,
        "cpu_seconds": 100.0, "training_seconds": 60.0, "settings": [], "problems": [], "missing": [],
    }  # fmt: skip
    return meta | changes


def store(folder, frame, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / "results.parquet")
    (folder / "meta.json").write_text(json.dumps(make_meta(**changes)))
    return folder


@pytest.fixture(scope="module")
def frame():
    return make_frame()


@pytest.fixture(scope="module")
def results(tmp_path_factory, frame):
    return store(tmp_path_factory.mktemp("study") / "results", frame)


@pytest.fixture(scope="module")
def study(results):
    return read_study(results)


@pytest.fixture(scope="module")
def shown(tmp_path_factory, results):
    out = tmp_path_factory.mktemp("out")
    return out, show.write_outputs(results, out)


@pytest.fixture
def no_training(monkeypatch, shown):
    """Runs that are not about the illustrations take those of the first run."""
    made = [illustrations.Illustration(n, n, n, n, shown[0] / "figures" / f"{n}.svg") for n in ("proposition-2", "s7")]
    monkeypatch.setattr(show, "illustrate", lambda folder: made)


class Page(HTMLParser):
    """Checks that tags are closed in order; collects text, ids, links and images."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.images, self.words = [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        self.images += [given] if tag == "img" else []
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def read_csv(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


# -- files -------------------------------------------------------------------------------------------------
def test_every_file_is_written_and_opens(shown):
    out, written = shown
    names = {p.relative_to(out).as_posix() for p in written}
    assert names == {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    texts = {"table.csv", "table.md", "table.tex", "references.csv", "references.md", "claims.md", "index.html"}
    figures = {f"figures/{s}-{m}.svg" for s in SWEEPS for m in MEASURES}
    assert len(figures) == 25
    assert names == texts | figures | {"figures/proposition-2.svg", "figures/s7.svg"}
    for path in out.glob("figures/*.svg"):
        assert ET.parse(path).getroot().tag.endswith("svg")
    assert sum(p.stat().st_size for p in written) < 2.6e6  # the folder is committed


def test_page_is_well_formed_and_its_links_lead_somewhere(shown):
    out, _ = shown
    text = (out / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        inside = link.startswith("#") and link[1:] in page.ids
        assert inside or link.startswith("results/") or (out / link).is_file(), link
    assert len(page.images) == 27
    for image in page.images:
        assert (out / image["src"]).is_file()
        assert len(image["alt"]) > 20
    assert 'name="viewport"' in text
    assert "<script" not in text
    assert not re.search(r"https?://", text), "the page asks nothing of the network"


def test_names_are_escaped(shown):
    out, _ = shown
    text = (out / "index.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;A &amp; B&lt;/b&gt;" in text
    assert "<b>" not in text
    for name in ("references.md", "claims.md"):
        blocks = re.split(r"\n\n", (out / name).read_text(encoding="utf-8"))
        for block in (b for b in blocks if b.startswith("|")):
            bars = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}
            assert len(bars) == 1, block
    assert "Linear \\|t\\|-Train+Valid" in (out / "references.md").read_text(encoding="utf-8")


def test_page_says_how_it_was_run_and_how_to_run_it_again(shown):
    words = Page((shown[0] / "index.html").read_text(encoding="utf-8")).text
    assert "treeinner-study --out study-results --seed 7 --process as_run --replications 6 --jobs 2" in words
    assert "xgboost 3.2" in words
    assert "1.5 minutes" in words
    assert "60% of 100 s" in words  # XGBoost's share, from meta.json
    # 4 problems, 6 replications, 22 settings, 6 scores by TreeSHAP of 0.1 s each
    assert f"{4 * 6 * 22 * 6 * 0.1:.0f} s of CPU" in words


def test_same_results_same_bytes(results, study, shown, tmp_path):
    out, _ = shown
    for name in (("max_depth", "auc"), ("reg_lambda", "error"), ("eta", "risk")):
        again = save(sweep_figure(study, *name), tmp_path / "again.svg")
        assert again.read_bytes() == (out / "figures" / f"{'-'.join(name)}.svg").read_bytes()
    for shown_again in illustrations.illustrate(tmp_path):
        assert shown_again.path.read_bytes() == (out / "figures" / shown_again.path.name).read_bytes()
    read = read_study(results)
    assert summary.to_markdown(read, check_claims(read)) == (out / "claims.md").read_text(encoding="utf-8")


def test_order_of_the_rows_does_not_matter(frame, study, tmp_path):
    shuffled = read_study(store(tmp_path, frame.sample(frac=1, random_state=1)))
    rows, again = table.compare_with_paper(study), table.compare_with_paper(shuffled)
    assert table.to_csv(rows) == table.to_csv(again)
    assert rows[0].auc.mean == again[0].auc.mean  # to the bit


# -- tables ------------------------------------------------------------------------------------------------
def at_standard(frame):
    usual = np.logical_and.reduce([frame[name] == getattr(STANDARD, name) for name in SETTING])
    return frame[usual]


def test_table_against_pandas(frame, shown):
    rows = read_csv(shown[0] / "table.csv")
    assert list(rows[0]) == [
        "dataset", "task", "gfa", "domain", "ifa", "auc_mean", "auc_std", "risk_mean", "risk_std",
        "paper_auc_mean", "z",
    ]  # fmt: skip
    paper = table.paper_rows()
    assert len(rows) == len(paper) == 56
    ours = at_standard(frame).groupby(KEY)[["auc", "risk"]].agg(["mean", "std"])
    for row, published in zip(rows, paper, strict=True):
        assert [row[k] for k in KEY] == [published[k] for k in ("dist", *KEY[1:])]
        found = ours.loc[(*(row[k] for k in KEY[:4]), row["ifa"].replace("Permutation", ""))]
        for x in ("auc", "risk"):
            for of in ("mean", "std"):
                assert float(row[f"{x}_{of}"]) == pytest.approx(found[x, of], abs=6e-7)  # written with 6 decimals
        assert row["paper_auc_mean"] == f"{float(published['auc_mean']):.4f}"
        n = 6
        error = math.sqrt(found["auc", "std"] ** 2 / n + float(published["auc_std"]) ** 2 / 20)
        z = (found["auc", "mean"] - float(published["auc_mean"])) / error
        assert float(row["z"]) == pytest.approx(z, abs=6e-5)  # written with 4 decimals


def test_paper_table_is_whole():
    rows = table.paper_rows()
    assert [(r["dist"], r["task"]) for r in rows[::14]] == [tuple(p) for p in PROBLEMS]
    assert rows[12] == {
        "dist": "ChIP", "task": "classification", "gfa": "TreeInner", "domain": "Valid", "ifa": "PreDecomp",
        "auc_mean": "0.8671", "auc_std": "0.1071", "risk_mean": "0.4673", "risk_std": "0.0168",
    }  # fmt: skip
    for r in rows:
        assert Score(r["gfa"], r["domain"], r["ifa"].replace("Permutation", "")) in SCORES


def test_best_of_each_problem_is_bold(frame, shown):
    usual = at_standard(frame)
    usual = usual[usual.gfa.isin(COLORS)]
    means = usual.groupby(KEY).auc.mean()
    tex = (shown[0] / "table.tex").read_text(encoding="utf-8")
    markdown = (shown[0] / "table.md").read_text(encoding="utf-8")
    assert tex.count("\\begin{longtable}") == tex.count("\\end{longtable}") == 1
    lines = [line for line in tex.splitlines() if line.endswith("\\\\") and "&" in line]
    assert {line.count("&") for line in lines} == {10}
    assert len(lines) == 56 + 2
    for problem in PROBLEMS:
        best = means.loc[tuple(problem)].max()
        assert tex.count(f"\\textbf{{{best:.4f}}}") == 1
        assert f"**{best:.4f} (" in markdown
    assert tex.count("\\textbf") == 4


def test_references_against_pandas(frame, shown):
    rows = {tuple(r[k] for k in KEY): r for r in read_csv(shown[0] / "references.csv")}
    assert len(rows) == 4 * (14 + 4)
    wide = at_standard(frame).pivot_table(index="replication", columns=KEY, values="auc")
    for key, row in rows.items():
        difference = wide[key] - wide[(*key[:2], *BEST)]
        assert float(row["difference_mean"]) == pytest.approx(difference.mean(), abs=6e-7)
        assert float(row["difference_se"]) == pytest.approx(difference.sem(), abs=6e-7)
        assert float(row["auc_mean"]) == pytest.approx(wide[key].mean(), abs=6e-7)
        if key[0] == "Simulated":
            assert float(row["auc_first10_mean"]) == pytest.approx(0.9 * wide[key].mean(), abs=6e-7)
        else:
            assert row["auc_first10_mean"] == ""


def test_far_rows_are_named(frame, tmp_path, no_training):
    far = frame.copy()
    far.loc[(far.gfa == "Abs") & (far.domain == "Valid") & (far.dataset == "ChIP") & (far.ifa == "TreeSHAP"), "auc"] = (
        0.1
    )
    far.loc[(far.dataset == "Simulated") & (far.task == "regression"), "risk"] *= 2
    far = far[np.logical_and.reduce([far[name] == getattr(STANDARD, name) for name in SETTING])]
    show.write_outputs(store(tmp_path / "results", far), tmp_path)
    found = table.agreement(read_study(tmp_path / "results"))
    assert (found["within"], found["risks_within"]) == (54, 3)
    words = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert "54 of 56 AUC means" in words
    assert "3 of 4 risks" in words
    assert "Abs-Valid-TreeSHAP on ChIP classification (AUC 0.100" in words
    assert "the risk of Simulated regression" in words
    assert words.count("beyond") >= 2
    assert (tmp_path / "table.md").read_text(encoding="utf-8").count(" ! |") == 2


# -- figures -----------------------------------------------------------------------------------------------
def by_label(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_panels_series_and_bars(frame, study):
    figure = sweep_figure(study, "max_depth", "score-noisy")
    assert [ax.get_title(loc="left") for ax in figure.axes] == [str(p) for p in PROBLEMS]
    for ax, problem in zip(figure.axes, PROBLEMS, strict=True):
        lines = by_label(ax)
        assert {str(s) for s in SCORES} <= set(lines)
        assert [t.get_text() for t in ax.get_xticklabels()] == ["2", "4", "6", "8", "10"]
        here = frame[(frame.dataset == problem.dataset) & (frame.task == problem.task)]
        others = [n for n in SETTING if n != "max_depth"]
        here = here[np.logical_and.reduce([here[n] == getattr(STANDARD, n) for n in others])]
        for score in SCORES:
            line = lines[str(score)]
            one = here[(here.gfa == score.gfa) & (here.domain == score.domain) & (here.ifa == score.ifa)]
            values = one.groupby("max_depth").score_noisy
            np.testing.assert_allclose(line.get_ydata(), values.mean(), rtol=1e-12)
            assert np.abs(line.get_xdata() - np.arange(5)).max() < 0.3  # set side by side, within their own setting
            bars = next(
                b for b in ax.get_lines() if b.get_label() == "_bars" and b.get_xdata()[0] == line.get_xdata()[0]
            )
            low, high = np.array(bars.get_ydata()).reshape(5, 3)[:, :2].T
            np.testing.assert_allclose((high - low) / 2, values.sem(), rtol=1e-9)
            assert line.get_color() == COLORS[score.gfa]
            assert line.get_marker() == MARKERS[score.ifa]
            assert (line.get_linestyle() == "--") == (score.domain == "Train")
    assert len(set(COLORS.values())) == 4
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert {"TreeInner", "Abs", "PreDecomp", "TreeSHAP", "training rows", "validation rows"} <= set(legend)


def test_error_boxes_and_risk(frame, study):
    figure = sweep_figure(study, "eta", "error")
    ax = figure.axes[3]
    assert ax.get_yscale() == "log"
    medians = [
        line.get_ydata()[0]
        for line in ax.get_lines()
        if len(set(line.get_ydata())) == 1 and line.get_linewidth() == 1.6
    ]
    one = frame[(frame.dataset == "Simulated") & (frame.task == "regression") & frame.error.notna()]
    one = one[np.logical_and.reduce([one[n] == getattr(STANDARD, n) for n in SETTING if n != "eta"])]
    np.testing.assert_allclose(medians, one.groupby("eta").error.median(), rtol=1e-12)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"]
    risk = sweep_figure(study, "reg_lambda", "risk").axes[0]
    one = frame[(frame.dataset == "ChIP") & (frame.task == "classification") & (frame.gfa == "Abs")]
    one = one[np.logical_and.reduce([one[n] == getattr(STANDARD, n) for n in SETTING if n != "reg_lambda"])]
    np.testing.assert_allclose(by_label(risk)["risk"].get_ydata(), one.groupby("reg_lambda").risk.mean(), rtol=1e-12)


def test_users_style_is_left_alone_and_does_not_show(study, shown, tmp_path):
    import matplotlib as mpl

    with mpl.rc_context({"lines.linewidth": 7.0, "svg.hashsalt": "other", "font.size": 30.0}):
        again = save(sweep_figure(study, "max_depth", "risk"), tmp_path / "a.svg")
        assert mpl.rcParams["lines.linewidth"] == 7.0
    assert again.read_bytes() == (shown[0] / "figures" / "max_depth-risk.svg").read_bytes()


def test_compact_changes_coordinates_only_and_no_text(study):
    text = io.StringIO()
    figure = sweep_figure(study, "max_depth", "risk")
    figure.savefig(text, format="svg", metadata={"Date": None})
    words = [
        [e.text for e in ET.fromstring(svg).iter() if e.tag.endswith("text")]
        for svg in (text.getvalue(), compact(text.getvalue()))
    ]
    assert words[0] == words[1]
    svg = '<path d="M 1.23456 0.005"/><text>0.4751</text>'
    assert compact(svg) == '<path d="M 1.23 0.01"/><text>0.4751</text>'


# -- claims ------------------------------------------------------------------------------------------------
def verdicts(frame, folder, name):
    claims = check_claims(read_study(store(folder, frame)))
    found = next(c for c in claims if c.name == name)
    return {f.problem: f.verdict for f in found.findings}


def changed(frame, column, value, **where):
    """A copy in which a score has other numbers: value(row numbers of TreeInner-Valid-PreDecomp's column, noise)."""
    out = at_standard(frame).copy()
    chosen = np.logical_and.reduce([out[k] == v for k, v in where.items()])
    best = out[np.logical_and.reduce([out[k] == v for k, v in zip(KEY[2:], BEST, strict=True)])]
    base = best.set_index(["dataset", "task", "replication"])[column]
    index = pd.MultiIndex.from_frame(out.loc[chosen, ["dataset", "task", "replication"]])
    noise = 0.01 * np.random.default_rng(3).normal(size=chosen.sum())
    out.loc[chosen, column] = value(base.loc[index].to_numpy()) + noise
    return out


def score(gfa, domain, ifa):
    return {"gfa": gfa, "domain": domain, "ifa": ifa}


SHAP = score("TreeInner", "Valid", "TreeSHAP")
FLIPS = [
    ("PreDecomp and TreeSHAP tie", "auc", SHAP, {0.0: HOLDS, 0.2: FAILS, -0.2: FAILS}),
    ("PreDecomp is not worse than TreeSHAP", "auc", SHAP, {0.0: HOLDS, 0.2: FAILS, -0.2: HOLDS}),
    ("ForestInner is worse", "auc", score("ForestInner", "Valid", "PreDecomp"), {-0.1: HOLDS, 0.1: FAILS}),
    ("It beats total gain", "auc", score("TreeInner", "Train", "PreDecomp"), {-0.1: HOLDS, 0.1: FAILS}),
    ("Only TreeInner does so", "score_noisy", {"gfa": "Permutation", "domain": "Valid"}, {0.1: HOLDS, -0.1: FAILS}),
    ("State of the art, whatever the method", "auc", {"gfa": "F-test"}, {0.2: FAILS}),
    ("TreeInner-Valid beats every other score", "auc", score("Abs", "Train", "TreeSHAP"), {0.1: FAILS}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column", "where", "wanted"), FLIPS, ids=[f[0] for f in FLIPS])
def test_verdicts_follow_the_numbers(frame, tmp_path, name, column, where, wanted):
    for shift, verdict in wanted.items():
        found = verdicts(changed(frame, column, lambda base, shift=shift: base + shift, **where), tmp_path, name)
        assert set(found.values()) == {verdict}, shift
        assert len(found) == 4


def test_beats_holds_only_if_every_rival_is_clearly_below(frame, tmp_path):
    name = "TreeInner-Valid beats every other score"
    low = frame.copy()
    rivals = low.gfa.isin(COLORS) & ~((low.gfa == "TreeInner") & (low.domain == "Valid"))
    low.loc[rivals, "auc"] -= 0.9
    assert set(verdicts(low, tmp_path, name).values()) == {HOLDS}
    one = changed(low, "auc", lambda base: base, gfa="Permutation", domain="Valid")
    assert HOLDS not in verdicts(one, tmp_path, name).values()
    better = changed(low, "auc", lambda base: base + 0.2, gfa="Permutation", domain="Valid", dataset="Simulated")
    text = " ".join(what_follows(check_claims(read_study(store(tmp_path, better)))))
    assert "; Permutation-Valid is clearly better on Simulated classification and " in text


@pytest.mark.parametrize(("error", "verdict"), [(1e-8, HOLDS), (1e-4, FAILS)])
def test_proposition_3_verdict(frame, tmp_path, error, verdict):
    out = frame.copy()
    out.loc[out.error.notna(), "error"] = error
    assert set(verdicts(out, tmp_path, "Proposition 3 is exact").values()) == {verdict}
    one = frame.copy()
    one.loc[one[one.error.notna()].index[0], "error"] = error  # one bad model is enough
    assert verdicts(one, tmp_path, "Proposition 3 is exact")[PROBLEMS[0]] == verdict


@pytest.mark.parametrize(("level", "verdict"), [(0.5, HOLDS), (0.7, FAILS), (0.3, HOLDS)])
def test_placebo_verdict_and_sentence(frame, tmp_path, level, verdict):
    out = changed(frame, "auc", lambda base: np.full(len(base), level), gfa="Placebo TreeInner")
    study = read_study(store(tmp_path, out))
    claims = check_claims(study)
    placebo = next(c for c in claims if c.name == "A placebo scores as guessing does")
    assert {f.verdict for f in placebo.findings} == {verdict}
    text = " ".join(what_follows(claims))
    assert ("no proof of signal" in text.split("upside down")[0]) == (verdict == FAILS)


def test_state_of_the_art_sentence_counts_problems(frame, tmp_path):
    out = frame
    for gfa in ("F-test", "Linear |t|"):
        out = changed(out, "auc", lambda base: base - 0.2, gfa=gfa)
    claims = check_claims(read_study(store(tmp_path, out)))
    assert "the claim stands here" in " ".join(what_follows(claims))
    out = changed(out, "auc", lambda base: base + 0.2, gfa="F-test", dataset="Simulated")
    claims = check_claims(read_study(store(tmp_path, out)))
    text = " ".join(what_follows(claims))
    assert "on 2 of 4 problems (Simulated classification and Simulated regression)" in text
    assert "among attributions of boosted trees only" in text


def test_a_mean_is_clear_by_students_interval():
    from scipy import stats

    values = np.random.default_rng(0).normal(size=7)
    for level in np.linspace(-2, 2, 81):
        p = stats.ttest_1samp(values, level).pvalue
        assert (Mean.of(values).sign(level) != 0) == (p < 0.05)
    assert Mean.of([1.0]).sign() == 0
    assert Mean.of([]).n == 0
    assert Mean.of([2.0, math.nan, 4.0]) == Mean(3.0, math.sqrt(2), 2)


# -- missing parts -----------------------------------------------------------------------------------------
SIMULATED = tuple(p for p in PROBLEMS if p.dataset == "Simulated")


def test_quick_without_chip(tmp_path, no_training):
    sentence = "ChIP was not run: <no> network."
    frame = make_frame(replications=3, problems=SIMULATED, sweeps=())
    results = store(tmp_path / "results", frame, quick=True, replications=3, missing=[sentence])
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "eta-auc.svg").write_text("of another study")
    written = show.write_outputs(results, tmp_path)
    assert not (tmp_path / "figures" / "eta-auc.svg").exists()
    assert len(written) == 7 + 2
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert sentence in page.text
    assert "&lt;no&gt;" in text
    assert "eta was not swept in this study" in page.text
    assert "--quick" in page.text
    assert len(page.images) == 2
    rows = read_csv(tmp_path / "table.csv")
    assert len(rows) == 56
    assert {(r["dataset"], r["auc_mean"] == "", r["z"] == "") for r in rows} == {
        ("ChIP", True, True),
        ("Simulated", False, False),
    }
    assert "of 28 AUC means" in page.text
    depth = next(c for c in check_claims(read_study(results)) if c.name == "It dominates at every depth")
    assert depth.verdict == "not run"


def test_one_replication_has_no_errors_and_no_verdicts(tmp_path, no_training):
    results = store(tmp_path / "results", make_frame(replications=1, sweeps=()), replications=1)
    show.write_outputs(results, tmp_path)
    assert "nan" not in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert {r["z"] for r in read_csv(tmp_path / "table.csv")} == {""}
    claims = check_claims(read_study(results))
    told = {f.verdict for c in claims for f in c.findings if c.name != "Proposition 3 is exact"}
    assert told == {UNDECIDED}


def test_miniature_and_one_sweep_and_chip_alone(tmp_path):
    frame = make_frame(replications=2, problems=PROBLEMS[:2], sweeps=("num_boost_round",), rounds=20)
    study = read_study(store(tmp_path, frame, rounds=20, replications=2))
    assert study.standard.num_boost_round == 20
    assert figure_names(study) == [("num_boost_round", m) for m in MEASURES]
    figure = sweep_figure(study, "num_boost_round", "auc")
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["10", "20", "30", "40", "50"]
    assert [t.get_text() for t in figure.axes[2].texts] == ["not run"]
    text = summary.to_markdown(study, check_claims(study))
    assert "A miniature: the standard setting has 20 rounds" in text
    assert "No results for Simulated classification and Simulated regression." in text
    assert "Not swept: eta, max_depth, min_child_weight and reg_lambda." in text


def test_text_process_is_said(tmp_path, frame):
    study = read_study(store(tmp_path, at_standard(frame), process="as_written"))
    assert "as the paper's text has it" in " ".join(summary.missing_sentences(study))


def test_nothing_run_is_said(tmp_path, no_training, frame):
    show.write_outputs(store(tmp_path / "results", frame.iloc[:0]), tmp_path)
    assert "No problem was run" in Page((tmp_path / "index.html").read_text(encoding="utf-8")).text


def test_rows_counted_twice_are_refused(frame, tmp_path):
    with pytest.raises(StudyError, match="twice"):
        read_study(store(tmp_path, pd.concat([frame, frame.iloc[:1]])))
    with pytest.raises(StudyError, match=r"has no meta\.json; run"):
        read_study(tmp_path / "nowhere")
    with pytest.raises(StudyError, match="has no column 'risk'"):
        read_study(store(tmp_path, frame.drop(columns="risk")))


# -- illustrations -----------------------------------------------------------------------------------------
def test_components_have_mean_zero_as_proposition_2_asks():
    middle = (np.arange(10_000) + 0.5) / 10_000
    means = illustrations.components(np.repeat(middle[:, None], 4, axis=1)).mean(axis=0)
    np.testing.assert_allclose(means, 0, atol=1e-12)  # the midpoint rule is exact for these, up to rounding


def test_proposition_2_error_falls_with_rows_and_first_with_trees():
    measured = illustrations.measure_proposition_2(rows=(300, 6000), trees=(5, 60))
    for method in ("predecomp", "saabas"):
        few, many = measured.error[method, 300], measured.error[method, 6000]
        assert many[1] < 0.5 * few[1]
        assert many[1] < 0.2 * many[0]
    assert measured.error["predecomp", 300] != measured.error["saabas", 300]


def test_s7_noise_share_falls_with_rows():
    measured = illustrations.measure_s7(rows=(250, 4000), replications=2)
    for name in ("total gain, training rows", "ForestInner, training rows"):
        few, many = measured[name]
        assert 0 < many.mean < 0.5 * few.mean
    assert measured["ForestInner, held-out rows"][0].mean < 0


def test_captions_hold_measured_numbers(shown):
    page = Page((shown[0] / "index.html").read_text(encoding="utf-8"))
    again = illustrations.measure_s7(rows=illustrations.S7_ROWS[-1:])["total gain, training rows"][0]
    assert f"{again.mean:+.4f} ± {again.se:.4f} (total gain, training rows)" in page.text


def test_problem_names():
    assert str(Problem("ChIP", "regression")) == "ChIP regression"
    assert [str(s) for s in (BEST, Score("Permutation", "Valid", ""))] == [
        "TreeInner-Valid-PreDecomp",
        "Permutation-Valid",
    ]
