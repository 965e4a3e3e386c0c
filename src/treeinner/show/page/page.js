
"use strict";
// Names and values come from somebody's data: they reach the page as text nodes only, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// -- elements ---------------------------------------------------------------------------------------------
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}
// A narrow screen lays tables out as blocks, and browsers then forget what they are: so their roles are spelled out.
const ROLES = { table: "table", thead: "rowgroup", tbody: "rowgroup", tfoot: "rowgroup", tr: "row", td: "cell" };
function el(tag, attributes = {}, ...children) {
  const role = tag !== "th" ? ROLES[tag] : attributes.scope === "col" ? "columnheader" : "rowheader";
  return fill(document.createElement(tag), { role, ...attributes }, children);
}
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const bdi = (text, kind = "name") => el("bdi", { class: kind, dir: "auto" }, text);
const feature = (k) => data.features[k];

// A drawing that a screen reader announces by its title and description.
let drawings = 0;
function drawing(title, description, attributes, ...children) {
  const id = `drawing-${++drawings}`;
  return svg("svg", { role: "img", "aria-labelledby": `${id}-t ${id}-d`, ...attributes },
    svg("title", { id: `${id}-t` }, title), svg("desc", { id: `${id}-d` }, description), ...children);
}

// -- numbers ----------------------------------------------------------------------------------------------
const known = (x) => x !== null && x !== undefined;
const count = (n) => n.toLocaleString("en");
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const minus = (text) => text.replaceAll("-", "−");
const largest = (xs) => xs.reduce((most, x) => (known(x) ? Math.max(most, Math.abs(x)) : most), 0);

