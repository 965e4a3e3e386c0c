
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
const are = (n) => (n === 1 ? "is" : "are");
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const minus = (text) => text.replace("-", "−");
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
const single = (x) => (typeof x === "number" ? minus(x.toLocaleString("en", { maximumSignificantDigits: 4 })) : text(x));
const text = (x) => (known(x) ? String(x) : "missing");
// A value as it stands in the data: 2024 is a year, not 2,024.
const shown = (x) => (typeof x === "number" ? minus(String(x)) : text(x));
const q = (x) => (!known(x) ? "–" : x < 0.001 ? "<0.001" : x.toFixed(3));
const clear = (error) => known(error) && error < 0.5; // else holds is left blank
const holdsText = (holds, error) => (clear(error) ? `${fixed(2)(holds)} ± ${error.toFixed(2)}` : "");
const signed = (format) => (x) => (x > 0 ? "+" : "") + format(x);

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
    const cells = columns.map((column) => el(column.kind === "head" ? "th" : "td", {
      class: column.kind, scope: column.kind === "head" ? "row" : null,
      "data-label": column.kind === "number" ? column.short || column.label : null,
    }, column.cell(k)));
    return el("tr", {}, cells);
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
    headers.forEach((header, c) => (c === state.sort
      ? header.setAttribute("aria-sort", state.descending ? "descending" : "ascending")
      : header.removeAttribute("aria-sort")));
    more.hidden = found.length <= FOLD;
    more.textContent = state.all ? `Show the first ${FOLD} only` : `Show all ${count(found.length)}`;
    more.setAttribute("aria-expanded", String(state.all));
    if (status) status.textContent = words ? `${plural(found.length, noun)} of ${count(rows.length)}` : plural(rows.length, noun);
  }
  more.addEventListener("click", () => { state.all = !state.all; draw(); });
  if (search) search.oninput = () => { state.query = search.value.trim(); draw(); };
  state.query = search ? search.value.trim() : "";
  draw();
  mount.replaceChildren(el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, headers)), body,
    foot.length ? el("tfoot", {}, foot) : null), more);
}

