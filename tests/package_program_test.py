#!/usr/bin/env python3
"""Kernel packages as a user meets them: add from a web server, lock, run offline, and everything that may go wrong."""
import argparse
import functools
import http.server
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

PROGRAM = ""
PACKAGES = Path()
GEGLU = "epilogue/geglu@1"
SMALL = ("--batch", "1", "--seq", "4", "--dim", "32", "--hidden", "64")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server:
    """A plain web server of Python's on loopback, as anybody has one."""

    def __init__(self, folder):
        handler = functools.partial(QuietHandler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Packages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        self.project = self.path / "project"
        self.project.mkdir()
        self.environment = {**os.environ, "EPILOGUE_CACHE_DIR": str(self.path / "cache"),
                            "XDG_CONFIG_HOME": str(self.path / "config")}
        self.environment.pop("EPILOGUE_KERNELS_POLICY", None)

    def run_program(self, *arguments, **options):
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, **options)

    def result(self, *arguments, code=0):
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def json(self, *arguments, code=0):
        return json.loads(self.result(*arguments, "--format", "json", code=code))

    def refused(self, *arguments, says):
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(says, done.stderr)

    def author_folder(self):
        """What the author of a package writes and builds."""
        author = self.path / "author"
        source = next(folder for folder in PACKAGES.iterdir() if folder.is_dir())
        shutil.copytree(source / "build", author / "build")
        shutil.copy(PACKAGES.parent / "geglu/package.toml", author)
        return author

    def cached_files(self):
        return [file for file in (self.path / "cache/packages/added").rglob("*")
                if file.is_file() and file.name != "selected"]

    def assert_cache_is_whole(self):
        """Every package that can be seen verifies, whatever happened before."""
        rows = self.json("kernels", "verify")["packages"]
        self.assertTrue(all(row["passed"] for row in rows), rows)
        return len(rows)

    def test_as_a_new_user_would(self):
        server = Server(PACKAGES)
        self.assertIn(f"added {GEGLU}", self.result("kernels", "add", server.url, GEGLU))
        self.assertIn(f"{GEGLU} locked", self.result("kernels", "lock"))
        server.stop()
        self.assertTrue((self.project / "kernels.lock").is_file())
        trace = self.path / "t.json"
        told = self.json("profile", "mlp", *SMALL, "--kernels", GEGLU, "--trace", trace)["modes"]
        self.assertEqual([(mode["mode"], mode["kernels_per_step"]) for mode in told], [("tuned", 4)])
        events = json.loads(trace.read_text())["traceEvents"]
        kernels = [e["name"] for e in events if e.get("cat") == "cpu_kernel" and GEGLU in e["name"]]
        self.assertEqual(len(kernels), 3, kernels)
        self.assertTrue(all(name.startswith("pointwise_gelu_tanh_mul_") for name in kernels), kernels)
        self.assertIn(f"[{GEGLU}]", self.result("profile", "mlp", *SMALL, "--kernels", GEGLU))

    def test_every_command_speaks_json(self):
        added = self.json("kernels", "add", PACKAGES, GEGLU)
        listed = self.json("kernels", "list")["packages"][0]
        self.assertEqual([added[key] for key in ("added", "build", "manifest", "bytes")],
                         [GEGLU, *(listed[key] for key in ("build", "manifest", "bytes"))])
        self.assertEqual(self.json("kernels", "lock")["locked"],
                         [{"package": GEGLU, "build": listed["build"], "manifest": listed["manifest"]}])
        self.assertEqual(self.json("kernels", "remove", GEGLU), {"removed": [GEGLU]})
        self.assertEqual(self.json("kernels", "list"), {"packages": []})

    def test_another_user_reads_what_was_added(self):
        self.result("kernels", "add", PACKAGES, GEGLU)
        umask = os.umask(0)
        os.umask(umask)
        added = self.path / "cache/packages/added"
        for file in (added, *added.rglob("*")):
            self.assertEqual(file.stat().st_mode & 0o777, (0o777 if file.is_dir() else 0o666) & ~umask, file)

    def test_a_package_under_another_name_is_damaged(self):
        self.result("kernels", "add", PACKAGES, GEGLU)
        version = self.path / "cache/packages/added/epilogue/geglu/1"
        version.rename(version.parent / "2")
        self.assertIn("it is epilogue/geglu@1, expected epilogue/geglu@2", self.result("kernels", "verify", code=1))
        self.refused("kernels", "lock", says="it is epilogue/geglu@1, expected epilogue/geglu@2")
        self.assertFalse((self.project / "kernels.lock").exists())

    def test_of_two_builds_one_is_taken(self):
        author = self.author_folder()
        for build in ("first", "second"):
            packed = self.path / build
            self.result("kernels", "pack", author, "--output", packed, "--build", build)
            self.result("kernels", "add", packed, GEGLU)
        taken = [row["build"] for row in self.json("kernels", "explain", GEGLU)["variants"] if row["taken"]]
        self.assertEqual(taken, ["second"])

    def test_what_an_author_wrote_is_to_be_packed_first(self):
        self.refused("kernels", "add", self.author_folder(), says="epilogue kernels pack")

    def test_a_cache_that_cannot_be_read_is_not_an_empty_one(self):
        (self.path / "cache/packages").mkdir(parents=True)
        (self.path / "cache/packages/added").write_text("")
        self.refused("kernels", "verify", says="added: cannot be read: Not a directory")

    def test_a_changed_or_deleted_file_fails_the_next_load_with_its_name(self):
        self.result("kernels", "add", PACKAGES, GEGLU)
        self.result("kernels", "lock")
        for file in self.cached_files():
            good = file.read_bytes()
            for position in (0, len(good) // 2, len(good) - 1):
                bad = bytearray(good)
                bad[position] ^= 1
                file.write_bytes(bad)
                self.refused("profile", "mlp", *SMALL, "--kernels", GEGLU, says=str(file))
            file.unlink()
            self.refused("profile", "mlp", *SMALL, "--kernels", GEGLU, says=str(file))
            self.assertIn(str(file), json.dumps(self.json("kernels", "verify", code=1)))
            file.write_bytes(good)
        self.result("profile", "mlp", *SMALL, "--kernels", GEGLU)

    def test_two_processes_that_add_at_once_both_succeed(self):
        server = Server(PACKAGES)
        for _ in range(10):
            shutil.rmtree(self.path / "cache", ignore_errors=True)
            adding = [subprocess.Popen([PROGRAM, "kernels", "add", server.url, GEGLU], env=self.environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
            for process in adding:
                _, error = process.communicate(timeout=300)
                self.assertEqual(process.returncode, 0, error)
            self.assertEqual(self.assert_cache_is_whole(), 1)
            self.assertEqual(list((self.path / "cache/packages/downloads").iterdir()), [])
        server.stop()

    def disk_of(self, size, default_signal):
        """A preexec_fn after which no file may grow beyond `size` bytes; the signal kills, or the write fails."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL if default_signal else signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return limit

    def test_a_disk_that_fills_up_leaves_nothing_behind(self):
        archive = next(PACKAGES.glob("*.tar.gz"))
        largest = max(file.stat().st_size for file in PACKAGES.rglob("*.so"))
        for killed in (False, True):
            for size in [0, 1, 60, 500, *range(1000, largest, largest // 12)]:
                done = self.run_program("kernels", "add", archive, preexec_fn=self.disk_of(size, killed),
                                        restore_signals=False)
                self.assertNotEqual(done.returncode, 0, size)
                if not killed:
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn("File too large", done.stderr)
                self.assertEqual(self.assert_cache_is_whole(), 0)
        self.result("kernels", "add", archive)
        self.assertEqual(self.assert_cache_is_whole(), 1)
        self.assertEqual([file.name for file in (self.path / "cache/packages/unpacking").iterdir()], ["guard"])

    def test_a_small_file_system_that_is_full_is_told(self):
        small = self.path / "small"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("mounting a small file system is not allowed here")
        self.addCleanup(subprocess.run, ["umount", str(small)], check=True)
        self.environment["EPILOGUE_CACHE_DIR"] = str(small)
        self.refused("kernels", "add", PACKAGES, GEGLU, says="No space left on device")
        self.assertEqual(self.assert_cache_is_whole(), 0)

    def test_a_process_killed_at_any_moment_leaves_whole_packages(self):
        archive = next(PACKAGES.glob("*.tar.gz"))
        for milliseconds in range(0, 60, 3):
            process = subprocess.Popen([PROGRAM, "kernels", "add", str(archive)], env=self.environment,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(milliseconds / 1000)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self.assert_cache_is_whole()
        self.result("kernels", "add", archive)
        self.assertEqual(self.assert_cache_is_whole(), 1)

    def test_nothing_is_fetched_unless_added(self):
        self.refused("profile", "mlp", *SMALL, "--kernels", GEGLU, says="not in the cache")
        self.refused("profile", "mlp", *SMALL, "--kernels", "epilogue/geglu", says="names no version")
        self.assertFalse((self.path / "cache").exists())

    def test_signatures_are_required_where_the_policy_says_so(self):
        key, other = self.path / "key.pem", self.path / "other.pem"
        for file in (key, other):
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(file)], check=True)
        author = self.author_folder()
        packed = self.path / "packed"
        public = self.result("kernels", "pack", author, "--output", packed, "--key", key).split()[-1]
        policy = self.path / "config/epilogue/kernels.toml"
        policy.parent.mkdir(parents=True)
        policy.write_text(f'require-signature = true\n[keys]\nepilogue = ["{public}"]\n')
        self.refused("kernels", "add", PACKAGES, GEGLU, says="is not signed")
        self.assertIn("signed by a trusted key", self.result("kernels", "add", packed, GEGLU))
        self.result("profile", "mlp", *SMALL, "--kernels", GEGLU)
        self.assertEqual(self.json("kernels", "list")["packages"][0]["signature"], "signed by a trusted key")
        public = self.result("kernels", "pack", author, "--output", packed, "--key", other, "--build", "b2").split()[-1]
        self.refused("kernels", "add", packed, GEGLU, says=public)

    def test_list_explain_verify_lock_and_remove_keep_their_keys(self):
        self.assertIn("no kernel package", self.result("kernels", "list"))
        self.assertIn("nothing to verify: no kernel package in ", self.result("kernels", "verify"))
        self.refused("kernels", "lock", says="add one first")
        self.refused("kernels", "explain", GEGLU, says="not in the cache")
        self.result("kernels", "add", PACKAGES, GEGLU)
        listed = self.json("kernels", "list")["packages"]
        self.assertEqual([(row["name"], row["version"], row["selected"], row["problem"]) for row in listed],
                         [("epilogue/geglu", 1, True, None)])
        self.assertLessEqual({"build", "manifest", "license", "variants", "signature", "bytes"}, set(listed[0]))
        variants = self.json("kernels", "explain", "epilogue/geglu")["variants"]
        self.assertEqual([row["taken"] for row in variants].count(True), 1)
        self.assertTrue(all(row["reason"] for row in variants))
        self.assertEqual([row["verdict"] == "taken" for row in variants], [row["taken"] for row in variants])
        self.assertRegex(self.result("kernels", "explain", GEGLU), "scalar +passed over +linux-x86_64-cpu-avx.* is better here")
        self.environment["EPILOGUE_ISA"] = "scalar"
        taken = [row["variant"] for row in self.json("kernels", "explain", GEGLU)["variants"] if row["taken"]]
        self.assertEqual(taken, ["linux-x86_64-cpu-scalar"])
        del self.environment["EPILOGUE_ISA"]
        self.result("kernels", "lock", GEGLU)
        self.assertIn("1 passed, 0 failed", self.result("kernels", "verify"))
        self.result("kernels", "remove", GEGLU)
        self.assertIn("not in the cache", self.result("kernels", "verify", code=1))
        self.refused("kernels", "remove", GEGLU, says="not in the cache")

    def test_a_lock_file_that_pins_another_build_is_kept(self):
        self.result("kernels", "add", PACKAGES, GEGLU)
        self.result("kernels", "lock")
        lock = self.project / "kernels.lock"
        text = lock.read_text()
        digest = self.json("kernels", "list")["packages"][0]["manifest"]
        lock.write_text(text.replace(digest, "0" * 64))
        self.refused("profile", "mlp", *SMALL, "--kernels", GEGLU, says="0" * 64)
        lock.write_text("format = 1\n")
        self.refused("profile", "mlp", *SMALL, "--kernels", GEGLU, says="does not pin")
        lock.write_text("nonsense")
        self.refused("profile", "mlp", *SMALL, "--kernels", GEGLU, says="kernels.lock:1")

    def test_kernels_test_compares_and_times_every_kernel(self):
        self.result("kernels", "add", PACKAGES, GEGLU)
        golden = sorted((Path(__file__).resolve().parent / "data/golden").glob("gated_mlp_[gs]*.safetensors"))
        self.assertEqual(len(golden), 9)
        told = self.json("kernels", "test", GEGLU, "--golden", *golden, "--rows", 8, "--dim", 32, "--hidden", 64,
                         "--min-time", 0)
        self.assertEqual(len(told["checks"]), 18)
        self.assertTrue(all(row["passed"] for row in told["checks"]), told)
        self.assertEqual(len(told["times"]), 9)
        self.assertTrue(all(row["eager_us"] > 0 and row["package_us"] > 0 for row in told["times"]))

    def test_bad_usage_is_one_line(self):
        self.refused("kernels", "add", "/no/such/place", says="it is not there")
        self.refused("kernels", "add", "http://127.0.0.1:1/", GEGLU, says="http://127.0.0.1:1/index.json")
        self.refused("profile", "mlp", *SMALL, "--kernels", GEGLU, "--mode", "eager", says="--kernels is for the mode tuned")
        self.refused("kernels", "pack", self.path, "--output", self.path / "out", says="package.toml")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--packages", type=Path, required=True)
    options, rest = parser.parse_known_args()
    PROGRAM, PACKAGES = str(Path(options.program).resolve()), options.packages.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
