"""Files that change while cudatap runs: an inode number that is given away again, contents that are written over."""

import os
import shutil
import subprocess
import sys
import time

import pytest
import tap
from test_processes import without_nesting

# cudaMalloc of the first stands in the middle of the second's instructions
FIRST = """
int cudaMalloc(void **p, unsigned long n) { volatile unsigned long x = n; return x * 0; }
int cudaMallocHost(void **p, unsigned long n) { volatile unsigned long x = n; return x * 0; }
int cudaFree(void *p) { return 0; }
int cudaRuntimeGetVersion(int *v) { *v = 12000; return 0; }
"""
SECOND = """
__attribute__((noinline)) int other(int a, int b)
{
	volatile int x = a;
	for (int i = 0; i < b; i++) { x = x * 3 + i * 7; if (x % 11 == 2) x ^= 0x55aa; x += b * 13 - i * 5; }
	return x;
}
int cudaFree(void *p) { return other((long)p, 100); }
int cudaMalloc(void **p, unsigned long n) { return other(n, 20); }
int cudaMallocHost(void **p, unsigned long n) { return other(n, 30); }
int cudaRuntimeGetVersion(int *v) { *v = 12000; return 0; }
"""
MAIN = """
#include <stdio.h>
int cudaMalloc(void **, unsigned long), cudaFree(void *);
int main(void)
{
	void *p = 0;
	int sum = 0;
	for (long i = 0; i < 5; i++) { sum += cudaMalloc(&p, i); sum ^= cudaFree((void *)i); }
	printf("%d\\n", sum);
	return 0;
}
"""


def compile_library(directory, name, text, level):
    source, library = directory / f"{name}.c", directory / f"{name}.so"
    source.write_text(text)
    subprocess.run(["cc", level, "-w", "-fcf-protection=none", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o",
                    library, source], check=True)
    return library


@pytest.fixture(name="files")
def _files(tmp_path):
    """A directory with two libraries for one program."""
    compile_library(tmp_path, "first", FIRST, "-O0")
    second = compile_library(tmp_path, "second", SECOND, "-O2")
    (tmp_path / "main.c").write_text(MAIN)
    shutil.copy(second, tmp_path / "libcudart.so.12")
    subprocess.run(["cc", "-o", tmp_path / "main", tmp_path / "main.c", tmp_path / "libcudart.so.12",
                    "-Wl,-rpath,$ORIGIN"], check=True)
    return tmp_path


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def static_program(path):
    subprocess.run(["cc", "-O1", "-I", tap.ROOT, "-o", path, tap.ROOT / "tests/programs/rate.c",
                    tap.FAKE / "libcudart_static.a", "-ldl", "-lpthread"], check=True)


@pytest.mark.parametrize("replace", ["rm app && cp static app", "cat static >app"])
def test_new_contents(tmp_path, counts, replace):
    """A program without CUDA, and at its place, with its inode number, one with it: as when one edits and compiles."""
    static_program(tmp_path / "static")
    script = f"cd {tmp_path}; cp /bin/true app && ./app && {replace} && ./app 1 30 && ./app 1 20"
    run = tap.trace(tmp_path, "sh", "-c", script, env=without_nesting(counts))
    assert run.code == 0, run.stderr
    assert run.counts == tap.read_counts(counts) == {"cudaMemset": 50}
    run.assert_clean()


def test_library_written_over(files, probes):
    """A library that has probes gets other contents: old probes would break its instructions."""
    expected = output(files / "main")
    script = f"cd {files}; cp first.so libcudart.so.12 && ./main && cat second.so >libcudart.so.12 && ./main"
    run = tap.trace(files, "sh", "-c", script, options=probes)
    assert run.code == 0, run.stderr
    assert run.stdout.splitlines() == ["0", expected.strip()]
    assert run.counts == {"cudaMalloc": 10, "cudaFree": 10}
    assert [event["reason"] for event in run.of("detach")] == ["changed"]
    run.assert_clean()


def test_library_written_over_on_the_host(files):
    """The same without a command: the probes go when the file is written."""
    library = files / "libcudart.so.12"
    expected = output(files / "main")
    library.write_bytes((files / "first.so").read_bytes())
    with tap.running(["-c", tap.config(files, f"libraries: [{library}]")], files) as running:
        running.wait_attached(str(library))
        assert output(files / "main") == "0\n"
        with open(library, "r+b") as file:
            file.truncate(0)
            file.write((files / "second.so").read_bytes())
        running.wait_for(lambda text: '"type":"detach"' in text, "detach")
        assert output(files / "main") == expected
        run = running.end()
    assert run.code == 0 and run.counts == {"cudaMalloc": 5, "cudaFree": 5}


def test_many_files_come_and_go(tmp_path):
    """Descriptors and memory do not grow with the files that were looked into."""
    script = ("import os, shutil, subprocess, sys, time\nfor i in range(60):\n shutil.copy('/bin/true', sys.argv[1])\n"
              " subprocess.run([sys.argv[1]], check=True)\n os.unlink(sys.argv[1])\n"
              "open(sys.argv[2], 'w').close()\nwhile os.path.exists(sys.argv[2]): time.sleep(.01)\n")
    mark = tmp_path / "mark"
    with tap.running(["--", sys.executable, "-c", script, tmp_path / "app", mark], tmp_path) as running:
        running.wait_started()
        before = len(os.listdir(f"/proc/{running.pid}/fd"))
        end = time.monotonic() + tap.TIMEOUT
        while not mark.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        descriptors = len(os.listdir(f"/proc/{running.pid}/fd"))
        mark.unlink()
        run = running.finish()
    assert run.code == 0 and descriptors < before + 20