function axis(low, high, place) {
  const rough = (high - low) / 3 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
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
const KIND = data.training_rows ? "scored" : "held-out"; // rows that the model has seen are not held out
const VERDICTS = ["signal", "unclear", "harmful"]; // the order of the numbers in the data
const selection = data.selection || null; // of a page about features to keep
const verdict = (k, ranking = data.ranking) => (selection ? (selection.kept[k] ? "signal" : "dropped")
  : data.used[k] === 0 ? "unused" : VERDICTS[ranking.verdict[k]]);
const TAGS = { dropped: ["not kept", "not kept by the selection"], unused: ["unused", "not used by the model"], harmful: ["harmful", "makes predictions worse"], unclear: ["unclear", "could be noise"] };
const COLOURS = { dropped: "dull", unused: "dull", harmful: "bad", unclear: "dull", signal: "" };
const named = (k, ranking) => {
  const tag = TAGS[verdict(k, ranking)];
  return [bdi(feature(k)), tag ? el("span", { class: "tag", title: tag[1], role: "note", "aria-label": tag[1] }, tag[0]) : null];
};
function ranks(values) {
  const out = [];
  everyFeature.slice().sort((a, b) => values[b] - values[a]).forEach((k, i) => { out[k] = i + 1; });
  return out;
}
const gainRank = data.gain && ranks(data.gain);

// -- header ----------------------------------------------------------------------------------------------------
function pairs(mount, list) {
  mount.replaceChildren(...list.flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, value)]));
}
function hideOthers() {
  const own = { score: data.score, only: selection ? "selection" : "model", test: selection && selection.test, adds: selection && selection.adds.adds ? "yes" : "no" };
  document.querySelectorAll("[data-score], [data-only], [data-test], [data-adds]").forEach((node) => {
    node.hidden = Object.keys(own).some((kind) => kind in node.dataset && node.dataset[kind] !== own[kind]);
  });
}
function selectionLead() {
  const n = selection.kept.filter(Boolean).length;
  $("lead").textContent = `${count(n)} of ${plural(data.features.length, "feature")} ${are(n)} kept ${selection.rule}.`;
  selection.groups.forEach((group) => $("stands-out").append(el("li", {}, "Tested as one, too alike to say which it is: ",
    group.flatMap((name, i) => [i ? ", " : null, bdi(name)]))));
}
function header() {
  hideOthers();
  const tally = { signal: 0, unclear: 0, harmful: 0, unused: 0, dropped: 0 };
  everyFeature.forEach((k) => { tally[verdict(k)] += 1; });
  const rest = [
    tally.unclear && `${count(tally.unclear)} ${are(tally.unclear)} unclear`,
    tally.harmful && `${count(tally.harmful)} ${data.score === "loss" ? "raised it" : "made the predictions worse"}`,
    tally.unused && `${count(tally.unused)} ${are(tally.unused)} not used`,
  ].filter(Boolean).join(", ");
  const found = data.training_rows;
  const a = data.breakdown;
  const fall = a ? ` In all, it ${a.total < 0 ? "rose" : "fell"} from ${single(a.before)} to ${single(a.after)} per row.` : "";
  const all = `${count(tally.signal)} of ${plural(data.features.length, "feature")}`;
  const verb = data.score === "loss" ? "lowered the loss" : tally.signal === 1 ? "carries signal" : "carry signal";
  $("lead").textContent = found
    ? `${all} have a score above 0 (q ≤ ${data.level}) on ${found.rows}. On training rows noise has one too, so this is not what new rows would show.`
    : `${all} ${verb} on the held-out rows (q ≤ ${data.level})${rest ? `; ${rest}` : ""}.${fall}`;
  $("training-rows").hidden = !found;
  $("training-rows").textContent = found ? found.note : "";
  document.querySelectorAll(".kind").forEach((node) => { node.textContent = KIND; });
  $("notes").append(...data.notes.map((note) => el("li", {}, note)));
  $("confidence").textContent = `${Math.round(100 * data.confidence)}%`;
  $("level").textContent = String(data.level);
  $("unit").textContent = data.unit;
  $("score-title").textContent = data.score_title;
  if (selection) selectionLead();
  $("table-call").textContent = selection ? selection.table : `ti.importance(model, X, y${data.score === "signal" ? "" : `, score="${data.score}"`}).to_frame()`;
  $("call").textContent = data.call;
  $("written").textContent = data.written;
  pairs($("facts"), data.facts);
  pairs($("versions"), data.versions);
  if (!gainRank) return;
  const over = everyFeature.filter((k) => gainRank[k] <= Math.min(10, data.features.length / 2) && verdict(k) !== "signal" && data.used[k] > 0);
  over.sort((a, b) => gainRank[a] - gainRank[b]).slice(0, 3).forEach((k) => {
    $("stands-out").append(el("li", {}, `Total gain ranks `, bdi(feature(k)), ` number ${gainRank[k]}; on the ${KIND} rows it ` +
      (verdict(k) === "harmful" ? "made the predictions worse." : "could be noise.")));
  });
}

