// What the traces add up to: the strip on top, and the sortable tables.

const MAX_ROWS = 1000;

const us = value => duration(value * 1e3);
// Launch sizes without their trailing ones: [2, 66, 1] reads 2 × 66.
const triple = ([x, y, z]) => (x ? (z > 1 ? [x, y, z] : y > 1 ? [x, y] : [x]).map(size => fixed(size)).join(" × ") : "–");
const DEVICE_TIME = "How long the device ran what the step launched, also after the step's end", DEVICE_IDLE = "How long of the step the device ran nothing";
const TABLES = {
  steps: {title: "Steps", sort: null, columns: [
    {key: "name", title: "Step", text: true},
    {key: "wall_us", title: "Wall", show: us, bar: true},
    {key: "device", title: "GPU", hint: "The device that worked longest for the step", show: fixed, optional: true, several: true},
    {key: "device_busy_us", title: "Device time", hint: DEVICE_TIME, show: us, optional: true},
    {key: "device_idle_us", title: "Device idle", hint: DEVICE_IDLE, show: us, optional: true},
    {key: "kernels", title: "Kernels", show: fixed},
    {key: "regime", title: "Regime", text: true},
  ]},
  ops: {title: "Ops", sort: "device_total_us", without: "self_cpu_us", columns: [
    {key: "name", title: "Op", text: true, name: true},
    {key: "shapes", title: "Input shapes", text: true, optional: true},
    {key: "calls", title: "Calls", show: fixed},
    {key: "self_cpu_us", title: "Self CPU", show: us, bar: true},
    {key: "cpu_total_us", title: "CPU total", show: us},
    {key: "self_device_us", title: "Self device", show: us, bar: true, optional: true},
    {key: "device_total_us", title: "Device total", show: us, optional: true},
    {key: "flops", title: "FLOP", show: value => (value ? flops(value) : "–"), optional: true},
    {key: "bytes", title: "Bytes", show: value => (value ? bytes(value) : "–"), optional: true},
  ]},
  kernels: {title: "Kernels", sort: "total_us", columns: [
    {key: "name", title: "Kernel", text: true, name: true},
    {key: "calls", title: "Calls", show: fixed},
    {key: "total_us", title: "Total", show: us, bar: true},
    {key: "avg_us", title: "Mean", show: us},
    {key: "min_us", title: "Min", show: us},
    {key: "max_us", title: "Max", show: us},
    {key: "grid", title: "Grid", show: triple, optional: true},
    {key: "block", title: "Block", show: triple, optional: true},
    {key: "registers", title: "Registers", show: value => (value ? fixed(value) : "–"), optional: true},
    {key: "shared_bytes", title: "Shared", show: bytes, optional: true},
    {key: "flops", title: "FLOP", show: value => (value ? flops(value) : "–"), optional: true},
    {key: "bytes", title: "Bytes", show: value => (value ? bytes(value) : "–"), optional: true},
    {key: "threads", title: "Threads", show: value => (value ? fixed(value) : "–"), optional: true},
  ]},
  changes: {title: "Changes", sort: null, columns: [
    {key: "change", title: "Change", text: true},
    {key: "name", title: "Name", text: true, name: true},
    {key: "calls_a", title: "Calls A", show: fixed},
    {key: "calls_b", title: "Calls", show: fixed},
    {key: "total_a", title: "Total A", show: us},
    {key: "total_b", title: "Total", show: us},
    {key: "delta", title: "Δ", show: value => (value > 0 ? "+" : "") + us(value)},
  ]},
};

// Rows of "changes": trace is the one compared with the first.
function changeRows(model) {
  return model.diffs.flatMap((diff, i) => {
    const trace = model.traces[i + 1];
    const row = (change, entry, a, b) => ({trace, change, name: entry.name, calls_a: entry.calls?.[0] ?? a?.calls, calls_b: entry.calls?.[1] ?? b?.calls,
      total_a: entry.total_us?.[0] ?? a?.total_us, total_b: entry.total_us?.[1] ?? b?.total_us});
    // Of a damaged trace nothing is known to be missing: what it lacks may have been lost.
    const only = (here, there, lost) => (lost ? `in ${here}, not in what is left of ${there}` : `only in ${here}`);
    const changed = diff.damaged.some(Boolean) ? "changed, as far as is left" : "changed";
    const rows = [...diff.only_a.map(entry => row(only("A", trace.letter, diff.damaged[1]), entry, entry, null)), ...diff.only_b.map(entry => row(only(trace.letter, "A", diff.damaged[0]), entry, null, entry)),
                  ...diff.changed.map(entry => row(entry.time_within_noise ? `${changed}, within noise` : changed, entry))];
    return rows.map(r => ({...r, delta: (r.total_b ?? 0) - (r.total_a ?? 0)}));
  });
}

