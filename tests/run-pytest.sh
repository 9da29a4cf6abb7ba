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
rm -f "$report"
# shellcheck disable=SC2086
$root env --default-signal "$python" -m pytest -p no:cacheprovider -ra --junitxml="$report" "$@" </dev/null
code=$?

"$python" - "$report" "$name" <<'E2'
import sys
import xml.etree.ElementTree

try:
    suites = list(xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testsuite"))
except (OSError, xml.etree.ElementTree.ParseError):
    suites = []
total, failures, errors, skipped = (
    sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "failures", "errors", "skipped")
)
failed = failures + errors if suites else 1
print(f"{sys.argv[2]}: {total - failures - errors - skipped} passed, {failed} failed, {skipped} skipped")
E2
exit $code