// -- ranking ---------------------------------------------------------------------------------------------------
function showRanking(ranking) {
  const lows = everyFeature.map((k) => Math.min(0, ranking.score[k], ranking.ci_low[k] ?? 0));
  const highs = everyFeature.map((k) => Math.max(0, ranking.score[k], ranking.ci_high[k] ?? 0));
  const [low, high] = [Math.min(...lows), Math.max(...highs)];
  const place = scale(low, high);
  const score = formatter(ranking.score.concat(ranking.std_error), 5);
  const gain = data.gain && formatter(data.gain);
  const rank = ranks(ranking.score);
  const holds = ranking.holds && ranking.holds.some(known) && ((k) => holdsText(ranking.holds[k], ranking.holds_std_error[k]));
  const bar = (k) => {
    const dull = COLOURS[verdict(k, ranking)];
    const [from, to] = [place(Math.min(0, ranking.score[k])), place(Math.max(0, ranking.score[k]))];
    const [left, right] = [ranking.ci_low[k], ranking.ci_high[k]];
    const whiskers = !known(left) ? [] : [
      svg("line", { class: `whisker ${dull}`, x1: percent(place(left)), x2: percent(place(right)), y1: "50%", y2: "50%" }),
      ...[left, right].map((x) => svg("line", { class: `whisker ${dull}`, x1: percent(place(x)), x2: percent(place(x)), y1: "32%", y2: "68%" })),
    ];
    return drawing(`${feature(k)}: ${score(ranking.score[k])}`, known(left) ? `Interval from ${score(left)} to ${score(right)}` : "No interval",
      {}, zeroLine(place), svg("rect", { class: `bar ${dull}`, x: percent(from), width: percent(to - from), y: "15%", height: "70%" }), whiskers);
  };
  const columns = [
    { label: "#", kind: "rank", up: true, cell: (k) => String(rank[k]), value: (k) => rank[k] },
    { label: "Feature", kind: "head", up: true, cell: (k) => named(k, ranking), value: feature },
    { label: "Score with interval", kind: "drawn", cell: bar, axis: axis(low, high, place) },
    numeric("Score per row", ranking.score, score, { short: "Score" }),
    numeric("Std. error", ranking.std_error, score, { short: "±" }),
    ...(selection ? selectionColumns() : [numeric("q value", ranking.q, q, { short: "q", up: true })]),
    ...(holds ? [{ label: "Holds", kind: "number", wide: true, cell: holds, value: (k) => (holds(k) ? ranking.holds[k] : null) }] : []),
    ...(gain ? [numeric("Total gain", data.gain, gain), numeric("Gain rank", gainRank, String, { up: true })] : []),
  ];
  table({
    mount: $("ranking-table"), caption: `Score of each feature on the ${KIND} rows. Click a heading to sort.`, columns, rows: everyFeature,
    sort: 3, rowClass: (k) => (["unclear", "unused", "dropped"].includes(verdict(k, ranking)) ? "grey" : ""),
    search: $("ranking-search"), status: $("ranking-count"), foot: ranking === data.ranking ? breakdownRows(score, columns.length) : [],
  });
}
function selectionColumns() {
  const { adds, p } = selection;
  return [
    numeric("p value", p, q, { short: "p", up: true }),
    numeric("q value", selection.q, q, { short: "q", up: true }),
    ...(adds.adds ? [numeric("Adds to the others", adds.adds, formatter(adds.adds), { short: "Adds" }), numeric("Std. error of adds", adds.adds_std_error, formatter(adds.adds), { short: "±" }),
      numeric("q of adds", adds.adds_q_value, q, { up: true })] : []),
    numeric("Kept", selection.kept.map(Number), (kept) => (kept ? "yes" : "no")),
  ];
}
// The lines below the features: with them the scores add up to the fall of the loss.
function breakdownRows(number, width) {
  const a = data.breakdown;
  if (!a) return [];
  const line = (words, amount) => el("tr", {}, el("td", { class: "rank" }), el("th", { scope: "row", colspan: 2 }, words),
    el("td", { class: "number", "data-label": "Score" }, number(amount)), el("td", { colspan: width - 4 }));
  return [line("Base: the root values of the trees", a.base),
    line(`Together: the loss per row, ${single(a.before)} before the first tree, ${single(a.after)} after the last`, a.total)];
}
function rankingSection() {
  const perOutput = data.outputs && data.outputs.rankings;
  $("ranking-output-label").hidden = !perOutput;
  if (perOutput) {
    $("ranking-output").append(el("option", { value: "all" }, "all outputs together"),
      ...data.outputs.names.map((name, i) => el("option", { value: i }, name)));
    $("ranking-output").onchange = (event) => showRanking(event.target.value === "all" ? data.ranking : perOutput[+event.target.value]);
  }
  $("ranking-note").textContent = selection ? "" : data.gain
    ? "Total gain is what the model’s library reports: a sum over the training rows, before the learning rate."
    : "This model does not store the gains of its splits, so there is no total gain to show beside the score.";
  showRanking(data.ranking);
}