class Tables {
  // onName(name) is called when a row's name is chosen.
  constructor(model, onName) {
    Object.assign(this, {model, onName, shown: model.traces.some(trace => trace.summary.kernels.length) ? "kernels" : "ops", trace: null, sorts: {}});
    this.rows = {changes: changeRows(model)};
    for (const key of ["steps", "ops", "kernels"]) this.rows[key] = model.traces.flatMap(trace => trace.summary[key].filter(row => !row.kernel).map(row => ({...row, trace})));
    this.labelOf = new Map(model.names.strings.map((text, i) => [text, model.names.labels[i]]));
    this.categoryOf = new Map();
    for (const trace of model.traces) for (let i = 0; i < trace.count; i++) this.categoryOf.set(trace.fullName(i), CATEGORIES[trace.category[i]].key);
    for (const row of this.rows.kernels) this.labelOf.set(row.name, row.short || row.name);
    find("filter").addEventListener("input", () => this.render());
    this.renderBar();
    this.render();
  }

  show(table) { this.shown = table; this.renderBar(); this.render(); find("table-scroll").scrollTop = 0; }

  renderBar() {
    const several = this.model.traces.length > 1;
    const keys = Object.keys(TABLES).filter(key => key !== "changes" || several);
    find("tabs").replaceChildren(...keys.map(key => make("button", {role: "tab", id: `tab-${key}`, "aria-selected": String(key === this.shown), tabIndex: key === this.shown ? 0 : -1,
      onclick: () => this.show(key), onkeydown: event => this.moveTab(event, keys)}, TABLES[key].title)));
    const choices = several ? [null, ...this.model.traces] : [];
    find("which").replaceChildren(...choices.map(trace => make("button", {"aria-pressed": String(trace === this.trace), title: trace ? trace.raw.name : "Every trace",
      onclick: () => { this.trace = trace; this.renderBar(); this.render(); }}, trace ? trace.letter : "All")));
  }
  moveTab(event, keys) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step) return;
    event.stopPropagation();
    this.show(keys[(keys.indexOf(this.shown) + step + keys.length) % keys.length]);
    find(`tab-${this.shown}`).focus();
  }

  // Rows that pass the trace choice and the filter, in the chosen order.
  selectedRows() {
    const words = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean), {key, down} = this.order();
    const text = row => `${row.name} ${this.labelOf.get(row.name) ?? ""} ${row.regime ?? ""} ${row.shapes ?? ""} ${row.change ?? ""}`.toLowerCase();
    const rows = this.rows[this.shown].filter(row => (!this.trace || row.trace === this.trace) && words.every(word => text(row).includes(word)));
    if (!key) return rows;
    const value = row => (key === "trace" ? row.trace.index : key === "name" ? this.labelOf.get(row.name) ?? row.name : Array.isArray(row[key]) ? row[key].reduce((a, b) => a * b, 1) : row[key] ?? -Infinity);
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", {numeric: true}) : a - b);
    return rows.sort((a, b) => compare(value(a), value(b)) * (down ? -1 : 1));
  }
  order() {
    const {sort, without, columns} = TABLES[this.shown];
    const hidden = without && !this.isUsed(columns.find(column => column.key === sort));
    return this.sorts[this.shown] ?? {key: hidden ? without : sort, down: true};
  }

  // A column that may be missing is shown where a row has something in it, one of several devices where there are.
  isUsed(column) {
    if (column.several) return this.rows[this.shown].some(row => row.devices > 1);
    return !column.optional || this.rows[this.shown].some(row => Array.isArray(row[column.key]) ? row[column.key].some(Boolean) : row[column.key]);
  }

  sortBy(column) {
    const {key, down} = this.order();
    this.sorts[this.shown] = {key: column.key, down: key === column.key ? !down : !column.text};
    this.render();
    find("table").querySelector(`th[data-key="${column.key}"] button`).focus();
  }

  render() {
    const all = this.rows[this.shown], rows = this.selectedRows(), several = this.model.traces.length > 1;
    const columns = [...(several ? [{key: "trace", title: "", text: true, letter: true}] : []), ...TABLES[this.shown].columns.filter(column => this.isUsed(column))];
    const most = new Map(columns.filter(c => c.bar).map(c => [c.key, all.reduce((top, row) => Math.max(top, row[c.key] || 0), 1e-9)]));
    const {key, down} = this.order();
    const head = columns.map(column => {
      const sorted = column.key === key ? (down ? "descending" : "ascending") : "none";
      const th = make("th", {scope: "col", className: column.text ? "text" : "", title: column.hint ?? "", "aria-sort": sorted},
                      make("button", {onclick: () => this.sortBy(column), "aria-label": column.letter ? "Trace" : column.title}, column.title || "Trace"));
      th.dataset.key = column.key;
      return th;
    });
    find("table").replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows.slice(0, MAX_ROWS).map(row => make("tr", {}, ...columns.map(column => this.cell(row, column, most))))));
    find("table").hidden = !rows.length;
    find("table-empty").hidden = !!rows.length;
    find("table-empty").textContent = all.length ? "No row matches the filter." : this.shown === "changes" ? "The traces run the same ops and kernels." : `This trace has no ${TABLES[this.shown].title.toLowerCase()}.`;
    find("row-count").textContent = rows.length > MAX_ROWS ? `first ${fixed(MAX_ROWS)} of ${fixed(rows.length)} rows` : `${fixed(rows.length)} ${rows.length === 1 ? "row" : "rows"}`;
  }

  cell(row, column, most) {
    if (column.letter) return make("td", {className: "text letter", title: row.trace.raw.name}, row.trace.letter);
    const value = row[column.key];
    if (column.name) {
      const button = make("button", {className: "name", title: value, onclick: () => this.onName(value.replace(/\*$/, ""))}, this.labelOf.get(value) ?? value);
      const swatch = make("span", {className: "swatch"});
      swatch.dataset.category = row.annotation ? "annotation" : this.categoryOf.get(value) ?? "none";
      return make("td", {className: "text named"}, swatch, button);
    }
    if (column.text) return make("td", {className: "text", title: this.model.regimes.get(value) ?? value ?? ""}, value ?? "");
    const td = make("td", {}, value === null || value === undefined ? "–" : column.show(value));
    if (column.bar && value) td.style.setProperty("--share", `${value / most.get(column.key) * 100}%`);
    if (column.bar) td.classList.add("bar");
    return td;
  }
}

