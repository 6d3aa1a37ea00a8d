#!/bin/sh
# Runs every test of the bundle on the machine's GPU, one process a test, and writes the counts to a file.
# Usage: run.sh [tests.txt]; exits non-zero when a test fails, or when there is no GPU to test.
# LIMIT=<seconds> is the most that a test may take (280).
set -u
here=$(cd "$(dirname "$0")" && pwd)
report=${1:-$here/tests.txt}
# Some machines keep the driver where the loader does not look.
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:/usr/local/nvidia/lib64:/usr/local/nvidia/lib"
export OXIDNN_SKIPPED="$here/skipped.txt" LIMIT="${LIMIT:-280}"
rm -rf "$OXIDNN_SKIPPED" "$here/logs"
cd "$here" && mkdir logs && ./unpack.sh || exit 1

{
    echo "# GPU tests of oxidnn"
    echo "# commit: $(cat commit.txt)"
    echo "# gpu, driver: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 | grep . || echo unknown)"
    echo "# command: gpu-bundle/run.sh (made by cargo xtask gpu-bundle), one process a test, at most $LIMIT s each"
} >"$report"

if ! OXIDNN_DEVICE=gpu bin/oxidnn info; then
    echo "no GPU to test" | tee -a "$report"
    exit 1
fi

bin/oxidnn-onnx --device gpu --cases onnx.zip --docs onnx.md >onnx.log 2>&1 &
onnx=$!

# An instruction that faults spoils the context for every test in its process: each has its own.
# The reference runs on the CPU: several tests keep the GPU busy.
processes=$(($(nproc) / 2 + 1))
for program in bin/test-*; do
    "$program" --list 2>/dev/null | sed -n "s|^\(.*\): test\$|$program \1|p"
done | xargs -P "$processes" -L 1 sh -c '
    log=logs/$(basename "$0").$(echo "$1" | tr : _)
    start=$(date +%s)
    timeout "$LIMIT" "$0" --exact "$1" >"$log.log" 2>&1
    case $? in 0) word=ok ;; 124) word=unfinished ;; *) word=FAILED ;; esac
    echo "$word $(basename "$0") $1 $(($(date +%s) - start)) s" >"$log.word"'

failed=0
for program in bin/test-*; do
    name=$(basename "$program")
    cat logs/"$name".*.word >"$name.words" 2>/dev/null || continue
    good=$(grep -c '^ok' "$name.words")
    bad=$(grep -c '^FAILED' "$name.words")
    unfinished=$(grep -c '^unfinished' "$name.words")
    [ "$bad" = 0 ] || failed=1
    echo "$name: $good passed; $bad failed; $unfinished not finished" | tee -a "$report"
    grep -v '^ok' "$name.words" | tee -a "$report"
done
for log in $(grep -l '^FAILED' logs/*.word | sed 's/word$/log/'); do
    echo "--- $log"
    # What failed stands at its begin, the case that it was reduced to at its end.
    if [ "$(wc -l <"$log")" -gt 200 ]; then head -n 120 "$log" && echo ... && tail -n 80 "$log"; else cat "$log"; fi
done
if wait "$onnx"; then word=ok; else word=FAILED failed=1; fi
echo "onnx: $word: $(grep '^gpu: ' onnx.log || echo no result)" | tee -a "$report"
[ "$word" = ok ] || grep -v -e '  passed ' -e '  refused ' onnx.log | tail -n 60
skipped=0
[ -f "$OXIDNN_SKIPPED" ] && skipped=$(wc -l <"$OXIDNN_SKIPPED")
echo "skipped: $skipped" | tee -a "$report"
exit $failed