// -- does what was learnt hold? ------------------------------------------------------------------------------------
function legend(mount, entries) {
  mount.append(...entries.filter(Boolean).map(([kind, words]) => el("li", {}, svg("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" },
    kind.startsWith("point") || kind === "rows" ? svg("path", { class: kind, d: "M16 5h0" }) : svg("line", { class: kind, x1: 0, x2: 32, y1: 5, y2: 5 })), words)));
}
function effectsSection() {
  const effects = data.effects;
  if (!effects) return;
  $("effects-none").hidden = effects.length > 0;
  $("effects-more").hidden = effects.length === 0;
  $("effects-unit").textContent = data.margin_unit;
  const dots = effects.map((e) => unpack(e.dots[0], e.dots[1], e.n));
  if (effects.length && effects[0].n < data.n_rows) $("effects-rows").textContent = effects[0].n ? `${count(effects[0].n)} rows, drawn at random, are shown as dots; means and lines are of all rows.` : "Single rows are not in this file.";
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
    const part = e.output ? ` for ${e.output}` : "";
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
    const pictures = [el("div", {}, rows, el("div", { class: "ends", "aria-hidden": "true" },
      el("span", {}, `contribution ${format(from)} to ${format(to)}`), el("span", {}, `up ${format(low)} to ${format(high)}`)))];
    if (e.values) pictures.push(byValue(e, name, finding));
    return el("figure", { class: "panel" }, el("figcaption", {}, bdi(name), el("br"), el("span", { class: "note" }, finding)),
      el("div", { class: "pictures" }, pictures));
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
  const bins = effects.flatMap((e) => (e.values ? e.values.at.map((_, i) => [e, i]) : []));
  const column = (name) => bins.map(([e, i]) => e.values[name][i]);
  const number = formatter(column("contribution").concat(column("residual")));
  const place = ([e, i]) => (!known(e.values.at[i]) ? "missing" : e.names.length ? e.names[e.values.at[i]] : single(e.values.at[i]));
  table({
    mount: $("effects-table"), caption: "Means over rows with similar values.", rows: bins.map((_, i) => i), sort: 0, descending: false,
    columns: [
      { label: "Feature", kind: "head", up: true, cell: (b) => [bdi(feature(bins[b][0].feature))], value: (b) => effects.indexOf(bins[b][0]) },
      { label: "Values", kind: "number", cell: (b) => bdi(text(place(bins[b])), "value") },
      numeric("Contribution", column("contribution"), number), numeric("Left without it", column("residual"), number),
      numeric("From", column("low"), number), numeric("To", column("high"), number),
    ],
  });
}

