// Starts the page: theme, search, selection, keys.

const KEYS = {
  Keyboard: [["w s  + −", "zoom in, out"], ["a d  ← →", "pan; with Shift further"], ["↑ ↓", "scroll the lanes"], ["f  0", "show everything"],
             ["/", "search"], ["n N", "next, previous match"], ["[ ]", "previous, next slice"], ["z  Enter", "zoom to the selection"],
             ["t", "light or dark"], ["Esc", "clear, step by step"], ["?", "this help"]],
  Mouse: [["Wheel, pinch", "zoom at the pointer"], ["Shift + wheel", "pan"], ["Wheel on names", "scroll the lanes"], ["Drag", "pan and scroll"],
          ["Shift + drag", "measure a stretch"], ["Click", "select a slice"], ["Click a lane’s name", "fold it"], ["Double click", "zoom to the slice"],
          ["Overview", "drag to move or choose"], ["A table’s name", "find it in the lanes"]],
};

// Canvas colours, read from the stylesheet so that both have one source.
class Theme {
  constructor() {
    const family = getComputedStyle(document.body).fontFamily;
    this.font = `11px ${family}`;
    this.boldFont = `600 12px ${family}`;
    this.smallFont = `10.5px ${family}`;
    this.read();
  }
  read() {
    const probe = document.body.appendChild(make("span"));
    const color = name => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
    this.colors = Object.fromEntries(["lanes", "surface", "header", "line", "grid", "step", "ink", "muted", "accent", "arrow", "veil", "memory"].map(name => [name, color(name)]));
    this.fills = CATEGORIES.map(({key}) => color(key));
    this.texts = CATEGORIES.map(({key}) => color(`on-${key}`));
    this.faded = CATEGORIES.map(({key}) => color(`faded-${key}`));
    probe.remove();
  }
  get dark() {
    const chosen = document.documentElement.style.colorScheme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  toggle() { document.documentElement.style.colorScheme = this.dark ? "light" : "dark"; this.read(); }
}

// Every slice whose name holds the text, by trace and row and in order of time.
class Matches {
  constructor(model, text) {
    const wanted = text.toLowerCase();
    const hits = model.names.strings.map((name, i) => name.toLowerCase().includes(wanted) || model.names.labels[i].toLowerCase().includes(wanted));
    this.all = [];
    this.rows = new Map();
    for (const trace of model.traces) {
      for (let event = 0; event < trace.count; event++) {
        if (!hits[trace.name[event]]) continue;
        this.all.push({trace, event});
        const key = this.key(trace, trace.tracks[trace.trackOf[event]], trace.row[event]);
        if (!this.rows.has(key)) this.rows.set(key, []);
        this.rows.get(key).push(event);
      }
    }
  }
  key(trace, track, depth) { return `${trace.index}/${trace.tracks.indexOf(track)}/${depth}`; }
  inRow(trace, track, depth) { return this.rows.get(this.key(trace, track, depth)); }
}

class Page {
  constructor(data) {
    this.model = loadModel(data);
    this.theme = new Theme();
    this.timeline = new Timeline(this.model, this.theme);
    this.input = new TimelineInput(this.timeline, {
      select: (target, reveal) => this.select(target, reveal), measure: range => showTotals(this.model, range),
      hover: (target, pointer) => { this.timeline.hovered = target?.event === undefined ? null : target; this.timeline.redraw(); showTooltip(target, pointer); },
    });
    this.tables = new Tables(this.model, name => { find("search").value = name; this.search(); });
    showStrip(this.model, this.tables);
    showTotals(this.model);
    find("help-keys").append(...Object.entries(KEYS).map(([title, keys]) => make("section", {}, make("h3", {}, title),
      make("dl", {}, ...keys.flatMap(([key, does]) => [make("dt", {}, key), make("dd", {}, does)])))));
    find("help-regimes").append(...[...this.model.regimes].flatMap(([name, meaning]) => [make("dt", {}, name), make("dd", {}, meaning)]));
    document.title = `${this.model.traces.map(trace => trace.raw.name).join(" · ")} – trace report`;
    this.listen();
  }

