//! Convolutions that read few channels on Hopper's tensor cores: a filter's row and the channels together are summed over
//! as if they were channels.
//!
//! Padding along w written out and channels filled up to 4, 8 or 16, the window of a row is a run of neighbouring elements,
//! and windows begin at multiples of 16 bytes: a tensor whose positions overlap, which [`im2col_wgmma`] takes as any
//! other. Two small kernels write x and w so into the workspace; the sum has R parts of S · 4 (or 8, or 16) elements
//! instead of R · S parts of as many as a row of shared memory has. A `dgrad` of stride 1 reads dy so, with the filter's
//! rows reversed; it may go through [`halo_wgmma`] too.
//!
//! [`im2col_wgmma`]: super::im2col_wgmma
//! [`halo_wgmma`]: super::halo_wgmma

use super::halo_wgmma::{self, EitherProduct};
use super::im2col_wgmma::{
    AxisClass, Class, Filter, KERNELS, Positions, Row, SplitSum, Spread, View, WGRAD_KERNELS, WgradRow, WgradView,
    Window, check_address, check_window, classes, row, tma_type,
};
use super::{ConvMode, ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, Error, Problem, Stream, TensorDesc};
use kernel_abi::ops::conv::ConvPackRowsParams;
use kernel_abi::ops::conv::im2col_wgmma::access;

macro_rules! symbols {
    ($(($symbol:ident)),* $(,)?) => {
        [$(stringify!($symbol)),*]
    };
}

const PACK: [&str; 1] = kernel_abi::conv_pack_rows_kernels!(symbols);

/// Channels of x for which packing pays, and of dy.
const MAX_C: i64 = 4;
const MAX_K: i64 = 16;
/// Elements of 16 bytes.
const RUN: i64 = 8;
/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

/// All passes of few channels.
pub(super) struct PackedRows;

impl Algorithm<ConvProblem> for PackedRows {
    fn name(&self) -> &'static str {
        "packed_rows"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let packing = Packing::of(problem)?;
        let dtype = problem.x().dtype();
        match problem.conv_pass() {
            ConvPass::Fprop => {
                let view = packing.view(problem)?;
                let fits = |row: &&Row| row.pass == problem.pass() && row.dtype == dtype && view.fits(row.tile);
                Ok(KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect())
            }
            ConvPass::Wgrad => {
                let view = packing.wgrad_view(problem)?;
                let fits = |row: &&WgradRow| row.dtype == dtype && view.fits(row.tile);
                Ok(WGRAD_KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect())
            }
            ConvPass::Dgrad => {
                let view = packing.view(problem)?;
                let halo = packing.halo_view(problem, &view);
                let with_halo = halo_wgmma::KERNELS
                    .iter()
                    .filter(|row| row.pass == "fprop" && row.dtype == dtype && halo.fits(row.form))
                    .map(|row| Config(row.symbol));
                // The product is fprop's: the packed filter lies with the sum's dimension contiguous.
                let fits = |row: &&Row| row.pass == "fprop" && row.dtype == dtype && view.fits(row.tile);
                Ok(with_halo.chain(KERNELS.iter().filter(fits).map(|row| Config(row.symbol))).collect())
            }
        }
    }

    fn spread(&self, _: &ConvProblem, _: Config) -> crate::select::Spread {
        // Windows are filled up to 16 bytes with what lies behind them, times zero weights.
        crate::select::Spread::Window
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let Ok(packing) = Packing::of(problem) else { return 0 };
        let behind = match packing.wgrad_view(problem) {
            Ok(view) if problem.conv_pass() == ConvPass::Wgrad => {
                let (row, cut) = view.chosen(config);
                view.partials_bytes(row.tile, cut)
            }
            _ => packing.w.bytes(),
        };
        packing.behind_x() + behind
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// Launching and ending two kernels more.
        const PACKING_US: f64 = 5.0;
        let Ok(packing) = Packing::of(problem) else { return f64::INFINITY };
        let products_us = if problem.conv_pass() == ConvPass::Wgrad {
            let Ok(view) = packing.wgrad_view(problem) else { return f64::INFINITY };
            let (row, cut) = view.chosen(config);
            view.time_us(row.tile, cut)
        } else {
            let Ok(view) = packing.view(problem) else { return f64::INFINITY };
            match halo_wgmma::KERNELS.iter().find(|row| row.symbol == config.0) {
                Some(row) => packing.halo_view(problem, &view).products_us(row.form, context),
                None => view.products_us(row(config).tile, context),
            }
        };
        let read = if problem.conv_pass() == ConvPass::Dgrad { problem.y() } else { problem.x() };
        let bytes = (read.n_elems() * 2) as f64 + packing.x.bytes() as f64;
        // Its reads are of 2 bytes.
        let packing_us = PACKING_US + bytes / (0.6 * context.info().bytes_per_us);
        packing_us + crate::select::cost::streaming_us(problem, context).max(products_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let packing = Packing::of(problem).map_err(refused)?;
        let pack = context.function(PACK[0])?;
        if problem.conv_pass() == ConvPass::Wgrad {
            let view = packing.wgrad_view(problem).map_err(refused)?;
            let sum = SplitSum::of(problem, view, config, context)?;
            return Ok(Box::new(PackedWgradLaunch { pack, sum, packing }));
        }
        let view = packing.view(problem).map_err(refused)?;
        let written = if problem.conv_pass() == ConvPass::Dgrad { "dx" } else { "y" };
        let product = if halo_wgmma::KERNELS.iter().any(|row| row.symbol == config.0) {
            EitherProduct::halo(packing.halo_view(problem, &view), config, context)?
        } else {
            EitherProduct::gather(view, config, context)?
        };
        Ok(Box::new(PackedLaunch { pack, product, written, packing }))
    }
}

