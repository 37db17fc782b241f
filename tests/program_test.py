#!/usr/bin/env python3
"""The program as a user runs it: results on stdout, one line on stderr for what is wrong, the promised exit codes and keys."""
import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
PROGRAM = ""
FAILING_PASS = None  # a library


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment}, stdin=subprocess.DEVNULL)


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def result(self, *arguments, code=0, **environment):
        done = run(*arguments, **environment)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def json(self, *arguments, code=0, **environment):
        return json.loads(self.result(*arguments, "--format", "json", code=code, **environment))

    def refused(self, *arguments, says, **environment):
        done = run(*arguments, **environment)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        said = [line for line in done.stderr.splitlines() if "Sanitizer failed to allocate" not in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn(says, done.stderr)

    def profile(self, *arguments, **environment):
        found = self.json("profile", *arguments, **environment)
        self.assertEqual([mode["dropped"] for mode in found["modes"]], [0] * len(found["modes"]))
        return found

    def test_linear_is_one_kernel_and_matmul_add_two(self):
        self.assertEqual(self.profile("linear")["modes"][0]["kernels_per_step"], 1)
        self.assertEqual(self.profile("linear", "--no-bias")["modes"][0]["kernels_per_step"], 1)
        self.assertEqual(self.profile("matmul-add")["modes"][0]["kernels_per_step"], 2)

    def test_eager_mlp_is_five_kernels_in_every_dtype(self):
        for dtype in ("f32", "bf16", "f16"):
            found = self.profile("mlp", "--batch", 2, "--seq", 8, "--dim", 64, "--hidden", 96, "--dtype", dtype)
            self.assertEqual(found["modes"][0]["kernels_per_step"], 5, dtype)
            self.assertEqual(found["dtype"], dtype)
        plain = self.profile("mlp", "--batch", 2, "--seq", 8, "--dim", 64, "--hidden", 96, "--no-gate", "--bias")
        self.assertEqual(plain["modes"][0]["kernels_per_step"], 3)

    def test_fused_and_compiled_mlp_are_one_kernel(self):
        small = ("--batch", 2, "--seq", 8, "--dim", 64, "--hidden", 96)
        for mode in ("fused", "compiled"):
            for dtype in ("f32", "bf16", "f16"):
                file = self.path / "t.json"
                found = self.profile("mlp", *small, "--mode", mode, "--dtype", dtype, "--trace", file)
                self.assertEqual(found["modes"][0]["kernels_per_step"], 1, (mode, dtype))
                events = json.loads(file.read_text())["traceEvents"]
                kernels = {e["name"] for e in events if e.get("cat") == "cpu_kernel"}
                self.assertEqual(len(kernels), 1, kernels)
                self.assertTrue(kernels.pop().startswith("panel_gated_mlp_gelu_tanh_"))
                around = ["ep::compiled_gated_mlp"] if mode == "compiled" else []
                self.assertEqual([e["name"] for e in events if e.get("cat") == "cpu_op"], [*around, "ep::gated_mlp"] * 3)

    def test_a_fused_mlp_that_no_fused_kernel_takes_says_so(self):
        small = ("--batch", 2, "--seq", 8, "--dim", 64, "--hidden", 96)
        f64 = "fused runs as tuned: its kernel computes in f32 only"
        self.assertIn(f"\n{f64}\n", self.result("profile", "mlp", *small, "--mode", "fused", "--dtype", "f64"))
        self.assertEqual(self.profile("mlp", *small, "--mode", "fused", "--dtype", "f64")["modes"][0]["note"], f64)
        bench = ("bench", "mlp", *small, "--dtype", "f64", "--min-time", 0)
        self.assertEqual(self.result(*bench).count(f"\nf64: {f64}\n"), 1)
        self.assertEqual([row["note"] for row in self.json(*bench)["rows"]], [None, None, None, f64])
        self.assertIn("\nfused runs as tuned: weights are not to be packed\n",
                      self.result("profile", "mlp", *small, "--mode", "fused", EPILOGUE_PACK_WEIGHTS="0"))
        for mode in ("tuned", "fused"):
            self.assertIn(f"\n{mode} runs as eager: there is no gate\n", self.result("profile", "mlp", *small, "--mode", mode, "--no-gate"))
        self.assertIsNone(self.profile("mlp", *small, "--mode", "fused", "--dtype", "f16")["modes"][0]["note"])

    def test_a_tuned_mlp_whose_activation_no_kernel_joins_with_mul_says_so(self):
        small = ("--batch", 2, "--seq", 8, "--dim", 64, "--hidden", 96)
        note = "tuned runs as eager: no kernel joins relu and mul, ours or a package's"
        found = self.profile("mlp", *small, "--mode", "tuned,fused", "--act", "relu")["modes"]
        self.assertEqual([(mode["kernels_per_step"], mode["note"]) for mode in found], [(5, note), (1, None)])
        self.assertIn(f"\n{note}\n", self.result("profile", "mlp", *small, "--mode", "tuned", "--act", "relu"))
        f64 = self.profile("mlp", *small, "--mode", "fused", "--act", "relu", "--dtype", "f64")["modes"][0]
        self.assertEqual((f64["kernels_per_step"], f64["note"]),
                         (5, "fused runs as eager: its kernel computes in f32 only; no kernel joins relu and mul, ours or a package's"))
        self.assertIn("\ntuned runs as eager: there is no activation\n", self.result("profile", "mlp", *small, "--mode", "tuned", "--act", "none"))
        self.assertEqual(self.profile("mlp", *small, "--mode", "compiled", "--dtype", "f64")["modes"][0]["kernels_per_step"], 4)  # as the README says
        for environment in ({"EPILOGUE_ISA": "scalar"}, {"EPILOGUE_PACK_WEIGHTS": "0"}):
            self.assertEqual(self.profile("mlp", *small, "--mode", "compiled", **environment)["modes"][0]["kernels_per_step"], 3)

    def test_a_mode_of_the_mlp_says_so_elsewhere(self):
        for mode in ("tuned", "fused"):
            self.assertIn(f"\n{mode} runs as eager: it is a mode of the MLP\n", self.result("profile", "linear", "--mode", mode))

    def test_the_table_and_the_trace_are_of_the_last_window(self):
        file = self.path / "t.json"
        found = self.profile("linear", "--repeat", 3, "--trace", file)["modes"][0]
        steps = [e["dur"] for e in json.loads(file.read_text())["traceEvents"] if e["name"].startswith("ProfilerStep#")]
        self.assertEqual(len(steps), 3)
        for key, expected in (("median", sorted(steps)[1]), ("min", min(steps)), ("max", max(steps))):
            self.assertAlmostEqual(found["step_us"][key], expected, places=2)

    def test_a_mode_that_ran_before_is_no_speedup(self):
        for shown in (self.result("profile", "matmul-add", "--mode", "all"), self.result("bench", "linear", "--min-time", 0)):
            rows = [line.split() for line in shown.splitlines() if re.search(r"\b(tuned|fused|eager)\b.* [0-9.]+[mu]?s ", line)]
            self.assertGreaterEqual(len(rows), 2)
            for row in rows[1:]:
                self.assertIn("-", row)

    def test_peak_memory_is_the_modes_own(self):
        for _ in range(5):
            modes = self.profile("linear", "--mode", "all")["modes"]
            self.assertEqual(len({mode["memory"]["peak_allocated"] for mode in modes}), 1, modes)

    def test_what_a_measurement_lacked_is_told(self):
        self.assertIn("epilogue: 1000 threads on ", run("bench", "linear", "--threads", 1000, "--min-time", 0).stderr)
        self.assertIn("epilogue: 1000 threads on ", run("profile", "linear", EPILOGUE_THREADS="1000").stderr)
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(os.sched_getaffinity(0)))]
        try:
            self.assertIn("epilogue: disturbed: ", run("bench", "linear", "--min-time", "0.2").stderr)
        finally:
            for process in busy:
                process.kill()
                process.wait()

    def test_bench_names_the_nearer_ceiling(self):
        row = self.json("bench", "mlp", "--batch", 1, "--seq", 1, "--modes", "eager", "--min-time", 0)["rows"][0]
        self.assertAlmostEqual(row["gbs"], 4 * (3 * 768 * 3072 + 2 * 768) / row["median_us"] / 1e3, delta=0.01)
        nearer = "copy_gbs" if row["of_ceiling"] < row["of_copy"] <= 1.25 else "gflops"
        self.assertEqual(row["nearer_ceiling"], nearer)
        cached = self.json("bench", "linear", "--batch", 8, "--in-dim", 128, "--out-dim", 128, "--modes", "eager", "--threads", 1)["rows"][0]
        if cached["of_copy"] > 1.25:  # all of it lies in the first-level cache
            self.assertEqual(cached["nearer_ceiling"], "gflops")
        text = self.result("bench", "linear", "--dtype", "f64", "--min-time", 0)
        self.assertRegex(text, "% of (copy|FLOP/s) ")
        self.assertNotIn("Packed", text)

    def test_what_is_not_known_is_named_with_the_help_that_lists_it(self):
        self.refused("bench", "mlp", "--bacth", 1, says="epilogue: '--bacth' is not known; see epilogue bench mlp --help")
        self.refused("profile", "mlp", "--mode", "fuse", says="mode 'fuse' is not known: expected eager, ")
        rows = self.json("bench", "linear", "--mode", "eager", "--min-time", 0)["rows"]  # as profile and verify have it
        self.assertEqual([row["mode"] for row in rows], ["eager"])

    def test_a_graphs_memory_is_that_of_its_inputs(self):
        told = self.result("graph", "mlp", "--passes", "--batch", 2, "--seq", 16, "--disable", "gated_fusion")
        self.assertIn("768.00 KiB for what lives between kernels", told)  # two of 32 x 3072 in f32

    def test_compiled_mlp_has_no_kernel_for_the_activation_alone(self):
        small = ("--batch", 2, "--seq", 8, "--dim", 64, "--hidden", 96)
        for dtype in ("f32", "bf16", "f16"):
            found = self.profile("mlp", *small, "--mode", "compiled", "--dtype", dtype, "--trace", self.path / "t.json",
                                 EPILOGUE_DISABLE_PASSES="gated_fusion")  # fmt: skip
            self.assertEqual(found["modes"][0]["kernels_per_step"], 3, dtype)
            events = json.loads((self.path / "t.json").read_text())["traceEvents"]
            kernels = [e["name"] for e in events if e.get("cat") == "cpu_kernel"]
            self.assertTrue(any(name.endswith("_gelu_tanh_mul") for name in kernels), kernels)
            self.assertIn("ep::guards", {e["name"] for e in events if e.get("cat") == "overhead"})
        self.assertEqual(self.profile("mlp", *small, "--compile", "--no-gate")["modes"][0]["kernels_per_step"], 2)
        self.assertEqual(self.profile("matmul-add", "--compile")["modes"][0]["kernels_per_step"], 1)
        rows = self.json("bench", "mlp", *small, "--modes", "eager,compiled", "--min-time", 0.01)["rows"]
        self.assertEqual([(row["mode"], row["kernels"]) for row in rows], [("eager", 5), ("compiled", 1)])

    def test_a_build_that_failed_is_told(self):
        if not FAILING_PASS:
            self.skipTest("needs --failing-pass")
        preloaded = {"LD_PRELOAD": FAILING_PASS}
        small = ("mlp", "--batch", 2, "--seq", 8, "--dim", 64, "--hidden", 96)
        compiled = ("profile", *small, "--mode", "compiled")
        note = "compiled runs op by op, its build failed: this pass always fails"
        self.assertIn(f"\n{note}\n", self.result(*compiled, **preloaded))
        mode = self.profile(*compiled[1:], **preloaded)["modes"][0]
        self.assertEqual((mode["kernels_per_step"], mode["note"]), (5, note))
        rows = self.json("bench", *small, "--modes", "eager,compiled", "--min-time", 0, **preloaded)["rows"]
        self.assertEqual([row["note"] for row in rows], [None, note])
        self.assertIn("epilogue: compile: ep::compiled_gated_mlp: stays eager: this pass always fails\n",
                      run(*compiled, EPILOGUE_VERBOSE="compile", **preloaded).stderr)
        self.assertNotIn("stays eager", run(*compiled, EPILOGUE_VERBOSE="compile").stderr)

    def test_graph_tells_the_story(self):
        small = ("--dim", 64, "--hidden", 96)
        self.assertIn(" became ep::gated_mlp\n", self.result("graph", "mlp", *small, "--passes"))
        text = self.result("graph", "mlp", *small, "--passes", "--code", "--disable", "gated_fusion")
        self.assertIn("graph(%0: f32[s0, s1, 64]):", text)
        self.assertIn("; disable gated_fusion,gemm_epilogue to see ", self.result("graph", "mlp", *small, "--code"))
        self.assertNotIn("; disable", self.result("graph", "linear", "--code"))
        self.assertIn("2 ops became ep_fused_gelu_mul_0", text)
        self.assertIn("const Computed v2 = gelu_tanh(v0) * v1;", text)
        self.assertIn("\n== gemm_bias: off\n", self.result("graph", "linear", "--passes", "--disable", "gemm_bias"))
        self.assertEqual(set(self.json("graph", "linear")), {"problem", "device", "dtype", "story"})
        self.refused("graph", "mlp", *small, "--disable", "fusion", says="'fusion' is no pass: expected dead_code, ")
        self.refused("profile", "mlp", *small, "--batch", "1", "--seq", "1", "--mode", "compiled", says="'fusion' is no pass", EPILOGUE_DISABLE_PASSES="fusion")

    def test_cache_lists_and_clears(self):
        folder = self.path / "cache"
        (folder / "kernels").mkdir(parents=True)
        (folder / "kernels" / "0.blob").write_bytes(b"damaged")
        (folder / "gemm_00c0ffee00c0ffee.tsv").write_text("device\n")
        (folder / "gemm_00c0ffee00c0ffee.tsv.lock").write_text("")
        others = [folder / name for name in ("notes.txt", "gemm_.tsv", "gemm_00c0ffee00c0ffee.tsvx", "gemm_00C0FFEE00c0ffee.tsv", "kernels/notes.txt")]
        for other in others:
            other.write_text("not the cache's")
        listed = json.loads(self.result("cache", "list", "--format", "json", EPILOGUE_CACHE_DIR=str(folder)))
        self.assertEqual([(row["kind"], row["bytes"]) for row in listed["entries"]], [("kernel", 7), ("choices", 7), ("choices", 0)])
        self.assertIn("3 entries", self.result("cache", "list", EPILOGUE_CACHE_DIR=str(folder)))
        self.assertIn("freed 14 B", self.result("cache", "clear", EPILOGUE_CACHE_DIR=str(folder)))
        self.assertEqual(f"0 entries, 0 B, in {folder}\n", self.result("cache", "list", EPILOGUE_CACHE_DIR=str(folder)))
        self.assertTrue(all(other.exists() for other in others))
        for command in ("list", "clear"):
            self.refused("cache", command, says="is no folder, expected the one of the cache", EPILOGUE_CACHE_DIR=str(others[0]))

    def test_profile_trace_shows_linear_over_t_and_addmm(self):
        for name, read in (("t.json", open), ("t.json.gz", gzip.open)):
            file = self.path / name
            self.result("profile", "linear", "--record-shapes", "--profile-memory", "--trace", file)
            with read(file, "rt") as text:
                events = json.load(text)["traceEvents"]
            names = [e["name"] for e in events if e.get("cat") == "cpu_op"]
            self.assertEqual(names, ["ep::linear", "ep::t", "ep::addmm"] * 3)
            gemms = [e["name"] for e in events if e.get("cat") == "cpu_kernel"]
            self.assertEqual(len(gemms), 3)
            self.assertTrue(all("_f32" in name for name in gemms), gemms)
            steps = [e["name"] for e in events if e["name"].startswith("ProfilerStep#")]
            self.assertEqual(steps, ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"])
            dims = [e["args"]["Input Dims"] for e in events if e["name"] == "ep::addmm"]
            self.assertEqual(dims, [[[64], [1024, 32], [32, 64]]] * 3)
            self.assertTrue(any(e["name"] == "[memory]" for e in events))

    def test_profile_keys_hold(self):
        found = self.profile("mlp", "--batch", 1, "--seq", 4, "--dim", 32, "--hidden", 64, "--trace", self.path / "t.json")
        self.assertEqual(set(found), {"device", "dtype", "problem", "modes"})
        mode = found["modes"][0]
        self.assertLessEqual({"mode", "kernels_per_step", "step_us", "ops", "memory", "trace", "dropped"}, set(mode))
        self.assertEqual(set(mode["step_us"]), {"median", "min", "max"})
        self.assertLessEqual({"name", "shapes", "calls", "self_cpu_us", "cpu_total_us", "self_device_us", "device_total_us",
                              "flops", "bytes"}, set(mode["ops"][0]))
        self.assertGreater(mode["memory"]["peak_allocated"], 0)

    def test_all_modes_write_a_trace_each(self):
        self.result("profile", "mlp", "--batch", 1, "--seq", 4, "--dim", 32, "--hidden", 64, "--mode", "all", "--trace",
                    self.path / "t.json.gz")
        self.assertIn("t.eager.json.gz", os.listdir(self.path))

    def test_dtypes_have_pytorchs_names_too(self):
        for dtype, names in {"bf16": ["bfloat16"], "f32": ["float32", "fp32", "float"], "f16": ["float16", "fp16", "half"], "f64": ["float64", "fp64", "double"]}.items():
            for name in names:
                self.assertEqual(self.profile("linear", "--dtype", name, "--active", "1")["dtype"], dtype)
        self.refused("profile", "linear", "--dtype", "", says="dtype '' is not known here: expected f32, bf16, f16, f64\n")

    def test_profile_table_is_pytorchs_with_flops(self):
        text = self.result("profile", "linear", "--record-shapes")
        for word in ("Self CPU %", "CPU total", "# of Calls", "ep::addmm", "1 kernel per step", "panel_gemm_"):
            self.assertIn(word, text)
        self.assertNotIn("more row", text)
        self.assertIn("\n... and 3 more rows (--rows)\n", self.result("profile", "linear", "--rows", 2))
        self.assertNotIn("more row", self.result("profile", "linear", "--rows", -1))

    def test_bench_keys_hold_and_shapes_files_are_read(self):
        shapes = self.path / "shapes"
        shapes.write_text("# two problems\nmlp m=4 dim=32 hidden=64 act=silu\nmlp m=3 dim=8 hidden=5 dtype=bf16 gate=0\n")
        found = self.json("bench", "mlp", "--shapes", shapes, "--min-time", "0.01")
        self.assertLessEqual({"machine", "ceilings", "rows"}, set(found))
        self.assertGreater(found["ceilings"]["gflops"], 0)
        self.assertGreater(found["ceilings"]["copy_gbs"], 0)
        keys = {"m", "dim", "hidden", "act", "dtype", "device", "mode", "median_us", "min_us", "p95_us", "gflops", "of_ceiling",
                "kernels", "implementation"}
        for row in found["rows"]:
            self.assertLessEqual(keys, set(row))
            self.assertLessEqual(row["min_us"], row["median_us"])
        self.assertEqual([(row["m"], row["act"]) for row in found["rows"] if row["kernels"] == 5], [(4, "silu")])

    def test_bench_refuses_what_contradicts_itself(self):
        self.refused("bench", "mlp", "--clock", "thread", "--threads", 2, says="epilogue: --clock thread is the time of one CPU thread, got --threads 2 beside it\n")
        self.refused("bench", "mlp", "--clock", "thread", "--device", "cuda", says="epilogue: --clock thread is the time of a CPU thread, got --device cuda:0 beside it\n")
        self.result("bench", "linear", "--clock", "thread", "--threads", 1, "--min-time", 0)
        shapes = self.path / "shapes"
        shapes.write_text("mlp m=4 dim=32 hidden=64\n")
        self.refused("bench", "linear", "--shapes", shapes, says="shapes:1: expected linear or matmul-add, got 'mlp'\n")
        for option in (("--batch", 2), ("--seq", 2), ("--dim", 8), ("--hidden", 8), ("--act", "silu"), ("--no-gate",), ("--bias",)):
            self.refused("bench", "mlp", "--shapes", shapes, *option, says=f"epilogue: --shapes names the problems, got {option[0]} beside it\n")
        self.refused("bench", "mlp", "--shapes", self.path, says=f"epilogue: {self.path}: is a directory, expected a file of shapes\n")
        shapes.write_text("linear m=3 in=8 out=5 dtype=bf16\nmatmul-add m=3 in=8 out=5\n")
        self.refused("bench", "mlp", "--shapes", shapes, says="shapes:1: expected mlp, got 'linear'\n")
        shapes.write_text("linear m=3 in=8 out=5 act=silu\n")
        self.refused("bench", "linear", "--shapes", shapes, says="shapes:1: act is a part of mlp, not of linear\n")
        shapes.write_text("linear m=3 in=8 out=5 dtype=bf16\nmatmul-add m=3 in=8 out=5\n")
        rows = self.json("bench", "linear", "--shapes", shapes, "--modes", "eager", "--min-time", 0)["rows"]
        self.assertEqual([(row["kind"], row["dtype"]) for row in rows], [("linear", "bf16"), ("matmul-add", "f32")])
        shapes.write_text("# none\n")
        self.refused("bench", "linear", "--shapes", shapes, says="no problem in it; expected lines like 'linear m=1024 in=32 out=64'\n")

    def test_verify_passes_on_the_golden_files(self):
        files = sorted((DATA / "golden").glob("*.safetensors"))
        found = self.json("verify", *files)
        self.assertGreaterEqual(len(found["files"]), 14)
        self.assertTrue(all(row["passed"] for row in found["files"]), found)

    def test_verify_tells_which_mode_runs_as_another(self):
        linear, mlp = (DATA / "golden" / f"{name}_float32.safetensors" for name in ("linear", "gated_mlp_gelu_tanh"))
        notes = {(row["file"], row["mode"]): row["note"] for row in self.json("verify", linear, mlp)["files"]}
        instead = {mode: f"{mode} runs as eager: it is a mode of the MLP" for mode in ("tuned", "fused")}
        for mode in ("eager", "compiled", "tuned", "fused"):
            self.assertEqual(notes[str(linear), mode], instead.get(mode))
            self.assertIsNone(notes[str(mlp), mode])
        text = self.result("verify", linear, mlp)
        for note in instead.values():
            self.assertEqual(text.count(f"\n{linear}: {note}\n"), 1)
        plain = ("verify", mlp, "--mode", "fused")
        self.assertIn(f"\n{mlp}: fused runs as tuned: weights are not to be packed\n1 passed, 0 failed\n", self.result(*plain, EPILOGUE_PACK_WEIGHTS="0"))

    def test_verify_fails_on_a_wrong_result(self):
        source = (DATA / "golden" / "linear_float32.safetensors").read_bytes()
        size = int.from_bytes(source[:8], "little")
        header = json.loads(source[8:8 + size])
        begin, _ = header["bias"]["data_offsets"]
        wrong = bytearray(source)
        wrong[8 + size + begin:8 + size + begin + 4] = b"\x00\x00\x20\x41"  # the first bias becomes 10
        file = self.path / "linear_float32.safetensors"
        file.write_bytes(wrong)
        found = self.json("verify", file, code=1)
        self.assertFalse(found["files"][0]["passed"])

    def test_weights_as_they_are_give_the_same_result(self):
        file = DATA / "golden" / "gated_mlp_gelu_tanh_float32.safetensors"
        self.assertIn("1 passed", self.result("verify", file, "--mode", "eager", EPILOGUE_PACK_WEIGHTS="0"))
        plain = json.loads(self.result("bench", "linear", "--min-time", "0", "--format", "json", EPILOGUE_PACK_WEIGHTS="0"))
        self.assertEqual(plain["packing"]["weights"], 0)

    def test_lower_instruction_sets_give_right_results_in_every_dtype(self):
        files = sorted((DATA / "golden").glob("*_gelu_tanh_*.safetensors"))
        for isa in ("scalar", "avx2"):
            self.assertEqual(json.loads(self.result("info", "--format", "json", EPILOGUE_ISA=isa))["isa"], isa)
            self.assertIn(f"{len(files)} passed", self.result("verify", *files, "--mode", "eager", EPILOGUE_ISA=isa))
            self.result("bench", "mlp", "--batch", 1, "--seq", 1, "--dim", 64, "--hidden", 96, "--dtype", "bf16", "--min-time", "0",
                        EPILOGUE_ISA=isa)

    def test_a_product_of_onednn_is_named_for_what_runs(self):
        kernels = re.findall("^  (onednn_.*)$", self.result("profile", "linear", EPILOGUE_ISA="scalar"), re.MULTILINE)
        self.assertEqual(kernels, ["onednn_gemm_sse41_f32"])
        self.assertEqual(self.json("trace", "explain", kernels[0])["arch"], "sse41")
        self.assertEqual(self.json("info", EPILOGUE_ISA="scalar")["onednn_isa"], "SSE4.1")

    def test_verbose_dispatch_prints_acceptance_and_refusal(self):
        done = run("profile", "linear", "--active", 1, EPILOGUE_VERBOSE="dispatch")
        self.assertIn("gemm_no_inner refuses: the inner size is not 0", done.stderr)
        self.assertIn("gemm_panels accepts", done.stderr)
        plain = run("profile", "linear", "--active", 1, EPILOGUE_VERBOSE="dispatch", EPILOGUE_PACK_WEIGHTS="0")
        misspelt = run("profile", "linear", "--active", 1, EPILOGUE_VERBOSE="dispach, guards").stderr
        self.assertEqual([line for line in misspelt.splitlines() if ": disturbed: " not in line], ["epilogue: EPILOGUE_VERBOSE: there is no topic 'dispach': expected all, or some of dispatch, tuning, guards, recompiles, compile"])
        self.assertIn("gemm_panels refuses: weights are not to be packed", plain.stderr)
        self.assertIn("gemm_onednn accepts", plain.stderr)

    def test_bad_usage_is_one_line_and_exit_2(self):
        self.refused("profile", "mlp", "--act", "tanh", says="activation 'tanh' is not known")
        self.refused("profile", "mlp", "--dtype", "int8", says="dtype 'int8' is not known here: expected f32, bf16, f16, f64\n")
        self.refused("profile", "mlp", "--mode", "quick", says="mode 'quick'")
        for command in ("profile linear", "bench linear", f"verify {DATA / 'golden' / 'linear_float32.safetensors'}"):
            self.refused(*command.split(), "--mode", "eager,tuned,eager", says="epilogue: mode eager is named twice\n")
        self.refused("profile", "linear", "--nonsense", says="nonsense")
        self.refused("profile", "linear", "--sort", "beauty", says="beauty")
        self.refused("profile", "linear", "--trace", self.path / "none" / "t.json", says="t.json")
        (self.path / "d.json").mkdir()
        self.refused("profile", "linear", "--trace", self.path / "d.json", says="d.json: is a directory, expected a file\n")
        (self.path / "d.html").mkdir()
        self.refused("profile", "linear", "--report", self.path / "d.html", says="d.html: is a directory, ")
        for name in ("t.txt", "t.json"):
            self.refused("profile", "linear", "--report", self.path / name, says=f"--report: expected FILE.html, got {self.path / name}\n")
        self.refused("verify", self.path / "none.safetensors", says="none.safetensors")
        self.refused("bench", "mlp", "--shapes", self.path / "none", says="cannot open: No such file")
        self.refused("bench", "mlp", "--format", "xml", says="format")
        shapes = self.path / "shapes"
        shapes.write_text("mlp m=4\nmlp m=8 dtype=i32\n")
        self.refused("bench", "mlp", "--shapes", shapes, says="shapes:2: dtype 'i32' is not known here: expected f32, bf16, f16, f64\n")
        self.refused("fly", says="'fly' is not known: expected profile, ")
        self.refused("profile", "mpl", says="'mpl' is not known: expected linear, ")
        self.refused(says="subcommand")
        self.refused("compile", "--help", says="'compile' is not known: expected profile, ")
        self.refused("profile", "mlx", "--help", says="'mlx' is not known: expected linear, ")
        self.refused("profile", "linear", "--compile", "--mode", "fused", says="--compile is --mode compiled, got --mode fused beside it\n")
        self.refused("profile", "linear", "--trace", self.path / "t.txt", says="--trace: expected FILE.json or FILE.json.gz, got ")

    def test_a_number_out_of_range_is_refused_by_its_options_name(self):
        for command, option, value, expected in (
                ("profile mlp", "--batch", "-1", "1 to 2147483648"), ("profile mlp", "--hidden", "0", "1 to 2147483648"),
                ("profile linear", "--in-dim", "4294967296", "1 to 2147483648"), ("bench mlp", "--seq", "many", "a whole number, 1 to 2147483648"),
                ("profile mlp", "--batch", "1e3", "a whole number, 1 to 2147483648"), ("profile mlp", "--wait", "99999999999", "0 to 2147483647"),
                ("profile mlp", "--wait", "-1", "at least 0"), ("profile mlp", "--warmup", "-1", "at least 0"),
                ("profile mlp", "--active", "0", "at least 1"), ("profile mlp", "--repeat", "0", "at least 1"),
                ("profile linear", "--rows", "-2", "at least -1"), ("bench linear", "--threads", "-3", "1 to 1024"),
                ("bench linear", "--min-time", "1e30", "0 to 9223372036854775807"), ("bench linear", "--min-time", "inf", "0 to 9223372036854775807"),
                ("bench linear", "--min-time", "-1", "at least 0"), ("bench linear", "--min-time", "nan", "at least 0"),
                ("kernels test a/b@1", "--min-time", "-1", "at least 0"), ("kernels test a/b@1", "--dim", "0", "at least 1"),
                ("trace summary t.json", "--rows", "-2", "at least -1"), ("trace gaps t.json", "--rows", "-2", "at least -1"),
                ("trace diff a.json b.json", "--rows", "-2", "at least -1"), ("trace open t.json", "--timeout", "0", "at least 1")):
            self.refused(*command.split(), option, value, says=f"epilogue: {option}: expected {expected}, got {value}; see")
        shapes = self.path / "shapes"
        shapes.write_text("mlp m=4\nmlp m=8 dim=-3\n")
        self.refused("bench", "mlp", "--shapes", shapes, says="shapes:2: dim: expected 1 to 2147483648, got -3")

    def test_a_device_that_is_not_there_says_why(self):
        self.refused("profile", "linear", "--device", "tpu", says="device 'tpu' is not known")
        self.refused("profile", "linear", "--device", "cuda:7", says="device cuda:7 is not there")

    def test_a_result_that_cannot_be_written_is_no_success(self):
        with open("/dev/full", "w") as full:
            for command in (["info"], ["--help"], ["trace", "summary", DATA / "traces" / "mlp_eager.json.gz"]):
                done = subprocess.run([PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stderr, "epilogue: the result could not be written\n")

    def test_a_stderr_that_takes_nothing_changes_no_exit_code(self):
        damaged = self.path / "cut.json"
        damaged.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1},')
        trace = self.path / "t.json"
        for command, code in (("fly", 2), (f"trace gaps {damaged}", 0), (f"profile linear --active 1 --trace {trace}", 0)):
            for where in ("2>&-", "2>/dev/full"):
                line = f"'{PROGRAM}' {command} {where}"
                env = {**os.environ, "EPILOGUE_THREADS": "1000"}  # which is warned of
                done = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, text=True, timeout=300, env=env)
                self.assertEqual(done.returncode, code, line)
        self.assertIn("traceEvents", json.loads(trace.read_text()))
        self.assertEqual(subprocess.run(["bash", "-c", f"'{PROGRAM}' info >&-"], stderr=subprocess.DEVNULL, timeout=300).returncode, 2)

    def test_every_reader_of_a_damaged_trace_tells_of_it(self):
        damaged = self.path / "cut.json"
        damaged.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1},')
        told = run("trace", "gaps", damaged).stderr
        self.assertIn(f"{damaged}: ", told)
        done = run("trace", "report", damaged, "-o", self.path / "page.html")
        self.assertEqual((done.returncode, done.stderr), (0, told))

    def test_verify_refuses_a_golden_file_whose_results_do_not_fit(self):
        source = (DATA / "golden" / "linear_float32.safetensors").read_bytes()
        size = int.from_bytes(source[:8], "little")
        header = source[8:8 + size].replace(b'"y_torch"', b'"y_other"')
        file = self.path / "linear_float32.safetensors"
        file.write_bytes(source[:8] + header + source[8 + size:])
        self.refused("verify", file, says="no tensor 'y_torch'")

    def test_verify_takes_the_activation_of_the_metadata(self):
        source = (DATA / "golden" / "gated_mlp_silu_float32.safetensors").read_bytes()
        file = self.path / "gated_mlp_relu_float32.safetensors"
        file.write_bytes(source)
        self.assertTrue(all(one["passed"] for one in self.json("verify", file)["files"]))
        file.write_bytes(source.replace(b'"silu"', b'"tanh"', 1))
        self.refused("verify", file, says="its metadata: ")
        file.write_bytes(source.replace(b'"act"', b'"acx"', 1))
        self.assertNotEqual(run("verify", file).returncode, 0)  # as relu, by its name

    def test_environment_errors_name_the_variable(self):
        self.refused("profile", "linear", says="EPILOGUE_THREADS: expected a whole number, got 'many'\n", EPILOGUE_THREADS="many")

    def test_info_shows_what_is_wrong_beside_its_variable(self):
        for name, value, wrong in (
                ("THREADS", "many", "expected a whole number, got 'many'"), ("THREADS", "0", "expected 1 to 1024, got 0"),
                ("ISA", "avx1024", "expected scalar, avx2, avx512, avx512_bf16 or amx, got 'avx1024'"), ("PACK_WEIGHTS", "2", "expected 0 or 1, got '2'"),
                ("TF32", "maybe", "expected 0 or 1, got 'maybe'"), ("SPLIT_F32", "yes", "expected 0 or 1, got 'yes'"), ("REPLAY", "maybe", "expected 0 or 1, got 'maybe'"),
                ("CACHE_MB", "5GB", "expected a whole number, got '5GB'"), ("CACHE_MB", "-5", "expected 0 to 1073741824, got -5"), ("DISABLE_PASSES", "fusion", "compile: 'fusion' is no pass: expected dead_code, "),
                ("VERBOSE", "dispach,all,gards", "there is no topic 'dispach', 'gards': expected all, or some of dispatch, "),
                ("KERNELS_POLICY", f"{self.path}/none", f"{self.path}/none")):
            name = f"EPILOGUE_{name}"
            row = [line for line in self.result("info", **{name: value}).splitlines() if line.startswith(name)]
            self.assertEqual(len(row), 1)
            self.assertIn(f" {value} (wrong: {wrong}", row[0])
            found = self.json("info", **{name: value})
            self.assertEqual(len(found["wrong"]), 1)
            self.assertIn(f"{name}: {wrong}", found["wrong"][0])
            self.assertEqual(found["threads"] is None, name.endswith("THREADS"))
            for key in ("isa", "onednn_isa", "native_bf16", "amx"):
                self.assertEqual(found[key] is None, name.endswith("ISA"), key)
        self.assertIs(self.json("info", EPILOGUE_ISA="avx512")["native_bf16"], False)
        right = self.json("info", EPILOGUE_VERBOSE="all", EPILOGUE_THREADS="1", EPILOGUE_CACHE_MB="1")
        self.assertEqual(right["wrong"], [])
        self.assertEqual((right["variables"]["EPILOGUE_THREADS"], right["variables"]["EPILOGUE_CACHE_MB"]), ("1", "1"))

    def test_misspelled_variables_are_told_and_the_command_goes_on(self):
        told = run("info", EPILOGUE_THREAD="1", EPILOGUE_TEST_DATA="x")
        self.assertEqual(told.returncode, 0)
        self.assertEqual(told.stderr, "epilogue: EPILOGUE_THREAD: there is no such variable; epilogue info lists those that are\n")
        self.refused("trace", "summary", "none.json", says="none.json", EPILOGUE_THREAD="1")

    def test_threads_are_openmps_where_nothing_else_is_said(self):
        self.assertEqual(self.json("info", OMP_NUM_THREADS="1")["threads"], 1)
        self.assertEqual(self.json("info", OMP_NUM_THREADS="1", EPILOGUE_THREADS="2")["threads"], 2)

    def test_help_shows_examples(self):
        for command in (["profile", "mlp"], ["bench", "mlp"], ["verify"]):
            self.assertIn("Example", self.result(*command, "--help"))
        self.assertEqual(self.result("help"), self.result("--help"))
        self.assertEqual(self.result("help", "profile", "mlp"), self.result("profile", "mlp", "--help"))
        self.assertIn("f32, bf16, f16, f64; f64 is", " ".join(self.result("profile", "mlp", "--help").split()))

    def test_memory_that_cannot_be_had_is_an_error_with_numbers(self):
        self.refused("profile", "linear", "--batch", str(2**31), "--in-dim", str(2**20), says="out of memory")
        self.refused("profile", "linear", "--batch", "1000000000", "--in-dim", "768", says="out of memory: 2861.02 GiB were asked for")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--failing-pass")
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    FAILING_PASS = options.failing_pass
    unittest.main(argv=[sys.argv[0], *rest])
