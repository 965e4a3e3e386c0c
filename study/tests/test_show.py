"""What a study shows: every file is opened, every number is computed a second time."""

import csv
import io
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from made_results import KEY, SETTING, at_standard, make_frame, store
from scipy import stats

from treeinner_study import illustrations, show, summary, table
from treeinner_study.claims import check_claims
from treeinner_study.figures import COLORS, MARKERS, MEASURES, compact, figure_names, save, sweep_figure
from treeinner_study.grid import STANDARD, SWEEPS
from treeinner_study.names import ADDED, BEST, PROBLEMS, SCORES, Problem, Score, StudyError
from treeinner_study.records import read_study
from treeinner_study.verdicts import UNDECIDED


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
    texts = {"table.csv", "table.md", "table.tex", "claims.md", "index.html"}
    texts |= {f"{name}.{kind}" for name in ("references", "pairs") for kind in ("csv", "md")}
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
    command = "--seed 7 --process as_run --replications 6 --sweep-replications 20 --jobs 2"
    assert f"treeinner-study --out study-results {command}" in words
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
    assert len(rows) == 4 * (14 + 7 + 5)
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


def test_pairs_against_pandas(frame, shown):
    rows = read_csv(shown[0] / "pairs.csv")
    assert len(rows) == 2 * 4 * 22
    wide = frame.pivot_table(index="replication", columns=[*KEY, *SETTING], values="auc")
    for row in rows:
        case = tuple(float(row[name]) for name in SETTING)
        a, b = (tuple(row[name].split("-")) for name in ("score", "to"))
        difference = wide[(row["dataset"], row["task"], *a, *case)] - wide[(row["dataset"], row["task"], *b, *case)]
        assert float(row["difference"]) == pytest.approx(difference.mean(), abs=6e-7)  # written with 6 decimals
        assert float(row["std_error"]) == pytest.approx(difference.sem(), abs=6e-7)
        low, high = stats.t.interval(0.95, len(difference) - 1, difference.mean(), difference.sem())
        assert row["verdict"] == ("higher" if low > 0 else "lower" if high < 0 else "not clear")
    text = (shown[0] / "pairs.md").read_text(encoding="utf-8")
    assert text.count("mean over the settings") == 2 * 4
    assert f"in {sum(r['verdict'] == 'higher' for r in rows[:88])} of 88 cases" in text


def test_the_papers_table_has_none_of_our_scores(shown):
    for name in ("table.csv", "table.md", "table.tex"):
        text = (shown[0] / name).read_text(encoding="utf-8")
        assert not any(word in text for word in ("Centred", "Saabas", "Account", "label)"))
    references = (shown[0] / "references.md").read_text(encoding="utf-8")
    assert all(f"| {score} |" in references for score in ADDED)


def test_as_run_and_permutation_are_explained_where_they_are_met(shown):
    for name in ("claims.md", "table.md", "index.html"):
        text = (shown[0] / name).read_text(encoding="utf-8")
        assert "Labels were drawn as_run, as the program behind the published table drew them" in text
        assert "The other way is as_written" in text
        assert "is the fall of the AUC" in text


def test_more_replications_of_the_standard_setting(tmp_path, monkeypatch, no_training):
    monkeypatch.setattr(show, "figure_names", lambda study: [])  # they are drawn in other tests
    frame = make_frame(replications=6, swept=3)
    show.write_outputs(store(tmp_path / "results", frame), tmp_path)
    study = read_study(tmp_path / "results")
    assert (study.replications, study.swept_part.replications) == (6, 3)
    words = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert "6 replications of 4 problems at the standard setting of XGBoost and 3 at 21 others" in words
    assert "Mean over 3 replications" in words
    # A figure has the same replications at every setting; the table has all of them.
    ax = sweep_figure(study, "eta", "auc").axes[0]
    here = frame[(frame.dataset == "ChIP") & (frame.task == "classification")]
    here = here[np.logical_and.reduce([here[k] == v for k, v in zip(KEY[2:], BEST, strict=True)])]
    first = here[here.replication < 3]
    first = first[np.logical_and.reduce([first[n] == getattr(STANDARD, n) for n in SETTING if n != "eta"])]
    np.testing.assert_allclose(by_label(ax)[str(BEST)].get_ydata(), first.groupby("eta").auc.mean(), rtol=1e-12)
    assert study.mean(PROBLEMS[0], BEST).mean == pytest.approx(at_standard(here).auc.mean(), rel=1e-12)
    assert {r["replications"] for r in read_csv(tmp_path / "pairs.csv")} == {"3", "6"}


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
    assert len(written) == 9 + 2
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