/// How x, or dy, and w lie in the workspace.
#[derive(Clone, Copy, Debug)]
struct Packing {
    x: Packed,
    w: Packed,
    stride_w: i64,
}

/// A tensor `[N, C, H, W]` as `[N][H][packed W][packed C]`.
#[derive(Clone, Copy, Debug)]
struct Packed {
    dims: [i64; 4],
    strides: [i64; 4],
    /// Where its first element lies, in elements.
    first: i64,
    padding: i64,
    packed_w: i64,
    packed_c: i64,
}

impl Packed {
    fn new(desc: &TensorDesc, padding: i64, packed_w: i64, packed_c: i64) -> Self {
        let four = |values: &[i64]| [values[0], values[1], values[2], values[3]];
        Packed { dims: four(desc.dims()), strides: four(desc.strides()), first: 0, padding, packed_w, packed_c }
    }

    /// A filter with its input channels in the place of the output channels, and its rows reversed.
    fn reversed(self) -> Self {
        let ([k, c, r, s], [k_stride, c_stride, r_stride, s_stride]) = (self.dims, self.strides);
        Packed {
            dims: [c, k, r, s],
            strides: [c_stride, k_stride, r_stride, -s_stride],
            first: (s - 1) * s_stride,
            ..self
        }
    }

    fn row_elems(&self) -> i64 {
        self.packed_w * self.packed_c
    }

    fn n_elems(&self) -> i64 {
        self.dims[0] * self.dims[2] * self.row_elems()
    }

    fn bytes(&self) -> u64 {
        2 * self.n_elems() as u64
    }

    fn launch(&self, function: &Function, stream: &Stream, from: u64, to: u64) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(function.name())?;
        let [_, c, h, w] = self.dims;
        let params = ConvPackRowsParams {
            from: from + 2 * self.first as u64,
            to,
            strides: self.strides,
            n_runs: self.n_elems() / RUN,
            c: c as u32,
            h: h as u32,
            w: w as u32,
            padding: self.padding as u32,
            packed_w: self.packed_w as u32,
            packed_c: self.packed_c as u32,
        };
        let config = LaunchConfig { programmatic: true, ..linear_grid(params.n_runs, 256) };
        launch(function, &config, stream, &params)
    }
}

