"""What the build makes of the system that it finds: the packages of a distribution, the compilers. Both are played by
small programs, so that each system is seen on every other."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
INSTALL = ROOT / "tools/install-deps.sh"

# What a system has: the major version of its clang, and of the packages that not all have, these.
SYSTEMS = {
    "debian-12": (14, ["clang-format-14", "clang-tidy-14", "libclang-rt-14-dev", "cargo", "cargo-web"]),
    "ubuntu-24.04": (18, ["clang-format-14", "clang-tidy-14", "libclang-rt-14-dev", "libclang-rt-18-dev", "cargo"]),
    "debian-13": (19, ["libclang-rt-18-dev", "libclang-rt-19-dev", "cargo", "cargo-web"]),
}
WANTED = {
    "debian-12": {"libclang-rt-14-dev", "clang-format-14", "clang-tidy-14", "cargo-web"},
    "ubuntu-24.04": {"libclang-rt-18-dev", "clang-format-14", "clang-tidy-14", "cargo"},
    "debian-13": {"libclang-rt-19-dev", "cargo-web"},
}
DIFFERENT = set().union(*(packages for _, packages in SYSTEMS.values()))

# Installs by adding a line to a file; knows no package but with lists, which `update` brings.
APT_GET = """
echo "$*" >>$0.log
shift 2
case $1 in
update) touch $0.lists; exit ;;
install) shift 2 ;;
esac
[ -e $0.lists ] || exit 100
for package; do apt-cache policy "$package" | grep -q 'Candidate: [^(]' || exit 100; done
for package; do echo $package >>$0.installed; done
"""
DPKG_QUERY = """
for package; do :; done
grep -qx "$package" $(command -v apt-get).installed 2>/dev/null && echo installed
"""
APT_CACHE = """
[ -e $(command -v apt-get).lists ] || exit 0
case $1 in
depends) echo "clang"; echo "  Depends: clang-{major}" ;;
policy) case $2 in
	{absent}) echo "$2:"; echo "  Candidate: (none)" ;;
	*) echo "$2:"; echo "  Candidate: 1.0" ;;
	esac ;;
esac
"""


class System:
    def __init__(self, directory, name, lists):
        self.tools = directory
        major, packages = SYSTEMS[name]
        self.write("apt-get", APT_GET)
        self.write("dpkg-query", DPKG_QUERY)
        self.write("apt-cache", APT_CACHE.format(major=major, absent="|".join(DIFFERENT - set(packages)) or "-"))
        self.write("sudo", 'exec "$@"')
        self.write("clang", "exit 127")
        self.write("cargo", "exit 127")
        if lists:
            (directory / "apt-get.lists").touch()

    def write(self, tool, text):
        path = self.tools / tool
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(self, *words):
        return subprocess.run([INSTALL, *words], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"})

    def listed(self, *sets):
        done = self.run("--list", *sets)
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    def installed(self):
        return set((self.tools / "apt-get.installed").read_text().split())


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("lists", [True, False])
def test_packages_of(tmp_path, name, lists):
    system = System(tmp_path, name, lists)
    done = system.run()
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert system.installed() & DIFFERENT == WANTED[name]
    assert {"gcc", "clang", "zlib1g-dev", "python3", "libcmocka-dev"} < system.installed()
    assert system.listed() == set()
    assert "update" in (tmp_path / "apt-get.log").read_text() or lists


def test_sets_are_apart(tmp_path):
    system = System(tmp_path, "debian-12", True)
    assert system.listed("portable") == {"ca-certificates", "cargo-web"}
    assert "libcmocka-dev" not in system.listed("build", "demo")


def test_what_is_there_serves(tmp_path):
    """Any cargo from 1.70 on, the clang that was asked for, and of two names of a thing either."""
    system = System(tmp_path, "debian-13", True)
    for version, wanted in (("1.69.9", {"cargo-web"}), ("1.70.0", set()), ("1.96.0", set()), ("2.0.0", set())):
        system.write("cargo", f"echo 'cargo {version} (hash)'")
        assert system.listed("portable") == {"ca-certificates"} | wanted
    system.write("clang", "echo 18.1.8")
    assert "libclang-rt-18-dev" in system.listed("test")
    system.write("cargo", "exit 127")
    (tmp_path / "apt-get.installed").write_text("cargo\nca-certificates\n")
    assert system.listed("portable") == set()


def test_what_apt_lacks_is_said(tmp_path):
    system = System(tmp_path, "debian-13", True)
    system.write("apt-get", "echo no network; exit 100")
    done = system.run("portable")
    assert done.returncode == 1 and "no network" in done.stderr and "cargo-web" in done.stderr


# What compilers make of the line that the Makefile asks them.
COMPILERS = {
    "gcc 12": ("clang __clang_major__ gcc 12", True),
    "gcc 13": ("clang __clang_major__ gcc 13", False),
    "gcc 14": ("clang __clang_major__ gcc 14", False),
    "clang 12": ("clang 12 gcc 4", False),
    "clang 14": ("clang 14 gcc 4", True),
    "clang 19": ("clang 19 gcc 4", False),
}


def warnings(directory, cc, clang, *words):
    for name, says in (("cc", cc), ("clang", clang)):
        (directory / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (directory / name).chmod(0o755)
    printed = subprocess.run(["make", "-pn", "help", f"CC={directory / 'cc'}", f"CLANG={directory / 'clang'}", *words],
                             cwd=ROOT, capture_output=True, text=True, check=True,
                             env={**os.environ, "MAKEFLAGS": ""}).stdout
    return ["-Werror" in re.search(rf"^{name}_WARNINGS := .*", printed, re.MULTILINE)[0] for name in ("CC", "CLANG")]


@pytest.mark.parametrize("name", COMPILERS)
def test_warnings_are_errors_with_known_compilers(tmp_path, name):
    says, strict = COMPILERS[name]
    assert warnings(tmp_path, says, COMPILERS["clang 19"][0]) == [strict, False]
    assert warnings(tmp_path, COMPILERS["gcc 12"][0], says) == [True, strict]


@pytest.mark.parametrize("strict", [False, True])
def test_warnings_are_errors_as_told(tmp_path, strict):
    told = f"WERROR={strict:d}"
    assert warnings(tmp_path, COMPILERS["gcc 12"][0], COMPILERS["clang 19"][0], told) == [strict, strict]
