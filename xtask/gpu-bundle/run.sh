#!/bin/sh
# Runs every test of the bundle on the machine's GPU and writes the counts to a file.
# Usage: run.sh [tests.txt]; exits non-zero when a test fails, or when there is no GPU to test.
set -u
here=$(cd "$(dirname "$0")" && pwd)
report=${1:-$here/tests.txt}
# Some machines keep the driver where the loader does not look.
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:/usr/local/nvidia/lib64:/usr/local/nvidia/lib"
export OXIDNN_SKIPPED="$here/skipped.txt"
rm -f "$OXIDNN_SKIPPED"
cd "$here" || exit 1
./unpack.sh || exit 1

{
    echo "# GPU tests of oxidnn"
    echo "# commit: $(cat commit.txt)"
    echo "# gpu, driver: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo unknown)"
    echo "# command: gpu-bundle/run.sh (made by cargo xtask gpu-bundle)"
} >"$report"

failed=0
if ! OXIDNN_DEVICE=gpu bin/oxidnn info; then
    echo "no GPU to test" | tee -a "$report"
    exit 1
fi
for test in bin/test-*; do
    log="$(basename "$test").log"
    if [ "$(basename "$test")" = test-tests-units ]; then
        # One process a test: an instruction that faults spoils the context for every test beside it.
        : >"$log"
        good=0 bad=0
        for name in $("$test" --list 2>/dev/null | sed -n 's/: test$//p'); do
            if "$test" --exact "$name" >>"$log" 2>&1; then good=$((good + 1)); else bad=$((bad + 1)); fi
        done
        counts="test result: $good passed; $bad failed"
        if [ "$bad" = 0 ]; then word=ok; else word=FAILED; failed=1; fi
    else
        if "$test" >"$log" 2>&1; then word=ok; else word=FAILED; failed=1; fi
        counts=$(grep '^test result' "$log" | tail -1)
    fi
    echo "$(basename "$test"): $word: ${counts:-no result}" | tee -a "$report"
    [ "$word" = ok ] || tail -n 60 "$log"
done
if bin/oxidnn-onnx --device gpu --cases onnx.zip --docs onnx.md >onnx.log 2>&1; then word=ok; else word=FAILED; failed=1; fi
echo "onnx: $word: $(grep '^gpu: ' onnx.log || echo no result)" | tee -a "$report"
[ "$word" = ok ] || grep -v -e '  passed ' -e '  refused ' onnx.log | tail -n 60
skipped=0
[ -f "$OXIDNN_SKIPPED" ] && skipped=$(wc -l <"$OXIDNN_SKIPPED")
echo "skipped: $skipped" | tee -a "$report"
exit $failed
