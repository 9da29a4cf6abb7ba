#!/bin/sh
# Runs pytest, as root when it can, against one executable (CUDATAP_BIN), and adds up the tests.
#
#	tests/run-pytest.sh PYTHON NAME CUDATAP ARGUMENT...
set -u

python=$1
name=$2
CUDATAP_BIN=$(realpath "$3")
shift 3
BUILD=$(realpath "${BUILD:-build}")
report=$BUILD/$name.xml
export CUDATAP_BIN BUILD PYTHONDONTWRITEBYTECODE=1

# Probes take rights; without any the tests that need them skip.
root=
if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	root="sudo -E env PATH=$PATH"
fi

# Signals at their defaults: a shell in the background has SIGINT ignored, and so would the tests.
run() {
	rm -f "$1"
	report=$1
	shift
	# shellcheck disable=SC2086
	$root env --default-signal "$python" -m pytest -o cache_dir="$BUILD/pytest-$name" -ra --timeout=600 \
		--junitxml="$report" "$@" </dev/null
}

# A busy machine fails tests that wait for real daemons. What failed is run once more, alone; that it passed only
# then is said. Many failures are no accident.
run "$BUILD/$name.xml" "$@"
code=$?
again=
if [ $code -eq 1 ]; then
	echo "== $name: what failed, once more"
	again=$BUILD/$name-again.xml
	run "$again" --last-failed --last-failed-no-failures none "$@"
	code=$?
fi

PYTHONPATH=$(dirname "$0") "$python" - "$name" $code "$BUILD/$name.xml" $again <<'E2'
import sys

from junit import numbers

MOST = 10  # failures that may pass at the second try

name, code = sys.argv[1], int(sys.argv[2])
passed, failed, skipped = numbers(sys.argv[3])
if len(sys.argv) > 4 and failed <= MOST:
    second = numbers(sys.argv[4])
    print(f"{name}: {failed - second[1]} of {failed} failures passed at the second try")
    passed, failed = passed + failed - second[1], second[1]
print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed or (code and code != 1) else 0)
E2