// One line a trace: what a step costs, and against the first trace what changed.
function showStrip(model, tables) {
  const several = model.traces.length > 1, device = model.traces.some(trace => trace.hasDevice);
  const lines = model.traces.map((trace, index) => {
    const steps = trace.summary.steps, of = key => median(steps.map(step => step[key]));
    const base = index ? median(model.traces[0].summary.steps.map(step => step.wall_us)) : NaN;
    return {trace, steps: steps.length, wall: of("wall_us"), kernels: of("kernels"), busy: trace.hasDevice ? of("device_busy_us") : NaN, idle: trace.hasDevice ? of("device_idle_us") : NaN,
            regime: trace.summary.regime ?? "", change: (of("wall_us") - base) / base};
  });
  const number = (value, show) => make("td", {}, Number.isFinite(value) ? show(value) : "–");
  const change = (value, noise) => {
    const td = number(value, v => (v > 0 ? "+" : "") + percent(v));
    if (Number.isFinite(value) && !noise) td.classList.add(value < 0 ? "better" : "worse");
    return td;
  };
  const columns = ["Step, median", "Kernels / step", ...(device ? ["Device time", "Device idle"] : []), "Steps", ...(several ? ["Step vs A"] : [])];
  const head = make("tr", {}, ...(several ? [make("th", {className: "letter"})] : []), make("th", {className: "text trace"}, "Trace"), ...columns.map(title => make("th", {title: {"Device time": DEVICE_TIME, "Device idle": DEVICE_IDLE}[title] ?? ""}, title)), make("th", {className: "text regime"}, "Regime"), make("th", {className: "text wide"}, several ? "What changed against A" : ""));
  const rows = lines.map(({trace, steps, wall, kernels, busy, idle, regime, change: delta}, index) => {
    const diff = index ? model.diffs[index - 1] : null;
    const problems = trace.summary.problems.map(p => `${p.what} (${p.count})`).join("; ");
    const said = diff ? diff.says.replace(/\bB\b/g, trace.letter) : several ? "the base of the comparison" : "";
    const note = make("td", {className: "text wide"}, problems ? make("span", {className: "problem", title: problems}, `⚠ ${problems} `) : null,
                      diff ? make("button", {className: "said", title: "Show the changes", onclick: () => { tables.trace = trace; tables.show("changes"); }}, said) : make("span", {className: "muted"}, said));
    const explained = make("button", {title: model.regimes.get(regime), onclick: () => find("help").showModal()}, regime);
    const numbers = [number(wall, us), number(kernels, fixed), ...(device ? [number(busy, us), number(idle, us)] : []), number(steps, fixed), ...(several ? [change(diff?.damaged.some(Boolean) ? NaN : delta, diff?.steps_within_noise)] : [])];
    numbers.forEach((td, i) => { td.dataset.title = columns[i]; });  // shown where the page is too narrow for a heading
    return make("tr", {}, ...(several ? [make("td", {className: "letter"}, trace.letter)] : []), make("th", {scope: "row", className: "text trace", title: trace.summary.file}, trace.raw.name),
                ...numbers, make("td", {className: "text regime"}, regime ? explained : ""), note);
  });
  find("traces").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}
