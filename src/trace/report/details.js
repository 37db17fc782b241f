// The tooltip and the panel about the selected slice.

// [label, text] pairs about what a slice was given and how it ran.
function facts(trace, event) {
  const kind = trace.names.kinds[trace.kind[event]], detail = trace.detail[event], {raw} = trace, rows = [];
  const length = trace.end[event] - trace.start[event];
  if (kind === "kernel" && detail >= 0) {
    const [gx, gy, gz, bx, by, bz, registers, shared, occupancy, blocks, warps] = raw.launches[detail];
    rows.push(["Grid", `${gx} × ${gy} × ${gz}`, `${fixed(gx * gy * gz)} blocks`]);
    rows.push(["Block", `${bx} × ${by} × ${bz}`, `${fixed(bx * by * bz)} threads`]);
    rows.push(["Registers", fixed(registers), "per thread"]);
    rows.push(["Shared memory", bytes(shared), "per block"]);
    if (blocks) rows.push(["Blocks per SM", fixed(blocks, 2), `${fixed(warps, 1)} warps`]);
    if (occupancy) rows.push(["Occupancy", `${fixed(occupancy)}%`, "estimated"]);
  } else if (raw.copies[detail] && (kind === "gpu_memcpy" || kind === "gpu_memset")) {
    const [size, speed] = raw.copies[detail];
    rows.push(["Size", bytes(size), ""]);
    if (speed) rows.push(["Bandwidth", `${fixed(speed, 1)} GB/s`, ""]);
  } else if (kind === "cpu_kernel" && detail >= 0) {
    const [operations, moved, threads] = raw.work[detail];
    if (operations) rows.push(["Work", flops(operations), `${fixed(operations / length, 1)} GFLOP/s`]);
    if (moved) rows.push(["Moved", bytes(moved), `${fixed(moved / length, 1)} GB/s`]);
    if (threads) rows.push(["Threads", fixed(threads), ""]);
  }
  return rows;
}

function showTooltip(target, pointer) {
  const tip = find("tooltip");
  tip.hidden = !target;
  if (!target) return;
  const {trace, event, memory, time, track, view} = target;
  if (memory) {
    const i = firstIndex(memory.time, 0, t => t > time) - 1;
    tip.replaceChildren(make("strong", {}, memory.title), make("span", {}, i < 0 ? "not known yet" : bytes(memory.values[i])));
  } else if (track) {
    const busy = (what, from, to) => {
      const {busy, whole} = trace.busyTime(track, from, to);
      return whole ? [make("span", {}, `${what}: busy ${duration(busy)} of ${duration(whole)} (${percent(busy / whole)}), idle ${duration(whole - busy)}`)] : [];
    };
    tip.replaceChildren(make("strong", {}, track.name), ...busy("In view", view.from, view.to), ...busy("In all", trace.first, trace.last));
  } else {
    const launch = facts(trace, event).slice(0, 4).map(([label, text]) => `${label.toLowerCase()} ${text}`).join(" · ");
    const dims = trace.names.kinds[trace.kind[event]] === "cpu_op" && trace.detail[event] >= 0 ? trace.names.strings[trace.raw.inputs[trace.detail[event]][0]] : "";
    tip.replaceChildren(make("strong", {}, trace.label(event)), make("span", {}, `${duration(trace.end[event] - trace.start[event])} at ${duration(trace.start[event])}`),
                        ...[launch, dims].filter(Boolean).map(text => make("span", {className: "muted"}, text)));
  }
  const around = find("timeline").getBoundingClientRect();
  const x = pointer.clientX - around.left, y = pointer.clientY - around.top;
  tip.style.left = `${Math.max(4, Math.min(x + 14, around.width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > around.height ? Math.max(4, y - tip.offsetHeight - 10) : y + 18}px`;
}

function factRow(label, value, note = "") {
  return make("tr", {}, make("th", {scope: "row"}, label), make("td", {}, value, note ? make("span", {className: "muted"}, note) : null));
}

// Fits "[[64, 768], []]" and its brothers into rows, one an argument.
function inputTable(trace, inputs) {
  const read = id => { try { return JSON.parse(trace.names.strings[id] || "[]"); } catch { return []; } };
  const [dims, types, strides, values] = inputs.map(read);
  const text = value => (value === undefined || value === "" ? "" : typeof value === "string" ? value : JSON.stringify(value).replaceAll(",", ", "));
  const list = value => (Array.isArray(value) && !value.length ? "" : text(value));
  const rows = Array.from({length: Math.max(dims.length, types.length)}, (_, i) => [list(dims[i]), text(types[i]).replace("c10::", ""), list(strides[i]), text(values[i])])
    .map((cells, i) => [String(i), ...cells]).filter(cells => cells.slice(1).some(Boolean));
  if (!rows.length) return null;
  const titles = ["", "shape", "type", "strides", "value"];
  const shown = titles.map((_, column) => rows.some(cells => cells[column]));
  const cellsOf = (cells, tag) => cells.filter((_, i) => shown[i]).map(cell => make(tag, {}, cell));
  return make("table", {className: "inputs"}, make("thead", {}, make("tr", {}, ...cellsOf(titles, "th"))),
              make("tbody", {}, ...rows.map(cells => make("tr", {}, ...cellsOf(cells, "td")))));
}

