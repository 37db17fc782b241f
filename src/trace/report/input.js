// Mouse, touch and keyboard on the timeline.

const CLICK_SLOP = 4;

class TimelineInput {
  // on: {select(target, reveal), hover(target, pointer), measure(range)}; target is {trace, event} or null, to hover
  // also {trace, memory, time} and {trace, track, view}.
  constructor(timeline, on) {
    Object.assign(this, {timeline, on, pointers: new Map()});
    const {canvas, overview} = timeline;
    canvas.addEventListener("wheel", event => this.wheel(event), {passive: false});
    canvas.addEventListener("pointerdown", event => this.press(event));
    canvas.addEventListener("pointermove", event => this.move(event));
    canvas.addEventListener("pointerup", event => this.release(event));
    canvas.addEventListener("pointercancel", event => this.release(event));
    canvas.addEventListener("pointerleave", () => this.on.hover(null));
    canvas.addEventListener("dblclick", () => this.zoomToSelection());
    overview.addEventListener("pointerdown", event => this.pressOverview(event));
    overview.addEventListener("pointermove", event => this.moveOverview(event));
    overview.addEventListener("pointerup", () => { this.overviewDrag = null; });
    overview.addEventListener("wheel", event => {
      event.preventDefault();
      timeline.zoom(Math.exp(-event.deltaY * 0.0016));
    }, {passive: false});
  }