  listen() {
    find("search").addEventListener("input", () => this.search());
    find("search").addEventListener("keydown", event => { if (event.key === "Enter") this.jump(event.shiftKey ? -1 : 1); });
    const clicks = {previous: () => this.jump(-1), next: () => this.jump(1), fit: () => this.timeline.fit(), "zoom-in": () => this.timeline.zoom(1.5),
                    "zoom-out": () => this.timeline.zoom(1 / 1.5), theme: () => this.switchTheme(), "help-button": () => find("help").showModal()};
    for (const [id, action] of Object.entries(clicks)) find(id).addEventListener("click", action);
    find("help").addEventListener("click", event => { if (event.target === find("help")) find("help").close(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    document.addEventListener("keydown", event => this.key(event));
    this.listenToSplitter();
  }

  listenToSplitter() {
    const splitter = find("splitter"), dock = find("dock");
    const setHeight = height => { dock.style.height = `${Math.min(Math.max(height, 90), window.innerHeight - 260)}px`; };
    // Lanes that need little room leave it to the tables.
    const spare = find("scroller").clientHeight - this.timeline.contentHeight;
    if (spare > 0) setHeight(Math.min(dock.offsetHeight + spare, window.innerHeight * 0.55));
    splitter.addEventListener("pointerdown", event => splitter.setPointerCapture(event.pointerId));
    splitter.addEventListener("pointermove", event => { if (splitter.hasPointerCapture(event.pointerId)) setHeight(window.innerHeight - event.clientY); });
    splitter.addEventListener("keydown", event => {
      const step = {ArrowUp: 24, ArrowDown: -24}[event.key];
      if (step) { setHeight(dock.offsetHeight + step); event.stopPropagation(); event.preventDefault(); }
    });
  }

  key(event) {
    const typing = event.target.matches("input");
    if (event.key === "Escape") { this.clear(event.target); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || find("help").open) return;
    const onControl = event.target.matches("button, #table-scroll, #details") && /^(Enter|Arrow.*)$/.test(event.key);
    const own = {"/": () => find("search").select(), "?": () => find("help").showModal(), t: () => this.switchTheme(), n: () => this.jump(1), N: () => this.jump(-1)};
    if (own[event.key]) { own[event.key](); event.preventDefault(); }
    else if (!onControl && this.input.key(event)) event.preventDefault();
  }

  // Esc undoes the nearest thing: what is typed, then the measured range and selection, then the search.
  clear(target) {
    if (target.matches("input")) { target.value = ""; target.dispatchEvent(new Event("input")); target.blur(); return; }
    if (this.timeline.selected || this.timeline.range) { this.timeline.range = null; this.select(null); return; }
    find("search").value = "";
    this.search();
  }

  select(target, reveal = true) {
    this.timeline.selected = target;
    if (target) showSlice(target, next => this.select(next));
    else showTotals(this.model, this.timeline.range);
    if (target && reveal) this.timeline.reveal(target);
    this.timeline.redraw();
  }

  search() {
    const text = find("search").value.trim();
    this.timeline.matches = text ? new Matches(this.model, text) : null;
    this.current = -1;
    this.showMatches();
    this.timeline.redraw();
  }
  jump(step) {
    const all = this.timeline.matches?.all ?? [];
    if (!all.length) return;
    this.current = this.current < 0 ? (step > 0 ? 0 : all.length - 1) : (this.current + step + all.length) % all.length;
    this.select(all[this.current]);
    this.showMatches();
  }
  showMatches() {
    const matches = this.timeline.matches;
    find("matches").textContent = !matches ? "" : this.current >= 0 ? `${fixed(this.current + 1)} / ${fixed(matches.all.length)}` : matches.all.length ? fixed(matches.all.length) : "none";
    find("search-box").classList.toggle("searching", !!matches);
  }

  switchTheme() { this.theme.toggle(); this.repaint(); }
  repaint() { this.theme.read(); this.timeline.backdrop = null; this.timeline.redraw(); }
}

window.report = new Page(JSON.parse(find("data").textContent));
