#!/bin/sh
# Measures tables of benches/results on the machine's GPU, a part at a time, each within ten minutes.
# Usage: measure.sh <folder> <part>...   Parts: resnet50 awkward networks single products memory gather norms
# microbatch microbatch_resnet50 microbatch_densenet40 microbatch_vgg microbatch_deepbench
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

# What is measured of parts of batches is kept: a part that is run again goes on where the time was over.
export OXIDNN_STORE="${OXIDNN_STORE:-$folder/store}"

# plan <seconds> <table> <arguments>: adds a network's times within many limits of workspace, f32. No measurement is
# begun after so many seconds; the rows then say how many parts are unmeasured.
plan() {
    seconds=$1 file=$folder/microbatch_$2.csv
    shift 2
    "${OXIDNN:-$here/bin/oxidnn}" plan "$@" --dtype f32 --limits 0,8MiB,64MiB,512MiB,16GiB --gpus all \
        --policies undivided,power-of-two,all --time-budget "$seconds" --table "$file" --append >>"$folder/$part.log" 2>&1 || echo "failed: plan $*"
}

# sets <seconds> <seconds> <seconds> <table> <arguments>: ours, those of ours that need workspace with what these fall
# back to without any, and cuDNN's, in one table. Most of what the second set needs is measured with the first.
sets() {
    ours=$1 needy=$2 cudnn=$3 table=$4
    shift 4
    rm -f "$folder/microbatch_$table.csv"
    plan "$ours" "$table" "$@"
    plan "$needy" "$table" "$@" --algorithms explicit_gemm,fft_tiled,fft,winograd,winograd_4x4,ffma
    plan "$cudnn" "$table" "$@" --cudnn --algorithms provided --layout nchw
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
        sets 110 45 70 alexnet alexnet:ucudnn
        sets 120 45 60 resnet18 resnet18
        ;;
    microbatch_resnet50)
        sets 250 80 120 resnet50 resnet50 --batch 256
        ;;
    microbatch_densenet40)
        sets 210 60 90 densenet40 densenet40:k40_derived
        ;;
    microbatch_vgg)
        sets 80 40 70 vgg vgg:vgg16_torchvision
        ;;
    microbatch_deepbench)
        sets 130 60 90 deepbench_3x3 deepbench_3x3 --passes fprop
        sets 50 30 40 deepbench_5x5 deepbench_5x5 --passes fprop
        ;;
    *)
        echo "expected a part, given $part"
        exit 2
        ;;
    esac
done