impl Packing {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        let dgrad = problem.conv_pass() == ConvPass::Dgrad;
        let (name, channels, most) = if dgrad { ("output", shape.k, MAX_K) } else { ("input", shape.c, MAX_C) };
        if problem.axes().len() != 2 || shape.groups != 1 || channels > most {
            let (axes, groups) = (problem.axes().len(), shape.groups);
            let reason = format!(
                "takes two axes, one group and up to {most} {name} channels, given {axes}, {groups} and {channels}"
            );
            return Err(Refusal::new(reason));
        }
        let [_, rows, axis] = shape.axes;
        if axis.dilation != 1 || problem.mode() == ConvMode::Convolution {
            let (dilation, mode) = (axis.dilation, problem.mode());
            return Err(Refusal::new(format!("takes undilated cross_correlation along w, given {dilation}, {mode}")));
        }
        if dgrad && (rows.stride, axis.stride) != (1, 1) {
            let (h, w) = (rows.stride, axis.stride);
            return Err(Refusal::new(format!("takes dgrad of stride 1, given {h} and {w}")));
        }
        if axis.stride > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("takes strides up to {}, given {}", i32::MAX, axis.stride)));
        }
        // Windows begin at multiples of 16 bytes.
        let packed_c = match channels {
            1..=4 if axis.stride % 2 == 0 => 4,
            1..=8 => 8,
            _ => 16,
        };
        let filter_w = shape.filter[2];
        let (windows, padding) =
            if dgrad { (shape.image[2], filter_w - 1 - axis.padding) } else { (shape.output[2], axis.padding) };
        let whole =
            |w: i64| if packed_c < RUN { (w + RUN / packed_c - 1) / (RUN / packed_c) * (RUN / packed_c) } else { w };
        let packed_w = whole((windows - 1) * axis.stride + filter_w);
        if packed_w > i64::from(i32::MAX) / packed_c || padding.abs() > i64::from(i32::MAX) {
            let most = i64::from(i32::MAX) / packed_c;
            return Err(Refusal::new(format!("takes rows up to {most} positions, given {packed_w}")));
        }
        let w = Packed::new(problem.w(), 0, whole(filter_w), packed_c);
        Ok(Packing {
            x: Packed::new(if dgrad { problem.y() } else { problem.x() }, padding, packed_w, packed_c),
            w: if dgrad { w.reversed() } else { w },
            stride_w: axis.stride,
        })
    }

    /// Where the workspace goes on behind the packed x.
    fn behind_x(&self) -> u64 {
        self.x.bytes().next_multiple_of(ALIGN_BYTES)
    }

    /// The packed x: a position of y along w is a window of a row. Or the packed dy, a position of dx.
    fn windows(&self, problem: &ConvProblem) -> Positions {
        let shape = problem.shape();
        let (rows, windows) = match problem.conv_pass() {
            ConvPass::Dgrad => (shape.output[1], shape.image[2]),
            _ => (shape.image[1], shape.output[2]),
        };
        Positions {
            element_bytes: 2,
            channels: self.window_elems(problem),
            extents: [1, rows, windows],
            strides: [self.x.dims[2] * self.x.row_elems(), self.x.row_elems(), self.stride_w * self.x.packed_c],
            images: shape.n,
            image_stride: self.x.dims[2] * self.x.row_elems(),
        }
    }

    /// Elements of a window of a row.
    fn window_elems(&self, problem: &ConvProblem) -> i64 {
        problem.shape().filter[2] * self.w.packed_c
    }

    /// The convolution of the packed tensors: R taps, as many channels as a window of a row has elements.
    fn view(&self, problem: &ConvProblem) -> Result<View, Refusal> {
        let shape = problem.shape();
        let dgrad = problem.conv_pass() == ConvPass::Dgrad;
        let name = if dgrad { "dx" } else { "y" };
        let (written, planes) = Positions::written(name, problem.written())?;
        let read = self.windows(problem);
        let columns = written.channels;
        let filter = Filter {
            k: columns,
            group_c: read.channels,
            taps: [1, shape.filter[1], 1],
            tap_stride: self.w.row_elems(),
            k_stride: self.w.dims[2] * self.w.row_elems(),
        };
        // Along h as without packing; one tap along w, which reads where it writes.
        let (found, mut step) = classes(problem);
        let class = Class { axes: [found[0].axes[0], found[0].axes[1], AxisClass::plain(read.extents[2])] };
        step[2] = 1;
        check_window(
            if dgrad { "dy" } else { "x" },
            &read,
            &class.window(step),
            class.last_offset(),
            access::IM2COL_2D,
        )?;
        let out_access = match planes {
            Some(planes) => planes.access(),
            None if written.linear_stride().is_some() => access::LINEAR,
            None => access::IM2COL_2D,
        };
        Ok(View {
            data_type: tma_type(problem.x().dtype())?,
            read,
            written,
            filter,
            classes: vec![class],
            step,
            groups: 1,
            group_read: read.channels,
            group_written: columns,
            a_access: access::IM2COL_2D,
            out_access,
            sum_is_contiguous: true,
            spread: None,
            planes,
        })
    }

    /// A view for a kernel that reads the halo once.
    fn halo_view(&self, problem: &ConvProblem, view: &View) -> halo_wgmma::View {
        let class = view.classes[0];
        let [image, d, h, w] = halo_wgmma::spatial_strides(problem.written());
        halo_wgmma::View {
            data_type: view.data_type,
            read: view.read,
            filter: view.filter,
            class,
            extents: class.axes.map(|axis| axis.extent),
            step: [1; 3],
            groups: 1,
            channels: view.group_read,
            columns: view.group_written,
            sum_is_contiguous: true,
            strides: [image, d],
            spread: Spread {
                counts: [1, 1, view.group_written],
                extents: [class.axes[1].extent, class.axes[2].extent],
                strides: [h, w, problem.written().strides()[1]],
            },
        }
    }

    /// The same for the gradient by the filter, which is written where dw's elements lie.
    fn wgrad_view(&self, problem: &ConvProblem) -> Result<WgradView, Refusal> {
        let shape = problem.shape();
        let dy = Positions::of("dy", problem.y(), false)?;
        if dy.linear_stride().is_none() {
            let given = problem.y().strides();
            let reason = format!("needs dy with positions one behind the other, its strides are {given:?}");
            return Err(Refusal::new(reason));
        }
        let x = self.windows(problem);
        let [_, axis, _] = shape.axes;
        let window = Window {
            first: [0, -axis.padding, 0],
            last: [0, (shape.output[1] - 1) * axis.stride - axis.padding, shape.output[2] - 1],
            step: [1, axis.stride, 1],
        };
        let last_offset = [0, (shape.filter[1] - 1) * axis.dilation, 0];
        check_window("x", &x, &window, last_offset, access::IM2COL_2D)?;
        let [_, _, h_stride, w_stride] = self.w.strides;
        Ok(WgradView {
            data_type: tma_type(problem.x().dtype())?,
            x,
            dy,
            dw: Filter {
                k: shape.k,
                group_c: x.channels,
                taps: [1, shape.filter[1], 1],
                tap_stride: h_stride,
                k_stride: self.w.strides[0],
            },
            groups: 1,
            group_c: x.channels,
            group_k: shape.k,
            tap_offset: [1, axis.dilation, 1],
            flip: false,
            x_access: access::IM2COL_2D,
            window,
            packed: Some((self.x.packed_c, shape.c, self.w.strides[1], w_stride)),
        })
    }
}

