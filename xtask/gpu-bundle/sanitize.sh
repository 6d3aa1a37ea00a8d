#!/bin/sh
# Runs a small problem of each algorithm under compute-sanitizer and writes what each tool says to a file.
# Usage: sanitize.sh [sanitizer.txt]; exits non-zero when a tool found an error.
set -u
here=$(cd "$(dirname "$0")" && pwd)
report=${1:-$here/sanitizer.txt}
# Some machines keep the driver where the loader does not look.
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:/usr/local/nvidia/lib64:/usr/local/nvidia/lib"
cd "$here" && ./unpack.sh || exit 1

# Algorithm | problem.
problems() {
    cat <<'END'
bf16x3_wgmma | conv:fprop pad=1x1 x=2x64x12x11:f32:nhwc w=72x64x3x3:f32:nhwc
f16x2_wgmma_cluster | conv:wgrad pad=1x1 x=2x64x12x11:f32:nhwc dw=72x64x3x3:f32:nhwc
f16x2_wgmma_cluster | conv:wgrad pad=3x3 stride=2x2 x=2x3x31x29:f32:nhwc dw=64x3x7x7:f32:nhwc
f16x2_wgmma_direct | conv:fprop pad=1x1 x=2x64x12x11:f32:nhwc w=72x64x3x3:f32:nhwc
f16x2_wgmma_direct | conv:dgrad pad=1x1 dx=2x72x12x11:f32:nhwc w=64x72x3x3:f32:nhwc
f16x2_wgmma_direct | conv:dgrad pad=3x3 stride=2x2 dx=2x3x31x29:f32:nhwc w=64x3x7x7:f32:nhwc
f16x2_wgmma_split | conv:wgrad pad=1x1 x=2x64x12x11:f32:nhwc dw=72x64x3x3:f32:nhwc
cp_async_mma | conv:fprop pad=1x1 x=2x36x12x11:bf16:nhwc w=44x36x3x3:bf16:nhwc
cp_async_mma | conv:wgrad pad=1x1 x=2x36x12x11:bf16:nhwc dw=44x36x3x3:bf16:nhwc
depthwise | conv:fprop pad=1x1 groups=64 x=2x64x12x11:bf16:nhwc w=64x1x3x3:bf16:nhwc
depthwise | conv:wgrad pad=1x1 groups=64 x=2x64x12x11:bf16 dw=64x1x3x3:bf16
depthwisewindows_gather_nhwc_3x3_s1_bf16 | conv:fprop pad=1x1 groups=66 x=1x66x12x11:bf16:nhwc w=66x1x3x3:bf16
depthwisewindows_spread_nchw_5x5_s2_f16 | conv:dgrad pad=2x2 stride=2x2 groups=24 dx=2x24x12x11:f16 w=24x1x5x5:f16
depthwisewindows_wgrad_nhwc_3x3_s1_bf16 | conv:wgrad pad=1x1 groups=66 x=1x66x12x11:bf16:nhwc dw=66x1x3x3:bf16
depthwisewindows_wgrad_nchw_3x3_s2_bf16 | conv:wgrad pad=1x1 stride=2x2 groups=30 x=2x30x12x11:bf16 dw=30x1x3x3:bf16
depthwisewindows_quads_nchw_3x3_s1_bf16 | conv:fprop pad=1x1 groups=6 x=1x6x13x12:bf16 w=6x1x3x3:bf16
depthwisewindows_quads_nchw_5x5_s2_f16 | conv:fprop pad=2x2 stride=2x2 groups=6 x=2x6x13x12:f16 w=6x1x5x5:f16
depthwisewindows_gather_nhwc_3x3_s1_strip2_bf16 | conv:dgrad pad=1x1 groups=66 dx=1x66x12x11:bf16:nhwc w=66x1x3x3:bf16
depthwisewindows_wgrad_nchw_3x3_s2_bf16 | conv:wgrad pad=1x1 stride=2x2 groups=30 x=1x30x12x11:bf16 dw=30x1x3x3:bf16
depthwisewindows_gather_nhwc_3x3_s2_strip1_bf16 | conv:fprop pad=1x1 stride=2x2 groups=66 x=1x66x12x11:bf16:nhwc w=66x1x3x3:bf16
depthwise_toeplitz_nchw_3x3_bf16 | conv:fprop pad=1x1 groups=24 x=3x24x12x14:bf16 w=24x1x3x3:bf16
depthwise_toeplitz_staged_nchw_3x3_bf16 | conv:dgrad pad=1x1 groups=3 dx=1x3x112x112:bf16 w=3x1x3x3:bf16
depthwise_toeplitz_wgrad_nchw_5x5_bf16 | conv:wgrad pad=2x2 groups=24 x=3x24x12x14:bf16 dw=24x1x5x5:bf16
depthwise_tma | conv:fprop pad=1x1 groups=72 x=3x72x19x30:bf16:nhwc w=72x1x3x3:bf16:nhwc
depthwise_tma | conv:fprop pad=2x2 stride=2x2 groups=40 x=2x40x12x150:f16:nhwc w=40x1x5x5:f16:nhwc
depthwise_tma | conv:dgrad pad=2x2 groups=40 dx=3x40x7x7:bf16:nhwc w=40x1x5x5:bf16:nhwc
depthwise_tma | conv:dgrad pad=1x1 stride=2x2 groups=40 dx=3x40x9x30:f16:nhwc w=40x1x3x3:f16:nhwc
grouped_tma | conv:fprop pad=1x1 groups=18 x=9x72x7x7:bf16:nhwc w=72x4x3x3:bf16:nhwc
grouped_tma | conv:fprop pad=1x1 stride=2x2 groups=3 x=2x96x12x150:f16:nhwc w=96x32x3x3:f16:nhwc
grouped_tma | conv:dgrad pad=1x1 groups=5 dx=3x80x9x30:bf16:nhwc w=80x16x3x3:bf16:nhwc
grouped_tma | conv:fprop pad=2x2 stride=2x2 groups=40 x=2x40x12x150:f16:nhwc w=40x1x5x5:f16:nhwc
grouped_tma | conv:dgrad pad=2x2 groups=36 dx=9x72x7x7:bf16:nhwc w=72x2x5x5:bf16:nhwc
grouped_tma | conv:wgrad pad=1x1 groups=18 x=9x72x7x7:bf16:nhwc dw=72x4x3x3:bf16:nhwc
grouped_tma | conv:wgrad pad=1x1 stride=2x2 groups=5 x=3x80x9x60:f16:nhwc dw=80x16x3x3:f16:nhwc
grouped_tma | conv:wgrad pad=1x1 groups=3 x=5x96x7x7:bf16:nhwc dw=96x32x3x3:bf16:nhwc
diagonal_mma | conv:fprop pad=2x2 stride=2x2 groups=40 x=2x40x12x150:f16:nhwc w=40x1x5x5:f16:nhwc
diagonal_mma | conv:dgrad pad=3x3 groups=40 dx=3x40x7x7:bf16:nhwc w=40x1x7x7:bf16:nhwc
diagonal_mma | conv:wgrad pad=2x2 stride=2x2 groups=40 x=3x40x12x11:bf16:nhwc dw=40x1x5x5:bf16:nhwc
diagonal_mma | conv:wgrad pad=3x3 groups=40 x=9x40x7x7:f16:nhwc dw=40x1x7x7:f16:nhwc
explicit_gemm | conv:fprop pad=1x1 x=2x24x12x11:f32:nhwc w=20x24x3x3:f32:nhwc
explicit_gemm | conv:dgrad pad=1x1 dx=2x24x12x11:f32:nhwc w=20x24x3x3:f32:nhwc
explicit_gemm | conv:wgrad pad=1x1 x=2x24x12x11:bf16:nhwc dw=24x24x3x3:bf16:nhwc
ffma | conv:fprop pad=1x1 x=2x20x12x11:f32 w=24x20x3x3:f32
fft | conv:fprop pad=9x9 x=2x5x14x12:f32 w=6x5x19x19:f32
fft | conv:fprop pad=4x4 x=2x5x40x36:f32 w=6x5x9x9:f32
fft | conv:dgrad pad=4x4 dx=2x5x40x36:f32 w=6x5x9x9:f32
fft | conv:wgrad pad=4x4 x=2x5x40x36:f32 dw=6x5x9x9:f32
fft | conv:fprop pad=4x4 x=1x3x70x66:f32 w=3x3x9x9:f32
fft | conv:dgrad pad=4x4 dx=1x3x70x66:f32 w=3x3x9x9:f32
fft | conv:wgrad pad=4x4 x=1x3x70x66:f32 dw=3x3x9x9:f32
fft_tiled | conv:fprop pad=2x2 x=2x8x12x11:f32 w=12x8x5x5:f32
fft_tiled | conv:dgrad pad=2x2 dx=2x8x12x11:f32 w=12x8x5x5:f32
fft_tiled | conv:wgrad pad=2x2 x=2x8x12x11:f32 dw=12x8x5x5:f32
grouped_mma | conv:fprop pad=1x1 groups=8 x=2x64x12x11:bf16:nhwc w=64x8x3x3:bf16:nhwc
grouped_mma | conv:wgrad pad=1x1 groups=8 x=2x64x12x11:bf16:nhwc dw=64x8x3x3:bf16:nhwc
halo_wgmma | conv:dgrad pad=1x1 dx=1x136x19x33:f16:nhwc w=72x136x3x3:f16:nhwc
halo_dgrad_wgmma_f16_128x256_d32_sm90 | conv:dgrad pad=1x1 dx=1x136x19x33:f16:nhwc w=24x136x3x3:f16:nhwc
halo_fprop_wgmma_bf16_64x256_d32_resident_sm90 | conv:fprop pad=1x1 x=2x32x19x33:bf16:nhwc w=40x32x3x3:bf16:nhwc
halo_fprop_wgmma_bf16_64x256_d32_sm90 | conv:fprop pad=1x1 stride=2x2 x=2x32x19x33:bf16:nhwc w=40x32x3x3:bf16:nhwc
halo_fprop_wgmma_bf16_64x256_resident_sm90 | conv:fprop pad=1x1 groups=2 x=5x128x7x7:bf16:nhwc w=128x64x3x3:bf16:nhwc
halo_fprop_wgmma_bf16_64x256_d32_resident_sm90 | conv:fprop pad=1x1 x=150x8x9x31:bf16:nhwc w=24x8x3x3:bf16:nhwc
halo_fprop_wgmma_bf16_64x256_d32_sm90 | conv:fprop pad=1x1 x=2x32x19x33:bf16:nhwc w=24x32x3x3:bf16:nhwc
halo_fprop_wgmma_bf16_64x256_sm90 | conv:dgrad pad=3x3 stride=2x2 dx=2x3x30x32:bf16:nhwc w=64x3x7x7:bf16:nhwc
halo_fprop_wgmma_bf16_64x64_sm90 | conv:fprop pad=1x1 x=3x128x7x7:bf16:nhwc w=72x128x3x3:bf16:nhwc
halo_dgrad_wgmma_bf16_128x256_d48_sm90 | conv:dgrad pad=1x1 dx=1x136x19x33:bf16:nhwc w=40x136x3x3:bf16:nhwc
halo_fprop_wgmma_f16_64x256_d48_sm90 | conv:fprop pad=1x1 x=1x48x19x33:f16:nhwc w=40x48x3x3:f16:nhwc
halo_dgrad_wgmma_bf16_128x192_sm90 | conv:dgrad pad=1x1 dx=1x72x11x28:bf16:nhwc w=72x72x3x3:bf16:nhwc
halo_fprop_wgmma_bf16_64x64_sm90 | conv:fprop pad=1x1 stride=2x2 x=5x64x13x15:bf16:nhwc w=40x64x3x3:bf16:nhwc
halo_fprop_wgmma_bf16_64x256_sm90 | conv:fprop pad=1x1 x=3x128x7x7:bf16:nhwc w=64x128x3x3:bf16:nhwc
halo_fprop_wgmma_bf16_256x16_sm90 | conv:fprop pad=1x1 x=2x64x9x33:bf16:nhwc w=16x64x3x3:bf16:nhwc
halo_wgmma_split | conv:wgrad pad=1x1 x=2x64x28x28:bf16:nhwc dw=64x64x3x3:bf16:nhwc
halowgrad_wgmma_bf16_64x96_sm90 | conv:wgrad pad=1x1 x=2x32x28x28:bf16:nhwc dw=24x32x3x3:bf16:nhwc
halowgrad_wgmma_bf16_64x96_sm90 | conv:wgrad pad=1x1 groups=2 x=40x64x7x7:bf16:nhwc dw=64x32x3x3:bf16:nhwc
halowgrad_wgmma_bf16_64x40_sm90 | conv:wgrad pad=1x1 x=9x72x8x8:bf16:nhwc dw=40x72x3x3:bf16:nhwc
im2col_wgmma | conv:dgrad pad=1x1 stride=2x2 dx=2x72x12x11:bf16:nhwc w=72x72x3x3:bf16:nhwc
im2col_wgmma | conv:fprop pad=1x1 x=2x72x12x11:bf16:nhwc w=72x72x3x3:bf16:nhwc
fprop_im2col_wgmma_bf16_128x128_sm90 | conv:fprop pad=1x1 x=70x8x23x23:bf16:nhwc w=136x8x3x3:bf16:nhwc
fprop_im2col_wgmma_bf16_128x64_sm90 | conv:fprop x=7x64x23x23:bf16:nhwc w=64x64x1x1:bf16:nhwc
dgrad_im2col_wgmma_f16_256x64_sm90 | conv:dgrad dx=7x64x23x23:f16:nhwc w=64x64x1x1:f16:nhwc
im2col_wgmma_cluster | conv:fprop pad=1x1 x=1x256x7x7:bf16:nhwc w=64x256x3x3:bf16:nhwc
convcluster_fprop_wgmma_bf16_64x64_s12_sm90 | conv:fprop pad=1x1 x=1x256x7x7:bf16:nhwc w=64x256x3x3:bf16:nhwc
convcluster_dgrad_wgmma_f16_128x64_s8_sm90+cluster2 | conv:dgrad pad=1x1 dx=2x256x7x7:f16:nhwc w=256x256x3x3:f16:nhwc
convcluster_fprop_wgmma_bf16_128x128_s5_sm90+cluster4 | conv:fprop pad=1x1 x=2x256x7x7:bf16:nhwc w=256x256x3x3:bf16:nhwc
convcluster_dgrad_wgmma_f16_128x128_s5_sm90+cluster2 | conv:dgrad pad=1x1 dx=2x256x7x7:f16:nhwc w=256x256x3x3:f16:nhwc
convcluster_fprop_wgmma_bf16_64x64_sm90+cluster8 | conv:fprop pad=1x1 x=1x256x7x7:bf16:nhwc w=64x256x3x3:bf16:nhwc
convcluster_wgrad_wgmma_bf16_64x64_sm90+cluster4 | conv:wgrad pad=1x1 x=9x128x7x7:bf16:nhwc dw=136x128x3x3:bf16:nhwc
im2col_wgmma_stream_k | conv:fprop pad=1x1 x=1x256x7x7:bf16:nhwc w=128x256x3x3:bf16:nhwc
convstreamk_fprop_wgmma_bf16_128x128_sm90+last | conv:fprop pad=1x2 groups=170 x=1x10880x2x5:bf16:nhwc w=21760x64x3x5:bf16:nhwc
im2col_wgmma_stream_k | conv:dgrad pad=1x1 dx=2x256x7x7:bf16:nhwc w=256x256x3x3:bf16:nhwc
convstreamk_dgrad_wgmma_bf16_128x128_c2_sm90+equal | conv:dgrad pad=1x1 dx=2x256x7x7:bf16:nhwc w=256x256x3x3:bf16:nhwc
convstreamk_dgrad_wgmma_bf16_128x160_sm90+equal | conv:dgrad pad=1x1 dx=2x152x7x7:bf16:nhwc w=128x152x3x3:bf16:nhwc
convstreamk_fprop_wgmma_bf16_128x160_sm90+equal | conv:fprop pad=1x1 x=2x128x7x7:bf16:nhwc w=160x128x3x3:bf16:nhwc
im2col_wgmma_split | conv:wgrad pad=1x1 x=2x72x12x11:bf16:nhwc dw=72x72x3x3:bf16:nhwc
wgrad_im2col_fixup_bf16_128x64_sm90 | conv:wgrad pad=1x1 x=8x64x16x16:bf16:nhwc dw=136x64x3x3:bf16:nhwc
wgrad_im2col_fixup_bf16_128x64_sm90+equal | conv:wgrad pad=1x1 x=8x64x16x16:bf16:nhwc dw=136x64x3x3:bf16:nhwc
wgrad_im2col_fixup_bf16_128x64_sm90+evenly | conv:wgrad pad=1x1 x=8x64x16x16:bf16:nhwc dw=136x64x3x3:bf16:nhwc
wgrad_im2col_fixup_bf16_128x256_sm90 | conv:wgrad pad=1x1 x=1x72x9x9:bf16:nhwc dw=136x72x3x3:bf16:nhwc
wgrad_im2col_fixup_bf16_128x128_sm90+equal | conv:wgrad x=2x72x19x17:bf16:nhwc dw=72x72x1x1:bf16:nhwc
wgrad_im2col_fixup_f16_128x256_c2_sm90 | conv:wgrad pad=1x1 x=1x72x9x15:f16:nhwc dw=136x72x3x3:f16:nhwc
wgrad_im2col_fixup_f16_64x256_sm90 | conv:wgrad x=2x104x19x17:f16:nhwc dw=40x104x1x3:f16:nhwc
wgrad_im2col_wgmma_bf16_64x320_p32_sm90 | conv:wgrad x=2x304x9x9:bf16:nhwc dw=304x304x1x1:bf16:nhwc
wgrad_im2col_wgmma_f16_64x256_p32_sm90 | conv:wgrad pad=1x1 stride=2x2 x=2x32x17x15:f16:nhwc dw=72x32x3x3:f16:nhwc
convgrouped_wgrad_bf16_w8_5x5_s2_sm90+nchw | conv:wgrad pad=2x2 stride=2x2 groups=72 x=3x72x14x14:bf16 dw=72x1x5x5:bf16
pointwise_matmul | conv:wgrad x=2x72x12x11:bf16:nhwc dw=136x72x1x1:bf16:nhwc
matmul64_forward_tma_wgmma_bf16f32bf16_64x64x64_s12_tn_sm90+share2+split2 | conv:wgrad x=2x72x12x11:bf16:nhwc dw=136x72x1x1:bf16:nhwc
pointwise_matmul | conv:fprop x=2x72x12x11:bf16:nhwc w=72x72x1x1:bf16:nhwc
pointwise_lanes | conv:fprop x=2x40x9x7:bf16:nhwc w=3x40x1x1:bf16
pointwise_lanes | conv:dgrad dx=2x40x9x7:bf16:nhwc w=3x40x1x1:bf16
merged_groups | conv:fprop pad=1x1 groups=4 x=2x128x12x11:bf16:nhwc w=128x32x3x3:bf16:nhwc
overlap_fprop_rows_bf16_n112_i14_sm90 | conv:fprop pad=3x3 stride=2x2 x=1x3x9x228:bf16:nhwc w=64x3x7x7:bf16:nhwc
overlap_fprop_wgmma_bf16_n64_sm90 | conv:fprop pad=3x3 stride=2x2 x=1x3x19x29:bf16:nhwc w=64x3x7x7:bf16:nhwc
overlap_wgrad_wgmma_bf16_7x32_sm90 | conv:wgrad pad=3x3 stride=2x2 x=1x3x19x29:bf16:nhwc dw=64x3x7x7:bf16:nhwc
overlap_fprop_rows_bf16_n112_i14_sm90 | conv:fprop pad=3x3 stride=2x2 x=1x3x9x208:bf16 w=64x3x7x7:bf16
overlap_wgrad_turns_bf16_7x32_sm90 | conv:wgrad pad=3x3 stride=2x2 x=1x3x19x32:bf16:nhwc dw=64x3x7x7:bf16:nhwc
winograd | conv:fprop pad=1x1 x=2x24x12x11:f32:nhwc w=20x24x3x3:f32:nhwc
tma_wgmma | matmul:forward a=130x200:bf16 b=200x136:bf16
matmul64_forward_tma_wgmma_bf16f32bf16_64x64x64_s12_nn_sm90+share2+cluster2 | matmul:forward a=130x1000:bf16 b=1000x136:bf16
matmul112_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_nn_sm90 | matmul:forward a=264x72:bf16 b=72x216:bf16 c=264x216:bf16
matmul160_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_nn_sm90 | matmul:forward a=300x200:bf16 b=200x304:bf16
matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_nn_sm90 | matmul:forward a=1500x72:bf16 b=72x1500:bf16
matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s5_c2_nt_sm90 | matmul:forward trans=nt a=1500x72:bf16 b=1800x72:bf16
matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_c2_nt_sm90 | matmul:forward trans=nt a=1500x72:bf16 b=1800x72:bf16
matmul160resident_forward_tma_wgmma_bf16f32bf16_128x160x64_s6_nt_sm90+share2 | matmul:forward trans=nt a=35000x72:bf16 b=304x72:bf16
matmul160resident_forward_tma_wgmma_f16f32f16_128x160x64_s6_nn_sm90 | matmul:forward a=68000x136:f16 b=136x152:f16
matmul192turns_forward_tma_wgmma_bf16f32bf16_128x192x64_s5_c2_nn_sm90 | matmul:forward a=1700x72:bf16 b=72x1800:bf16
matmul192turns_forward_tma_wgmma_f16f32f16_128x192x64_s5_c2_tt_sm90+exchanged | matmul:forward a=1700x72:f16 b=72x1800:f16
matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s5_c2_nt_sm90+exchanged | matmul:forward trans=nt a=1500x72:bf16 b=1800x72:bf16
matmul128draws_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_nt_sm90 | matmul:forward trans=nt a=60000x72:bf16 b=200x72:bf16
matmul64draws_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_nt_sm90 | matmul:forward trans=nt a=110000x136:bf16 b=40x136:bf16
ffma | matmul:forward a=130x201:f32 b=201x137:f32
specialized | activation:forward mode=relu x=3x1001:bf16
activate_relu_f16+kept | activation:forward mode=relu x=3x3001:f16
specialized | activation:backward mode=relu x=3x1001:bf16
specialized | activation:backward mode=gelu x=3x1001:f32
specialized | pointwise:add a=3x1001:bf16 b=3x1001:bf16
streamed | pointwise:div a=3x1001:bf16 b=3x1001:bf16
vectorized | reduce:add x=300x517:bf16 y=300x1:bf16
vectorized | reduce:add x=4289x128:bf16 y=1x128:bf16
vectorized | reduce:add x=5x16x7x7:bf16 y=1x16x1x1:bf16
vectorized | reduce:norm2 x=1x300000:f32 y=1x1:f32
vectorized | reduce:max x=30x1003:bf16 y=30x1:bf16 indices=30x1:i64
vectorized | reduce:log_sum_exp x=30x1003:bf16 y=30x1:bf16
planes | pool:backward mode=max window=3x3 pad=1x1 stride=2x2 x=2x5x29x31:bf16 dy=2x5x15x16:bf16
columns | pool:backward mode=max window=3x3 pad=1x1 stride=2x2 x=2x16x29x31:bf16:nhwc dy=2x16x15x16:bf16:nhwc
columns | pool:backward mode=max window=3x3 pad=1x1 stride=1x1 x=2x40x29x31:bf16:nhwc dy=2x40x29x31:bf16:nhwc
columns | pool:backward mode=max window=2x2 pad=0x0 stride=2x2 x=2x24x30x32:f32:nhwc dy=2x24x15x16:f32:nhwc
vectorized | dropout:forward p=0.1 order=row_major x=37x515:bf16 state=4:i32 y=37x515:bf16
vectorized | dropout:backward p=0.1 order=row_major dy=37x515:f32 state=4:i32 dx=37x515:f32
rows_mma | pool:backward mode=max window=3x3 pad=1x1 stride=1x1 x=3x72x6x30:bf16:nhwc
rows_mma | pool:backward mode=max window=3x3 pad=1x1 stride=1x1 x=9x24x5x7:f16:nhwc
rows_mma | pool:backward mode=max window=3x3 pad=1x1 stride=1x1 x=3x8x4x57:bf16:nhwc
ring_rows | pool:backward mode=max window=3x3 pad=1x1 stride=2x2 x=3x72x16x30:bf16:nhwc
ring_rows | pool:backward mode=max window=3x3 pad=0x0 stride=2x2 ceil=1 x=2x16x9x112:f16:nhwc
ring_rows | pool:backward mode=max window=3x3 pad=0x0 stride=2x2 x=9x8x5x7:bf16:nhwc
nchw_transposed | pool:backward mode=max window=3x3 pad=1x1 stride=1x1 x=3x72x6x30:bf16
strips | pool:forward mode=max window=3x3 pad=1x1 stride=2x2 x=2x16x29x31:bf16:nhwc
strips | pool:forward mode=max window=3x3 pad=1x1 stride=1x1 x=2x16x29x31:bf16
tiles | pool:backward mode=max window=3x3 pad=1x1 stride=2x2 x=2x16x29x31:bf16:nhwc dy=2x16x15x16:bf16:nhwc
whole | pool:forward mode=average_include_padding window=7x7 stride=7x7 x=3x5x7x7:bf16
channelwise | norm:forward mode=batch eps=0.00001 x=4x40x9x9:bf16:nhwc
channelwise | norm:forward mode=batch eps=0.00001 x=40x64x28x28:bf16:nhwc
channelwise | norm:forward mode=batch eps=0.00001 x=3x72x40x31:bf16:nhwc
channelwise | norm:backward mode=batch eps=0.00001 x=3x72x40x31:bf16:nhwc
channelwise | norm:forward mode=batch eps=0.00001 x=20x72x40x31:bf16:nhwc scale=72:f32 bias=72:f32
channelwise | norm:inference mode=batch eps=0.00001 x=3x72x40x31:bf16:nhwc scale=72:f32 bias=72:f32 running_mean=72:f32 running_var=72:f32
norm_channelwise_apply_runs_bf16 | norm:forward mode=batch eps=0.00001 x=55x72x40x31:bf16:nhwc scale=72:f32 bias=72:f32 mean=72:f32 inv_std=72:f32
norm_channelwise_apply_gradients_runs_bf16 | norm:backward mode=batch eps=0.00001 x=55x72x40x31:bf16:nhwc scale=72:f32 mean=72:f32 inv_std=72:f32 dscale=72:f32 dbias=72:f32
norm_forward_resident_channels_bf16_l8 | norm:forward mode=batch eps=0.00001 factor=0.1 x=40x128x28x28:bf16:nhwc scale=128:f32 running_mean=128:f32
norm_forward_resident_channels_bf16_l16 | norm:forward mode=batch eps=0.00001 act=relu x=3x72x40x31:bf16:nhwc z=3x72x40x31:bf16:nhwc
norm_forward_resident_channels_f32_l8 | norm:forward mode=batch eps=0.00001 x=134x32x56x56:f32:nhwc
norm_forward_resident_channels_bf16_l8 | norm:forward mode=batch eps=0.00001 x=16x32x28x28:bf16:nhwc scale=32:f32 bias=32:f32
norm_backward_resident_channels_f16_l16 | norm:backward mode=batch act=relu eps=0.00001 x=6x24x30x31:f16:nhwc y=6x24x30x31:f16:nhwc mean=24:f32 inv_std=24:f32
norm_backward_resident_channels_bf16_l8 | norm:backward mode=batch eps=0.00001 x=40x128x28x28:bf16:nhwc scale=128:f32 mean=128:f32 inv_std=128:f32 dscale=128:f32 dbias=128:f32
norm_backward_resident_channels_bf16_l16 | norm:backward mode=batch eps=0.00001 act=relu x=3x72x40x31:bf16:nhwc y=3x72x40x31:bf16:nhwc scale=72:f32 mean=72:f32 inv_std=72:f32 dz=3x72x40x31:bf16:nhwc dscale=72:f32
resident_planes | norm:forward mode=batch eps=0.00001 factor=0.1 x=40x160x28x28:bf16 scale=160:f32 running_mean=160:f32
resident_planes | norm:forward mode=batch eps=0.00001 act=relu x=33x80x14x14:f16 z=33x80x14x14:f16
resident_planes | norm:backward mode=batch eps=0.00001 act=relu x=9x160x7x7:bf16 y=9x160x7x7:bf16 scale=160:f32 mean=160:f32 inv_std=160:f32 dz=9x160x7x7:bf16 dscale=160:f32
row_registers | norm:forward mode=rms axis=1 eps=0.00001 x=37x1024:bf16 scale=1024:bf16
looped_rows | norm:forward mode=layer axis=1 eps=0.00001 x=5x40000:bf16
norm_forward_lean_rows_bf16_t256_v4 | norm:forward mode=layer axis=1 eps=0.00001 x=300x5128:bf16 scale=5128:bf16 bias=5128:bf16
norm_forward_lean_rows_bf16_t512_v2 | norm:forward mode=rms axis=1 eps=0.00001 x=7x5128:bf16 scale=5128:f32
ring_rows | norm:backward mode=rms axis=1 eps=0.00001 x=300x4096:bf16 scale=4096:bf16 inv_std=300x1:f32 dscale=4096:bf16
looped_rows | crossentropy:backward x=37x5001:bf16 target=37:i64 lse=37:f32 total=1:f32 dloss=1:f32 dx=37x5001:bf16
register_rows | softmax:forward kind=accurate mode=channel x=37x1000:bf16
looped_rows | softmax:backward kind=log mode=channel y=5x30001:bf16
split_rows | softmax:forward kind=accurate mode=channel x=2x300000:bf16
streamed_rows | softmax:forward kind=accurate mode=channel x=1300x512:bf16
streamed_rows | softmax:backward kind=log mode=channel y=700x4096:bf16
cluster_rows | softmax:forward kind=accurate mode=channel x=37x16384:bf16
resident_rows | softmax:forward kind=accurate mode=channel x=40x9000:bf16
resident_rows | softmax:forward kind=log mode=channel x=9x28000:f32
cluster_rings | softmax:forward kind=accurate mode=channel x=300x8201:bf16
softmax_forward_rings_bf16+cluster2 | softmax:forward kind=accurate mode=channel x=150x60001:bf16
softmax_forward_rings_f32+cluster4 | softmax:forward kind=log mode=channel x=31x60000:f32
softmax_backward_rings_f16+cluster2 | softmax:backward kind=accurate mode=channel y=140x32768:f16
softmax_backward_rings_bf16+cluster8 | softmax:backward kind=log mode=channel y=15x120001:bf16
columns | softmax:forward kind=accurate mode=channel x=2x21x64x64:bf16
softmax_forward_columns_bf16_pairs | softmax:forward kind=accurate mode=channel x=2x21x6x5:bf16
softmax_forward_columns_bf16_pairs_x2 | softmax:forward kind=accurate mode=channel x=2x21x10x10:bf16
softmax_forward_columns_f32_pairs_x2 | softmax:forward kind=log mode=channel x=2x24x9x2:f32
softmax_backward_columns_f16_pairs | softmax:backward kind=log mode=channel y=3x7x6:f16 dy=3x7x6:f16
softmax_forward_streamed_bf16_t1024_v4 | softmax:forward kind=accurate mode=channel x=300x20000:bf16
rows | pad:forward mode=reflect before=0x0x1x1 x=2x3x9x9:bf16 y=2x3x11x11:bf16
rows | pad:forward mode=reflect before=0x0x1x1 x=8x64x30x28:bf16:nhwc y=8x64x32x30:bf16:nhwc
packed | pad:forward mode=reflect before=0x0x2x3 x=2x40x30x27:bf16 y=2x40x35x33:bf16
packed | pad:forward mode=constant before=0x300 x=5x9001:i8 y=5x9500:i8
packed_gradient | pad:backward mode=reflect before=0x0x2x3 dy=2x40x35x33:bf16 dx=2x40x30x27:bf16
gradient | pad:backward mode=edge before=0x0x1x1 dy=8x64x32x30:bf16:nhwc dx=8x64x30x28:bf16:nhwc
channel_vectors | resample:forward mode=nearest coords=half_pixel x=2x16x9x9:bf16:nhwc y=2x16x18x18:bf16:nhwc
channel_vectors | resample:forward mode=linear coords=half_pixel x=2x24x33x35:bf16:nhwc y=2x24x66x70:bf16:nhwc
channel_vectors | resample:backward mode=linear coords=half_pixel dy=2x24x66x70:f16:nhwc dx=2x24x33x35:f16:nhwc
tables | resample:forward mode=linear coords=half_pixel x=2x16x9x9:bf16:nhwc y=2x16x18x18:bf16:nhwc
register_windows | lrn:forward n=5 x=2x32x9x9:bf16
END
}

