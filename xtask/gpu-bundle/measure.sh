#!/bin/sh
# Measures tables of benches/results on the machine's GPU, a part at a time, each within ten minutes.
# Usage: measure.sh <folder> <part>...   Parts: resnet50 awkward networks single products memory gather norms microbatch
# EARLIER=<folder of tables> takes the peers' best algorithms from there and saves the search for them.
# Times of all candidates go to <part>.log, which `oxidnn compare --estimates` reads.
set -u
here=$(cd "$(dirname "$0")" && pwd)
"$here/unpack.sh" || exit 1
# Some machines keep the driver where the loader does not look.
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:/usr/local/nvidia/lib64:/usr/local/nvidia/lib"
folder=$1
shift
mkdir -p "$folder"

# compare <seconds> <arguments>: no problem is begun after so many seconds.
compare() {
    seconds=$1
    shift
    "${OXIDNN:-$here/bin/oxidnn}" compare "$@" --quick --verbose --time-budget "$seconds" --out "$folder" \
        ${EARLIER:+--earlier "$EARLIER"} >>"$folder/$part.log" 2>&1 || echo "failed: compare $*"
}

# plan <seconds> <table> <arguments>: a network's times within many limits of workspace, f32.
plan() {
    seconds=$1 table=$2
    shift 2
    timeout "$seconds" "${OXIDNN:-$here/bin/oxidnn}" plan "$@" --dtype f32 --limits 0,8MiB,64MiB,512MiB,16GiB \
        --table "$folder/microbatch_$table.csv" >>"$folder/$part.log" 2>&1 || echo "failed: plan $*"
}

for part in "$@"; do
    case $part in
    resnet50)
        compare 200 resnet50
        compare 200 resnet50 --layout nchw
        compare 100 resnet50_n1
        ;;
    awkward)
        compare 70 stem
        compare 70 stem --dtype f16
        compare 60 resnext50_grouped
        compare 170 mobilenet_depthwise
        compare 170 mobilenet_depthwise --layout nchw
        ;;
    networks)
        compare 60 resnet18
        compare 90 vgg
        compare 60 alexnet
        compare 110 unet3d
        compare 110 densenet40
        compare 110 deepbench_conv
        ;;
    single)
        compare 250 resnet50 --dtype f32
        compare 250 alexnet --dtype f32
        ;;
    products)
        compare 120 matmul
        compare 300 deepbench_gemm
        ;;
    memory)
        for suite in activation crossentropy dropout lrn optimizer pad pointwise pool reduce resample; do
            compare 45 memory_$suite
        done
        ;;
    gather)
        # The naive kernel that results are compared with looks at every index for every row.
        compare 100 memory_gather
        ;;
    norms)
        compare 270 memory_norm
        compare 110 memory_softmax
        compare 140 memory_transform
        ;;
    microbatch)
        # What needs workspace, and what these fall back to without any.
        needy=explicit_gemm,fft_tiled,winograd,winograd_4x4,ffma
        for network in alexnet:ucudnn resnet18; do
            name=${network%%:*}
            plan 90 "$name-cudnn" $network --cudnn --algorithms provided --layout nchw
            plan 120 "$name-ours" $network
            # Measured with the others, so this only chooses.
            plan 60 "$name-needy" $network --algorithms $needy
        done
        ;;
    *)
        echo "expected a part, given $part"
        exit 2
        ;;
    esac
done