// -- training against held-out ------------------------------------------------------------------------------------
function optimismSection() {
  $("optimism-none").hidden = Boolean(data.gap);
  $("optimism-body").hidden = !data.gap;
  if (!data.gap) return;
  const { train, gap, std_error: error } = data.gap;
  const valid = data.ranking.score;
  const all = train.concat(valid, 0);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const place = scale(low, high);
  const number = formatter(all, 5);
  const dumbbell = (k) => drawing(feature(k), `Training ${number(train[k])}, ${KIND} ${number(valid[k])}`, {}, zeroLine(place),
    svg("line", { class: "link", x1: percent(place(valid[k])), x2: percent(place(train[k])), y1: "50%", y2: "50%" }),
    svg("circle", { class: "ring", cx: percent(place(train[k])), cy: "50%", r: 4.5 }),
    svg("circle", { class: `dot ${COLOURS[verdict(k)]}`, cx: percent(place(valid[k])), cy: "50%", r: 4.5 }));
  table({
    mount: $("optimism-table"), caption: `Score per row on training and ${KIND} rows, and the gap between them.`, rows: everyFeature, sort: 2,
    columns: [
      { label: "Feature", kind: "head", up: true, cell: (k) => named(k), value: feature },
      { label: `Training ○ and ${KIND} ●`, kind: "drawn", cell: dumbbell, axis: axis(low, high, place) },
      numeric("Training", train, number), numeric(data.training_rows ? "Scored" : "Held-out", valid, number),
      numeric("Gap", gap, number), numeric("Std. error of the gap", error, number, { short: "±" }),
    ],
    rowClass: (k) => (verdict(k) === "unclear" || verdict(k) === "unused" ? "grey" : ""),
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
  $("rounds-none").hidden = Boolean(r);
  $("rounds-body").hidden = !r;
  if (!r) return;
  const valid = unpack(r.valid, r.valid_unit, r.at.length);
  const train = r.train ? unpack(r.train, r.train_unit, r.at.length) : null;
  const number = formatter(r.best.concat(r.fall, r.features.map((k) => data.ranking.score[k])));
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
      el("figcaption", {}, bdi(feature(k)), el("br"), el("span", { class: "note" }, story)),
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
  draw();
  table({
    mount: $("rounds-table"), caption: "Where each curve is highest and how far it falls until the last round.", rows: r.features, sort: 3,
    columns: [
      { label: "Feature", kind: "head", up: true, cell: (k) => [bdi(feature(k))], value: feature },
      numeric("Peak in round", peak, count), numeric("Score at the peak", best, number),
      numeric("Final score", best.map((b, k) => (known(b) ? b - fall[k] : b)), number), numeric("Fall", fall, number),
    ],
  });
}

// -- single rows -----------------------------------------------------------------------------------------------------
const MOST_LISTED = 500;
const STEPS = 12;
function rowsSection() {
  const x = data.explorer;
  $("rows-none").hidden = Boolean(x);
  $("rows-body").hidden = !x;
  if (!x) return;
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
  let unfolded = false;

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
    waterfall(i, o);
  }
  function waterfall(i, o) {
    const steps = x.feature[i].map((k, p) => ({ k, value: x.value ? x.value[i][p] : undefined, by: x.contribution[i][o][p] }))
      .sort((a, b) => Math.abs(b.by) - Math.abs(a.by));
    const visible = unfolded ? steps : steps.slice(0, STEPS);
    const hidden = steps.slice(visible.length);
    const others = data.features.length - visible.length;
    if (others > 0) visible.push({ by: hidden.reduce((sum, s) => sum + s.by, x.rest[i][o]), others });
    let at = x.base[i][o];
    const spans = visible.map((s) => { const from = at; at += s.by; return [from, at]; });
    const ends = spans.flat().concat(x.base[i][o], x.margin[i][o]);
    const place = scale(Math.min(...ends), Math.max(...ends));
    const number = formatter(ends.concat(largest(visible.map((s) => s.by))));
    const tick = (v) => svg("line", { class: "whisker", x1: percent(place(v)), x2: percent(place(v)), y1: "0%", y2: "100%" });
    const line = (kind, name, drawn, amount) => el("tr", { class: kind }, el("th", { scope: "row" }, name),
      el("td", { class: "drawn" }, drawn), el("td", { class: "number" }, amount));
    const total = (words, v) => line("total", words, svg("svg", { "aria-hidden": "true" }, tick(v)), number(v));
    const rows = visible.map((s, p) => {
      const [a, b] = spans[p];
      const name = s.others ? `${plural(s.others, "other feature")}` : [bdi(feature(s.k)),
        s.value === undefined ? null : el("span", { class: "value" }, " = ", bdi(shown(s.value), "value"))];
      return line("", name, svg("svg", { "aria-hidden": "true" },
        svg("rect", { class: `bar ${s.by < 0 ? "down" : "up"}`, x: percent(place(Math.min(a, b))), y: "12%", height: "76%",
          width: percent(Math.max(0.3, Math.abs(place(b) - place(a)))) })), signed(number)(s.by));
    });
    const heads = [["Feature and its value", "head"], ["Step", "drawn"], [x.prediction ? "Margin" : "Amount", "number"]]
      .map(([words, kind]) => el("th", { scope: "col", class: kind, "data-sorts": "no" }, words));
    const more = el("button", { type: "button", class: "more", "aria-expanded": String(unfolded) },
      unfolded ? `Show the ${STEPS} largest steps only` : `Show ${count(steps.length)} steps`);
    more.hidden = steps.length <= STEPS;
    more.onclick = () => { unfolded = !unfolded; waterfall(i, o); $("row-waterfall").lastChild.focus(); };
    $("row-waterfall").replaceChildren(el("table", {}, el("caption", {}, `From the base value to the ${x.prediction ? "margin" : "prediction"}, largest steps first`),
      el("thead", {}, el("tr", {}, heads)), el("tbody", {}, total("Base value", x.base[i][o]), rows, total(x.prediction ? "Margin" : "Prediction", x.margin[i][o]))), more);
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
effectsSection();
optimismSection();
roundsSection();
rowsSection();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
