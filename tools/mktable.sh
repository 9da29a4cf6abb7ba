#!/bin/sh
# Makes the API table anew: fetches the headers and libraries, runs tools/mktable.py.
#
#	tools/mktable.sh [OUTPUT]		OUTPUT: streamer/table
set -eu

here=$(dirname "$0")
dir=${CUDATAP_CACHE:-$HOME/.cache/cudatap}
exports=$here/../tests/data/exports

"$here/fetch-headers.sh" "$dir"
exec "${PYTHON:-python3}" "$here/mktable.py" \
	--headers "11=$dir/11/include" --library "11=$dir/11/lib/libcudart.so.11.0" \
	--headers "12=$dir/12/include" --library "12=$dir/12/lib/libcudart.so.12" \
	--headers "13=$dir/13/include" --library "13=$dir/13/lib/libcudart.so.13" \
	--exports "11=$exports/libcudart-11.8.txt" --exports "12=$exports/libcudart-12.9.txt" \
	--exports "13=$exports/libcudart-13.0.txt" --exports "13=$exports/libcudart-13.5.txt" \
	--driver-exports "$exports/libcuda-580.txt" --output "${1:-$here/../streamer/table}"