// One number of decimals for a whole column, so that its digits stand below each other.
function formatter(xs, digits = 4) {
  const most = largest(xs);
  if (most !== 0 && (most < 1e-5 || most >= 1e9)) return (x) => (known(x) ? minus(x.toExponential(2)) : "–");
  return fixed(most === 0 ? 0 : Math.min(8, Math.max(0, digits - 1 - Math.floor(Math.log10(most)))));
}
function fixed(decimals) {
  const format = new Intl.NumberFormat("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return (x) => (known(x) ? minus(format.format(x).replace(/^-(0(\.0+)?)$/, "$1")) : "–");
}
// Three significant digits, and all those before the point.
function three(x) {
  if (!known(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return minus(x.toExponential(2));
  const digits = size >= 1000 || size === 0 ? { maximumFractionDigits: 0 } : { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  return minus(x.toLocaleString("en", digits));
}
const single = (x) => (typeof x === "number" ? three(x) : text(x));
const text = (x) => (known(x) ? String(x) : "missing");
// A value as it stands in the data: 2024 is a year, not 2,024.
const shown = (x) => (typeof x === "number" ? minus(String(x)) : text(x));
const q = (x) => (!known(x) ? "–" : x < 0.001 ? "<0.001" : x.toFixed(3));
const clear = (error) => known(error) && error < 0.5; // else holds is left blank
const holdsText = (holds, error) => (clear(error) ? `${fixed(2)(holds)} ± ${error.toFixed(2)}` : "");
const signed = (format) => (x) => (x > 0 && /[1-9]/.test(format(x)) ? "+" : "") + format(x);

// Place of a number on a drawing, in percent; a margin keeps dots and caps inside.
function scale(low, high) {
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  return (x) => 2 + (96 * (Math.min(Math.max(x, low), high) - low)) / (high - low);
}
const percent = (x) => `${x.toFixed(2)}%`;

// -- a table that sorts and folds --------------------------------------------------------------------------
// columns: {label, cell(k) -> text or node, value(k) to sort by, up: smallest first, kind: "number" | "drawn" | "rank" | "head"}
const FOLD = 25;
// A column of numbers, one for each feature.
const numeric = (label, values, format, more) => ({ label, kind: "number", cell: (k) => format(values[k]), value: (k) => values[k], ...more });
function table({ mount, caption, columns, rows, sort, descending = true, rowClass, search, status, noun = "feature", foot = [] }) {
  const state = { sort, descending, all: false, query: "" };
  const body = el("tbody");
  const more = el("button", { type: "button", class: "more" });
  const made = new Map();
  const headers = columns.map((column, c) => {
    const button = el(column.value ? "button" : "span", { type: column.value ? "button" : null, class: "heading" }, column.label);
    button.addEventListener("click", () => {
      if (!column.value) return;
      state.descending = state.sort === c ? !state.descending : !column.up;
      state.sort = c;
      draw();
    });
    return el("th", { scope: "col", class: column.wide ? `${column.kind} wide` : column.kind, "data-title": column.label, "data-sorts": column.value ? "yes" : "no" },
      button, column.axis || null);
  });
  function makeRow(k) {
    return el("tr", {}, columns.map((column) => {
      const cell = column.cell(k);
      const label = column.kind === "number" && cell !== "" ? column.short || column.label : null;
      return el(column.kind === "head" ? "th" : "td", { class: column.kind, scope: column.kind === "head" ? "row" : null, "data-label": label }, cell);
    }));
  }
  function compare(a, b) {
    const value = columns[state.sort].value;
    const [x, y] = [value(a), value(b)];
    if (!known(x) || !known(y)) return known(y) - known(x);
    const order = typeof x === "string" ? x.localeCompare(y) : x - y;
    return state.descending ? -order : order;
  }
  function draw() {
    const words = state.query.toLowerCase();
    const found = rows.filter((k) => !words || feature(k).toLowerCase().includes(words)).sort(compare);
    body.replaceChildren(...found.map((k, place) => {
      if (!made.has(k)) made.set(k, makeRow(k));
      const row = made.get(k);
      row.className = `${rowClass ? rowClass(k) : ""} ${!state.all && place >= FOLD ? "folded" : ""}`.trim();
      return row;
    }));
    headers.forEach((header, c) => (c === state.sort ? header.setAttribute("aria-sort", state.descending ? "descending" : "ascending") : header.removeAttribute("aria-sort")));
    more.hidden = found.length <= FOLD;
    more.textContent = state.all ? `Show the first ${FOLD} only` : `Show all ${count(found.length)}`;
    more.setAttribute("aria-expanded", String(state.all));
    if (status) status.textContent = words ? `${plural(found.length, noun)} of ${count(rows.length)}` : plural(rows.length, noun);
  }
  more.addEventListener("click", () => { state.all = !state.all; draw(); });
  if (search) search.oninput = () => { state.query = search.value.trim(); draw(); };
  state.query = search ? search.value.trim() : "";
  draw();
  mount.replaceChildren(el("table", { class: columns.length > 9 ? "many" : null }, el("caption", {}, caption), el("thead", {}, el("tr", {}, headers)), body,
    foot.length ? el("tfoot", {}, foot) : null), more);
  if (columns.length > 11) fill(mount, { class: "scrolls", tabindex: 0, role: "region", "aria-label": caption }, []);
}

function axis(low, high, place) {
  const rough = (high - low) / 3 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; i += 1) ticks.push(i * step);
  const format = step < 1e-6 || step >= 1e9 ? (x) => minus(x.toExponential(0)) : fixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return el("div", { class: "axis", "aria-hidden": "true" }, ticks.map((x) => {
    const tick = el("span", {}, format(x));
    tick.style.left = percent(place(x));
    return tick;
  }));
}
const zeroLine = (place) => svg("line", { class: "zero", x1: percent(place(0)), x2: percent(place(0)), y1: "-15%", y2: "115%" });

// -- what a feature is ---------------------------------------------------------------------------------------
const everyFeature = data.features.map((_, k) => k);
const constant = Boolean(data.used) && data.used.every((splits) => splits === 0);
const KIND = data.training_rows ? "scored" : "held-out"; // rows that the model has seen are not held out
const selection = data.selection || null; // of a page about features to keep
const comparison = data.comparison || null; // of a page about why a loss changed
if (comparison) data.ranking.score = data.ranking.change; // what the page ranks by, by size
const verdict = (k, ranking = data.ranking) => (selection ? (ranking.kept[k] ? "kept" : "dropped")
  : data.used && data.used[k] === 0 ? "unused" : ranking.verdict[k]);
const COLOURS = { dropped: "dull", unused: "dull", harmful: "bad", worse: "bad", unclear: "dull" }; // of bars and dots; the others are good
const dull = (k, ranking) => COLOURS[verdict(k, ranking)] === "dull";
const word = (k, ranking) => el("span", { class: `word ${COLOURS[verdict(k, ranking)] || "good"}` }, verdict(k, ranking));
const address = (k) => `#feature=${encodeURIComponent(feature(k))}`;
const named = (k) => el("bdi", { class: "name", dir: "auto", title: feature(k) }, el("a", { href: address(k) }, feature(k)));
function ranks(values, size = comparison ? Math.abs : (x) => x) {
  const out = [];
  everyFeature.slice().sort((a, b) => size(values[b]) - size(values[a])).forEach((k, i) => { out[k] = i + 1; });
  return out;
}
const gainRank = data.gain && ranks(data.gain);

// -- header ----------------------------------------------------------------------------------------------------
const pairs = (mount, list) => mount.replaceChildren(...list.flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, value)]));
function hideOthers() {
  const own = { score: data.score, only: selection ? "selection" : comparison ? "comparison" : "model", split: data.ranking.moved ? "yes" : "no", test: selection && selection.test, adds: data.ranking.adds ? "yes" : "no" };
  document.querySelectorAll("[data-score], [data-only], [data-test], [data-adds], [data-split]").forEach((node) => {
    node.hidden = Object.keys(own).some((kind) => kind in node.dataset && !node.dataset[kind].split(" ").includes(own[kind]));
  });
}
// A section without content goes, and so does the link to it.
function only(id, shown) {
  $(id).hidden = !shown;
  document.querySelectorAll(`nav a[href="#${id}"]`).forEach((link) => { link.parentNode.hidden = !shown; });
  return Boolean(shown);
}
function selectionLead() {
  const n = data.ranking.kept.filter(Boolean).length;
  selection.groups.forEach((group) => $("stands-out").append(el("li", {}, "Tested as one, too alike to say which it is: ",
    group.flatMap((name, i) => [i ? ", " : null, bdi(name)]))));
  return `${n ? count(n) : "None"} of ${plural(data.features.length, "feature")} ${n > 1 ? "are" : "is"} kept ${selection.rule}.`;
}
// What the features do, in one sentence that is true of any model.
function featuresLead() {
  const n = data.features.length;
  const tally = { signal: 0, unclear: 0, harmful: 0, unused: 0 };
  everyFeature.forEach((k) => { tally[verdict(k)] += 1; });
  const loss = data.score === "loss";
  const verbs = {
    signal: loss ? ["lowers the loss", "lower the loss"] : ["carries signal", "carry signal"], unclear: ["is unclear", "are unclear"],
    harmful: loss ? ["raises it", "raise it"] : ["is harmful", "are harmful"], unused: ["is not used", "are not used"],
  };
  const verb = (kind) => verbs[kind][tally[kind] === 1 ? 0 : 1];
  if (data.training_rows) return `${count(tally.signal)} of ${plural(n, "feature")} ${tally.signal === 1 ? "has" : "have"} a score above 0 (q ≤ ${data.level}) on ${data.training_rows.rows}. On training rows noise has one too, so this is not what new rows would show.`;
  if (constant) return "The model has no splits, so no feature has a score.";
  const where = `on the held-out rows (q ≤ ${data.level})`;
  if (n === 1) return `The only feature ${verb(Object.keys(tally).find((kind) => tally[kind]))} ${where}.`;
  const rest = ["unclear", "harmful", "unused"].filter((kind) => tally[kind]).map((kind) => `${count(tally[kind])} ${verb(kind)}`).join(", ");
  const most = tally.signal === n ? (n === 2 ? "Both features" : `All ${count(n)} features`) : tally.signal ? `${count(tally.signal)} of ${count(n)} features` : "No feature";
  return `${most} ${tally.signal ? verb("signal") : verbs.signal[0]} ${where}${rest ? `; ${rest}` : ""}.`;
}
// What the model as a whole does to the loss of these rows.
function modelLead() {
  const { before, after, explained } = data.quality[0];
  if (!known(before) || !known(after) || Math.abs(before - after) <= 1e-6 * Math.abs(before)) return "";
  const [who, them] = selection ? ["The models", "their"] : ["The model", "its"];
  return after > before
    ? ` ${who} ${selection ? "do" : "does"} harm: ${data.loss} per row is ${three(after)}, and ${three(before)} without ${them} trees.`
    : ` ${who} ${selection ? "bring" : "brings"} ${data.loss} per row from ${three(before)} to ${three(after)}${known(explained) ? `: ${percentOf(explained)} is explained` : ""}.`;
}
const percentOf = (share) => `${fixed(0)(100 * share)}%`;
// The two losses, and the features that changed most clearly.
function comparisonLead() {
  const [before, after] = data.quality.map((side) => side.after);
  const tally = (kind) => everyFeature.filter((k) => verdict(k) === kind).sort((a, b) => Math.abs(data.ranking.score[b]) - Math.abs(data.ranking.score[a]));
  const some = (kind, verbs) => {
    const all = tally(kind);
    if (!all.length) return [];
    return [` ${plural(all.length, "feature")} ${verbs[all.length === 1 ? 0 : 1]} (q ≤ ${data.level}): `,
      ...all.slice(0, 3).flatMap((k, i) => [i ? ", " : "", bdi(feature(k)), ` ${signed(three)(data.ranking.score[k])}`]), all.length > 3 ? ", …" : "", "."];
  };
  const clear = [...some("worse", ["pays less", "pay less"]), ...some("better", ["pays more", "pay more"])];
  return [`${data.loss[0].toUpperCase()}${data.loss.slice(1)} per row: ${three(before)} ${comparison.names[0]}, ${three(after)} ${comparison.names[1]} (${signed(three)(after - before)}).`,
    ...(clear.length ? clear : [` No feature changed clearly (q ≤ ${data.level}).`])];
}
function header() {
  hideOthers();
  const found = data.training_rows;
  $("lead").replaceChildren(...(comparison ? comparisonLead() : [(selection ? selectionLead() : featuresLead()) + modelLead()]));
  $("training-rows").hidden = !found;
  $("training-rows").textContent = found ? found.note : "";
  document.querySelectorAll(".kind").forEach((node) => { node.textContent = KIND; });
  $("notes").append(...data.notes.map((note) => el("li", {}, note)));
  $("confidence").textContent = `${Math.round(100 * data.confidence)}%`;
  document.querySelectorAll(".level").forEach((node) => { node.textContent = String(data.level); });
  $("unit").textContent = $("change-unit").textContent = data.unit;
  $("score-title").textContent = data.score_title.replace(/ ?\(centred\)/, "");
  $("table-call").textContent = selection ? "selector.to_frame()" : comparison ? "comparison.to_frame()" : `ti.importance(model, X, y${data.score === "signal" ? "" : `, score="${data.score}"`}).to_frame()`;
  $("call").textContent = data.call;
  $("call-copy").onclick = (event) => copy(data.call, event.target);
  $("contents").textContent = data.explorer ? `The file holds the values of ${plural(data.explorer.number.length, "row")}.` : "The file holds no row of the data.";
  $("written").textContent = data.written;
  pairs($("versions"), data.versions);
  if (!gainRank) return;
  const over = everyFeature.filter((k) => gainRank[k] <= Math.min(10, data.features.length / 2) && verdict(k) !== "signal" && data.used[k] > 0 && !selection);
  over.sort((a, b) => gainRank[a] - gainRank[b]).splice(5);
  if (over.length) $("stands-out").append(el("li", {}, `High by total gain, but not on the ${KIND} rows: `,
    over.flatMap((k, i) => [i ? ", " : null, bdi(feature(k)), ` (rank ${gainRank[k]}, ${verdict(k)})`]), "."));
}

