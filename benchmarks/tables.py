"""docs/evidence/benchmark.md out of the results beside it: `python benchmarks/tables.py`; with a JSON file, that."""

import argparse
import json
from math import log
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs" / "evidence"
INTRODUCTION = """# Benchmark

Made by `make bench`; this page is its output. Every job runs in a process of its own, pinned to its processors; it is
warmed up once, then the median of up to seven repeats counts; our job and the peer's run one after the other, several
times over, and the ratio is the median over these passes. Binning of the rows counts for us; reading the model does
not, and neither does what a peer wants its rows turned into (DMatrix, Pool, data frame). "First n rows" says that a
slow peer ran on so many rows only and that its time was scaled up. Results are compared while they are timed; the last
column has the largest difference, and what it may be.

W1: 100,000 x 50 float32, 400 trees of depth 6, squared error. W2: the same, logistic. W3: depths 2, 4, 8, 10. W4:
LightGBM, 500 trees of 31 and 255 leaves, 5 % missing. W5: scikit-learn's HistGradientBoosting, 300 trees. W6:
1,000,000 x 100, 1000 trees. W7: 5,000 x 5,000, 200 trees. W8: W1's model, one row at a time. WC: CatBoost, 400
symmetric trees of depth 6, 100,000 x 50. Models are trained on other rows than those scored.
"""


def ratio(x):
    """0.27 x, or 1/25 where that says more."""
    return "" if x is None else f"{x:.2f} x" if x > 0.15 else f"1/{1 / x:.1f}"


def seconds(t):
    return f"{t:.2f} s" if t >= 1 else f"{1e3 * t:.1f} ms" if t >= 1e-3 else f"{1e6 * t:.0f} µs"


def met(value):
    return {True: "yes", False: "**no**", None: ""}[value]


def claim_row(c, with_avx2):
    peer = c["peer"].replace("treeinner.", "our own ")
    if c["threads"] is not None:
        peer = "one thread"
    what = f"{c['what']}, {c['workload']}" + (" *" if "again" in c else "")
    if "failed" in c:
        return f"| {what} | {peer} | {ratio(c['at_most'])} | not measured: {c['failed']} | |{' |' * with_avx2} | |"
    if c["peer_rows"]:
        peer += f" (first {c['peer_rows']:,} rows)"
    times = f"{seconds(c['ours_seconds'])} / {seconds(c['peer_seconds'])}"
    agrees = f"{c['error']:.0e} of {c['allowed']:.0e}" if c["agrees"] else f"**differs: {c['error']:.1e}**"
    avx2 = ratio(c.get("avx2_ratio")) + (f" ({met(c['avx2_met'])})" if c.get("avx2_met") is not None else "")
    spread = f"{ratio(min(c['ratios']))} to {ratio(max(c['ratios']))}"
    cells = [what, peer, ratio(c["at_most"]), f"{ratio(c['ratio'])} ({spread})", met(c.get("met"))]
    return f"| {' | '.join([*cells, *([avx2] if with_avx2 else []), times, agrees])} |"


def heading(report):
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    cores = f"{report['cores']} processors"
    cores += ", some of them threads of one core" if report["shared_cores"] else ""
    scale = (
        "" if report["scale"] == 1.0 else f" **On data of {report['scale']} of the size: the numbers mean nothing.**"
    )
    if report["isa"] == "avx2":
        scale += " Without AVX-512, twice the promised time may be taken; the bounds below are those."
    if report.get("note"):
        scale += f" {report['note']}"
    if report.get("only"):
        scale += " **A part of the benchmark: what is not below has not been run on this version and processor.**"
    return (
        f"{report['date']}, {report['cpu']} ({cores}), {report['system']}, Python {report['python']}, "
        f"instruction set {report['isa']}, {report['threads']} thread{'s' * (report['threads'] > 1)} unless noted."
        f"{scale}\n\n{versions}."
    )


