"use strict";
// The embedded data as typed arrays, ordered into lanes, and how numbers read.

const CATEGORIES = [
  {key: "annotation", title: "Annotations"},
  {key: "op", title: "Ops"},
  {key: "runtime", title: "Runtime calls"},
  {key: "gemm", title: "GEMM kernels"},
  {key: "pointwise", title: "Pointwise kernels"},
  {key: "kernel", title: "Other kernels"},
  {key: "copy", title: "Copies, memsets"},
  {key: "wait", title: "Sync, overhead"},
];
const CATEGORY_OF_KIND = {
  cpu_op: 1, user_annotation: 0, gpu_user_annotation: 0, kernel: 5, cpu_kernel: 5, gpu_memcpy: 6, gpu_memset: 6,
  cuda_runtime: 2, cuda_driver: 2, cuda_sync: 7, overhead: 7, python_function: 1, span: 0, other: 7,
};
const DEVICE_WORK = new Set(["kernel", "gpu_memcpy", "gpu_memset"]);
const CATEGORY_OF_CLASS = {gemm: 3, pointwise: 4};

// First index in [from, list.length) for which keep(list[index]) holds; keep is false, then true.
function firstIndex(list, from, keep) {
  let low = from, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (keep(list[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

function memorySeries({device, time, ...totals}, what) {
  const values = totals[what];
  const [low, high] = [Math.min, Math.max].map(pick => values.reduce((a, b) => pick(a, b)));
  const range = low === high ? bytes(low) : `${bytes(low)} – ${bytes(high)}`;
  return {title: `${device} ${what}`, time, values, low, high, range};
}

class Trace {
  constructor(raw, index, names) {
    Object.assign(this, {raw, index, names, letter: String.fromCharCode(65 + index), summary: raw.summary});
    const columns = raw.events, count = columns.name.length;
    this.count = count;
    this.start = new Float64Array(count);
    this.end = new Float64Array(count);
    let time = 0;
    for (let i = 0; i < count; i++) {
      time += columns.start[i];
      this.start[i] = time;
      this.end[i] = time + columns.duration[i];
    }
    this.name = Uint32Array.from(columns.name);
    this.kind = Uint8Array.from(columns.kind);
    this.detail = Int32Array.from(columns.detail);
    this.correlation = Float64Array.from(columns.correlation);
    this.link = Int32Array.from(columns.link);
    this.trackOf = Uint32Array.from(columns.track);
    this.category = Uint8Array.from(columns.name, (name, i) => {
      const kind = names.kinds[columns.kind[i]];
      const kernelClass = kind === "kernel" || kind === "cpu_kernel" ? CATEGORY_OF_CLASS[names.classes.get(name)] : undefined;
      return kernelClass ?? CATEGORY_OF_KIND[kind] ?? 7;
    });
    this.first = count ? this.start[0] : 0;
    this.last = this.end.reduce((a, b) => Math.max(a, b), this.first);
    this.sums = new WeakMap();  // by list of slices: timeBefore
    this.stackTracks();
    this.linkLaunches();
    this.uniteDeviceWork();
    this.memory = raw.memory.flatMap(device => [memorySeries(device, "allocated"), memorySeries(device, "reserved")]).filter(series => series.high > 0);
    this.steps = this.eventsNamed(/^ProfilerStep#/);
  }

  // Each event takes the lowest row of its track that is free at its start. Nested slices so stack by depth, and
  // overlapping ones spill; the slices of one row never overlap, which lets every lookup be a binary search.
  stackTracks() {
    this.tracks = this.raw.tracks.map(([name, device]) => ({name: this.names.strings[name], device: !!device, rows: [], trace: this}));
    const ends = this.tracks.map(() => []), lists = this.tracks.map(() => []);
    this.row = new Uint16Array(this.count);
    for (let i = 0; i < this.count; i++) {
      const track = this.trackOf[i];
      let depth = 0;
      while (depth < ends[track].length && ends[track][depth] > this.start[i]) depth++;
      if (depth === lists[track].length) lists[track].push([]);
      ends[track][depth] = this.end[i];
      lists[track][depth].push(i);
      this.row[i] = depth;
    }
    this.tracks.forEach((track, t) => { track.rows = lists[t].map(list => Uint32Array.from(list)); });
    this.shownTracks = this.tracks.filter(track => track.rows.length).sort((a, b) => a.device - b.device);
    this.hasDevice = this.shownTracks.some(track => track.device);
  }

  // launches: per track, the host events that started device work; launched: what each of them started.
  linkLaunches() {
    this.launched = new Map();
    this.launches = this.tracks.map(() => []);
    for (let i = 0; i < this.count; i++) {
      if (this.link[i] < 0) continue;
      if (!this.launched.has(this.link[i])) this.launched.set(this.link[i], []);
      this.launched.get(this.link[i]).push(i);
    }
    for (const host of [...this.launched.keys()].sort((a, b) => a - b)) this.launches[this.trackOf[host]].push(host);
  }

  // busy: per device track the stretches in which it ran anything, and how long those before each of them last.
  uniteDeviceWork() {
    for (const track of this.tracks) track.busy = track.device ? {start: [], end: [], before: [0]} : null;
    const isWork = this.names.kinds.map(kind => DEVICE_WORK.has(kind));
    for (let i = 0; i < this.count; i++) {
      const {busy} = this.tracks[this.trackOf[i]], stretch = busy && busy.end.length - 1;
      if (!busy || !isWork[this.kind[i]]) continue;
      if (stretch >= 0 && this.start[i] <= busy.end[stretch]) busy.end[stretch] = Math.max(busy.end[stretch], this.end[i]);
      else busy.start.push(this.start[i]), busy.end.push(this.end[i]);
    }
    for (const {busy} of this.tracks) busy?.start.forEach((start, i) => busy.before.push(busy.before[i] + busy.end[i] - start));
  }

  // Of a stretch of time, as far as the trace lasts: how long a device track ran something, and how long it is.
  busyTime({busy}, from, to) {
    [from, to] = [Math.max(from, this.first), Math.min(to, this.last)];
    const until = time => {
      const i = firstIndex(busy.start, 0, start => start >= time);
      return busy.before[i] - (i ? Math.max(0, busy.end[i - 1] - time) : 0);
    };
    return to > from ? {busy: until(to) - until(from), whole: to - from} : {busy: 0, whole: 0};
  }

  eventsNamed(pattern) {
    const matching = this.names.strings.map(text => pattern.test(text));
    const found = [];
    for (let i = 0; i < this.count; i++) {
      if (matching[this.name[i]] && this.names.kinds[this.kind[i]] === "user_annotation") found.push(i);
    }
    return found;
  }

  rowOf(event) { return this.tracks[this.trackOf[event]].rows[this.row[event]]; }

  // By category how long the slices of a list before each of them last in all, and after the last.
  timeBefore(list) {
    if (!this.sums.has(list)) {
      const sums = CATEGORIES.map(() => null);
      for (const event of list) sums[this.category[event]] ??= new Float64Array(list.length + 1);
      const used = sums.flatMap((time, category) => (time ? [{category, time}] : []));
      for (const {category, time} of used) {
        for (let i = 0; i < list.length; i++) time[i + 1] = time[i] + (this.category[list[i]] === category ? this.end[list[i]] - this.start[list[i]] : 0);
      }
      this.sums.set(list, used);
    }
    return this.sums.get(list);
  }

  // The slice of a row that covers a time, or -1.
  at(list, time) {
    const i = firstIndex(list, 0, event => this.end[event] > time);
    return i < list.length && this.start[list[i]] <= time ? list[i] : -1;
  }

  // Outermost first.
  ancestors(event) {
    const rows = this.tracks[this.trackOf[event]].rows.slice(0, this.row[event]);
    return rows.map(list => this.at(list, this.start[event])).filter(parent => parent >= 0 && this.end[parent] >= this.end[event]);
  }

  selfTime(event) {
    const below = this.tracks[this.trackOf[event]].rows[this.row[event] + 1] ?? [];
    let self = this.end[event] - this.start[event];
    for (let i = firstIndex(below, 0, e => this.start[e] >= this.start[event]); i < below.length; i++) {
      if (this.start[below[i]] >= this.end[event]) break;
      self -= Math.min(this.end[below[i]], this.end[event]) - this.start[below[i]];
    }
    return self;
  }

  // [host event, device event] pairs that start inside this slice, or that end in it when it ran on the device.
  flows(event) {
    if (this.link[event] >= 0) return [[this.link[event], event]];
    const launches = this.launches[this.trackOf[event]], pairs = [];
    for (let i = firstIndex(launches, 0, e => this.start[e] >= this.start[event]); i < launches.length; i++) {
      if (this.end[launches[i]] > this.end[event]) break;
      for (const device of this.launched.get(launches[i])) pairs.push([launches[i], device]);
    }
    return pairs;
  }

  fullName(event) { return this.names.strings[this.name[event]]; }
  label(event) { return this.names.labels[this.name[event]]; }
}

function loadModel(data) {
  const labels = data.strings.slice();
  for (const [name, short] of data.short) labels[name] = data.strings[short];
  const names = {strings: data.strings, labels, kinds: data.kinds, classes: new Map(data.classes)};
  const traces = data.traces.map((raw, index) => new Trace(raw, index, names));
  const first = Math.min(...traces.map(trace => trace.first)), last = Math.max(...traces.map(trace => trace.last));
  const margin = (last - first || 1000) * 0.01;
  return {names, traces, diffs: data.diffs, regimes: new Map(data.regimes), first: first - margin, last: last + margin};
}

const formats = new Map();
function fixed(value, digits = 0) {
  if (!formats.has(digits)) formats.set(digits, new Intl.NumberFormat("en", {minimumFractionDigits: digits, maximumFractionDigits: digits}));
  return formats.get(digits).format(value);
}
function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${fixed(ns)} ns`;
  if (size < 1e6) return `${fixed(ns / 1e3, 2)} µs`;
  if (size < 1e9) return `${fixed(ns / 1e6, 3)} ms`;
  return `${fixed(ns / 1e9, 3)} s`;
}
// In three digits, for tables of many columns.
function brief(ns) {
  const [value, unit] = ns < 1e3 ? [ns, "ns"] : ns < 1e6 ? [ns / 1e3, "µs"] : ns < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
  return `${fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit}`;
}
function scaled(value, step, units, digits = 1) {
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) { value /= step; unit++; }
  return `${fixed(value, unit ? digits : 0)} ${units[unit]}`;
}
const bytes = value => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const flops = value => scaled(value, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"], 2);
const percent = share => `${fixed(share * 100, 1)}%`;
function median(values) {
  if (!values.length) return NaN;
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// An element with properties and children; text is always set as text, never as markup.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}
const find = id => document.getElementById(id);