: >"$report"
failed=0
for tool in memcheck racecheck; do
    problems | while IFS='|' read -r algorithm problem; do printf '%s\n' "$tool|$algorithm|$problem"; done
done >sanitizer.list
xargs -a sanitizer.list -d '\n' -P 6 -I{} sh -c '
    tool=$(echo "$1" | cut -d"|" -f1)
    algorithm=$(echo "$1" | cut -d"|" -f2 | tr -d " ")
    problem=$(echo "$1" | cut -d"|" -f3 | sed "s/^ *//")
    said=$(timeout 90 compute-sanitizer --tool "$tool" bin/oxidnn run "$problem" --no-verify --device gpu --policy "$algorithm" 2>&1)
    # A run that is refused ends with an error of its own before the tool finds none.
    summary=$(echo "$said" | grep -E "^error:|ERROR SUMMARY|RACECHECK SUMMARY" | head -1 | cut -c1-300)
    echo "$tool | $algorithm | $problem | ${summary:-no answer}"' _ {} >"$report.rows"
{
    echo "# compute-sanitizer on a small problem of every algorithm: tool | algorithm | problem | summary"
    echo "# gpu, driver: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
    echo "# commit: $(cat commit.txt)"
    echo "# command: gpu-bundle/sanitize.sh (compute-sanitizer --tool <tool> oxidnn run \"<problem>\" --no-verify --device gpu --policy <algorithm>)"
    sort "$report.rows"
} >"$report"
rm -f "$report.rows"
grep -v '^#' "$report" | grep -qv -e 'ERROR SUMMARY: 0 errors' -e '0 hazards' && failed=1
exit $failed