function sliceButton(trace, event, select, text = trace.label(event)) {
  const button = make("button", {className: "slice", title: trace.fullName(event), onclick: () => select({trace, event})}, text);
  button.dataset.category = CATEGORIES[trace.category[event]].key;
  return button;
}

function launchFacts(trace, event, select) {
  const rows = [], flows = trace.flows(event);
  if (trace.link[event] >= 0) {
    const call = trace.link[event], ops = trace.ancestors(call).filter(e => trace.category[e] === 1);
    rows.push(factRow("Launched by", sliceButton(trace, call, select)));
    if (ops.length) rows.push(factRow("Op", sliceButton(trace, ops[ops.length - 1], select)));
    rows.push(factRow("Launch delay", duration(trace.start[event] - trace.end[call]), "from the call's end"));
  } else if (flows.length) {
    const total = flows.reduce((sum, [, device]) => sum + trace.end[device] - trace.start[device], 0);
    rows.push(factRow("Device time", duration(total), `${fixed(flows.length)} launched`));
    const list = make("div", {className: "slices"}, ...flows.slice(0, 12).map(([, device]) => make("div", {}, sliceButton(trace, device, select),
                      make("span", {className: "number"}, duration(trace.end[device] - trace.start[device])))));
    rows.push(make("tr", {}, make("th", {scope: "row"}, "Launched"), make("td", {}, list, flows.length > 12 ? `and ${fixed(flows.length - 12)} more` : "")));
  }
  return rows;
}

function showSlice({trace, event}, select) {
  const track = trace.tracks[trace.trackOf[event]], kind = trace.names.kinds[trace.kind[event]];
  const length = trace.end[event] - trace.start[event], self = trace.selfTime(event);
  const path = trace.ancestors(event).flatMap(parent => [sliceButton(trace, parent, select), "›"]);
  const badge = make("span", {className: "badge"}, kind);
  badge.dataset.category = CATEGORIES[trace.category[event]].key;
  const rows = [factRow("Duration", duration(length), self < length ? `${duration(self)} self` : ""),
                factRow("Start", duration(trace.start[event]), trace.steps.length ? "from the first step" : "from the first event"),
                factRow(track.device ? "Stream" : "Thread", track.name, trace.raw.name)];
  rows.push(...facts(trace, event).map(row => factRow(...row)), ...launchFacts(trace, event, select));
  if (trace.correlation[event]) rows.push(factRow("Correlation", String(trace.correlation[event])));
  const inputs = kind === "cpu_op" && trace.detail[event] >= 0 ? inputTable(trace, trace.raw.inputs[trace.detail[event]]) : null;
  find("details").replaceChildren(
    make("div", {className: "details-head"}, make("h2", {}, trace.label(event)), badge,
         make("button", {className: "close", onclick: () => select(null), title: "Clear the selection (Esc)", "aria-label": "Clear the selection"}, "×")),
    ...(path.length ? [make("p", {className: "path"}, ...path.slice(0, -1))] : []),
    make("table", {className: "facts"}, make("tbody", {}, ...rows)), ...(inputs ? [make("h3", {}, "Inputs"), inputs] : []),
    ...(trace.label(event) === trace.fullName(event) ? [] : [make("h3", {}, "Name"), make("p", {className: "full-name"}, trace.fullName(event))]));
}

// How long each lane had a slice of each category, summed over the lanes: nested slices count once.
function timeByCategory(trace, from, to) {
  const time = new Float64Array(CATEGORIES.length), until = new Float64Array(CATEGORIES.length * trace.tracks.length).fill(from);
  for (let i = 0; i < trace.count && trace.start[i] < to; i++) {
    const lane = trace.trackOf[i] * CATEGORIES.length + trace.category[i], begin = Math.max(trace.start[i], until[lane]), end = Math.min(trace.end[i], to);
    if (end > begin) time[trace.category[i]] += end - begin, until[lane] = end;
  }
  return time;
}

// Time by category, of everything or of a measured range: the legend as well.
function showTotals(model, range) {
  const from = range?.from ?? -Infinity, to = range?.to ?? Infinity;
  const totals = model.traces.map(trace => timeByCategory(trace, from, to));
  const used = CATEGORIES.map((category, c) => ({...category, times: totals.map(time => time[c])})).filter(row => row.times.some(time => time > 0));
  const title = range ? `Measured: ${duration(range.to - range.from)}` : "Time by category";
  const shown = model.traces.length > 2 ? brief : duration;
  const table = make("table", {className: model.traces.length > 3 ? "totals many" : "totals"},
    make("thead", {}, make("tr", {}, make("th"), ...model.traces.map(trace => make("th", {}, model.traces.length > 1 ? trace.letter : "total")))),
    make("tbody", {}, ...used.map(row => {
      const swatch = make("span", {className: "swatch"});
      swatch.dataset.category = row.key;
      return make("tr", {}, make("th", {scope: "row"}, swatch, row.title), ...row.times.map(time => make("td", {}, time ? shown(time) : "–")));
    })));
  find("details").replaceChildren(make("div", {className: "details-head"}, make("h2", {}, title)), 
    ...(used.length ? [table, make("p", {className: "hint"}, "A lane's nested slices count once. Where many slices share a pixel, a lane is as high as it was busy. Click a slice for its details; hold Shift and drag to measure.")]
                    : [make("p", {className: "muted"}, "No slices.")]));
}