def claims_part(report):
    with_avx2 = any("avx2_ratio" in c for c in report["claims"])
    names = ["what", "against", "at most", "measured (passes)", "met?"]
    names += [*(["AVX2 alone (at most twice)"] if with_avx2 else []), "ours / theirs", "difference"]
    bounded = [c for c in report["claims"] if c["at_most"] is not None]
    others = [c for c in report["claims"] if c["at_most"] is None]
    lines = []
    for title, rows in (("What was promised", bounded), ("Measured without a promise", others)):
        if rows:
            lines += [f"### {title}", "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
            lines += [*(claim_row(c, with_avx2) for c in rows), ""]
    again = sorted({c["again"] for c in report["claims"] if "again" in c})
    if again:
        lines += [f"\\* Measured again after the whole run (`benchmarks/run.py --into`): {'; '.join(again)}.", ""]
    reasons = sorted({c["allowed_because"] for c in report["claims"] if "allowed_because" in c})
    if reasons:
        lines.append(f"Reasons for the allowed differences: {'; '.join(reasons)}.")
    absent = dict.fromkeys(report["missing"], "not installed") | report.get("failed", {})
    lines += [
        "",
        "Peers that could not be measured: " + ("; ".join(f"{k} ({v})" for k, v in absent.items()) or "none") + ".",
    ]
    return lines


def memory_part(report):
    if not report["memory"]:
        return []
    lines = [
        "",
        "### Peak memory beyond inputs and outputs, W6",
        "",
        "| what | threads | at most | measured | met? |",
        "|---" * 5 + "|",
    ]
    for m in report["memory"]:
        if "failed" in m:
            lines.append(f"| {m['case']} | {m['threads']} | | not measured: {m['failed']} | |")
        else:
            lines.append(
                f"| {m['case']} | {m['threads']} | {m['at_most_mb']} MB | {m['mb']:.0f} MB | {met(m['met'])} |"
            )
    return lines


def size(point, method):
    """What a method is measured over at a point: its own count where it has one."""
    return point.get("x_of", {}).get(method, point["x"])


def exponents(points, method):
    """Slopes of log(seconds) over log(size) to the largest size: from the smallest, and from the last a third of it."""
    b = points[-1]
    smaller = [p for p in points if 3 * size(p, method) <= size(b, method)]
    if not smaller:
        return "not measured"
    slopes = (
        log(b["seconds"][method] / a["seconds"][method]) / log(size(b, method) / size(a, method))
        for a in (smaller[0], smaller[-1])
    )
    return ", ".join(f"{slope:.2f}" for slope in slopes)


def scaling_part(report, plot):
    axes = [s for s in report["scaling"] if "points" in s]
    lines = [f"\nCost over {s['axis']}: not measured: {s['failed']}" for s in report["scaling"] if "failed" in s]
    if not axes:
        return lines
    methods = list(axes[0]["points"][0]["seconds"])
    lines += ["", "### Cost over rows, trees and nodes", ""]
    if plot is not None:
        draw(axes, methods, plot)
        lines += [f"![Cost over rows, trees and nodes reached](benchmark/{plot.name})", ""]
    lines += [
        "Slope of log(cost) over log(size), over the whole range and at its large end; 1 is linear, below it a fixed",
        "part is still seen.",
        "",
    ]
    lines += [f"| | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for s in axes:
        slopes = " | ".join(exponents(s["points"], m) for m in methods)
        own = [m for m in methods if m in s["points"][0].get("x_of", {})]
        ranges = []
        for group in ([m for m in methods if m not in own], own):
            if group:
                least, most = (size(s["points"][i], group[0]) for i in (0, -1))
                ranges.append(f"{least:,.0f} to {most:,.0f}" + f" ({', '.join(group)})" * bool(own))
        lines.append(f"| {s['axis']}, {'; '.join(ranges)} | {slopes} |")
    if any("x_of" in p for s in axes for p in s["points"]):
        lines += ["", NODES]
    return lines


LABEL = {"rows": "rows (W1)", "trees": "trees (10,000 rows)", "nodes": "nodes visited for 64 rows (10,000 rows)"}
NODES = """Nodes are what a block of 64 rows has to visit: by path the nodes that at least one of the rows reaches; by
TreeSHAP all nodes, because every leaf gives something to every row, times the points of quadrature of their tree.
The rise at the large end goes with models that no longer fit the cache: 50 trees of 16,384 leaves are 26 MB of
splits."""
NAME = {"scores": "TreeInner", "errors": "TreeInner, standard errors", "predecomp": "PreDecomp", "treeshap": "TreeSHAP"}


def draw(axes, methods, path):
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "treeinner"  # the same numbers give the same file
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(axes), figsize=(4 * len(axes), 3.6), layout="constrained", squeeze=False)
    for panel, s in zip(panels[0], axes, strict=True):
        for method in methods:
            x = [size(p, method) for p in s["points"]]
            panel.loglog(x, [p["seconds"][method] for p in s["points"]], "o-", label=NAME.get(method, method))
        x, last = [p["x"] for p in s["points"]], min(s["points"][-1]["seconds"].values())
        panel.loglog([x[0], x[-1]], [last * x[0] / x[-1] / 2, last / 2], "k:", linewidth=1, label="linear")
        panel.set(xlabel=LABEL.get(s["axis"], s["axis"]), ylabel="seconds")
    panels[0][0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def part(report, plot=None):
    return "\n".join([
        heading(report), "", *claims_part(report), *memory_part(report), *scaling_part(report, plot), ""
    ])  # fmt: skip


SETS = {"avx512": "AVX-512", "avx2": "AVX2"}


def _version_and_set(path):
    _, version, isa = path.stem.split("-")
    return tuple(map(int, version.split("."))), isa == "avx512", isa


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", nargs="?", type=Path, help="a JSON file of run.py to print; default: write the page")
    arguments = parser.parse_args()
    if arguments.report:
        print(part(json.loads(arguments.report.read_text())))
        return
    newest = sorted((DOCS / "benchmark").glob("xgboost-*.json"), reverse=True, key=_version_and_set)
    if not newest:
        raise SystemExit("docs/evidence/benchmark holds no results; run `make bench` first.")
    pages = [INTRODUCTION]
    for path in newest:
        report = json.loads(path.read_text())
        title = f"## XGBoost {report['versions'].get('xgboost')}, {SETS.get(report['isa'], report['isa'])}"
        pages.append(f"{title}\n\n{part(report, path.with_suffix('.svg'))}")
    (DOCS / "benchmark.md").write_text("\n".join(pages))
    print(f"wrote {DOCS / 'benchmark.md'}")


if __name__ == "__main__":
    main()
