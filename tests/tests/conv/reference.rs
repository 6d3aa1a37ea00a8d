//! Every algorithm against the reference.

use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use kernel_abi::{DType, Problem};
use oxidnn_tests::{check, check_exact, gpu, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn fprop_matches_the_reference(problem in random(ConvPass::Fprop), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn dgrad_matches_the_reference(problem in random(ConvPass::Dgrad), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn wgrad_matches_the_reference(problem in random(ConvPass::Wgrad), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn tensor_cores_match_the_reference(problem in problems::conv::for_tensor_cores(any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn tensor_cores_give_integers_exactly(problem in problems::conv::for_tensor_cores(any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn odd_channels_match_the_reference(problem in problems::conv::odd_channels(any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn halos_match_the_reference(problem in problems::conv::with_halo(halo_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn odd_channels_give_integers_exactly(problem in problems::conv::odd_channels(any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn halos_give_integers_exactly(problem in problems::conv::with_halo(halo_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn nchw_matches_the_reference(problem in problems::conv::nchw(any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn nchw_gives_integers_exactly(problem in problems::conv::nchw(any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn groups_match_the_reference(problem in problems::conv::grouped(any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn groups_give_integers_exactly(problem in problems::conv::grouped(any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::conv::any(), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }
}

pub fn any_pass() -> impl Strategy<Value = ConvPass> + Clone {
    prop::sample::select(ConvPass::ALL)
}

/// Mostly `wgrad`, whose other methods are reached by other problems.
fn halo_pass() -> impl Strategy<Value = ConvPass> {
    prop_oneof![2 => Just(ConvPass::Wgrad), 1 => any_pass()]
}

fn random(pass: ConvPass) -> impl Strategy<Value = ConvProblem> {
    problems::conv::of(problems::tensors::dtype(), Just(pass))
}

/// Integers of such a size that every sum, blended with its prior value, is stored exactly; where the sums are too
/// long for the type, accumulators are still exact and the storage rounds once, as the oracle does.
pub(super) fn check_integers(problem: &ConvProblem, seed: u64) -> Result<(), TestCaseError> {
    let room = problem.x().dtype().max_exact_integer() as f64 / (3.0 * problem.accumulation_length());
    let max = room.sqrt().clamp(1.0, 16.0) as i64;
    check_exact(problem, seed, max)
}

/// Shapes that random ones seldom reach.
const SHAPES: &[&str] = &[
    // Pointwise, and pointwise but for a stride or a border.
    "pad=0x0 stride=1x1 x=3x17x5x7:T w=19x17x1x1:T",
    "pad=0x0 stride=2x3 x=2x8x9x7:T w=5x8x1x1:T",
    "pad=1x0 pad_end=0x2 stride=1x1 x=2x8x9x7:T w=5x8x1x1:T",
    // Networks' common layers, cut down.
    "pad=1x1 stride=1x1 x=2x16x7x7:T:nhwc w=32x16x3x3:T:nhwc",
    "pad=3x3 stride=2x2 x=1x3x31x29:T w=8x3x7x7:T",
    "pad=1x1 stride=2x2 x=1x8x14x14:T:nhwc w=16x8x3x3:T:nhwc",
    // Depthwise, and with more outputs than inputs.
    "pad=1x1 stride=1x1 groups=24 x=2x24x9x11:T:nhwc w=24x1x3x3:T:nhwc",
    "pad=2x2 stride=2x2 groups=6 x=1x6x13x13:T w=18x1x5x5:T",
    "pad=1x1 stride=1x1 groups=4 x=2x32x6x6:T w=16x8x3x3:T",
    // Groups of every width that has a kernel, several tiles and slices of channels, with tails.
    "pad=1x1 stride=1x1 groups=32 x=3x128x9x30:T:nhwc w=128x4x3x3:T:nhwc",
    "pad=1x1 stride=2x2 groups=9 x=2x72x17x15:T:nhwc w=72x8x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=5 x=6x80x7x7:T:nhwc w=80x16x3x3:T:nhwc mode=convolution",
    "pad=1x0 stride=2x2 groups=3 x=5x96x8x9:T:nhwc w=96x32x3x3:T:nhwc",
    "pad=2x1 stride=1x1 dil=2x1 groups=12 x=2x24x10x11:T:nhwc w=24x2x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=40 x=2x40x12x13:T:nhwc w=40x1x3x3:T:nhwc",
    // Groups that are merged: two and four of several, and all of them with channels left over.
    "pad=1x1 stride=1x1 groups=4 x=2x128x9x10:T:nhwc w=128x32x3x3:T",
    "pad=1x2 stride=3x2 dil=2x1 groups=8 x=1x128x11x12:T:nhwc w=256x16x3x2:T:nhwc mode=convolution",
    "pad=0x0 stride=1x1 groups=4 x=3x96x7x6:T:nhwc w=40x24x1x1:T:nhwc",
    "pad=1x1x0 stride=1x2x1 groups=6 x=2x192x5x6x4:T:nhwc w=192x32x3x3x1:T:nhwc",
    // The first layer of a network, and channels that no copy of 16 bytes divides.
    "pad=3x3 stride=2x2 x=2x3x35x33:T:nhwc w=64x3x7x7:T:nhwc",
    "pad=1x1 stride=1x1 x=2x67x7x9:T:nhwc w=71x67x3x3:T:nhwc",
    "pad=1x1 stride=2x1 groups=2 x=2x60x9x8:T:nhwc w=20x30x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=3 x=2x72x9x9:T:nhwc w=72x24x3x3:T:nhwc",
    // Large filters on small images, padding and dilation beyond either.
    "pad=3x3 stride=1x1 x=2x5x3x4:T w=6x5x7x7:T",
    "pad=9x7 pad_end=8x0 stride=3x2 dil=4x3 x=1x4x5x4:T w=5x4x3x2:T",
    "pad=5x5 stride=4x4 x=1x2x3x3:T w=2x2x1x1:T",
    // Stride beyond the filter: input elements that no window meets.
    "pad=0x0 stride=5x4 x=2x3x17x18:T w=4x3x2x3:T",
    "pad=0x1 stride=1000000x9223372036854775807 x=2x3x2x3:T w=4x3x2x2:T",
    // One spatial axis, long and short; three of them.
    "pad=4 pad_end=0 stride=1 dil=2 x=2x3x301:T w=5x3x3:T mode=convolution",
    "pad=0 stride=7 x=1x1x97:T:nhwc w=3x1x11:T:nhwc",
    "pad=1x1x1 stride=1x2x1 x=1x3x4x5x6:T:nhwc w=4x3x3x3x3:T:nhwc",
    "pad=0x2x1 pad_end=1x0x1 stride=2x1x3 dil=1x2x2 groups=2 x=2x4x3x4x5:T w=6x2x2x3x2:T mode=convolution",
    // A single product.
    "pad=0x0 stride=1x1 x=1x1x1x1:T w=1x1x1x1:T",
    // More output positions than a tile of windows holds.
    "pad=1x1 stride=1x1 x=1x40x34x31:T w=2x40x3x3:T",
    "pad=1x1 stride=1x1 x=1x8x50x45:T w=2x8x3x3:T",
    "pad=0x0 stride=1x1 x=1x64x47x45:T w=1x64x1x1:T",
    // More images, and more groups, than there are parts that work is cut into.
    "pad=1x1 stride=1x1 x=131x2x5x4:T w=3x2x3x3:T",
    "pad=0x0 stride=1x1 x=131x2x3x2:T w=3x2x1x1:T",
    "pad=0x1 stride=1x1 groups=70 x=3x70x4x4:T w=70x1x2x2:T",
];

/// Shapes for tensor cores: every way of loading and storing, several tiles and tails.
const TENSOR_CORE_SHAPES: &[&str] = &[
    "pad=1x1 stride=1x1 x=3x64x9x10:T:nhwc w=136x64x3x3:T:nhwc",
    "pad=1x1 stride=2x2 x=2x72x11x9:T:nhwc w=264x72x3x3:T:nhwc",
    // Plain products.
    "pad=0x0 stride=1x1 x=2x128x8x8:T:nhwc w=256x128x1x1:T:nhwc",
    "pad=0x0 stride=1x1 x=9x64x30x31:T:nhwc w=64x64x1x1:T:nhwc",
    "pad=0x0 stride=1x1 x=5x64x3x3:T:nhwc w=64x64x1x1:T:nhwc",
    // Columns by 192, in either direction, and a gradient's sum that is long enough for every cut.
    "pad=1x1 stride=1x1 x=2x64x7x6:T:nhwc w=192x64x3x3:T:nhwc",
    "pad=1x1 stride=2x1 x=2x200x7x6:T:nhwc w=64x200x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=4x8x31x31:T:nhwc w=8x8x3x3:T:nhwc",
    // Positions that no tap meets.
    "pad=0x0 stride=2x2 x=2x64x9x9:T:nhwc w=128x64x1x1:T:nhwc",
    "pad=0x0 stride=2x2 x=1x8x279x5:T:nhwc w=8x8x1x1:T:nhwc",
    "pad=0x4x0 pad_end=0x8x0 stride=2x1x1 x=1x8x2x6x1:T:nhwc w=8x8x1x1x1:T:nhwc",
    "pad=1x1 stride=4x4 x=1x64x13x14:T:nhwc w=64x64x3x3:T:nhwc",
    // Channels that lie closest together, yet apart.
    "pad=1x1 stride=1x1 x=2x8x1x1:T:s64x3x24x24 w=8x8x3x3:T:nhwc",
    // Few channels.
    "pad=2x2 stride=1x1 x=2x24x13x12:T:nhwc w=40x24x5x5:T:nhwc",
    "pad=1x1 stride=1x1 x=4x16x16x16:T:nhwc w=16x16x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=2x8x9x9:T:nhwc w=96x8x3x3:T:nhwc",
    "pad=2x2 stride=1x1 dil=2x2 x=2x64x9x9:T:nhwc w=64x64x3x3:T:nhwc",
    "pad=1x2 stride=3x2 dil=2x3 x=2x64x17x16:T:nhwc w=64x64x3x4:T:nhwc mode=convolution",
    "pad=1x1 stride=1x1 groups=2 x=2x128x7x7:T:nhwc w=128x64x3x3:T:nhwc",
    "pad=1x1 stride=2x2 groups=3 x=1x192x7x8:T:nhwc w=384x64x3x3:T:nhwc",
    // One and three axes.
    "pad=2 stride=1 x=2x64x50:T:nhwc w=72x64x5:T:nhwc",
    "pad=1x1x1 stride=1x1x1 x=1x32x5x6x7:T:nhwc w=64x32x3x3x3:T:nhwc",
    "pad=1x1x1 stride=2x2x2 x=1x64x5x6x7:T:nhwc w=64x64x3x3x3:T:nhwc",
    "pad=0x0x0 stride=1x1x1 x=2x64x3x4x5:T:nhwc w=64x64x1x1x1:T:nhwc",
    // Few channels read, or written: rows are packed, columns spread.
    "pad=3x3 stride=2x2 x=2x3x31x29:T:nhwc w=64x3x7x7:T:nhwc",
    "pad=2x2 stride=4x4 x=2x3x27x30:T:nhwc w=72x3x11x11:T:nhwc",
    "pad=1x1 stride=1x1 x=2x4x13x17:T w=64x4x3x3:T y=2x64x13x17:T:nhwc",
    "pad=0x1 stride=2x3 dil=2x1 x=3x1x20x31:T:nhwc w=16x1x5x6:T:nhwc",
    "pad=1x1 stride=2x2 x=2x13x14x15:T:nhwc w=64x13x3x3:T y=2x64x7x8:T:nhwc",
    // Columns that are written four at a time: blocks that reach over the last row, or over the end of a row.
    "pad=3x3 stride=2x2 x=2x3x30x32:T:nhwc w=64x3x7x7:T:nhwc",
    "pad=1x1 stride=1x1 x=2x4x13x18:T:nhwc w=48x4x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=3x3x14x20:T:nhwc w=64x3x3x3:T:nhwc",
    // Several tiles for each of the consumers that take turns.
    "pad=1x1 stride=1x1 x=150x8x9x31:T:nhwc w=24x8x3x3:T:nhwc",
    "pad=0x0 stride=1x1 x=70x8x23x23:T:nhwc w=72x8x1x1:T:nhwc",
    // Sums that a cluster shares: tails of rows, columns and panels, strides of which some classes have fewer panels than
    // there are blocks, groups.
    "pad=1x1 stride=1x1 x=1x128x5x7:T:nhwc w=72x128x3x3:T:nhwc",
    "pad=0x0 stride=1x1 x=1x136x9x7:T:nhwc w=264x136x1x1:T:nhwc",
    "pad=0x0 stride=1x1 x=1x520x7x7:T:nhwc w=40x520x1x1:T:nhwc mode=convolution",
    "pad=1x1 stride=2x2 x=1x200x9x10:T:nhwc w=128x200x3x3:T:nhwc",
    "pad=1x1 stride=3x2 dil=1x2 x=2x72x11x12:T:nhwc w=256x72x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=2 x=1x256x6x5:T:nhwc w=256x128x3x3:T:nhwc mode=convolution",
    "pad=1x1 stride=1x1 groups=2 x=1x128x6x5:T:nhwc w=64x64x3x3:T:nhwc",
    "pad=0x0 stride=1x1 x=3x64x13x17:T:nhwc w=200x64x1x1:T:nhwc",
    "pad=1x0x1 stride=1x2x1 x=1x72x4x5x6:T:nhwc w=136x72x3x1x3:T:nhwc",
    // Windows that overlap in shared memory: 1 to 16 elements behind one another, rows of a product that go on into the
    // next output row, strips, tails of channels, filters of several blocks, y's channels apart.
    "pad=3x3 stride=2x2 x=3x3x61x45:T:nhwc w=65x3x7x7:T:nhwc",
    "pad=3x3 stride=2x2 x=2x3x25x224:T:nhwc w=64x3x7x7:T:nhwc",
    "pad=3x3 stride=2x2 x=2x3x19x262:T:nhwc w=40x3x7x7:T:nhwc",
    "pad=3x2 stride=2x1 dil=2x1 x=2x3x30x61:T:nhwc w=72x3x7x7:T:nhwc mode=convolution",
    // Rows of x that the copy engine brings, of all channels or channel by channel, and y's rows of a channel.
    "pad=3x2 stride=2x1 dil=2x1 x=2x3x30x64:T:nhwc w=72x3x7x7:T:nhwc mode=convolution",
    "pad=3x3 stride=2x2 x=2x4x19x208:T:nhwc w=64x4x7x7:T:nhwc",
    "pad=3x3 stride=2x2 x=2x3x21x208:T w=72x3x7x7:T y=2x72x11x104:T",
    "pad=3x3 stride=2x2 x=2x3x17x144:T w=40x3x7x7:T y=2x40x9x72:T:nhwc",
    "pad=3x3 stride=1x1 x=1x3x9x224:T:nhwc w=16x3x7x7:T:nhwc y=1x16x9x224:T",
    "pad=0x3x3 stride=1x1x1 x=2x1x4x9x136:T:nhwc w=16x1x2x7x7:T:nhwc",
    "pad=3x3 stride=2x2 x=2x3x41x37:T w=97x3x7x7:T:nhwc",
    "pad=1x1 stride=1x1 x=2x3x21x67:T w=12x3x3x3:T",
    "pad=1x1 stride=1x1 x=3x3x19x23:T:nhwc w=40x3x3x3:T y=3x40x19x23:T:nhwc",
    "pad=0x0 stride=2x2 x=2x3x29x31:T:nhwc w=32x3x3x3:T:nhwc",
    "pad=0x0 stride=4x4 x=2x3x43x59:T:nhwc w=96x3x11x11:T:nhwc",
    "pad=0x0 stride=4x4 x=2x3x32x36:T:nhwc w=96x3x4x4:T:nhwc",
    "pad=2x2 stride=1x1 x=5x1x28x27:T w=24x1x5x5:T y=5x24x28x27:T:nhwc",
    "pad=0x10 stride=2x2 x=2x1x33x52:T w=32x1x5x20:T",
    "pad=2x0 stride=2x2 dil=2x1 x=2x1x20x61:T:nhwc w=72x1x3x20:T y=2x72x10x21:T:nhwc",
    "pad=4x1 stride=3x1 dil=2x1 x=2x2x33x19:T:nhwc w=48x2x8x3:T:nhwc mode=convolution",
    "pad=1x1 stride=5x1 x=2x7x20x9:T:nhwc w=200x7x2x3:T:nhwc",
    "pad=2x2 stride=1x2 x=2x8x13x15:T:nhwc w=8x8x5x5:T:nhwc",
    "pad=2x2 stride=1x1 x=2x7x13x15:T:nhwc w=16x7x5x5:T:nhwc",
    "pad=2x2 stride=2x1 x=2x4x17x19:T:nhwc w=40x4x5x5:T:nhwc",
    "pad=0x0 stride=2x2 x=1x8x12x14:T:nhwc w=24x8x2x4:T:nhwc",
    "pad=3x3 stride=1x1 x=1x4x9x300:T:nhwc w=16x4x7x7:T:nhwc",
    "pad=6x6 stride=1x1 x=1x1x17x19:T:nhwc w=8x1x13x13:T:nhwc",
    "pad=4 stride=2 x=3x2x97:T:nhwc w=24x2x9:T:nhwc",
    "pad=0x0 stride=1x1 x=1x3x6x302:T:nhwc w=16x3x3x3:T:nhwc",
    "pad=1x1x1 stride=1x1x1 x=2x1x6x9x11:T:nhwc w=16x1x3x3x3:T:nhwc",
    "pad=1x2x0 stride=2x3x2 dil=2x1x1 x=2x3x9x17x14:T:nhwc w=72x3x3x5x4:T:nhwc mode=convolution",
    "pad=1x1 stride=1x1 x=150x3x9x10:T:nhwc w=16x3x3x3:T:nhwc",
    // Rows wider than a copy, in strips; rows whose padding is shared, and not; few columns.
    "pad=1x1 stride=1x1 x=1x8x4x300:T:nhwc w=8x8x3x3:T:nhwc",
    "pad=0x2 stride=1x1 dil=2x3 x=1x16x7x270:T:nhwc w=72x16x2x3:T:nhwc",
    "pad=2x0 stride=1x1 x=2x72x21x19:T:nhwc w=12x72x3x3:T:nhwc",
    "pad=1x3 stride=1x1 x=3x64x19x33:T:nhwc w=132x64x3x3:T:nhwc",
    "pad=1x1x1 stride=1x1x1 x=1x64x4x17x20:T:nhwc w=20x64x3x3x3:T:nhwc",
    // Channels of which three quarters of a row are multiplied, read in either pass, few and more to write.
    "pad=1x1 stride=1x1 x=2x48x17x19:T:nhwc w=40x48x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=2x136x9x11:T:nhwc w=40x136x3x3:T:nhwc",
    "pad=2x1 stride=1x1 dil=2x1 x=2x40x13x9:T:nhwc w=136x40x3x3:T:nhwc mode=convolution",
    // Channels that 8 does not divide: by 4, by 2 and odd, read, written, or both; one tap, many, strides, three axes.
    "pad=1x1 stride=1x1 x=2x28x17x19:T:nhwc w=12x28x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=1x148x16x16:T:nhwc w=12x148x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=3x40x16x16:T:nhwc w=12x40x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=1x316x8x8:T:nhwc w=12x316x3x3:T:nhwc",
    "pad=1x1 stride=2x2 x=2x76x11x13:T:nhwc w=132x76x3x3:T:nhwc",
    "pad=2x1 stride=1x1 dil=2x1 x=2x70x13x9:T:nhwc w=66x70x3x3:T:nhwc mode=convolution",
    "pad=1x1 stride=1x1 x=2x67x9x9:T:nhwc w=77x67x3x3:T:nhwc",
    "pad=0x0 stride=1x1 x=2x68x9x7:T:nhwc w=260x68x1x1:T:nhwc",
    "pad=0x0 stride=1x1 x=2x32x33x20:T:nhwc w=3x32x1x1:T:nhwc",
    "pad=0x0x0 stride=1x1x1 x=2x32x5x9x16:T:nhwc w=3x32x1x1x1:T:nhwc",
    "pad=0x0 stride=2x2 x=2x20x9x9:T:nhwc w=36x20x1x1:T:nhwc",
    "pad=1x1x1 stride=1x1x1 x=1x12x5x9x16:T:nhwc w=20x12x3x3x3:T:nhwc",
    "pad=1x1x1 stride=1x1x1 x=2x1x5x9x16:T:nhwc w=32x1x3x3x3:T:nhwc",
    "pad=0x0x0 stride=1x1x1 x=1x3x6x9x20:T:nhwc w=32x3x3x3x3:T:nhwc",
    "pad=1x1x1 stride=1x2x2 x=1x3x6x9x20:T:nhwc w=32x3x3x3x3:T:nhwc",
    // Few channels written or read with stride 1: blocks of positions, windows of dy wider than its padding or less.
    "pad=1x1x1 stride=1x1x1 x=1x32x6x10x11:T:nhwc w=32x32x3x3x3:T:nhwc",
    "pad=0x1x1 stride=2x1x1 x=1x24x7x9x16:T:nhwc w=48x24x2x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=2x64x19x23:T:nhwc w=9x64x3x3:T:nhwc",
    "pad=2x5 stride=1x1 dil=2x1 x=1x40x7x9:T:nhwc w=7x40x3x2:T:nhwc",
    "pad=0x0 stride=1x1 x=3x136x20x33:T:nhwc w=16x136x3x4:T:nhwc",
    // The same for `wgrad`: several strips of all kinds, tiles of both channels with tails, one and three axes, groups.
    "pad=1x1 stride=1x1 x=2x64x56x56:T:nhwc w=8x64x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=5x64x7x7:T:nhwc w=64x64x3x3:T:nhwc",
    "pad=1x1 stride=1x1 x=1x72x4x261:T:nhwc w=8x72x3x3:T:nhwc mode=convolution",
    "pad=2x2 stride=1x1 dil=2x2 x=1x64x11x13:T:nhwc w=72x64x3x3:T:nhwc",
    "pad=0x0 stride=1x1 x=2x136x6x5:T:nhwc w=136x136x3x2:T:nhwc",
    "pad=1x0 stride=1x1 x=3x64x9x10:T:nhwc w=64x64x3x1:T:nhwc mode=convolution",
    "pad=1x1 stride=1x1 groups=3 x=1x192x6x7:T:nhwc w=192x64x3x3:T:nhwc",
    "pad=3 stride=1 dil=3 x=3x64x131:T:nhwc w=40x64x3:T:nhwc",
    "pad=1x0x1 stride=1x1x1 x=2x64x3x5x6:T:nhwc w=64x64x3x3x3:T:nhwc",
    "pad=1x1x1 stride=1x1x1 dil=2x1x1 x=1x16x4x3x270:T:nhwc w=8x16x2x3x3:T:nhwc",
    // And with up to 32 channels, of which an instruction computes two rows of taps: three, two and one of them.
    "pad=1x1 stride=1x1 x=2x32x29x31:T:nhwc w=32x32x3x3:T:nhwc",
    "pad=0x2 stride=1x1 x=3x24x17x7:T:nhwc w=16x24x3x2:T:nhwc mode=convolution",
    "pad=3x2 stride=1x1 dil=3x2 x=1x32x13x37:T:nhwc w=72x32x3x3:T:nhwc",
    "pad=2x1 stride=1x1 dil=4x1 x=1x72x9x262:T:nhwc w=32x72x2x3:T:nhwc mode=convolution",
    "pad=1x1 stride=1x1 groups=3 x=2x96x6x7:T:nhwc w=96x32x3x3:T:nhwc",
    "pad=2 stride=1 dil=2 x=3x32x201:T:nhwc w=32x32x3:T:nhwc",
    "pad=1x1x0 stride=1x1x1 x=2x32x4x9x11:T:nhwc w=32x32x3x3x3:T:nhwc",
    // And with 40 channels of dy, which are an instruction's columns: groups, either end of the filter first, three axes.
    "pad=1x2 stride=1x1 dil=2x2 groups=2 x=2x128x11x13:T:nhwc w=80x64x3x3:T:nhwc mode=convolution",
    "pad=1x1 stride=1x1 x=9x72x8x8:T:nhwc w=40x72x3x3:T:nhwc",
    "pad=1x1x0 stride=1x1x1 x=2x72x4x9x11:T:nhwc w=40x72x3x3x2:T:nhwc",
    // A filter that stays where it is from tile to tile, of which every block has several.
    "pad=1x1 stride=1x1 x=9x16x24x240:T:nhwc w=32x16x3x3:T:nhwc",
    // Tiles of 192 positions, and more taps of a row than the filter's ring has stages.
    "pad=1x1 stride=1x1 x=2x72x26x28:T:nhwc w=136x72x3x3:T:nhwc",
    "pad=0x7 stride=1x1 x=1x72x9x40:T:nhwc w=72x72x1x15:T:nhwc",
    // Channels of which panels of 32 leave fewer unused than those of 64, and sums whose last stage is short.
    "pad=1x1 stride=2x2 x=2x32x17x15:T:nhwc w=72x32x3x3:T:nhwc",
    "pad=0x0 stride=1x1 x=1x304x9x9:T:nhwc w=304x304x1x1:T:nhwc",
    "pad=0x1 stride=1x1 x=1x88x10x11:T:nhwc w=40x88x2x5:T:nhwc mode=convolution",
    // Slices of wider tensors, rows with gaps.
    "pad=1x1 stride=1x1 x=2x64x7x5:T:s3360x1x480x96 w=64x64x3x3:T:nhwc",
    "pad=0x0 stride=1x1 x=2x64x7x5:T:s3920x1x560x80 w=64x64x1x1:T:nhwc",
    "pad=0x0 stride=1x1 x=3x64x7x5:T:s4480x1x320x64 w=72x64x1x1:T:nhwc",
    "pad=1x1 stride=2x1 x=1x136x7x5:T:s5880x1x840x168 w=72x136x3x3:T:nhwc",
];

/// Shapes with channels before the image, in filters too, for tensor cores: images whose rows and planes begin at
/// multiples of 16, 8, 4 and 2 bytes, several tiles and tails.
const NCHW_SHAPES: &[&str] = &[
    // Plain products.
    "pad=0x0 stride=1x1 x=3x64x8x8:T w=136x64x1x1:T",
    "pad=0x0 stride=1x1 x=2x72x14x14:T w=136x72x1x1:T",
    "pad=0x0 stride=1x1 x=5x128x7x7:T w=64x128x1x1:T",
    "pad=0x0 stride=1x1 x=3x64x28x28:T w=40x64x1x1:T",
    "pad=0x0 stride=1x1 x=1x200x20x13:T w=130x200x1x1:T",
    "pad=0x0 stride=1x1 x=2x65x6x9:T w=33x65x1x1:T",
    "pad=0x0 stride=2x2 x=2x64x14x14:T w=128x64x1x1:T",
    "pad=0x0 stride=2x2 x=2x64x7x7:T w=72x64x1x1:T",
    "pad=0x0 stride=2x2 x=1x64x16x56:T w=72x64x1x1:T",
    "pad=0x0 stride=2x2 x=3x72x16x28:T w=64x72x1x1:T",
    "pad=0x0 stride=3x2 x=2x64x10x15:T w=64x64x1x1:T",
    "pad=0x0 stride=1x1 x=1x512x7x7:T w=40x512x1x1:T",
    "pad=0x0 stride=1x1 x=1x128x14x14:T w=136x128x1x1:T",
    // Taps.
    "pad=1x1 stride=1x1 x=3x64x9x10:T w=136x64x3x3:T",
    "pad=1x1 stride=1x1 x=2x64x14x14:T w=64x64x3x3:T",
    "pad=1x1 stride=1x1 x=4x64x7x7:T w=128x64x3x3:T",
    "pad=1x1 stride=1x1 x=2x64x16x56:T w=64x64x3x3:T",
    "pad=1x1 stride=2x2 x=2x72x14x14:T w=264x72x3x3:T",
    "pad=1x1 stride=2x2 x=2x64x11x9:T w=64x64x3x3:T",
    "pad=2x1 pad_end=0x2 stride=1x1 dil=2x1 x=2x40x11x13:T w=24x40x3x3:T mode=convolution",
    // Channels that 8 does not divide.
    "pad=1x1 stride=1x1 x=2x13x9x11:T w=16x13x3x3:T",
    "pad=1x1 stride=1x1 x=2x19x5x7:T w=13x19x3x3:T",
    // A filter a channel, of which channels-last kernels take copies.
    "pad=2x2 stride=2x2 groups=72 x=3x72x14x14:T w=72x1x5x5:T",
    // Few channels.
    "pad=3x3 stride=2x2 x=2x3x31x29:T w=64x3x7x7:T",
    "pad=2x2 stride=4x4 x=2x3x27x30:T w=72x3x11x11:T",
    "pad=1x1 stride=1x1 x=2x1x13x17:T w=64x1x3x3:T",
    "pad=1x1 stride=1x1 x=2x24x9x10:T w=12x24x3x3:T",
    // Groups.
    "pad=1x1 stride=1x1 groups=2 x=2x128x7x7:T w=128x64x3x3:T",
    "pad=1x1 stride=2x2 groups=3 x=1x192x7x8:T w=384x64x3x3:T",
    "pad=1x1 stride=1x1 groups=9 x=2x72x9x13:T w=72x8x3x3:T",
    "pad=0x0 stride=1x1 groups=3 x=2x192x8x8:T w=192x64x1x1:T",
    // One and three axes, and layouts mixed.
    "pad=2 stride=1 x=2x64x50:T w=72x64x5:T",
    "pad=1x1x1 stride=1x2x1 x=1x32x5x6x7:T w=64x32x3x3x3:T",
    "pad=1x1 stride=1x1 x=2x64x7x9:T w=64x64x3x3:T:nhwc y=2x64x7x9:T",
    "pad=1x1 stride=1x1 x=2x64x7x9:T:nhwc w=64x64x3x3:T y=2x64x7x9:T",
    // Slices of wider tensors.
    "pad=1x1 stride=1x1 x=2x64x7x5:T:s4480x35x5x1 w=64x64x3x3:T",
    "pad=0x0 stride=1x1 x=2x64x8x8:T:s8192x64x8x1 w=64x64x1x1:T",
];

#[test]
fn nchw_shapes_match_the_reference() {
    if gpu("nchw_shapes_match_the_reference").is_none() {
        return;
    }
    for (i, shape) in NCHW_SHAPES.iter().enumerate() {
        for pass in ConvPass::ALL {
            let [first, second] = if i % 2 == 0 { [DType::F16, DType::BF16] } else { [DType::BF16, DType::F16] };
            check(&named(shape, *pass, first), i as u64).unwrap_or_else(|e| panic!("{e}"));
            check_integers(&named(shape, *pass, second), i as u64).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// Tests that a pass's shapes are dealt out to, so that they run beside one another: a GPU takes minutes for all.
const PARTS: usize = 4;

/// Every shape goes through every algorithm that is able. What runs on CPUs has shapes of its own; these take a CPU
/// minutes.
fn tensor_core_shapes(pass: ConvPass, part: usize) {
    if gpu(&format!("tensor_core_shapes_of_{pass}_{part}")).is_none() {
        return;
    }
    for (i, shape) in TENSOR_CORE_SHAPES.iter().enumerate().filter(|(i, _)| i % PARTS == part) {
        // Of two types, which is by random data and which by integers changes from one shape of a part to the next.
        let [first, second] =
            if (i / PARTS).is_multiple_of(2) { [DType::F16, DType::BF16] } else { [DType::BF16, DType::F16] };
        check(&named(shape, pass, first), i as u64).unwrap_or_else(|e| panic!("{e}"));
        check_integers(&named(shape, pass, second), i as u64).unwrap_or_else(|e| panic!("{e}"));
    }
}

macro_rules! tensor_core_tests {
    ($($name:ident: $pass:ident $part:literal;)*) => { $(
        #[test]
        fn $name() {
            tensor_core_shapes(ConvPass::$pass, $part);
        }
    )* };
}

tensor_core_tests! {
    tensor_core_shapes_of_fprop_0: Fprop 0;
    tensor_core_shapes_of_fprop_1: Fprop 1;
    tensor_core_shapes_of_fprop_2: Fprop 2;
    tensor_core_shapes_of_fprop_3: Fprop 3;
    tensor_core_shapes_of_dgrad_0: Dgrad 0;
    tensor_core_shapes_of_dgrad_1: Dgrad 1;
    tensor_core_shapes_of_dgrad_2: Dgrad 2;
    tensor_core_shapes_of_dgrad_3: Dgrad 3;
    tensor_core_shapes_of_wgrad_0: Wgrad 0;
    tensor_core_shapes_of_wgrad_1: Wgrad 1;
    tensor_core_shapes_of_wgrad_2: Wgrad 2;
    tensor_core_shapes_of_wgrad_3: Wgrad 3;
}

#[test]
fn named_shapes_match_the_reference() {
    for (i, shape) in SHAPES.iter().enumerate() {
        for pass in ConvPass::ALL {
            let problem = named(shape, *pass, DType::GENERAL[i % 4]);
            check(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
            for dtype in DType::GENERAL {
                check_integers(&named(shape, *pass, dtype), i as u64).unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }
}

pub(super) fn named(shape: &str, pass: ConvPass, dtype: DType) -> ConvProblem {
    let [x, w, y] = match pass {
        ConvPass::Fprop => [" x=", " w=", " y="],
        ConvPass::Dgrad => [" dx=", " w=", " dy="],
        ConvPass::Wgrad => [" x=", " dw=", " dy="],
    };
    let shape = shape.replace(" x=", x).replace(" w=", w).replace(" y=", y).replace(":T", &format!(":{dtype}"));
    format!("conv:{pass} {shape}").parse().unwrap_or_else(|e| panic!("{shape}: {e}"))
}

#[test]
fn texts_of_random_problems_keep_what_matters() {
    let text = "conv:fprop pad=1x2 pad_end=0x2 stride=2x1 dil=1x3 groups=2 mode=convolution x=2x4x9x9:bf16:nhwc \
                w=6x2x3x3:bf16:nhwc y=2x6x4x7:bf16:nhwc";
    let problem: ConvProblem = text.parse().unwrap();
    assert_eq!(problem.to_string(), text);
    assert_eq!(problem.pass(), "fprop");
}
