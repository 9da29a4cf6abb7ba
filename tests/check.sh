#!/bin/bash
# Runs the parts of `make check`, each a target, and adds up: a part that fails lets the others run.
#
#	MAKE="make -j2" tests/check.sh BUILD LANE...
#
# A lane is a word list of parts that run one after another. The first lane runs alone, for the others need what it
# builds; these run side by side, for most tests wait for others rather than work.
#
# A part's own last line "part: N passed, N failed[, N skipped]" is counted; one without is one test.
set -u

build=$1
shift
read -r -a make <<<"${MAKE:-make}"
mkdir -p "$build/check"
rm -f "$build"/check/*.row

# What a part printed comes when it has ended, whole.
run_part() {
	local part=$1 log=$build/check/$1.log start=$SECONDS code p f s
	echo "-- $part begins after $start s"
	timeout -k 10 "${CHECK_TIMEOUT:-2400}" "${make[@]}" -k --no-print-directory BUILD="$build" "$part" \
		>"$log" 2>&1 </dev/null
	code=$?
	read -r p f s < <(sed -n 's/^[a-z0-9-]*: \([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)\?$/\1 \2 \4/p' \
		"$log" | tail -n 1)
	if [ -z "${p:-}" ]; then
		p=$((code == 0))
		f=$((code != 0))
	elif [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then
		f=1
	fi
	[ "$code" -ne 124 ] || echo "$part: not ended after ${CHECK_TIMEOUT:-2400} s" >>"$log"
	echo "$part $p $f ${s:-0} $((SECONDS - start))" >"$build/check/$part.row"
	exec 9>"$build/check/lock"
	flock 9
	echo "== $part"
	sed -e '/^cc /d' -e '/^  [A-Z]\{2,5\}  *[^ ]*$/d' "$log"
	exec 9>&-
}

run_lane() {
	for part in $1; do
		run_part "$part"
	done
}

run_lane "$1"
for lane in "${@:2}"; do
	run_lane "$lane" &
done
wait

echo "== all, in $SECONDS s"
# shellcheck disable=SC2048,SC2086
for part in $*; do
	cat "$build/check/$part.row" 2>/dev/null || echo "$part 0 1 0 0"
done | awk '{
	printf "  %-14s %5d passed %4d failed %4d skipped  %4d s\n", $1, $2, $3, $4, $5
	passed += $2; failed += $3; skipped += $4
}
END {
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
	exit failed > 0
}'
