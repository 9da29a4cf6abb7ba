#!/bin/sh
# Runs libFuzzer programs for SECONDS each, two at a time, from the inputs in tests/fuzz/corpus/NAME
# (the program is fuzz_NAME) and with the words of tests/fuzz/NAME.dict. New inputs and crashes are left beside the programs.
#
#	tests/run-fuzz.sh SECONDS PROGRAM...
set -u

seconds=$1
shift
here=$(dirname "$0")/fuzz

run() {
	name=$(basename "$1")
	found=$1.corpus
	seeds=$here/corpus/${name#fuzz_}
	words=$here/${name#fuzz_}.dict
	mkdir -p "$found"
	[ -d "$seeds" ] || seeds=
	[ -f "$words" ] || words=
	if "$1" ${words:+"-dict=$words"} -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$1." \
		"$found" ${seeds:+"$seeds"} >"$1.log" 2>&1 </dev/null; then
		echo "  $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$1.log") inputs"
		: >"$1.passed"
	else
		tail -n 60 "$1.log"
		echo "  $name: FAILED; the input: $(ls "$1".crash-* "$1".timeout-* "$1".oom-* "$1".leak-* 2>/dev/null | head -1)"
	fi
}

running=0
for program; do
	rm -f "$program.passed"
	run "$program" &
	running=$((running + 1))
	if [ $running -eq 2 ]; then
		wait
		running=0
	fi
done
wait

passed=0
failed=0
for program; do
	if [ -e "$program.passed" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "fuzz: $passed passed, $failed failed"
[ $failed -eq 0 ]