  // The wheel zooms at the pointer, shift or a sideways wheel pans; over the names it scrolls the lanes.
  wheel(event) {
    const {timeline} = this;
    if (event.offsetX < timeline.gutter && !event.ctrlKey) return;
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) timeline.pan((event.deltaX || event.deltaY) * pixels);
    else timeline.zoom(Math.exp(-event.deltaY * pixels * (event.ctrlKey ? 0.01 : 0.0016)), event.offsetX);
  }

  press(event) {
    const {timeline} = this;
    timeline.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, {x: event.offsetX, y: event.offsetY});
    this.start = {x: event.offsetX, y: event.offsetY, moved: false};
    this.measuring = event.shiftKey && event.offsetX >= timeline.gutter ? timeline.timeAt(event.offsetX) : null;
    this.on.hover(null);
  }

  move(event) {
    const {timeline, pointers} = this, last = pointers.get(event.pointerId);
    if (!last) { this.hoverAt(event); return; }
    const now = {x: event.offsetX, y: event.offsetY};
    if (Math.hypot(now.x - this.start.x, now.y - this.start.y) > CLICK_SLOP) this.start.moved = true;
    if (pointers.size === 2) this.pinch(event.pointerId, now);
    else if (this.measuring !== null) this.measureTo(timeline.timeAt(now.x));
    else if (this.start.moved) {
      timeline.canvas.style.cursor = "grabbing";
      timeline.pan(last.x - now.x);
      timeline.scroller.scrollTop += last.y - now.y;
    }
    pointers.set(event.pointerId, now);
  }

  release(event) {
    if (!this.pointers.delete(event.pointerId) || this.start.moved || event.type === "pointercancel") return;
    const {timeline} = this, hit = timeline.hit(event.offsetX, event.offsetY);
    timeline.range = null;
    if (hit && (hit.band.type === "header" || event.offsetX < timeline.gutter)) this.fold(hit.band);
    else this.on.select(hit && hit.event >= 0 ? {trace: hit.band.trace, event: hit.event} : null, false);
  }

  pinch(id, now) {
    const other = [...this.pointers].find(([key]) => key !== id)[1], last = this.pointers.get(id);
    const before = Math.max(10, Math.hypot(last.x - other.x, last.y - other.y));
    const after = Math.max(10, Math.hypot(now.x - other.x, now.y - other.y));
    this.timeline.zoom(after / before, (now.x + other.x) / 2);
    this.timeline.pan((last.x - now.x) / 2);
    this.start.moved = true;
  }

  measureTo(time) {
    this.timeline.range = {from: Math.min(this.measuring, time), to: Math.max(this.measuring, time)};
    this.timeline.redraw();
    this.on.measure(this.timeline.range);
  }

  fold(band) {
    const folded = band.track ?? (band.type === "header" ? band.trace : null);
    if (!folded) return;
    folded.collapsed = !folded.collapsed;
    this.timeline.relayOut();
  }

  hoverAt(event) {
    const {timeline} = this, hit = timeline.hit(event.offsetX, event.offsetY);
    const overNames = event.offsetX < timeline.gutter || hit?.band.type === "header";
    timeline.canvas.style.cursor = hit?.event >= 0 || (overNames && hit) ? "pointer" : "default";
    if (hit?.band.type === "memory" && !overNames) this.on.hover({trace: hit.band.trace, memory: hit.band.memory, time: timeline.timeAt(event.offsetX)}, event);
    else if (hit?.band.track?.busy && overNames) this.on.hover({trace: hit.band.trace, track: hit.band.track, view: timeline.view}, event);
    else this.on.hover(hit?.event >= 0 ? {trace: hit.band.trace, event: hit.event} : null, event);
  }

  // Inside the window a drag moves it, outside it draws a new one.
  pressOverview(event) {
    const {timeline} = this, time = timeline.overviewTime(event.offsetX);
    timeline.overview.setPointerCapture(event.pointerId);
    const {from, to} = timeline.view, whole = to - from > (timeline.model.last - timeline.model.first) * 0.99;
    const inside = time >= from && time <= to && !whole;
    this.overviewDrag = inside ? {offset: time - from} : {anchor: time};
  }
  moveOverview(event) {
    if (!this.overviewDrag) return;
    const {timeline} = this, time = timeline.overviewTime(event.offsetX), {offset, anchor} = this.overviewDrag;
    if (offset !== undefined) timeline.setView(time - offset, time - offset + timeline.view.to - timeline.view.from);
    else if (Math.abs(time - anchor) > 0) timeline.setView(Math.min(time, anchor), Math.max(time, anchor));
  }

  zoomToSelection() {
    const {timeline} = this;
    if (timeline.range) { timeline.setView(timeline.range.from, timeline.range.to); return; }
    if (!timeline.selected) return;
    const {trace, event} = timeline.selected, margin = (trace.end[event] - trace.start[event] || 10) * 0.1;
    timeline.setView(trace.start[event] - margin, trace.end[event] + margin);
  }

  // The slice before or after the selected one in its row; without a selection, the first slice.
  stepThrough(direction) {
    const {timeline} = this;
    if (!timeline.selected) {
      const trace = timeline.model.traces.find(t => t.count);
      if (trace) this.on.select({trace, event: 0});
      return;
    }
    const {trace, event} = timeline.selected, row = trace.rowOf(event);
    const next = row[firstIndex(row, 0, e => e >= event) + direction];
    if (next !== undefined) this.on.select({trace, event: next});
  }

  // True when the key meant something here.
  key(event) {
    const {timeline} = this, stride = (timeline.width - timeline.gutter) * (event.shiftKey ? 0.5 : 0.12);
    const actions = {
      w: () => timeline.zoom(1.35), "+": () => timeline.zoom(1.35), "=": () => timeline.zoom(1.35),
      s: () => timeline.zoom(1 / 1.35), "-": () => timeline.zoom(1 / 1.35),
      a: () => timeline.pan(-stride), ArrowLeft: () => timeline.pan(-stride),
      d: () => timeline.pan(stride), ArrowRight: () => timeline.pan(stride),
      ArrowUp: () => { timeline.scroller.scrollTop -= 60; }, ArrowDown: () => { timeline.scroller.scrollTop += 60; },
      f: () => timeline.fit(), 0: () => timeline.fit(),
      "[": () => this.stepThrough(-1), "]": () => this.stepThrough(1),
      z: () => this.zoomToSelection(), Enter: () => this.zoomToSelection(),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return false;
    action();
    return true;
  }
}
