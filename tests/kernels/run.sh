#!/bin/bash
# Boots kernels of Debian under QEMU, each on this machine's own files, and runs end-to-end tests there: what
# other kernels refuse does not show on this one.
#
#	BUILD=DIR tests/kernels/run.sh VNG PYTHON CUDATAP "SUITE..." TEST...
#
# The processor is emulated where there is no KVM: there everything takes ten times as long.
set -u

vng=$1
python=$(realpath -s "$2")
cudatap=$(realpath "$3")
suites=$4
shift 4
cache=${CUDATAP_CACHE:-$HOME/.cache/cudatap}
BUILD=$(realpath "${BUILD:-build}")
PATH=$(dirname "$(realpath -s "$vng")"):$PATH
kvm=--disable-kvm
[ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo && kvm=

if ! grep -qx 'ID=debian' /etc/os-release; then
	echo "kernels come from Debian's packages, which apt here does not have"
	echo "kernels: 0 passed, 0 failed, 1 skipped"
	exit 0
fi

passed=0 failed=0 skipped=0
for suite in $suites; do
	out=$BUILD/kernels/$suite
	rm -rf "$out"
	mkdir -p "$out"
	if ! tools/fetch-kernels.sh "$suite"; then
		failed=$((failed + 1))
		continue
	fi
	kernel=$(ls "$cache/kernels/$suite"/boot/vmlinuz-* "$cache/kernels/$suite"/usr/lib/modules/*/vmlinuz 2>/dev/null | tail -n 1)
	echo "== $suite: $(ls "$cache/kernels/$suite/lib/modules")"
	# shellcheck disable=SC2086
	timeout -k 10 "${KERNELS_TIMEOUT:-1500}" "$vng" --run "$kernel" $kvm --cpus 2 --memory 2G --rwdir "$out" --user root -- \
		"bash tests/kernels/guest.sh $out $python $cudatap $BUILD $cache $*" >"$out/console.log" 2>&1 </dev/null
	if [ ! -s "$out/report.xml" ]; then
		cat "$out/console.log" "$out/pytest.log" 2>/dev/null | tail -n 40
		failed=$((failed + 1))
		continue
	fi
	tail -n 40 "$out/pytest.log"
	read -r p f s < <("$python" tests/junit.py "$out/report.xml")
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "kernels: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
