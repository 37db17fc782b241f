// The lanes and the overview: what is where, and how it is drawn. Input is in input.js.

const AXIS_HEIGHT = 24, HEADER_HEIGHT = 26, TRACK_GAP = 6, MEMORY_HEIGHT = 34;
const HOST_ROW = 18, DEVICE_ROW = 22;
const MAX_ARROWS = 300;
const NARROW = 1.5, APART = 4;  // pixels

class Timeline {
  constructor(model, theme) {
    Object.assign(this, {model, theme, selected: null, hovered: null, range: null, matches: null});
    this.canvas = find("lanes");
    this.context = this.canvas.getContext("2d");
    this.overview = find("overview");
    this.overviewContext = this.overview.getContext("2d");
    this.scroller = find("scroller");
    this.overview.style.height = `${Math.min(96, 18 + 18 * model.traces.length)}px`;
    this.view = {from: model.first, to: model.last};
    this.widths = new Float32Array(model.names.labels.length);
    this.onView = () => {};
    this.layOut();
    new ResizeObserver(() => this.resize()).observe(find("timeline"));
    this.scroller.addEventListener("scroll", () => this.redraw());
    this.resize();
  }

  // Bands from top to bottom: a header per trace, its tracks with their rows, its memory.
  layOut() {
    this.bands = [];
    let y = AXIS_HEIGHT;
    const add = (band, height) => { this.bands.push({...band, y, height}); y += height; };
    for (const trace of this.model.traces) {
      add({type: "header", trace}, HEADER_HEIGHT);
      if (trace.collapsed) continue;
      for (const track of trace.shownTracks) {
        const rowHeight = track.device ? DEVICE_ROW : HOST_ROW;
        const shown = track.collapsed ? 1 : track.rows.length;
        add({type: "label", trace, track}, 0);
        for (let depth = 0; depth < shown; depth++) add({type: "row", trace, track, depth, list: track.rows[depth]}, rowHeight);
        y += TRACK_GAP;
      }
      for (const memory of trace.memory) { add({type: "memory", trace, memory}, MEMORY_HEIGHT); y += TRACK_GAP; }
    }
    this.contentHeight = y + 4;
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.scroller.clientWidth;
    this.height = this.scroller.clientHeight;
    this.gutter = this.width < 700 ? 92 : 176;
    this.overview.style.width = `${this.width}px`;
    for (const [canvas, width, height] of [[this.canvas, this.width, this.height], [this.overview, this.overview.clientWidth, this.overview.clientHeight]]) {
      canvas.width = Math.max(1, Math.round(width * ratio));
      canvas.height = Math.max(1, Math.round(height * ratio));
    }
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    find("spacer").style.height = `${Math.max(0, this.contentHeight - this.height)}px`;
    this.ratio = ratio;
    this.backdrop = null;
    this.redraw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  get scale() { return (this.width - this.gutter) / (this.view.to - this.view.from); }
  timeAt(x) { return this.view.from + (x - this.gutter) / this.scale; }
  xOf(time) { return this.gutter + (time - this.view.from) * this.scale; }

  setView(from, to) {
    const whole = this.model.last - this.model.first;
    const span = Math.min(Math.max(to - from, 20), whole);
    const center = (from + to) / 2;
    from = Math.min(Math.max(center - span / 2, this.model.first), this.model.last - span);
    this.view = {from, to: from + span};
    this.onView();
    this.redraw();
  }
  zoom(factor, x = this.gutter + (this.width - this.gutter) / 2) {
    const time = this.timeAt(x), {from, to} = this.view;
    this.setView(time - (time - from) / factor, time + (to - time) / factor);
  }
  pan(pixels) { const time = pixels / this.scale; this.setView(this.view.from + time, this.view.to + time); }
  fit() { this.setView(this.model.first, this.model.last); }

  bandOf(trace, event) {
    return this.bands.find(band => band.type === "row" && band.trace === trace && band.track === trace.tracks[trace.trackOf[event]] && band.depth === trace.row[event]);
  }

  // Scrolls and pans so that a slice can be seen; zooms only where it would be a speck or larger than the view.
  reveal({trace, event}) {
    trace.collapsed = false;
    trace.tracks[trace.trackOf[event]].collapsed = false;
    this.relayOut();
    const band = this.bandOf(trace, event), start = trace.start[event], end = trace.end[event];
    const pixels = (end - start) * this.scale, visible = this.width - this.gutter;
    const span = pixels < 24 ? (end - start) * visible / 120 : pixels > visible ? (end - start) * 1.4 : this.view.to - this.view.from;
    const inside = start >= this.view.from && end <= this.view.to;
    if (!inside || span !== this.view.to - this.view.from) this.setView((start + end - span) / 2, (start + end + span) / 2);
    const top = this.scroller.scrollTop;
    if (band.y < top + AXIS_HEIGHT) this.scroller.scrollTop = band.y - AXIS_HEIGHT - HEADER_HEIGHT;
    else if (band.y + band.height > top + this.height) this.scroller.scrollTop = band.y + band.height - this.height + 8;
  }
  relayOut() {
    this.layOut();
    find("spacer").style.height = `${Math.max(0, this.contentHeight - this.height)}px`;
    this.redraw();
  }

  // What a point of the canvas shows: {band, event} with event -1 where there is none.
  hit(x, y) {
    if (y < AXIS_HEIGHT) return null;
    const contentY = y + this.scroller.scrollTop;
    const band = this.bands.find(b => contentY >= b.y && contentY < b.y + b.height);
    if (!band) return null;
    if (band.type !== "row" || x < this.gutter) return {band, event: -1};
    const time = this.timeAt(x), slack = 1.5 / this.scale;
    let event = band.trace.at(band.list, time);
    if (event < 0) {
      const i = firstIndex(band.list, 0, e => band.trace.end[e] > time - slack);
      if (i < band.list.length && band.trace.start[band.list[i]] < time + slack) event = band.list[i];
    }
    return {band, event};
  }

  draw() {
    const began = performance.now();
    const c = this.context, top = this.scroller.scrollTop, {colors} = this.theme;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = colors.lanes;
    c.fillRect(0, 0, this.width, this.height);
    c.textBaseline = "middle";
    this.drawGrid(c);
    c.save();
    c.beginPath();
    c.rect(this.gutter, AXIS_HEIGHT, this.width - this.gutter, this.height);
    c.clip();
    for (const band of this.bands) {
      const y = band.y - top;
      if (y > this.height || y + band.height < AXIS_HEIGHT) continue;
      if (band.type === "row") this.drawBand(c, band, y);
      else if (band.type === "memory") this.drawMemory(c, band, y);
    }
    if (!this.model.traces.some(trace => trace.count)) {
      c.font = this.theme.boldFont;
      c.fillStyle = colors.muted;
      c.fillText("Nothing to draw: no slices in what was read.", this.gutter + 24, AXIS_HEIGHT + HEADER_HEIGHT + 30);
    }
    this.drawRange(c);
    this.drawOutline(c, this.hovered, colors.muted, 1);
    this.drawArrows(c);
    this.drawOutline(c, this.selected, colors.ink, 2);
    c.restore();
    this.drawLabels(c, top);
    this.drawAxis(c);
    this.drawRangeLabel(c);
    this.drawOverview();
    this.drawTime = performance.now() - began;
  }

  drawBand(c, band, y) {
    const {fills, faded, texts} = this.theme;
    if (!this.matches) { this.drawSlices(c, band, band.list, y, fills, texts); return; }
    this.drawSlices(c, band, band.list, y, faded, null);
    const found = this.matches.inRow(band.trace, band.track, band.depth);
    if (found) this.drawSlices(c, band, found, y, fills, texts);
  }

  // Slices at least 1.5 pixels wide are drawn one by one. Narrower ones share a mark a pixel, and neighbouring marks
  // that look alike become one rectangle: the work is bounded by pixels, not by events.
  drawSlices(c, {trace, height}, list, y, fills, texts) {
    const {from, to} = this.view, scale = this.scale, {gutter} = this, {start, end, category} = trace, h = height - 1;
    let i = firstIndex(list, 0, event => end[event] > from), run = null, pixel = -Infinity;
    const flush = () => {
      if (run) { c.fillStyle = fills[run.category]; c.fillRect(run.left, y + h - run.tall, run.right - run.left, run.tall); }
      run = null;
    };
    while (i < list.length && start[list[i]] < to) {
      const event = list[i], x = gutter + (start[event] - from) * scale, width = (end[event] - start[event]) * scale;
      if (width >= NARROW) {
        flush();
        const left = Math.max(x, gutter - 4), right = Math.min(x + width, this.width + 4);
        c.fillStyle = fills[category[event]];
        c.fillRect(left, y, Math.max(1, right - left - (width > 3 ? 1 : 0)), h);
        if (texts && right - left > 26) this.drawLabel(c, trace, event, Math.max(left, gutter), right, y + h / 2 + 0.5, texts);
        i++;
      } else {
        pixel = Math.max(Math.floor(x), pixel + 1);
        const mark = this.markAt(trace, list, i, pixel), tall = Math.min(h, Math.max(2, Math.round(mark.share * h)));
        if (!run || run.right !== pixel || run.category !== mark.category || run.tall !== tall) { flush(); run = {left: pixel, category: mark.category, tall}; }
        run.right = pixel + 1;
        i = mark.next;
      }
    }
    flush();
  }

  // What a row's narrow slices from the i-th on are in a pixel: the share they take of the time that wide ones leave
  // there, the category that takes most of it, and the next slice to draw, which may be one that goes on. What stands
  // apart from all others is shown whole.
  markAt(trace, list, i, pixel) {
    const {start, end, category} = trace, scale = this.scale, first = list[i];
    const left = this.view.from + (pixel - this.gutter) / scale, right = left + 1 / scale;
    const isWide = event => (end[event] - start[event]) * scale >= NARROW;
    let next = firstIndex(list, i + 1, event => start[event] >= right);
    if (next - 1 > i && isWide(list[next - 1])) next--;
    const last = list[next - 1], before = Math.max(0, left - start[first]), after = Math.max(0, end[last] - right);
    let all = 0, most = 0, mostly = category[first];
    for (const {category: one, time} of trace.timeBefore(list)) {
      const taken = time[next] - time[i] - (one === category[first] ? before : 0) - (one === category[last] ? after : 0);
      all += taken;
      if (taken > most) { most = taken; mostly = one; }
    }
    const until = i > 0 ? end[list[i - 1]] : -Infinity, again = next < list.length ? start[list[next]] : Infinity;
    const isApart = (gap, other) => gap * scale > APART || isWide(other);
    if (!before && isApart(left - until, list[i - 1]) && isApart(again - right, list[next])) return {share: 1, category: mostly, next};
    return {share: Math.min(1, all / (Math.min(right, again) - Math.max(left, until))), category: mostly, next: after > 0 ? next - 1 : next};
  }

  drawLabel(c, trace, event, left, right, y, texts) {
    const name = trace.name[event], available = right - left - 9;
    let text = this.model.names.labels[name];
    c.font = this.theme.font;
    if (!this.widths[name]) this.widths[name] = c.measureText(text).width;
    for (let width = this.widths[name]; width > available; width = c.measureText(text).width) {
      const characters = Math.min(Math.floor(text.length * available / width), text.length - 1) - 1;
      if (characters < 2) return;
      text = text.slice(0, characters) + "…";
    }
    c.fillStyle = texts[trace.category[event]];
    c.fillText(text, left + 4, y);
  }

  // Ticks at 1, 2 or 5 times a power of ten, about every 110 pixels.
  ticks(from, to, pixels) {
    const rough = (to - from) / Math.max(2, pixels / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough);
    const largest = Math.max(Math.abs(from), Math.abs(to));
    const [size, unit] = largest >= 2e9 ? [1e9, "s"] : largest >= 2e6 ? [1e6, "ms"] : largest >= 2e3 ? [1e3, "µs"] : [1, "ns"];
    const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
    const ticks = [];
    for (let i = Math.ceil(from / step); i * step <= to; i++) ticks.push([i * step, `${fixed((i * step || 0) / size, digits)} ${unit}`]);
    return ticks;
  }

  drawGrid(c) {
    c.fillStyle = this.theme.colors.grid;
    for (const [time] of this.ticks(this.view.from, this.view.to, this.width - this.gutter)) c.fillRect(Math.round(this.xOf(time)), AXIS_HEIGHT, 1, this.height);
    for (const band of this.bands) {
      if (band.type !== "header" || band.trace.collapsed) continue;
      const top = band.y + band.height - this.scroller.scrollTop;
      const bottom = (this.bands.find(b => b.type === "header" && b.y > band.y)?.y ?? this.contentHeight) - this.scroller.scrollTop;
      c.fillStyle = this.theme.colors.step;
      for (const step of band.trace.steps) {
        const x = this.xOf(band.trace.start[step]), width = (band.trace.end[step] - band.trace.start[step]) * this.scale;
        if (width > 8 && x < this.width && x + width > this.gutter) c.fillRect(x, top, width - 1, bottom - top);
      }
    }
  }

  drawAxis(c) {
    const {colors, smallFont} = this.theme;
    c.fillStyle = colors.surface;
    c.fillRect(0, 0, this.width, AXIS_HEIGHT);
    c.fillStyle = colors.line;
    c.fillRect(0, AXIS_HEIGHT - 1, this.width, 1);
    c.font = smallFont;
    for (const [time, text] of this.ticks(this.view.from, this.view.to, this.width - this.gutter)) {
      const x = Math.round(this.xOf(time));
      c.fillStyle = colors.line;
      c.fillRect(x, AXIS_HEIGHT - 7, 1, 6);
      c.fillStyle = colors.muted;
      if (x + 4 + c.measureText(text).width < this.width) c.fillText(text, x + 4, AXIS_HEIGHT / 2);
    }
    c.fillStyle = colors.surface;
    c.fillRect(0, 0, this.gutter, AXIS_HEIGHT - 1);
    c.fillStyle = colors.muted;
    c.fillText(`${duration(this.view.to - this.view.from)}${this.gutter > 120 ? " in view" : ""}`, 12, AXIS_HEIGHT / 2);
  }

  drawLabels(c, top) {
    const {colors, font, boldFont, smallFont} = this.theme;
    c.fillStyle = colors.surface;
    c.fillRect(0, AXIS_HEIGHT, this.gutter, this.height);
    c.fillStyle = colors.line;
    c.fillRect(this.gutter - 1, AXIS_HEIGHT, 1, this.height);
    for (const band of this.bands) {
      const y = band.y - top;
      if (band.type === "header" && y + band.height >= AXIS_HEIGHT && y < this.height) {
        c.fillStyle = colors.header;
        c.fillRect(0, y, this.width, band.height);
        c.fillStyle = colors.line;
        c.fillRect(0, y, this.width, 1);
        c.fillStyle = colors.muted;
        c.font = smallFont;
        c.fillText(band.trace.collapsed ? "▸" : "▾", 10, y + band.height / 2);
        c.font = boldFont;
        c.fillStyle = colors.ink;
        const title = this.model.traces.length > 1 ? `${band.trace.letter}  ${band.trace.raw.name}` : band.trace.raw.name;
        c.fillText(title, 24, y + band.height / 2);
        const titleWidth = c.measureText(title).width;
        c.font = font;
        c.fillStyle = colors.muted;
        c.fillText(`${band.trace.raw.device}  ·  ${fixed(band.trace.count)} slices`, 24 + titleWidth + 12, y + band.height / 2 + 0.5);
      } else if (band.type === "label" || band.type === "memory") {
        this.drawTrackLabel(c, band, y);
      }
    }
  }

  drawTrackLabel(c, band, y) {
    const {colors, font, smallFont} = this.theme;
    if (y > this.height) return;
    c.save();
    c.beginPath();
    c.rect(0, AXIS_HEIGHT, this.gutter - 6, this.height);
    c.clip();
    c.font = font;
    c.fillStyle = colors.ink;
    const folded = band.track && band.track.rows.length > 1 ? (band.track.collapsed ? "▸ " : "▾ ") : "";
    const row = band.track ? (band.track.device ? DEVICE_ROW : HOST_ROW) : 20;
    if (folded) { c.fillStyle = colors.muted; c.font = smallFont; c.fillText(folded, 10, y + row / 2); c.font = font; c.fillStyle = colors.ink; }
    const share = band.track?.busy ? this.busyText(band) : "", name = band.track ? band.track.name : band.memory.title;
    const room = this.gutter - 34 - c.measureText(name).width;
    c.font = smallFont;
    const width = c.measureText(share).width, below = share && width > room;
    c.fillStyle = colors.muted;
    c.fillText(share, below ? 24 : this.gutter - 10 - width, y + row / 2 + (below ? 7 : 0.5));
    c.font = font;
    c.fillStyle = colors.ink;
    c.fillText(name, 24, y + row / 2 - (below ? 5 : 0));
    if (!band.track) {
      c.font = smallFont;
      c.fillStyle = colors.muted;
      c.fillText(band.memory.range, 24, y + 25);
    }
    c.restore();
  }

  // What of the time in view a device lane ran something.
  busyText({trace, track}) {
    const {busy, whole} = trace.busyTime(track, this.view.from, this.view.to);
    return whole ? `${busy && busy < 0.01 * whole ? "<1" : fixed(100 * busy / whole)}% busy` : "";
  }

  // A filled staircase between the smallest and the largest value, which the names show beside it.
  drawMemory(c, {memory, trace, height}, y) {
    const {time, values, low, high} = memory, base = y + height - 1;
    const levelOf = value => base - 4 - (height - 8) * (high > low ? (value - low) / (high - low) : 0.5);
    const begin = Math.max(0, firstIndex(time, 0, t => t > this.view.from) - 1), left = this.xOf(time[begin]);
    let drawnAt = left, level = levelOf(values[begin]);
    c.beginPath();
    c.moveTo(left, base);
    c.lineTo(left, level);
    for (let i = begin + 1; i < time.length && drawnAt < this.width; i++) {
      const x = this.xOf(time[i]);
      if (x - drawnAt >= 0.5) { c.lineTo(drawnAt, level); c.lineTo(x, level); c.lineTo(x, levelOf(values[i])); drawnAt = x; }
      level = levelOf(values[i]);
    }
    const right = Math.max(drawnAt, this.xOf(trace.last));
    c.lineTo(drawnAt, level);
    c.lineTo(right, level);
    c.lineTo(right, base);
    c.fillStyle = this.theme.colors.memory;
    c.fill();
    c.fillStyle = this.theme.colors.line;
    c.fillRect(this.gutter, base, this.width, 1);
  }

  boxOf(target) {
    const band = this.bandOf(target.trace, target.event);
    if (!band) return null;
    const x = this.xOf(target.trace.start[target.event]), y = band.y - this.scroller.scrollTop;
    return {x, y, width: Math.max(2, (target.trace.end[target.event] - target.trace.start[target.event]) * this.scale), height: band.height - 1};
  }

  drawOutline(c, target, color, lineWidth) {
    const box = target && this.boxOf(target);
    if (!box) return;
    const left = Math.max(box.x, this.gutter - 4), right = Math.min(box.x + box.width, this.width + 4);
    if (right <= left) return;
    c.strokeStyle = color;
    c.lineWidth = lineWidth;
    c.strokeRect(left + 0.5, box.y + 0.5, right - left - 1, box.height - 1);
  }

  // From the selected slice's launching calls to what they started.
  drawArrows(c) {
    if (!this.selected) return;
    const {trace, event} = this.selected;
    c.strokeStyle = c.fillStyle = this.theme.colors.arrow;
    c.lineWidth = 1.25;
    for (const [host, device] of trace.flows(event).slice(0, MAX_ARROWS)) {
      const a = this.boxOf({trace, event: host}), b = this.boxOf({trace, event: device});
      if (!a || !b || (a.x > this.width && b.x > this.width) || (a.x + a.width < this.gutter && b.x < this.gutter)) continue;
      const x = a.x + Math.min(a.width / 2, 12), y = a.y + a.height, tipX = b.x + Math.min(b.width / 2, 6), tipY = b.y;
      const bend = Math.max(16, Math.abs(tipY - y) * 0.6);
      c.beginPath();
      c.moveTo(x, y);
      c.bezierCurveTo(x, y + bend, tipX, tipY - bend, tipX, tipY - 4);
      c.stroke();
      c.beginPath();
      c.moveTo(tipX, tipY);
      c.lineTo(tipX - 3.5, tipY - 6);
      c.lineTo(tipX + 3.5, tipY - 6);
      c.fill();
    }
  }

  drawRange(c) {
    if (!this.range) return;
    const {colors} = this.theme, a = this.xOf(this.range.from), b = this.xOf(this.range.to);
    c.fillStyle = colors.veil;
    c.fillRect(this.gutter, AXIS_HEIGHT, a - this.gutter, this.height);
    c.fillRect(b, AXIS_HEIGHT, this.width - b, this.height);
    c.fillStyle = colors.ink;
    c.fillRect(a, AXIS_HEIGHT, 1, this.height);
    c.fillRect(b, AXIS_HEIGHT, 1, this.height);
  }

  drawRangeLabel(c) {
    if (!this.range) return;
    const {colors, boldFont} = this.theme;
    c.font = boldFont;
    const text = duration(this.range.to - this.range.from), width = c.measureText(text).width + 14;
    const center = this.xOf((this.range.from + this.range.to) / 2);
    const x = Math.min(Math.max(center - width / 2, this.gutter + 4), this.width - width - 4);
    c.fillStyle = colors.ink;
    c.fillRect(x, 2, width, AXIS_HEIGHT - 5);
    c.fillStyle = colors.lanes;
    c.fillText(text, x + 7, AXIS_HEIGHT / 2);
  }

  // The whole time in one strip: per trace its host tracks above its device tracks, each track's rows over one another.
  // Painted once per size and theme.
  paintBackdrop() {
    const width = this.overview.clientWidth, height = this.overview.clientHeight, {traces} = this.model;
    this.backdrop = new OffscreenCanvas(this.overview.width, this.overview.height);
    const c = this.backdrop.getContext("2d");
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = this.theme.colors.lanes;
    c.fillRect(0, 0, width, height);
    c.fillStyle = this.theme.colors.surface;
    c.fillRect(0, 0, this.gutter, height);
    c.textBaseline = "middle";
    c.font = this.theme.smallFont;
    const whole = Object.create(this, {view: {value: {from: this.model.first, to: this.model.last}}, width: {value: width}});
    const strip = (height - 6) / traces.length;
    const tall = Math.max(2, Math.min(9, Math.floor((strip - 4) / 2)));
    traces.forEach((trace, index) => {
      const y = Math.round(3 + index * strip + (strip - 2 * tall) / 2);
      const [host, device] = [false, true].map(wanted => trace.shownTracks.filter(track => track.device === wanted));
      this.paintTracks(c, whole, host, y, device.length ? tall : 2 * tall);
      this.paintTracks(c, whole, device, host.length ? y + tall : y, host.length ? tall : 2 * tall);
      c.fillStyle = this.theme.colors.muted;
      if (strip >= 10) c.fillText(traces.length > 1 ? `${trace.letter}  ${trace.raw.name}` : "Overview", 12, y + tall, this.gutter - 20);
    });
  }

  // Streams that run at the same time stand one below the other, as far as there are two pixels for each.
  paintTracks(c, whole, tracks, y, height) {
    const lanes = Math.max(1, Math.min(tracks.length, height >> 1)), laneHeight = height / lanes;
    tracks.forEach((track, index) => {
      const lane = Math.floor(index * lanes / tracks.length), top = Math.round(y + lane * laneHeight);
      const bottom = Math.round(y + (lane + 1) * laneHeight);
      for (const list of track.rows) whole.drawSlices(c, {trace: track.trace, height: bottom - top}, list, top, this.theme.fills, null);
    });
  }

  drawOverview() {
    if (!this.overview.clientWidth) return;
    if (!this.backdrop) this.paintBackdrop();
    const c = this.overviewContext, {colors} = this.theme, height = this.overview.clientHeight, width = this.overview.clientWidth;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.drawImage(this.backdrop, 0, 0);
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const a = this.overviewX(this.view.from), b = Math.max(a + 2, this.overviewX(this.view.to));
    c.fillStyle = colors.veil;
    c.fillRect(this.gutter, 0, a - this.gutter, height);
    c.fillRect(b, 0, width - b, height);
    c.strokeStyle = colors.accent;
    c.lineWidth = 1.5;
    c.strokeRect(a + 0.75, 0.75, b - a - 1.5, height - 1.5);
  }
  overviewX(time) { return this.gutter + (time - this.model.first) / (this.model.last - this.model.first) * (this.overview.clientWidth - this.gutter); }
  overviewTime(x) { return this.model.first + (x - this.gutter) / (this.overview.clientWidth - this.gutter) * (this.model.last - this.model.first); }
}