// -- ranking ---------------------------------------------------------------------------------------------------
let ranked = data.ranking; // of all outputs, or of the one that the reader chose
function rankingColumns() {
  const ranking = ranked;
  const lows = everyFeature.map((k) => Math.min(0, ranking.score[k], ranking.ci_low[k] ?? 0));
  const highs = everyFeature.map((k) => Math.max(0, ranking.score[k], ranking.ci_high[k] ?? 0));
  const [low, high] = [Math.min(...lows), Math.max(...highs)];
  const place = scale(low, high);
  const rank = ranks(ranking.score);
  const holds = ranking.holds && ranking.holds.some(known) && ((k) => holdsText(ranking.holds[k], ranking.holds_std_error[k]));
  const bar = (k) => {
    const colour = COLOURS[verdict(k, ranking)] || "";
    const [from, to] = [place(Math.min(0, ranking.score[k])), place(Math.max(0, ranking.score[k]))];
    const [left, right] = [ranking.ci_low[k], ranking.ci_high[k]];
    const whiskers = !known(left) ? [] : [
      svg("line", { class: `whisker ${colour}`, x1: percent(place(left)), x2: percent(place(right)), y1: "50%", y2: "50%" }),
      ...[left, right].map((x) => svg("line", { class: `whisker ${colour}`, x1: percent(place(x)), x2: percent(place(x)), y1: "32%", y2: "68%" })),
    ];
    return drawing(`${feature(k)}: ${three(ranking.score[k])}`, known(left) ? `Interval from ${three(left)} to ${three(right)}` : "No interval",
      {}, zeroLine(place), svg("rect", { class: `bar ${colour}`, x: percent(from), width: percent(to - from), y: "15%", height: "70%" }), whiskers);
  };
  return [
    { label: "#", kind: "rank", up: true, cell: (k) => String(rank[k]), value: (k) => rank[k] },
    { label: "Feature", kind: "head", up: true, cell: named, value: feature },
    { label: comparison ? "Change with interval" : "Score with interval", kind: "drawn", cell: bar, axis: axis(low, high, place) },
    numeric(comparison ? "Change" : "Score", ranking.score, comparison ? signed(three) : three),
    numeric("Std. error", ranking.std_error, three, { short: "±" }),
    ...(holds ? [{ label: "Holds", kind: "number", wide: true, cell: holds, value: (k) => (holds(k) ? ranking.holds[k] : null) }] : []),
    ...(selection ? selectionColumns() : [numeric("q value", ranking.q_value, q, { short: "q", up: true }),
      { label: "Verdict", kind: "word", up: true, cell: (k) => word(k, ranking), value: (k) => verdict(k, ranking) }]),
    ...(comparison ? comparisonColumns() : []),
    ...(gainRank ? [numeric("Rank by total gain", gainRank, String, { up: true })] : []),
  ];
}
function showRanking(ranking) {
  ranked = ranking;
  const columns = rankingColumns();
  table({
    mount: $("ranking-table"), caption: "Click a heading to sort, a name for all about the feature.", columns, rows: everyFeature,
    sort: comparison ? 0 : 3, descending: !comparison, rowClass: (k) => (dull(k, ranking) ? "grey" : ""),
    search: $("ranking-search"), status: $("ranking-count"), foot: data.score === "loss" && ranking === data.ranking ? breakdownRows(columns.length) : [],
  });
}
// The table with six digits, best first, for spreadsheets and notebooks.
function exported(between, quote) {
  const rank = ranks(ranked.score), whole = ranked === data.ranking;
  const columns = {
    feature: data.features, ...ranked, score: comparison ? null : ranked.score, verdict: ranked.verdict && everyFeature.map((k) => verdict(k, ranked)), total_gain: data.gain,
    loss_breakdown: data.score !== "loss" && data.breakdown && whole ? data.breakdown.score : null, training: data.gap && whole ? data.gap.train : null,
  };
  const names = Object.keys(columns).filter((name) => Array.isArray(columns[name]) && columns[name].some(known));
  const order = everyFeature.slice().sort((a, b) => rank[a] - rank[b]);
  return [names, ...order.map((k) => names.map((name) => columns[name][k] ?? ""))].map((cells) => cells.map(quote).join(between)).join("\r\n");
}
const asCsv = () => exported(",", (cell) => (/[",\r\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : cell));
const asCells = () => exported("\t", (cell) => String(cell).replace(/[\t\r\n]/g, " "));
async function copy(words, button) {
  try { await navigator.clipboard.writeText(words); } catch { // not allowed here: the old way
    const area = el("textarea", {}, words);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const own = (button.dataset.own ||= button.textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = own; }, 1500);
}
function download(name, words) {
  const link = el("a", { href: URL.createObjectURL(new Blob(["\ufeff", words], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
function comparisonColumns() {
  const r = data.ranking;
  const holds = (when) => (k) => (clear(r[`holds_${when}_std_error`][k]) ? fixed(2)(r[`holds_${when}`][k]) : "?");
  const [before, after] = [holds("before"), holds("after")];
  return [
    ...["moved", "changed"].filter((name) => r[name]).map((name) => numeric(name[0].toUpperCase() + name.slice(1), r[name], signed(three))),
    ...["before", "after"].map((name, i) => numeric(`Off the loss ${comparison.names[i]}`, r[name], three, { short: comparison.names[i] })),
    { label: "Holds", kind: "number", wide: true, cell: (k) => (before(k) === "?" && after(k) === "?" ? "" : `${before(k)} → ${after(k)}`),
      value: (k) => (after(k) === "?" ? null : r.holds_after[k]) },
  ];
}
function selectionColumns() {
  const r = data.ranking;
  return [
    numeric("p value", r.p_value, q, { short: "p", up: true }), numeric("q value", r.q_value, q, { short: "q", up: true }),
    ...(r.adds ? [numeric("Adds to the others", r.adds, three, { short: "Adds" }), numeric("Std. error of adds", r.adds_std_error, three, { short: "±" }),
      numeric("q of adds", r.adds_q_value, q, { up: true })] : []),
    numeric("Kept", r.kept.map(Number), (kept) => (kept ? "yes" : "no")),
  ];
}
// The lines below the features: with them the scores add up to the fall of the loss.
function breakdownRows(width) {
  const a = data.breakdown;
  const line = (words, amount) => el("tr", {}, el("td", { class: "rank" }), el("th", { scope: "row", colspan: 2 }, words),
    el("td", { class: "number", "data-label": "Score" }, three(amount)), el("td", { colspan: width - 4 }));
  return [line("Base: the root values of the trees", a.base),
    line(`Together: from ${three(a.before)} before the first tree to ${three(a.after)} after the last`, a.total)];
}
function rankingSection() {
  const perOutput = data.outputs && data.outputs.rankings;
  $("ranking-output-label").hidden = !perOutput;
  if (perOutput) {
    $("ranking-output").append(el("option", { value: "all" }, "all outputs together"),
      ...data.outputs.names.map((name, i) => el("option", { value: i }, name)));
    $("ranking-output").onchange = (event) => showRanking(event.target.value === "all" ? data.ranking : perOutput[+event.target.value]);
  }
  $("ranking-note").textContent = data.gain ? "Total gain is what the model’s library reports, from the training rows." : "";
  $("ranking-copy").onclick = (event) => copy(asCells(), event.target);
  $("ranking-csv").onclick = () => download(`${selection ? "selection" : comparison ? "comparison" : "importance"}.csv`, asCsv());
  showRanking(data.ranking);
}

// -- one feature: every one has an address, #feature=name -----------------------------------------------------------
const pictures = []; // functions: feature -> a drawing, or null; sections add theirs
function featureSection() {
  function facts(k) {
    const [low, high] = [ranked.ci_low[k], ranked.ci_high[k]];
    const shown = rankingColumns().filter((column) => column.kind === "number" || column.kind === "word").map((column) => [column.label, column.cell(k)]);
    const a = data.score === "loss" ? null : data.breakdown;
    return [
      ["Rank", `${ranks(ranked.score)[k]} of ${count(data.features.length)}`], ...shown.slice(0, 2),
      known(low) ? [`${$("confidence").textContent} interval`, `${three(low)} to ${three(high)}`] : null,
      ...shown.slice(2).filter(([, cell]) => cell !== ""),
      a ? ["Effect on the loss", `${signed(three)(-a.score[k])} ± ${three(a.std_error[k])}`] : null,
      data.gap ? ["Score on training rows", three(data.gap.train[k])] : null,
      data.used ? ["Splits in the model", count(data.used[k])] : null,
    ].filter(Boolean);
  }
  function show() {
    const on = location.hash.startsWith("#feature=");
    $("feature").hidden = !on;
    if (!on) return;
    let name = location.hash.slice("#feature=".length);
    try { name = decodeURIComponent(name); } catch { /* not an address of ours */ }
    const k = data.features.indexOf(name);
    $("feature-h").replaceChildren(k < 0 ? "There is no feature called " : "", bdi(name));
    pairs($("feature-facts"), k < 0 ? [] : facts(k));
    $("feature-panels").replaceChildren(...(k < 0 ? [] : pictures.map((make) => make(k)).filter(Boolean)));
    const order = everyFeature.slice().sort((a, b) => ranked.score[b] - ranked.score[a]);
    for (const [id, by] of [["feature-previous", -1], ["feature-next", 1]]) {
      const other = k < 0 ? undefined : order[order.indexOf(k) + by];
      document.getElementById(id).hidden = other === undefined;
      if (other !== undefined) document.getElementById(id).href = address(other);
    }
    $("feature").scrollIntoView({ behavior: "instant" });
    $("feature-h").focus({ preventScroll: true });
  }
  addEventListener("hashchange", show);
  show();
}

// -- model quality ---------------------------------------------------------------------------------------------------
function qualitySection() {
  pairs($("facts"), data.facts);
  const sides = data.quality.filter((side) => known(side.before));
  if (selection) sides.forEach((side) => { side.rows = "Held-out in turn"; });
  if (data.training_rows) sides.forEach((side) => { if (side.rows === "Held-out") side.rows = "Scored"; });
  if (!sides.length) return;
  const heads = [comparison ? "Side" : "Rows", "Number", "Before the first tree", "After the last", "Explained"];
  const cell = (words, c) => el("td", { class: "number", "data-label": heads[c + 1] }, words);
  $("quality-table").replaceChildren(el("table", {}, el("caption", {}, `${data.loss[0].toUpperCase()}${data.loss.slice(1)} per row.`),
    el("thead", {}, el("tr", {}, heads.map((words, c) => el("th", { scope: "col", class: c ? "number" : "head", "data-sorts": "no" }, words)))),
    el("tbody", {}, sides.map((side) => el("tr", {}, el("th", { scope: "row", class: "head" }, side.rows),
      [count(side.n), three(side.before), three(side.after), known(side.explained) ? percentOf(side.explained) : "–"].map(cell))))));
}

// -- a waterfall: steps that lead from one number to another ---------------------------------------------------------
const STEPS = 12;
// first, last: {name, at}; steps: {name, by, dull}, the largest come first; n: how many there are, rest: the sum of those not given.
function waterfall(mount, { caption, heads, first, last, steps, n = steps.length, rest = 0, noun = "feature" }) {
  const ordered = steps.slice().sort((a, b) => Math.abs(b.by) - Math.abs(a.by));
  function draw(unfolded) {
    const visible = unfolded ? ordered.slice() : ordered.slice(0, STEPS);
    const others = n - visible.length;
    if (others > 0) visible.push({ by: ordered.slice(visible.length).reduce((sum, s) => sum + s.by, rest), name: `${plural(others, `other ${noun}`)}`, dull: ordered.some((s) => s.dull) });
    let at = first.at;
    const spans = visible.map((s) => { const from = at; at += s.by; return [from, at]; });
    const ends = spans.flat().concat(first.at, last.at);
    const place = scale(Math.min(...ends), Math.max(...ends));
    const number = formatter(ends.concat(largest(visible.map((s) => s.by))));
    const tick = (v) => svg("line", { class: "whisker", x1: percent(place(v)), x2: percent(place(v)), y1: "0%", y2: "100%" });
    const line = (kind, name, drawn, amount) => el("tr", { class: kind }, el("th", { scope: "row" }, name),
      el("td", { class: "drawn" }, drawn), el("td", { class: "number" }, amount));
    const total = ({ name, at: v }) => line("total", name, svg("svg", { "aria-hidden": "true" }, tick(v)), number(v));
    const rows = visible.map((s, p) => {
      const [a, b] = spans[p];
      return line("", s.name, svg("svg", { "aria-hidden": "true" },
        svg("rect", { class: `bar ${s.dull ? "dull" : s.by < 0 ? "down" : "up"}`, x: percent(place(Math.min(a, b))), y: "12%", height: "76%",
          width: percent(Math.max(0.3, Math.abs(place(b) - place(a)))) })), signed(number)(s.by));
    });
    const more = el("button", { type: "button", class: "more", "aria-expanded": String(unfolded) },
      unfolded ? `Show the ${STEPS} largest steps only` : `Show ${count(ordered.length)} steps`);
    more.hidden = ordered.length <= STEPS;
    more.onclick = () => { draw(!unfolded); mount.lastChild.focus(); };
    mount.replaceChildren(el("table", { class: "waterfall" }, el("caption", {}, caption),
      el("thead", {}, el("tr", {}, heads.map((words, i) => el("th", { scope: "col", class: ["head", "drawn", "number"][i], "data-sorts": "no" }, words)))),
      el("tbody", {}, total(first), rows, total(last))), more);
  }
  draw(false);
}
function fromLossToLoss() {
  const [[before, after], [first, last]] = [data.quality.map((side) => side.after), comparison.names];
  const steps = everyFeature.filter((k) => data.ranking.score[k] !== 0).map((k) => ({ name: named(k), by: data.ranking.score[k], dull: dull(k) }));
  if (comparison.harder) steps.push({ name: "harder targets: the loss before the first tree", by: comparison.harder, dull: true });
  if (comparison.base) steps.push({ name: "base: the root values of the trees", by: comparison.base, dull: true });
  waterfall($("breakdown-steps"), {
    caption: `${data.loss[0].toUpperCase()}${data.loss.slice(1)} per row, largest steps first.`, heads: ["Feature", "Step", "Loss per row"],
    first: { name: bdi(first), at: before }, last: { name: bdi(last), at: after }, steps, noun: "step",
  });
}
function breakdownSection() {
  if (!only("breakdown", comparison || (data.breakdown && data.score !== "loss" && !constant))) return;
  if (comparison) return fromLossToLoss();
  const a = data.breakdown;
  $("breakdown-loss").textContent = a.loss;
  const steps = everyFeature.filter((k) => a.score[k] !== 0).map((k) => ({ name: named(k), by: -a.score[k] }));
  if (a.base) steps.push({ name: "base: the root values of the trees", by: -a.base });
  waterfall($("breakdown-steps"), {
    caption: `From ${three(a.before)} before the first tree to ${three(a.after)} after the last, largest steps first.`, heads: ["Feature", "Step", "Loss per row"],
    first: { name: "Before the first tree", at: a.before }, last: { name: "After the last", at: a.after }, steps, noun: "step",
  });
}

// -- segments: features down, segments across -----------------------------------------------------------------------
function segmentsSection() {
  const s = data.segments;
  if (!only("segments", s)) return;
  const top = s.features.slice(0, FOLD);
  const hidden = [s.names.length < s.all ? `The ${count(s.names.length)} largest of ${count(s.all)} segments are shown.` : "", top.length < data.features.length ? `The ${count(top.length)} best features are shown; the others by their names.` : ""];
  $("segments-shown").textContent = hidden.join(" ").trim();
  const cell = (i, j) => el("td", { class: `number segment ${s.q[i][j] <= data.level ? (s.difference[i][j] < 0 ? "bad" : "good") : "dull"}`, "data-label": s.names[i],
    title: `${signed(three)(s.difference[i][j])} ± ${three(s.std_error[i][j])} against the other rows, q ${q(s.q[i][j])}` }, three(s.score[i][j]));
  const head = (...words) => el("th", { scope: "col", class: "number", "data-sorts": "no" }, words);
  const heads = [el("th", { scope: "col", class: "head", "data-sorts": "no" }, "Feature"), ...s.names.map((name, i) => head(bdi(name, "label"), el("br"), plural(s.n[i], "row"))), head("Same")];
  $("segments-table").replaceChildren(el("table", {}, el("caption", {}, `${data.score_title}: ${data.unit}.`), el("thead", {}, el("tr", {}, heads)),
    el("tbody", {}, top.map((k, j) => el("tr", {}, el("th", { scope: "row", class: "head" }, named(k)), s.names.map((_, i) => cell(i, j)), el("td", { class: "number", "data-label": "Same" }, q(s.same[j])))))));
  pictures.push((k) => {
    const j = s.features.indexOf(k);
    return j < 0 ? null : el("figure", { class: "panel" }, el("figcaption", {}, "In the segments"),
      el("table", {}, el("caption", {}, `Score, and its difference from the other rows (q ≤ ${data.level} in colour).`), el("tbody", {}, s.names.map((name, i) =>
        el("tr", {}, el("th", { scope: "row" }, bdi(name, "label")), cell(i, j), el("td", { class: "number" }, `${signed(three)(s.difference[i][j])} ± ${three(s.std_error[i][j])}`))))));
  });
}

// -- does what was learnt hold? ------------------------------------------------------------------------------------
function legend(mount, entries) {
  mount.append(...entries.filter(Boolean).map(([kind, words]) => el("li", {}, svg("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" },
    kind.startsWith("point") || kind === "rows" ? svg("path", { class: kind, d: "M16 5h0" }) : svg("line", { class: kind, x1: 0, x2: 32, y1: 5, y2: 5 })), words)));
}
function effectsSection() {
  const effects = data.effects || [];
  if (!only("effects", effects.length)) return;
  $("effects-unit").textContent = data.margin_unit;
  const dots = effects.map((e) => unpack(e.dots[0], e.dots[1], e.n));
  document.querySelectorAll(".dotted").forEach((node) => { node.hidden = effects[0].n === 0; });
  if (effects[0].n && effects[0].n < data.quality[0].n) $("effects-rows").textContent = `${count(effects[0].n)} rows, drawn at random, are shown as dots; means and lines are of all rows.`;
  // The limits go by means and lines: rows spread far more, and those outside are not drawn.
  function limits(means, others, room) {
    const halves = means.high.map((h, i) => (known(h) ? h - means.residual[i] : null)).filter(known).sort((a, b) => a - b);
    const marks = means.residual.concat(others);
    const [low, high] = [Math.min(...marks), Math.max(...marks)];
    const pad = room * (high - low) + (halves.length ? halves[Math.floor(halves.length / 2)] : 0) || 1;
    return [low - pad, high + pad];
  }
  function picture(title, words, low, high, from, to, draw) {
    const y = (v) => 100 - (100 * (Math.min(Math.max(v, low), high) - low)) / (high - low);
    const x = (v) => (to > from ? 3 + (94 * (v - from)) / (to - from) : 50);
    const at = (v, w) => `${x(v).toFixed(1)} ${y(w).toFixed(1)}`;
    const line = (kind, points) => svg("path", { class: kind, d: points.map(([v, w], i) => `${i ? "L" : "M"}${at(v, w)}`).join("") });
    const mark = (kind, points) => svg("path", { class: kind, d: points.map(([v, w]) => `M${at(v, w)}h0`).join("") });
    const bars = (means, places, which) => svg("path", { class: "interval",
      d: which.filter((i) => known(means.low[i])).map((i) => `M${at(places[i], means.low[i])}L${at(places[i], means.high[i])}`).join("") });
    return drawing(title, words, { viewBox: "0 0 100 100", preserveAspectRatio: "none" },
      svg("line", { class: "zero", x1: 0, x2: 100, y1: y(0), y2: y(0) }), draw({ line, mark, bars }));
  }
  function panel(e, number) {
    const name = feature(e.feature);
    const part = e.output ? ` for “${e.output}”` : "";
    const finding = clear(e.std_error) ? `${minus((100 * e.holds).toFixed(0))} ± ${(100 * e.std_error).toFixed(0)}% of the effect${part} holds`
      : `how much of the effect${part} holds is not clear`;
    const [from, to] = e.span;
    const [low, high] = limits(e.rows, [from, to, e.holds * from, e.holds * to], 0.5);
    const inside = (i) => dots[number][1][i] >= low && dots[number][1][i] <= high;
    const every = e.rows.at.map((_, i) => i);
    const format = formatter([low, high, from, to], 2);
    const rows = picture(`${name}: contribution and what is left`, finding, low, high, from, to, ({ line, mark, bars }) => [
      mark("rows", dots[number][0].flatMap((v, i) => (inside(i) ? [[v, dots[number][1][i]]] : []))),
      line("curve fit", [[from, e.holds * from], [to, e.holds * to]]), line("curve right", [[from, from], [to, to]]),
      bars(e.rows, e.rows.at, every), mark("point", every.map((i) => [e.rows.at[i], e.rows.residual[i]]))]);
    const drawn = [el("div", {}, rows, el("div", { class: "ends", "aria-hidden": "true" },
      el("span", {}, `contribution ${format(from)} to ${format(to)}`), el("span", {}, `up ${format(low)} to ${format(high)}`)))];
    if (e.values) drawn.push(byValue(e, name, finding));
    return el("figure", { class: "panel" }, el("figcaption", {}, named(e.feature), el("br"), el("span", { class: "note" }, finding)),
      el("div", { class: "pictures" }, drawn));
  }
  function byValue(e, name, finding) {
    const v = e.values;
    const every = v.at.map((_, i) => i);
    const there = every.filter((i) => known(v.at[i]));
    const gaps = every.filter((i) => !known(v.at[i]));
    const last = Math.max(...there.map((i) => v.at[i]), 0);
    const first = e.names.length ? 0 : Math.min(...there.map((i) => v.at[i]), last);
    const places = v.at.map((at) => at ?? last + (e.names.length ? 1 : 0.1 * (last - first) || 1));
    const [from, to] = e.names.length ? [-0.5, Math.max(...places) + 0.5] : [first, Math.max(...places)];
    const [low, high] = limits(v, v.contribution, 0.1);
    const across = formatter(there.map((i) => v.at[i]), 3);
    const format = formatter([low, high], 2);
    const level = (i) => [[places[i] - (to - from) / 40, v.contribution[i]], [places[i] + (to - from) / 40, v.contribution[i]]];
    const single = e.names.length ? every : gaps;
    const drawn = picture(`${name}: effect over its values`, finding, low, high, from, to, ({ line, mark, bars }) => [
      e.names.length ? null : line("curve", there.map((i) => [places[i], v.contribution[i]])), ...single.map((i) => line("curve", level(i))),
      bars(v, places, every), mark("point", there.map((i) => [places[i], v.residual[i]])), mark("point gap", gaps.map((i) => [places[i], v.residual[i]]))]);
    const ends = el("div", { class: "ends", "aria-hidden": "true" },
      el("span", {}, e.names.length || !there.length ? "" : `values ${across(first)} to ${across(last)}`), el("span", {}, `up ${format(low)} to ${format(high)}`));
    const labels = e.names.length ? el("div", { class: "levels" }, e.names.concat(gaps.length ? [""] : []).map((label) => el("span", { title: label }, bdi(label, "value")))) : null;
    return el("div", {}, drawn, labels, ends);
  }
  legend($("effects-legend"), [effects.some((e) => e.n) && ["rows", "a row"], ["point", "mean of similar rows"], ["curve fit", "line that fits the rows best"], ["curve right", "the model is right"],
    ["curve", "mean contribution"], effects.some((e) => e.values && e.values.at.includes(null)) && ["point gap", "missing values"]]);
  $("effects-panels").replaceChildren(...effects.map(panel));
  pictures.push((k) => { const i = effects.findIndex((e) => e.feature === k); return i < 0 ? null : panel(effects[i], i); });
  const bins = effects.flatMap((e) => (e.values ? e.values.at.map((_, i) => [e, i]) : []));
  const column = (name) => bins.map(([e, i]) => e.values[name][i]);
  const number = formatter(column("contribution").concat(column("residual")));
  const place = ([e, i]) => (!known(e.values.at[i]) ? "missing" : e.names.length ? e.names[e.values.at[i]] : single(e.values.at[i]));
  table({
    mount: $("effects-table"), caption: "Means over rows with similar values.", rows: bins.map((_, i) => i), sort: 0, descending: false,
    columns: [
      { label: "Feature", kind: "head", up: true, cell: (b) => named(bins[b][0].feature), value: (b) => effects.indexOf(bins[b][0]) },
      { label: "Values", kind: "number", cell: (b) => bdi(text(place(bins[b])), "value") },
      numeric("Contribution", column("contribution"), number), numeric("Left without it", column("residual"), number),
      numeric("From", column("low"), number), numeric("To", column("high"), number),
    ],
  });
}

// -- training against held-out ------------------------------------------------------------------------------------
function optimismSection() {
  if (!only("optimism", data.gap)) return;
  const { train, gap, std_error: error } = data.gap;
  const valid = data.ranking.score;
  const all = train.concat(valid, 0);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const place = scale(low, high);
  const number = three;
  const dumbbell = (k) => drawing(feature(k), `Training ${number(train[k])}, ${KIND} ${number(valid[k])}`, {}, zeroLine(place),
    svg("line", { class: "link", x1: percent(place(valid[k])), x2: percent(place(train[k])), y1: "50%", y2: "50%" }),
    svg("circle", { class: "ring", cx: percent(place(train[k])), cy: "50%", r: 4.5 }),
    svg("circle", { class: `dot ${COLOURS[verdict(k)] || ""}`, cx: percent(place(valid[k])), cy: "50%", r: 4.5 }));
  table({
    mount: $("optimism-table"), caption: `Score per row on training and ${KIND} rows, and the gap between them.`, rows: everyFeature, sort: 2,
    columns: [
      { label: "Feature", kind: "head", up: true, cell: named, value: feature },
      { label: `Training ○ and ${KIND} ●`, kind: "drawn", cell: dumbbell, axis: axis(low, high, place) },
      numeric("Training", train, number), numeric(data.training_rows ? "Scored" : "Held-out", valid, number),
      numeric("Gap", gap, number), numeric("Std. error of the gap", error, number, { short: "±" }),
    ],
    rowClass: (k) => (dull(k) ? "grey" : ""),
    search: $("optimism-search"), status: $("optimism-count"),
  });
}

// -- curves by round ----------------------------------------------------------------------------------------------
function unpack(base64, units, width) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return units.map((unit, row) => Array.from({ length: width }, (_, i) => unit * view.getInt16(2 * (row * width + i), true)));
}
function roundsSection() {
  const r = data.rounds;
  if (!only("rounds", r && !constant)) return;
  const valid = unpack(r.valid, r.valid_unit, r.at.length);
  const train = r.train ? unpack(r.train, r.train_unit, r.at.length) : null;
  const number = three;
  const row = new Map(r.features.map((k, i) => [k, i])); // feature -> its curve
  const [peak, best, fall] = [r.peak, r.best, r.fall].map((values) => everyFeature.map((k) => values[row.get(k)]));
  // A fall within the standard error of the score is left unmarked: the highest point of noise is somewhere, too.
  const falls = (k) => fall[k] > (data.ranking.std_error[k] ?? Infinity);
  let many = 12;
  function panel(k) {
    const i = row.get(k);
    const lines = train ? [train[i], valid[i]] : [valid[i]];
    const [low, high] = [Math.min(0, ...lines.flat()), Math.max(0, ...lines.flat())];
    const y = (v) => (high > low ? 96 - (92 * (v - low)) / (high - low) : 50);
    const x = (at) => (100 * at) / r.n;
    const path = (line) => line.map((v, p) => `${p ? "L" : "M"}${x(r.at[p]).toFixed(2)} ${y(v).toFixed(2)}`).join("");
    const story = data.used[k] === 0 ? "not used" : falls(k)
      ? `peak in round ${count(peak[k])}, then down by ${number(fall[k])}` : `ends at ${number(best[k] - fall[k])}`;
    return el("figure", { class: "panel" },
      el("figcaption", {}, named(k), el("br"), el("span", { class: "note" }, story)),
      drawing(`${feature(k)} by round`, story, { viewBox: "0 0 100 100", preserveAspectRatio: "none" },
        svg("line", { class: "zero", x1: 0, x2: 100, y1: y(0), y2: y(0) }),
        train && svg("path", { class: "curve train", d: path(train[i]) }),
        falls(k) ? svg("line", { class: "peak", x1: x(peak[k]), x2: x(peak[k]), y1: 0, y2: 100 }) : null,
        svg("path", { class: `curve ${verdict(k) === "signal" ? "" : "dull"}`, d: path(valid[i]) })),
      el("div", { class: "ends", "aria-hidden": "true" }, el("span", {}, `0 to ${count(r.n)} rounds`),
        el("span", {}, `${number(low)} to ${number(high)}`)));
  }
  function draw() {
    const words = $("rounds-search").value.trim().toLowerCase();
    const order = {
      score: (a, b) => data.ranking.score[b] - data.ranking.score[a],
      fall: (a, b) => fall[b] - fall[a],
      name: (a, b) => feature(a).localeCompare(feature(b)),
    }[$("rounds-order").value];
    const found = r.features.filter((k) => feature(k).toLowerCase().includes(words)).sort(order);
    $("rounds-panels").replaceChildren(...found.slice(0, many).map(panel));
    $("rounds-more").hidden = found.length <= many;
    $("rounds-more").textContent = `Show ${Math.min(12, found.length - many)} more`;
    $("rounds-count").textContent = `${count(Math.min(many, found.length))} of ${plural(found.length, "feature")} drawn`;
  }
  $("rounds-order").onchange = draw;
  $("rounds-search").oninput = () => { many = 12; draw(); };
  $("rounds-more").onclick = () => { many += 12; draw(); };
  legend($("rounds-legend"), [["curve", KIND], train && ["curve train", "training"], ["curve dull", `${KIND}, no signal`], ["peak", "where it turns down"]]);
  pictures.push((k) => (row.has(k) ? panel(k) : null));
  draw();
  table({
    mount: $("rounds-table"), caption: "Where each curve is highest and how far it falls until the last round.", rows: r.features, sort: 3,
    columns: [
      { label: "Feature", kind: "head", up: true, cell: named, value: feature },
      numeric("Peak in round", peak, count), numeric("Score at the peak", best, number),
      numeric("Final score", best.map((b, k) => (known(b) ? b - fall[k] : b)), number), numeric("Fall", fall, number),
    ],
  });
}

// -- single rows -----------------------------------------------------------------------------------------------------
const MOST_LISTED = 500;
function rowsSection() {
  const x = data.explorer;
  if (!only("rows", x)) return;
  const everyRow = x.number.map((_, i) => i);
  const first = (i) => (x.prediction || x.margin)[i][best(i)];
  // Of several outputs the one with the largest margin is what the model says.
  const best = (i) => x.margin[i].reduce((top, m, o, all) => (m > all[top] ? o : top), 0);
  const outputName = (i, o) => (x.outputs ? data.outputs.names[x.outputs[i][o]] : "");
  const predicted = (i) => (x.outputs && x.prediction ? `${outputName(i, best(i))} (${single(first(i))})` : single(first(i)));
  const orders = { number: ["row number", (i) => i], high: ["highest prediction", (i) => -first(i)], low: ["lowest prediction", first] };
  if (x.loss) orders.loss = ["largest loss", (i) => -x.loss[i]];
  $("row-order").append(...Object.entries(orders).map(([key, [words]]) => el("option", { value: key }, words)));
  $("rows-scale").textContent = x.prediction ? "Steps are on the model’s raw scale (the margin), before it becomes a prediction." : "";
  $("rows-sample").textContent = x.number.length < x.n
    ? `${count(x.number.length)} of the ${count(x.n)} ${KIND} rows, drawn at random, are in this file.`
    : `All ${plural(x.n, `${KIND} row`)} are in this file.`;
  $("row-list-label").textContent = x.label ? "Number · label · prediction" : "Number · prediction";
  $("rows-method").textContent = x.method;
  let listed = everyRow;
  let current = 0;

  function list() {
    const words = $("row-search").value.trim().toLowerCase();
    const value = orders[$("row-order").value][1];
    const matches = (i) => [x.number[i], x.label && x.label[i], x.actual[i]].some((t) => known(t) && String(t).toLowerCase().includes(words));
    listed = everyRow.filter((i) => !words || matches(i)).sort((a, b) => value(a) - value(b));
    $("row-list").replaceChildren(...listed.slice(0, MOST_LISTED).map((i) => el("option", { value: i },
      `${x.number[i]}${x.label ? ` · ${text(x.label[i])}` : ""} · ${predicted(i)}`)));
    $("row-count").textContent = `${plural(listed.length, "row")}${listed.length > MOST_LISTED ? `, the first ${MOST_LISTED} listed` : ""}`;
  }
  function pick(i, output = null) {
    current = i;
    const o = output ?? best(i);
    $("row-number").value = x.number[i];
    $("row-list").value = String(i);
    $("row-title").replaceChildren(`Row ${count(x.number[i])}`, ...(x.label ? [", labelled ", bdi(text(x.label[i]), "label")] : []));
    pairs($("row-facts"), [
      ["Prediction", [bdi(predicted(i), "label"), x.prediction && !x.outputs ? ` (margin ${single(x.margin[i][0])})` : null]],
      ["Actual", bdi(shown(x.actual[i]), "label")],
      ...(x.loss ? [["Loss", single(x.loss[i])]] : []),
    ]);
    $("row-output-label").hidden = !x.outputs;
    if (x.outputs) {
      $("row-output").replaceChildren(...x.outputs[i].map((_, k) => el("option", { value: k, selected: k === o },
        `${outputName(i, k)} (${single((x.prediction || x.margin)[i][k])})`)));
    }
    split(i, o);
  }
  function split(i, o) {
    const what = x.prediction ? "Margin" : "Prediction";
    waterfall($("row-waterfall"), {
      caption: `From the base value to the ${what.toLowerCase()}, largest steps first`, heads: ["Feature and its value", "Step", x.prediction ? "Margin" : "Amount"],
      first: { name: "Base value", at: x.base[i][o] }, last: { name: what, at: x.margin[i][o] }, n: data.features.length, rest: x.rest[i][o],
      steps: x.feature[i].map((k, p) => ({ by: x.contribution[i][o][p], name: [named(k),
        x.value ? el("span", { class: "value" }, " = ", bdi(shown(x.value[i][p]), "value")) : null] })),
    });
  }
  function step(by) {
    const here = listed.indexOf(current);
    if (listed.length) pick(listed[here < 0 ? 0 : (here + by + listed.length) % listed.length]);
  }
  $("row-previous").onclick = () => step(-1);
  $("row-next").onclick = () => step(1);
  $("row-order").onchange = $("row-search").oninput = () => { list(); if (listed.length) pick(listed[0]); };
  $("row-list").onchange = (event) => pick(+event.target.value);
  $("row-output").onchange = (event) => pick(current, +event.target.value);
  $("row-number").max = x.n - 1;
  $("row-number").onchange = (event) => {
    const wanted = Number(event.target.value);
    const nearest = everyRow.reduce((top, i) => (Math.abs(x.number[i] - wanted) < Math.abs(x.number[top] - wanted) ? i : top), 0);
    pick(nearest);
    $("row-count").textContent = x.number[nearest] === wanted ? "" : `Row ${wanted} is not in this file; the nearest one is ${x.number[nearest]}.`;
  };
  list();
  pick(0);
}

header();
rankingSection();
qualitySection();
breakdownSection();
segmentsSection();
effectsSection();
optimismSection();
roundsSection();
rowsSection();
featureSection();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
