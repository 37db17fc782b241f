#!/usr/bin/env python3
"""Opens reports in headless Chromium and uses them as a person would, through the driver's WebDriver protocol.

usage: report_page_test.py --program EPILOGUE --data TRACES [--shots FOLDER] [unittest arguments]
Needs Debian's chromium and chromium-driver; without them it fails. --shots leaves screenshots there.
"""
import argparse
import base64
import gzip
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

OPTIONS = argparse.Namespace()
THREE = ["mlp_eager", "mlp_compile", "mlp_liger"]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """A headless Chromium behind its driver."""

    def __init__(self):
        driver = shutil.which("chromedriver")
        if not driver or not shutil.which("chromium"):
            raise RuntimeError("chromium and chromium-driver are needed: tools/deps test")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.session = ""
        for _ in range(200):
            try:
                self.call("GET", "/status")
                break
            except OSError:
                time.sleep(0.05)
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb"]
        wanted = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": {"args": arguments}}
        self.session = "/session/" + self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + self.session + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait()

    def open(self, page):
        self.call("POST", "/url", {"url": Path(page).as_uri()})
        self.script("document.documentElement.style.colorScheme = 'light'; report.repaint();")
        self.frame()

    def size(self, width, height):
        self.call("POST", "/window/rect", {"width": width, "height": height})

    def script(self, text, *arguments):
        return self.call("POST", "/execute/sync", {"script": text, "args": list(arguments)})

    def frame(self):
        """Waits until what was asked for is drawn."""
        self.call("POST", "/execute/async", {"script": "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))", "args": []})

    def element(self, css):
        return self.call("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self.call("POST", f"/element/{self.element(css)}/click", {})
        self.frame()

    def type(self, css, text):
        self.call("POST", f"/element/{self.element(css)}/value", {"text": text})
        self.frame()

    def text(self, css):
        return self.script("return document.querySelector(arguments[0]).innerText", css)

    def keys(self, text):
        """Pressed on the lanes."""
        self.script("document.getElementById('lanes').focus()")
        presses = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.act({"type": "key", "id": "keys", "actions": presses})

    def act(self, *sources):
        self.call("POST", "/actions", {"actions": list(sources)})
        self.frame()

    def point(self, x, y, *then):
        """Moves the mouse to a point of the lanes, then does the given actions."""
        left, top = self.script("const r = document.getElementById('lanes').getBoundingClientRect(); return [r.left, r.top]")
        move = {"type": "pointerMove", "duration": 0, "x": round(left + x), "y": round(top + y)}
        self.act({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move, *then]})

    def wheel(self, x, y, delta):
        left, top = self.script("const r = document.getElementById('lanes').getBoundingClientRect(); return [r.left, r.top]")
        scroll = {"type": "scroll", "x": round(left + x), "y": round(top + y), "deltaX": 0, "deltaY": delta, "duration": 0, "origin": "viewport"}
        self.act({"type": "wheel", "id": "wheel", "actions": [scroll]})

    def view(self):
        return self.script("return [report.timeline.view.from, report.timeline.view.to]")

    def column(self, key):
        """A column of the table as text, from top to bottom."""
        return self.script("""const at = [...document.querySelectorAll('#table th')].findIndex(th => th.dataset.key === arguments[0]);
            return [...document.querySelectorAll('#table tbody tr')].map(row => row.cells[at].innerText);""", key)

    def errors(self):
        """What the console said since the last call, but for advice about these tests' own reading of pixels."""
        log = self.call("POST", "/se/log", {"type": "browser"})
        return [entry for entry in log if entry["level"] in ("SEVERE", "WARNING") and "getImageData" not in entry["message"]]

    def shot(self, name):
        if OPTIONS.shots:
            Path(OPTIONS.shots).mkdir(parents=True, exist_ok=True)
            (Path(OPTIONS.shots) / f"{name}.png").write_bytes(base64.b64decode(self.call("GET", "/screenshot")))


def in_nanoseconds(text):
    """"2.045 s" as the page writes a time."""
    number, unit = text.split()
    return float(number.replace(",", "")) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]


