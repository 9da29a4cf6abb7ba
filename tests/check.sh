#!/bin/bash
# Runs the parts of `make check`, each a target, and adds up: a part that fails lets the others run.
#
#	MAKE="make -j2" tests/check.sh BUILD PART...
#
# A part's own last line "part: N passed, N failed[, N skipped]" is counted; one without is one test.
set -u

build=$1
shift
read -r -a make <<<"${MAKE:-make}"
mkdir -p "$build/check"
passed=0
failed=0
skipped=0
summary=()

for part; do
	log=$build/check/$part.log
	start=$SECONDS
	echo "== $part"
	timeout -k 10 "${CHECK_TIMEOUT:-2400}" "${make[@]}" -k --no-print-directory BUILD="$build" "$part" \
		2>&1 </dev/null | tee "$log" | sed -u -e '/^cc /d' -e '/^  [A-Z]\{2,5\}  *[^ ]*$/d'
	code=${PIPESTATUS[0]}
	read -r p f s < <(sed -n 's/^[a-z0-9-]*: \([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)\?$/\1 \2 \4/p' \
		"$log" | tail -n 1)
	if [ -z "${p:-}" ]; then
		p=$((code == 0))
		f=$((code != 0))
	elif [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then
		f=1
	fi
	passed=$((passed + p))
	failed=$((failed + f))
	skipped=$((skipped + ${s:-0}))
	summary+=("$(printf '  %-14s %5d passed %4d failed %4d skipped  %4d s' "$part" "$p" "$f" "${s:-0}" $((SECONDS - start)))")
	unset p f s
done

echo "== all, in $SECONDS s"
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
