#!/usr/bin/env python3
"""trace diff and trace expect as a user runs them: exit codes, keys, files."""
import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

TRACES = Path(__file__).resolve().parent / "data" / "traces"
PROGRAM = ""


def real(name):
    return TRACES / f"{name}.json.gz"


class TraceProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)

    def result(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code == 2 else done.stdout

    def rules(self, text):
        file = self.path / "rules.toml"
        file.write_text(text)
        return file

    def ours(self):
        file = self.path / "ours.json.gz"
        self.result("profile", "mlp", "--batch", 2, "--seq", 8, "--dim", 64, "--hidden", 96, "--dtype", "bf16",
                    "--profile-memory", "--trace", file)
        return file

    def test_diff_says_which_kernels_became_one(self):
        for other in ("mlp_compile", "mlp_liger"):
            first = self.result("trace", "diff", real("mlp_eager"), real(other)).splitlines()[0]
            self.assertIn("4 kernels per step instead of 5: gelu and mul became one", first)

    def test_diff_against_itself_says_nothing_changed(self):
        found = json.loads(self.result("trace", "diff", real("mlp_eager"), real("mlp_eager"), "--format", "json"))
        self.assertTrue(found["says"].startswith("Nothing changed"))
        self.assertEqual([found["only_a"], found["only_b"], found["changed"]], [[], [], []])

    def test_diff_fail_on_decides_the_exit_code(self):
        pair = ("trace", "diff", real("mlp_compile"), real("mlp_eager"))
        self.result(*pair, "--fail-on", "step-time:500%")
        text = self.result(*pair, "--fail-on", "step-time:500%", "--fail-on", "kernels-per-step", code=1)
        self.assertIn("Failed kernels-per-step: 5 instead of 4", text)
        self.assertIn("expected kernels-per-step", self.result(*pair, "--fail-on", "luck", code=2))

    def test_diff_matches_our_ops_with_pytorchs(self):
        found = json.loads(self.result("trace", "diff", real("mlp_eager"), self.ours(), "--format", "json"))
        self.assertIn("B runs 5 CPU kernels per step where A runs 5 device kernels;", found["says"])
        self.assertIn(["aten::linear", "ep::linear"], [row["names"] for row in found["changed"]])
        self.assertEqual({row["kind"] for row in found["only_b"]} - {"op"}, {"cpu kernel"})

    def test_expect_passes_and_fails(self):
        rules = self.rules("[[rule]]\nkernels_per_step = 5\n")
        self.result("trace", "expect", rules, real("mlp_eager"))
        report = self.path / "report.xml"
        found = json.loads(self.result("trace", "expect", rules, real("mlp_eager"), real("mlp_compile"), "--format",
                                       "json", "--junit", report, code=1))
        self.assertEqual([rule["passed"] for rule in found["rules"]], [True, False])
        self.assertEqual(set(found["rules"][1]), {"rule", "file", "passed", "expected", "found"})
        suites = xml.etree.ElementTree.parse(report).getroot()
        self.assertEqual((suites.get("tests"), suites.get("failures")), ("2", "1"))

    def test_explain_takes_names_longer_than_a_files(self):
        lines = (TRACES.parent / "kernel_names.tsv").read_text().splitlines()
        name = next(line.split("\t")[0] for line in lines if not line.startswith("#") and line.index("\t") > 255)
        self.assertEqual(json.loads(self.result("trace", "explain", name, "--format", "json"))["name"], name)
        self.assertIn("cannot open: No such file", self.result("trace", "explain", self.path / "none.json.gz", code=2))

    def test_explain_says_that_what_it_does_not_know_is_no_file(self):
        for name, told in (("mytrac", "epilogue: mytrac: no file of that name; it was read as a kernel's name\n"),
                           ("triton_poi_fused_gelu_mul_0", "")):
            done = subprocess.run([PROGRAM, "trace", "explain", name], capture_output=True, text=True, timeout=300)
            self.assertEqual((done.returncode, done.stderr), (0, told))
        self.assertEqual(self.result("trace", "explain", "", code=2).count("\n"), 1)

    def test_damage_is_told_wherever_a_trace_is_read(self):
        cut = self.path / "cut.json.gz"
        cut.write_bytes(real("mlp_eager").read_bytes()[:-400])
        rules = self.rules("[[rule]]\nkernels_per_step = { min = 0 }\n")
        for command, code in ((("gaps", cut), 0), (("expect", rules, cut), 1)):
            found = json.loads(self.result("trace", *command, "--format", "json", code=code))
            self.assertIn("gzip data is cut short", [problem["what"] for problem in found["problems"]])
            done = subprocess.run([PROGRAM, "trace", *map(str, command)], capture_output=True, text=True, timeout=300)
            self.assertIn("cut.json.gz: gzip data is cut short: 1", done.stderr)
        said = self.result("trace", "diff", real("mlp_eager"), cut).splitlines()[0]
        self.assertTrue(said.startswith("B is damaged (") and "instead of" not in said, said)
        whole, damaged = json.loads(self.result("trace", "diff", real("mlp_eager"), cut, "--format", "json"))["problems"]
        self.assertEqual(whole, [])
        self.assertIn("gzip data is cut short", [problem["what"] for problem in damaged])

    def test_no_step_of_a_cut_trace_is_said_to_be_bound_by_anything(self):
        cut = self.path / "cut.json.gz"
        cut.write_bytes(real("mlp_eager").read_bytes()[:4000])
        found = json.loads(self.result("trace", "summary", cut, "--format", "json"))
        self.assertEqual({step["regime"] for step in found["steps"]} | {found["regime"]}, {"incomplete"})
        self.assertNotIn("-bound", self.result("trace", "summary", cut))

    def test_a_terminal_is_not_given_what_it_would_obey(self):
        trace = self.path / "escapes.json"
        name = "k\x1b[31m\x07"
        trace.write_text(json.dumps({"traceEvents": [
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 50},
            {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 9},
            {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": 2, "dur": 1, "args": {"correlation": 1}},
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 5, "dur": 1, "args": {"correlation": 1}}]}))
        rules = self.rules("[[rule]]\nhas_kernel = 'k*'\n")
        for command in (("summary", trace), ("summary", trace, trace), ("gaps", trace), ("explain", trace),
                        ("expect", rules, trace), ("diff", real("mlp_eager"), trace)):
            text = self.result("trace", *command)
            self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f]")
        self.assertIn(name, [kernel["name"] for kernel in json.loads(
            self.result("trace", "summary", trace, "--format", "json"))["kernels"]])

    def test_what_a_command_reads_it_does_not_write_over(self):
        trace, rules = self.path / "t.json.gz", self.path / "r.toml"
        trace.write_bytes(real("mlp_eager").read_bytes())
        self.result("trace", "expect", "--write", rules, trace)
        before = trace.read_bytes(), rules.read_bytes()
        other_name = self.path / "." / "link.json.gz"
        other_name.symlink_to(trace)
        for arguments in (("report", trace, "-o", trace), ("report", trace, "-o", other_name), ("expect", "--write", trace, trace),
                          ("expect", rules, trace, "--junit", rules), ("expect", rules, trace, "--junit", trace)):
            self.assertIn("is read by this command, so it cannot be written to", self.result("trace", *arguments, code=2))
            self.assertEqual((trace.read_bytes(), rules.read_bytes()), before)

    def test_report_goes_to_a_page_or_to_standard_output(self):
        page, short = self.path / "page.html", self.path / "page.htm"
        for file in (page, short):
            self.assertEqual(self.result("trace", "report", real("mlp_eager"), "-o", file), f"{file}\n")
        self.assertEqual(page.read_bytes(), short.read_bytes())
        done = subprocess.run([PROGRAM, "trace", "report", real("mlp_eager"), "-o", "-"], capture_output=True, timeout=300, cwd=self.path)
        self.assertEqual((done.returncode, done.stdout), (0, page.read_bytes()))
        for name in ("page", "page.json", "page.txt", "html"):
            self.assertEqual(self.result("trace", "report", real("mlp_eager"), "-o", self.path / name, code=2), f"epilogue: --output: expected FILE.html, got {self.path / name}\n")
        self.assertEqual(sorted(file.name for file in self.path.iterdir()), ["page.htm", "page.html"])

    def test_no_gate_passes_on_a_trace_that_lost_its_kernels(self):
        events = json.loads(gzip.decompress(real("mlp_eager").read_bytes()))
        for event in events["traceEvents"]:
            if event.get("cat") == "kernel":
                event["dur"] = -event["dur"]
        lost, rules = self.path / "lost.json", self.path / "r.toml"
        lost.write_text(json.dumps(events))
        for rule in ("kernels_per_step = 0", "device_time_us = {max = 100}"):
            rules.write_text(f"[[rule]]\n{rule}\n")
            self.assertIn("the trace is damaged", self.result("trace", "expect", rules, lost, code=1))
        for condition in ("kernels-per-step", "new-kernels", "device-time:5%"):
            self.assertIn("is damaged", self.result("trace", "diff", real("mlp_eager"), lost, "--fail-on", condition, code=1))

    def test_no_rules_are_proposed_from_nothing(self):
        empty = self.path / "empty.json"
        empty.write_text('{"traceEvents": []}')
        self.assertIn("it holds no event", self.result("trace", "expect", "--write", "-", empty, code=2))

    def test_rules_from_a_trace_without_steps_say_what_to_call(self):
        events = json.loads(gzip.decompress(real("mlp_eager").read_bytes()))
        events["traceEvents"] = [e for e in events["traceEvents"] if not e["name"].startswith("ProfilerStep#")]
        trace = self.path / "stepless.json"
        trace.write_text(json.dumps(events))
        done = subprocess.run([PROGRAM, "trace", "expect", "--write", "-", trace], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0)
        self.assertIn("kernels_per_call", done.stdout)
        self.assertIn("stepless.json: marks no steps", done.stderr)
        self.assertIn("prof.step()", done.stderr)

    def test_bad_rules_are_one_line_and_exit_2(self):
        said = self.result("trace", "expect", self.rules("[[rule]]\nkernels = 5\n"), real("mlp_eager"), code=2)
        self.assertIn("rules.toml:2: 'kernels' is not known", said)
        self.assertEqual(said.count("\n"), 1)
        self.result("trace", "expect", self.path / "none.toml", real("mlp_eager"), code=2)
        self.assertIn("is a directory", self.result("trace", "expect", self.path, real("mlp_eager"), code=2))
        self.result("trace", "expect", self.rules("[[rule]]\nno_copy = true\n"), code=2)

    def test_a_trace_in_the_place_of_the_rules_is_told(self):
        rules = self.rules("[[rule]]\nkernels_per_step = 5\n")
        for text in ('{"traceEvents": []}', "[]", "\n[\n  {}]"):
            plain = self.path / "plain.json"
            plain.write_text(text)
            self.assertEqual(self.result("trace", "expect", plain, rules, code=2),
                             f"epilogue: {plain}: is a trace, expected a rules file, which comes before the traces\n")
        self.assertIn("is a trace, expected a rules file", self.result("trace", "expect", real("mlp_eager"), rules, code=2))

    def test_junit_of_an_earlier_run_does_not_outlive_input_that_cannot_be_read(self):
        rules, report = self.rules("[[rule]]\nkernels_per_step = 5\n"), self.path / "report.xml"
        broken = self.path / "broken.toml"
        broken.write_text("[[rule]]\nkernels = 5\n")
        good = real("mlp_eager")
        for arguments, tests, at, why in (((rules, good, self.path / "nope.json"), 2, "nope.json", "No such file"),
                                          ((broken, good), 1, "broken.toml", "not known"),
                                          ((rules,), 1, "rules.toml", "at least one trace")):
            report.write_text("of an earlier run")
            said = self.result("trace", "expect", *arguments, "--junit", report, code=2)
            self.assertEqual(said.count("\n"), 1)
            suites = xml.etree.ElementTree.parse(report).getroot()
            self.assertEqual((suites.get("tests"), suites.get("failures"), suites.get("errors")), (str(tests), "0", "1"))
            case = next(case for case in suites.iter("testcase") if case.find("error") is not None)
            self.assertIn(at, case.get("classname"))
            self.assertIn(why, case.find("error").get("message"))

    def test_a_trace_that_cannot_be_read_keeps_no_other_from_being_checked(self):
        rules, report = self.rules("[[rule]]\nkernels_per_step = 5\n"), self.path / "report.xml"
        unnamed = os.fsencode(self.path) + b"/\xff\xef\xbf\xbf.json.gz"  # neither UTF-8 nor XML has these
        shutil.copy(real("mlp_eager"), unnamed)
        paths = (real("mlp_eager"), self.path / "nope.json", os.fsdecode(unnamed), real("mlp_compile"))
        done = subprocess.run([PROGRAM, "trace", "expect", rules, *paths, "--format", "json", "--junit", report], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        found = json.loads(done.stdout)
        self.assertEqual([rule["passed"] for rule in found["rules"]], [True, True, False])
        self.assertEqual([Path(unread["file"]).name for unread in found["unread"]], ["nope.json"])
        self.assertEqual(len(done.stderr.splitlines()), 1)
        suites = xml.etree.ElementTree.parse(report).getroot()
        self.assertEqual((suites.get("tests"), suites.get("failures"), suites.get("errors")), ("4", "1", "1"))
        self.assertIn("--junit", self.result("trace", "expect", rules, real("mlp_eager"), "--junit", "", code=2))

    def test_written_rules_pass_on_their_trace(self):
        rules = self.path / "proposed.toml"
        for file in (real("mlp_fp32_gelu"), self.ours()):
            self.result("trace", "expect", "--write", rules, file, "--force")
            self.result("trace", "expect", rules, file)
        self.assertIn("[[rule]]", self.result("trace", "expect", "--write", "-", real("mlp_eager")))

    def test_written_rules_replace_no_edited_ones_unless_forced(self):
        rules = self.rules("# mine\n")
        said = self.result("trace", "expect", "--write", rules, real("mlp_eager"), code=2)
        self.assertIn("rules.toml: is there already and may have been edited", said)
        self.assertEqual((said.count("\n"), rules.read_text()), (1, "# mine\n"))
        self.result("trace", "expect", "--write", "/dev/null", real("mlp_eager"))
        self.result("trace", "expect", "--write", rules, "--force", real("mlp_eager"))
        self.assertIn("[[rule]]", rules.read_text())
        self.assertIn("--force goes with --write", self.result("trace", "expect", rules, real("mlp_eager"), "--force", code=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