def kernel_args(correlation):
    return {"External id": correlation, "device": 0, "context": 1, "stream": 7, "correlation": correlation, "registers per thread": 32,
            "shared memory": 0, "blocks per SM": 1.0, "warps per SM": 4.0, "grid": [64, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 50}


def long_trace(launches):
    """Four slices a launch: an op in an op, a runtime call, a kernel; a step every thousand."""
    events = []

    def add(cat, name, pid, tid, start, length, args):
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": round(start, 3), "dur": round(length, 3), "args": args})

    for i in range(launches):
        t, number = i * 11.0, i + 1
        if i % 1000 == 0:
            add("user_annotation", f"ProfilerStep#{i // 1000}", 10, 10, t, min(1000, launches - i) * 11.0 - 0.5, {})
        add("cpu_op", f"aten::op{i % 37}", 10, 10, t, 9.0, {"External id": 10_000_000 + i})
        add("cpu_op", "aten::mm", 10, 10, t + 1, 7.0, {"External id": number})
        add("cuda_runtime", "cudaLaunchKernel", 10, 10, t + 2, 4.0, {"External id": number, "cbid": 211, "correlation": number})
        add("kernel", f"kernel_{i % 11}", 0, 7, t + 8 + i % 3, 6.5, kernel_args(number))
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made up"}], "traceEvents": events}


def host_trace():
    """What a CPU run leaves: ops with our CPU kernels inside, no device."""
    events = []
    for step in range(3):
        t = step * 1000.0
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 5, "tid": 5, "ts": t, "dur": 900.0, "args": {}})
        for i, name in enumerate(["ep::linear", "ep::gelu", "ep::mul", "ep::linear"]):
            start = t + 10 + i * 200
            events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 5, "tid": 5, "ts": start, "dur": 190.0, "args": {"External id": step * 10 + i + 1, "Input Dims": [[64, 768]], "Input type": ["float"]}})
            events.append({"ph": "X", "cat": "cpu_kernel", "name": f"epilogue_{name[4:]}_f32", "pid": 5, "tid": 5, "ts": start + 5, "dur": 180.0, "args": {"External id": step * 10 + i + 1, "flops": 75497472, "bytes": 2359296, "threads": 2}})
    return {"schemaVersion": 1, "traceEvents": events}


class ReportPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.three = cls.report("three", [Path(OPTIONS.data) / f"{name}.json.gz" for name in THREE])

    @classmethod
    def report(cls, name, traces):
        page = Path(cls.folder.name) / f"{name}.html"
        subprocess.run([OPTIONS.program, "trace", "report", *map(str, traces), "-o", str(page)], check=True, stdout=subprocess.DEVNULL)
        return page

    @classmethod
    def report_of(cls, name, trace):
        path = Path(cls.folder.name) / f"{name}.json"
        path.write_text(json.dumps(trace))
        return cls.report(name, [path])

    def setUp(self):
        self.browser.size(1440, 1000)

    def tearDown(self):
        self.assertEqual(self.browser.errors(), [])

    def select_kernel(self, index=0):
        """Points at a kernel of the first trace, clicks it and returns its name."""
        b = self.browser
        name, x, y = b.script("""const t = report.timeline, trace = report.model.traces[0];
            const kernels = [...trace.kind.keys()].filter(i => trace.names.kinds[trace.kind[i]] === 'kernel');
            const event = kernels[arguments[0]], box = t.boxOf({trace, event});
            return [trace.fullName(event), box.x + box.width / 2, box.y + box.height / 2];""", index)
        b.point(x, y)
        self.assertIn("grid", b.text("#tooltip"))
        b.point(x, y, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0})
        return name

    def test_traces_are_aligned_at_their_first_step_and_compared(self):
        b = self.browser
        b.open(self.three)
        self.assertEqual(b.script("return report.model.traces.map(t => t.start[t.steps[0]])"), [0, 0, 0])
        rows = b.script("return [...document.querySelectorAll('#traces tbody tr')].map(row => row.innerText)")
        self.assertEqual([name for name, row in zip(THREE, rows) if name in row], THREE)
        kernels = b.script("return [...document.querySelectorAll('#traces tbody tr')].map(row => row.cells[3].innerText)")
        self.assertEqual(kernels, ["5", "4", "4"])
        summary = subprocess.run([OPTIONS.program, "trace", "summary", *(f"{OPTIONS.data}/{name}.json.gz" for name in THREE)],
                                 capture_output=True, text=True, timeout=300, check=True).stdout
        said = next(line for line in summary.splitlines() if line.startswith("regime"))
        said = re.split(r"\s{2,}", said)[1:]
        self.assertEqual(b.script("return [...document.querySelectorAll('#traces tbody tr')].map(row => row.cells[8].innerText)"), said)
        self.assertIn("B runs 4 kernels per step instead of 5: gelu and mul became one", rows[1])
        self.assertIn("C runs 4 kernels per step instead of 5: gelu and mul became one", rows[2])
        b.click("#tab-changes")
        self.assertIn("only in A", b.column("change"))
        self.assertIn("only in B", b.column("change"))
        b.shot("three-changes-light")

    def test_page_loads_nothing_and_forbids_it(self):
        b = self.browser
        b.open(self.three)
        self.assertEqual(b.script("return performance.getEntriesByType('resource').length"), 0)
        policy = b.script("return document.querySelector('meta[http-equiv]').content")
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        blocked = b.script("""const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); return window.ran === undefined""")
        self.assertTrue(blocked)
        self.assertEqual(len(b.errors()), 1)  # the policy's own message about the script above

    def test_wheel_keys_and_drag_move_the_view(self):
        b = self.browser
        b.open(self.three)
        whole = b.view()
        b.wheel(700, 200, -600)
        wheeled = b.view()
        self.assertLess(wheeled[1] - wheeled[0], 0.6 * (whole[1] - whole[0]))
        b.keys("ww")
        zoomed = b.view()
        self.assertAlmostEqual((zoomed[1] - zoomed[0]) * 1.35 ** 2, wheeled[1] - wheeled[0], places=3)
        b.keys("d")
        self.assertGreater(b.view()[0], zoomed[0])
        before = b.view()
        b.point(900, 300, {"type": "pointerDown", "button": 0}, {"type": "pointerMove", "duration": 50, "origin": "pointer", "x": -200, "y": 0}, {"type": "pointerUp", "button": 0})
        self.assertGreater(b.view()[0], before[0])
        self.assertIsNone(b.script("return report.timeline.selected"))
        b.keys("f")
        self.assertAlmostEqual(b.view()[0], whole[0], places=3)
        self.assertAlmostEqual(b.view()[1], whole[1], places=3)

    def test_clicked_kernel_shows_its_launch_and_an_arrow(self):
        b = self.browser
        b.open(self.three)
        name = self.select_kernel()
        details = b.text("#details")
        for expected in (name, "Grid", "2 × 66 × 1", "384 threads", "Registers", "168", "Shared memory", "stream 7", "Correlation", "aten::mm", "cuLaunchKernelEx"):
            self.assertIn(expected, details)
        self.assertEqual(b.script("return report.timeline.selected.trace.flows(report.timeline.selected.event).length"), 1)
        b.shot("three-light")
        b.click("#details .facts tr:nth-last-child(3) .slice")  # the op
        self.assertIn("BFloat16", b.text("#details .inputs"))
        b.keys("z")
        b.shot("three-op-light")

    def test_shift_drag_measures_a_stretch(self):
        b = self.browser
        b.open(self.three)
        whole = b.view()
        shift = {"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": "\ue008"}]}
        b.act(shift)
        b.point(400, 300, {"type": "pointerDown", "button": 0}, {"type": "pointerMove", "duration": 50, "origin": "pointer", "x": 300, "y": 0}, {"type": "pointerUp", "button": 0})
        b.call("DELETE", "/actions")
        self.assertIn("Measured", b.text("#details h2"))
        self.assertEqual(b.view(), whole)
        b.shot("three-measured-light")

    def test_search_highlights_and_jumps(self):
        b = self.browser
        b.open(self.three)
        b.keys("/")
        b.type("#search", "geglu_tanh")
        self.assertEqual(b.text("#matches"), "3")
        b.type("#search", "\ue007")
        self.assertEqual(b.text("#matches"), "1 / 3")
        first = b.script("return report.timeline.selected.event")
        self.assertIn("_geglu_tanh_forward_kernel", b.text("#details"))
        b.keys("n")
        self.assertGreater(b.script("return report.timeline.selected.event"), first)
        b.keys("N")
        self.assertEqual(b.script("return report.timeline.selected.event"), first)
        b.shot("three-search-light")
        b.type("#search", " no such thing")
        self.assertEqual(b.text("#matches"), "none")

    def test_tables_sort_and_filter(self):
        b = self.browser
        b.open(self.three)
        number = in_nanoseconds
        b.click("#tab-kernels")
        b.click("th[data-key=avg_us] button")
        down = [number(text) for text in b.column("avg_us")]
        self.assertEqual(down, sorted(down, reverse=True))
        self.assertGreater(len(set(down)), 3)
        b.click("th[data-key=avg_us] button")
        self.assertEqual([number(text) for text in b.column("avg_us")], sorted(down))
        self.assertEqual(b.script("return document.querySelector('th[data-key=avg_us]').ariaSort"), "ascending")
        b.type("#filter", "triton")
        self.assertEqual(b.column("trace"), ["B"])
        b.click("#tab-ops")
        b.script("document.getElementById('filter').value = ''; report.tables.render()")
        b.click("#which button:nth-child(2)")
        self.assertEqual(set(b.column("trace")), {"A"})
        self.assertIn("aten::linear", b.column("name"))
        calls = dict(zip(b.column("name"), b.column("calls")))
        self.assertEqual(calls["aten::mm"], "9")

    def test_tables_scale_their_times_as_the_panels_do(self):
        slices = [("long", 0, 2_000_000.0), ("middle", 3_000_000, 5_500.0), ("short", 4_000_000, 12.5)]
        events = [{"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": {"device": 0, "stream": 7}} for name, ts, dur in slices]
        b = self.browser
        b.open(self.report_of("scales", {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made up"}], "traceEvents": events}))
        self.assertEqual(b.column("total_us"), ["2.000 s", "5.500 ms", "12.50 µs"])

    def test_a_device_lane_says_how_busy_it_was_in_view_and_in_all(self):
        def kernel(name, start, length, stream=7, cat="kernel"):
            return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": length, "args": {"device": 0, "stream": stream}}

        # An annotation is no work, and what overlaps counts once.
        events = [kernel("range", 0, 1000, cat="gpu_user_annotation"), kernel("a", 0, 200), kernel("b", 100, 150), kernel("c", 900, 100), kernel("d", 0, 1, 8)]
        b = self.browser
        b.open(self.report_of("busy", {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made up"}], "traceEvents": events}))
        lanes = "return report.timeline.bands.filter(band => band.type === 'label').map(band => [band.track.name, report.timeline.busyText(band)])"
        self.assertEqual(b.script(lanes), [["stream 7", "35% busy"], ["stream 8", "<1% busy"]])
        y = b.script("return report.timeline.bands.find(band => band.type === 'row').y + 8")
        b.script("report.timeline.setView(0, 500e3)")
        b.frame()
        self.assertEqual(b.script(lanes), [["stream 7", "50% busy"], ["stream 8", "<1% busy"]])
        b.point(40, y)
        self.assertEqual(b.text("#tooltip").split("\n"), ["stream 7", "In view: busy 250.00 µs of 500.00 µs (50.0%), idle 250.00 µs",
                                                          "In all: busy 350.00 µs of 1.000 ms (35.0%), idle 650.00 µs"])

    def test_streams_that_run_at_once_are_both_in_the_overview(self):
        b = self.browser
        work = [("kernel", "ampere_sgemm_128x64_tn", 7), ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 8)]
        slices = [{"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": 0, "dur": 1000.0, "args": {"stream": stream}} for cat, name, stream in work]
        b.open(self.report_of("at_once", {"traceEvents": slices}))
        colors = b.script("""const t = report.timeline, c = t.overviewContext, x = Math.round(t.overviewX(500e3) * t.ratio), found = new Set();
            for (let y = 3; y + 3 < t.overview.height; y++) found.add([...c.getImageData(x, y, 1, 1).data.slice(0, 3)].join());
            return [found.size, t.theme.fills[3] !== t.theme.fills[6]]""")
        self.assertEqual(colors, [3, True])  # the ground, a product's colour and a copy's
        self.assertEqual(b.errors(), [])

    def test_on_a_phone_each_number_stands_below_its_title(self):
        b = self.browser
        b.size(500, 1000)
        b.open(self.three)
        cells = b.script("""return [...document.querySelectorAll('#traces tbody tr:first-child td[data-title]')].map(td => [td.dataset.title, td.innerText, getComputedStyle(td, '::before').content])""")
        self.assertEqual([cell[:2] for cell in cells], [["Step, median", "191.09 µs"], ["Kernels / step", "5"], ["Device time", "233.12 µs"], ["Device idle", "36.23 µs"], ["Steps", "3"], ["Step vs A", "–"]])
        self.assertEqual([title for title, _, shown in cells if shown != f'"{title}"'], [])
        self.assertEqual(b.script("return getComputedStyle(document.querySelector('#traces thead')).display"), "none")
        b.shot("phone-light")

    def test_dark_repaints_page_and_lanes(self):
        b = self.browser
        b.open(self.three)
        look = "const p = report.timeline.context.getImageData(report.timeline.canvas.width - 3, 300, 1, 1).data; return [getComputedStyle(document.body).backgroundColor, p[0]]"
        light = b.script(look)
        self.select_kernel(2)
        b.click("#theme")
        dark = b.script(look)
        self.assertNotEqual(light[0], dark[0])
        self.assertLess(dark[1], 80)
        self.assertGreater(light[1], 200)
        b.shot("three-dark")

    def test_help_lists_the_keys(self):
        b = self.browser
        b.open(self.three)
        b.keys("?")
        self.assertTrue(b.script("return document.getElementById('help').open"))
        self.assertIn("next, previous match", b.text("#help"))
        b.shot("help-light")
        b.act({"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": "\ue00c"}, {"type": "keyUp", "value": "\ue00c"}]})
        self.assertFalse(b.script("return document.getElementById('help').open"))

    def test_regimes_are_explained_on_the_page_and_in_the_tutorial_alike(self):
        b = self.browser
        b.open(self.three)
        meaning = dict(b.script("return [...report.model.regimes]"))
        self.assertEqual(b.script("return [...document.querySelectorAll('#traces tbody .regime button')].map(button => button.title)"), [meaning["launch-bound"]] * 3)
        b.click("#tab-steps")
        said = b.script("""const at = [...document.querySelectorAll('#table th')].findIndex(th => th.dataset.key === 'regime');
            return [...document.querySelectorAll('#table tbody tr')].map(row => [row.cells[at].innerText, row.cells[at].title]);""")
        self.assertEqual([text for _, text in said], [meaning[name] for name, _ in said])
        b.click("#traces tbody .regime button")
        self.assertTrue(b.script("return document.getElementById('help').open"))
        tutorial = (Path(__file__).resolve().parent.parent / "docs/tutorial.md").read_text()
        for name, text in meaning.items():
            self.assertIn(f"{name}\n{text}", b.text("#help-regimes"))
            self.assertIn(f"| {name} | {text} |\n", tutorial)
        b.shot("regimes-light")

    def test_memory_has_lanes(self):
        b = self.browser
        b.open(self.report("memory", [Path(OPTIONS.data) / "mlp_fp32_gelu.json.gz"]))
        self.assertEqual(b.script("return report.timeline.bands.filter(b => b.type === 'memory').map(b => b.memory.title)"), ["CUDA 0 allocated", "CUDA 0 reserved"])
        self.assertFalse(b.script("return !!document.getElementById('tab-changes')"))
        b.shot("memory-light")
        b.click("#theme")
        b.shot("memory-dark")

    def test_host_only_trace_leaves_out_what_it_lacks(self):
        b = self.browser
        b.open(self.report_of("host", host_trace()))
        self.assertEqual(b.script("return report.model.traces[0].shownTracks.map(t => t.device)"), [False])
        self.assertNotIn("self_device_us", b.script("return [...document.querySelectorAll('#table th')].map(th => th.dataset.key)"))
        b.shot("host-only-light")
        b.click("#tab-ops")  # in the order of a column that is shown
        self.assertEqual(b.script("return document.querySelector('th[data-key=self_cpu_us]').ariaSort"), "descending")
        times = [in_nanoseconds(text) for text in b.column("self_cpu_us")]
        self.assertEqual(times, sorted(times, reverse=True))

    def test_profile_writes_the_same_page(self):
        b = self.browser
        page = Path(self.folder.name) / "profile.html"
        shape = "--batch 1 --seq 16 --dim 64 --hidden 128 --record-shapes --profile-memory".split()
        subprocess.run([OPTIONS.program, "profile", "mlp", *shape, "--mode", "eager", "--report", str(page)], check=True, stdout=subprocess.DEVNULL)
        b.open(page)
        self.assertEqual(b.script("return report.model.traces.map(t => [t.raw.name, t.steps.length])"), [["eager", 3]])
        self.assertEqual(b.script("return document.querySelector('#traces tbody tr').cells[2].innerText"), "5")
        self.assertIn("CPU allocated", b.script("return report.timeline.bands.filter(b => b.type === 'memory').map(b => b.memory.title)"))
        b.shot("profile-light")

    def test_names_are_text_never_markup(self):
        trace = host_trace()
        hostile = "</script><img src=x onerror=alert(1)><script>"
        trace["traceEvents"][1]["name"] = hostile
        b = self.browser
        b.open(self.report_of("hostile", trace))
        self.assertIn(hostile, b.script("return report.model.names.strings"))
        self.assertEqual(b.script("return document.images.length"), 0)

    def test_trace_without_slices_says_so(self):
        b = self.browser
        b.open(self.report_of("empty", {"schemaVersion": 1, "traceEvents": []}))
        self.assertIn("No slices", b.text("#details"))
        self.assertIn("no ops", b.text("#table-empty"))
        b.shot("empty-light")

    def test_nested_slices_count_once_in_a_category(self):
        slices = [("outer", 0, 100), ("inner", 10, 50), ("after", 120, 30)]
        events = [{"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur} for name, ts, dur in slices]
        self.browser.open(self.report_of("nested", {"schemaVersion": 1, "traceEvents": events}))
        self.assertEqual(self.browser.script("return [...timeByCategory(report.model.traces[0], -Infinity, Infinity)][0]"), 130e3)
        self.assertEqual(self.browser.script("return [...timeByCategory(report.model.traces[0], 50e3, 130e3)][0]"), 60e3)

    def test_a_damaged_trace_is_not_said_to_lack_anything(self):
        whole, cut = Path(OPTIONS.data) / "mlp_eager.json.gz", Path(self.folder.name) / "cut.json"
        text = gzip.decompress(whole.read_bytes())
        cut.write_bytes(text[: len(text) // 2])
        self.browser.open(self.report("cut", [whole, cut]))
        self.browser.click("#tab-changes")
        changes = set(self.browser.column("change"))
        self.assertIn("in A, not in what is left of B", changes)
        self.assertNotIn("only in A", changes)

    def test_narrow_window_does_not_overflow(self):
        b = self.browser
        b.size(560, 1000)
        b.open(self.three)
        width, content = b.script("return [document.documentElement.clientWidth, document.documentElement.scrollWidth]")
        self.assertLessEqual(content, width)
        b.shot("narrow-light")

    def test_what_changed_and_the_totals_are_never_cut(self):
        b = self.browser
        four = self.report("four", [Path(OPTIONS.data) / f"{name}.json.gz" for name in [*THREE, "mlp_fp32_gelu"]])
        for width in (800, 1300, 1400):
            b.size(width, 1000)
            b.open(four)
            for part in ("traces", "details"):
                room, content = b.script("const e = document.getElementById(arguments[0]); return [e.clientWidth, e.scrollWidth]", part)
                self.assertLessEqual(content, room, f"#{part} at {width}")
            b.shot(f"four-{width}-light")

    def test_zoomed_out_a_lane_shows_what_took_its_time_and_how_much_of_it(self):
        events = []

        def add(cat, name, start, length):
            events.append({"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": length, "args": {"device": 0, "stream": 7}})

        for i in range(30_000):
            t = i * 12.0
            add("gpu_memset", "Memset (Device)", t, 0.5)
            add("kernel", "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_TNT", t + 1, 3.0)
            add("gpu_memset", "Memset (Device)", t + 5, 0.5)
        b = self.browser
        b.open(self.report_of("third", {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made up"}], "traceEvents": events}))
        # Of a column of pixels those that are no background, by their colour.
        counted = """const t = report.timeline, columns = arguments[0];
            const count = (context, x, y, height) => {
              const seen = {}, {data} = context.getImageData(x * t.ratio, y * t.ratio, 1, height * t.ratio), background = t.theme.colors.lanes;
              for (let i = 0; i < data.length; i += 4) {
                const color = `rgb(${data[i]}, ${data[i + 1]}, ${data[i + 2]})`;
                if (color !== background) seen[color] = (seen[color] ?? 0) + 1 / t.ratio;
              }
              return seen;
            };
            t.draw();
            const row = t.bands.find(band => band.type === 'row'), at = f => Math.round(t.gutter + (t.width - t.gutter) * f);
            const painted = t.backdrop.getContext('2d'), tall = Math.floor(t.backdrop.height / t.ratio);
            return {height: row.height - 1, gemm: t.theme.fills[3], lane: columns.map(f => count(t.context, at(f), row.y, row.height - 1)),
                    overview: columns.map(f => count(painted, at(f), 0, tall))};"""
        # A column that holds a grid line is its colour above the lane: take those beside.
        got = b.script(counted, [0.231, 0.377, 0.519, 0.683, 0.791])
        for lane in got["lane"]:
            self.assertEqual(list(lane), [got["gemm"]])
            self.assertAlmostEqual(lane[got["gemm"]] / got["height"], 1 / 3, delta=0.04)
        for column in got["overview"]:
            self.assertEqual(list(column), [got["gemm"]])
            self.assertLessEqual(column[got["gemm"]], 6)  # a third of 18
        b.shot("third-busy-light")

    def test_a_narrow_slice_that_stands_apart_is_drawn_whole(self):
        slices = [{"ph": "X", "cat": "kernel", "name": "alone", "pid": 0, "tid": 7, "ts": i * 100.0, "dur": 1.0, "args": {"device": 0, "stream": 7}} for i in range(100)]
        b = self.browser
        b.open(self.report_of("apart", {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made up"}], "traceEvents": slices}))
        width, drawn = b.script("""const t = report.timeline, row = t.bands.find(band => band.type === 'row'), c = t.context;
            t.draw();
            const box = t.boxOf({trace: row.trace, event: row.list[50]}), x = Math.floor(box.x), colors = [];
            for (let y = 0; y < row.height - 1; y++) colors.push([...c.getImageData(x * t.ratio, (row.y + y) * t.ratio, 1, 1).data].slice(0, 3).join(', '));
            return [1e3 * t.scale, colors.every(color => t.theme.fills[row.trace.category[row.list[50]]] === `rgb(${color})`)]""")
        self.assertLess(width, 0.5)
        self.assertTrue(drawn)

    def test_hundred_thousand_events_stay_smooth(self):
        b = self.browser
        b.open(self.report_of("long", long_trace(25_000)))
        events = b.script("return report.model.traces[0].count")
        self.assertGreaterEqual(events, 100_000)
        # Reading a pixel back makes the canvas finish its drawing, so the figure holds rasterising too.
        times = b.script("""const t = report.timeline, {first, last} = report.model, whole = last - first, times = [];
            for (let i = 0; i < 120; i++) {
              const span = whole / 2 ** (i % 12), from = first + (whole - span) * (0.3 + 0.2 * Math.sin(i));
              t.setView(from, from + span);
              const began = performance.now();
              t.draw();
              t.context.getImageData(0, 0, 1, 1);
              times.push(performance.now() - began);
            }
            return times.sort((a, b) => a - b);""")
        median, worst = times[len(times) // 2], times[-1]
        print(f"{events} events, {b.script('return [innerWidth, innerHeight].join(`x`)')}: a frame takes {median:.1f} ms median, {worst:.1f} ms at most (software rendering)")
        self.assertLess(median, 33)
        b.type("#search", "kernel_3")
        b.shot("long-light")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--shots")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