/// Launches whose parameters are complete but for addresses and scalars.
struct PackedLaunch {
    packing: Packing,
    pack: Function,
    /// The product of windows and packed filter.
    product: EitherProduct,
    /// The tensor that is written.
    written: &'static str,
}

impl Launch for PackedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        // x, or dy, and w lie anyhow: element by element.
        let [x, w, y] = [0, 1, 2].map(|operand| call.address(operand));
        if matches!(&self.product, EitherProduct::Gather(product) if product.writes_by_map()) {
            check_address(self.written, y)?;
        }
        let packed_x = call.workspace_address();
        let packed_w = packed_x + self.packing.behind_x();
        self.packing.x.launch(&self.pack, stream, x, packed_x)?;
        self.packing.w.launch(&self.pack, stream, w, packed_w)?;
        self.product.launch(stream, [packed_x, packed_w, y], call.alpha, call.beta)
    }
}

/// As [`PackedLaunch`], for `wgrad`.
struct PackedWgradLaunch {
    packing: Packing,
    pack: Function,
    sum: SplitSum,
}

impl Launch for PackedWgradLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        // x and dw lie anyhow: element by element.
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        check_address("dy", dy)?;
        let packed_x = call.workspace_address();
        self.packing.x.launch(&self.pack, stream, x, packed_x)?;
        let partials = packed_x + self.packing.behind_x();
        self.sum.launch(stream, [packed_x, dy, dw, partials], call.alpha, call.beta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_abi::ops::conv::index::{input_position, output_position};

    /// What lies at an element of a packed tensor: the element of the tensor, in elements, as the kernel finds it.
    fn source(packed: &Packed, element: i64) -> Option<i64> {
        let (row, within) = (element / packed.row_elems(), element % packed.row_elems());
        let (n, h) = (row / packed.dims[2], row % packed.dims[2]);
        let (position, c) = (within / packed.packed_c, within % packed.packed_c);
        let w = (position as u32).wrapping_sub(packed.padding as u32);
        let [n_stride, c_stride, h_stride, w_stride] = packed.strides;
        let there = i64::from(w) < packed.dims[3] && c < packed.dims[1];
        there.then(|| packed.first + n * n_stride + c * c_stride + h * h_stride + i64::from(w) * w_stride)
    }

    /// The pairs of elements whose products an element of the result sums, by the formula.
    fn formula(problem: &ConvProblem, n: i64, column: i64, [h, w]: [i64; 2]) -> Vec<[i64; 2]> {
        let shape = problem.shape();
        let dgrad = problem.conv_pass() == ConvPass::Dgrad;
        let (read, sums) = if dgrad { (problem.y(), shape.k) } else { (problem.x(), shape.c) };
        let (read_strides, w_strides) = (read.strides(), problem.w().strides());
        let along = |i: usize, at: i64, tap: i64| {
            let axis = shape.axes[1 + i];
            let position = if dgrad { output_position } else { input_position };
            let read_at = position(at, tap, axis.padding, axis.stride, axis.dilation);
            (0..read.dims()[2 + i]).contains(&read_at).then_some(read_at)
        };
        let mut pairs = Vec::new();
        for (r, s) in (0..shape.filter[1]).flat_map(|r| (0..shape.filter[2]).map(move |s| (r, s))) {
            let (Some(i), Some(j)) = (along(0, h, r), along(1, w, s)) else { continue };
            for sum in 0..sums {
                let (k, c) = if dgrad { (sum, column) } else { (column, sum) };
                let at = |strides: &[i64], index: [i64; 4]| (0..4).map(|i| strides[i] * index[i]).sum::<i64>();
                pairs.push([at(read_strides, [n, sum, i, j]), at(w_strides, [k, c, r, s])]);
            }
        }
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn windows_and_filters_hold_what_the_formula_says() {
        for text in [
            "conv:fprop pad=1x1 stride=1x1 x=2x3x7x9:bf16:nhwc w=8x3x3x3:bf16",
            "conv:fprop pad=3x2 stride=2x2 dil=2x1 x=1x4x9x12:bf16 w=8x4x3x5:bf16:nhwc y=1x8x6x6:bf16:nhwc",
            "conv:dgrad pad=1x1 dx=2x20x7x9:bf16:nhwc w=12x20x3x3:bf16:nhwc",
            "conv:dgrad pad=1x1 dx=1x9x7x9:bf16:nhwc w=16x9x3x3:bf16",
            "conv:dgrad pad=0x0 dx=1x8x7x9:bf16:nhwc w=3x8x3x4:bf16:nhwc",
            "conv:dgrad pad=2x5 dil=2x1 dx=1x8x7x9:bf16:nhwc w=7x8x3x2:bf16:nhwc",
        ] {
            let problem: ConvProblem = text.parse().unwrap();
            let packing = Packing::of(&problem).unwrap_or_else(|refusal| panic!("{text}: {}", refusal.0));
            let view = packing.view(&problem).unwrap_or_else(|refusal| panic!("{text}: {}", refusal.0));
            let class = view.classes[0];
            let [_, rows, columns] = class.axes;
            for n in 0..view.read.images {
                for (h, w) in (0..rows.extent).flat_map(|h| (0..columns.extent).map(move |w| (h, w))) {
                    for column in 0..view.filter.k {
                        let mut pairs = Vec::new();
                        for tap in 0..rows.n_taps {
                            let row = rows.base + h * view.step[1] + tap * rows.tap_offset;
                            if !(0..view.read.extents[1]).contains(&row) {
                                continue;
                            }
                            let [_, row_stride, w_stride] = view.read.strides;
                            let window = n * view.read.image_stride + row * row_stride + w * w_stride;
                            let filter_row = rows.first_tap + tap * rows.tap_step;
                            let filter = column * view.filter.k_stride + filter_row * view.filter.tap_stride;
                            for c in 0..view.read.channels {
                                let met = (source(&packing.x, window + c), source(&packing.w, filter + c));
                                if let (Some(read), Some(weight)) = met {
                                    pairs.push([read, weight]);
                                }
                            }
                        }
                        pairs.sort_unstable();
                        assert_eq!(pairs, formula(&problem, n, column, [h, w]), "{text}: {n} {column} {h} {w}");
                    }
                }
            }
            assert!(view.read.strides.iter().all(|stride| stride % RUN == 0), "{text}");
            assert!(packing.x.row_elems() % RUN == 0 && packing.w.row_elems() % RUN == 0, "{text}");
        }
    }

    #[test]
    fn refusals_say_why() {
        let refusal = |text: &str| Packing::of(&text.parse().unwrap()).err().unwrap().0;
        let many = refusal("conv:dgrad pad=1 dx=1x8x7x9:bf16:nhwc w=17x8x3x3:bf16:nhwc");
        assert!(many.contains("up to 16 output channels, given 2, 1 and 17"), "{many}");
        let strided = refusal("conv:dgrad pad=1 stride=2x1 dx=1x8x7x9:bf16:nhwc w=8x8x3x3:bf16:nhwc");
        assert!(strided.contains("dgrad of stride 1, given 2 and 1"), "{strided}");
        assert!(refusal("conv:fprop pad=1 x=1x5x7x9:bf16:nhwc w=8x5x3x3:bf16").contains("up to 4 input channels"));
    }
}
