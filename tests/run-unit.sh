#!/bin/sh
# Runs cmocka programs and adds up their tests; shows the output of those that fail.
#
#	tests/run-unit.sh NAME PROGRAM...
set -u

name=$1
shift
passed=0
failed=0
skipped=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
# On a machine with a GPU it may lead to the real libraries; the programs know where the fakes are.
unset LD_LIBRARY_PATH
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"

# The sum of the numbers in the summary lines of that kind; a program may run several groups.
count() {
	sed -n "s/^\[ *$1 *\] \([0-9][0-9]*\) test(s).*/\1/p" "$output" | awk '{ n += $1 } END { print n + 0 }'
}

# gcc's sanitizers before 14 cannot live with the widest address randomisation of newer kernels.
fixed=
if [ "$name" = asan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
	fixed="setarch $(uname -m) -R"
fi

# Signals at their defaults: a shell in the background has SIGINT ignored, and so would the tests.
run() {
	# shellcheck disable=SC2086
	env --default-signal timeout 300 $fixed "$program" >"$output" 2>&1 </dev/null
	code=$?
	p=$(count PASSED)
	f=$(count FAILED)
	s=$(count SKIPPED)
	# one that died or found nothing to run has failed as a whole
	if [ "$f" -eq 0 ] && { [ $code -ne 0 ] || [ $((p + s)) -eq 0 ]; }; then
		f=1
	fi
}

for program; do
	if [ ! -x "$program" ]; then
		echo "  $(basename "$program"): not built"
		failed=$((failed + 1))
		continue
	fi
	run
	if [ "$f" -ne 0 ]; then
		cat "$output"
		echo "  $(basename "$program"): once more, for a busy machine fails tests that wait for others"
		run
		[ "$f" -eq 0 ] || cat "$output"
	fi
	echo "  $(basename "$program"): $p passed, $f failed, $s skipped"
	passed=$((passed + p))
	failed=$((failed + f))
	skipped=$((skipped + s))
done
echo "$name: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
