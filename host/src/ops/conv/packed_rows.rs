//! Convolutions of few input channels on Hopper's tensor cores: a filter's row and the channels together are summed over
//! as if they were channels.
//!
//! Padding along w written out and channels filled up to 4 or 8, the window of a row is a run of neighbouring elements,
//! and windows begin at multiples of 16 bytes: a tensor whose positions overlap, which [`im2col_wgmma`] takes as any
//! other. Two small kernels write x and w so into the workspace; the sum has R parts of S · 4 (or 8) elements instead
//! of R · S parts of as many as a row of shared memory has.
//!
//! [`im2col_wgmma`]: super::im2col_wgmma

use super::im2col_wgmma::{
    AxisClass, Class, Filter, KERNELS, Positions, Product, Row, SplitSum, View, WGRAD_KERNELS, WgradRow, WgradView,
    Window, check_address, check_device, check_window, row, tma_type, unsupported, wgrad_row,
};
use super::{ConvMode, ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem, Stream, TensorDesc};
use kernel_abi::ops::conv::ConvPackRowsParams;
use kernel_abi::ops::conv::im2col_wgmma::access;

macro_rules! symbols {
    ($(($symbol:ident)),* $(,)?) => {
        [$(stringify!($symbol)),*]
    };
}

const PACK: [&str; 1] = kernel_abi::conv_pack_rows_kernels!(symbols);

/// Input channels for which packing pays.
const MAX_C: i64 = 4;
/// Elements of 16 bytes.
const RUN: i64 = 8;
/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

/// `fprop` and `wgrad` of few channels.
pub(super) struct PackedRows;

impl Algorithm<ConvProblem> for PackedRows {
    fn name(&self) -> &'static str {
        "packed_rows"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_device(context)?;
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
            ConvPass::Dgrad => Err(Refusal::new("computes fprop and wgrad, the pass is dgrad")),
        }
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let Ok(packing) = Packing::of(problem) else { return 0 };
        let behind = match packing.wgrad_view(problem) {
            Ok(view) if problem.conv_pass() == ConvPass::Wgrad => view.partials_bytes(wgrad_row(config).tile),
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
            let tile = wgrad_row(config).tile;
            view.time_us(tile, view.cut(tile))
        } else {
            let Ok(view) = packing.view(problem) else { return f64::INFINITY };
            view.products_us(row(config).tile, context)
        };
        let bytes = (problem.x().n_elems() * 2) as f64 + packing.x.bytes() as f64;
        // Its reads are of 2 bytes.
        let packing_us = PACKING_US + bytes / (0.6 * context.info().bytes_per_us);
        packing_us + crate::select::cost::streaming_us(problem, context).max(products_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal| unsupported(problem, refusal);
        let packing = Packing::of(problem).map_err(refused)?;
        let pack = context.function(PACK[0])?;
        if problem.conv_pass() == ConvPass::Wgrad {
            let view = packing.wgrad_view(problem).map_err(refused)?;
            let sum = SplitSum::of(problem, view, config, context)?;
            return Ok(Box::new(PackedWgradLaunch { pack, sum, packing }));
        }
        let view = packing.view(problem).map_err(refused)?;
        let tile = row(config).tile;
        let function = context.function(config.0)?;
        function.set_max_dynamic_shared(tile.smem_bytes() as usize)?;
        Ok(Box::new(PackedLaunch { pack, product: Product::new(view, function, tile, context), packing }))
    }
}

/// How x and w lie in the workspace.
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
    padding: i64,
    packed_w: i64,
    packed_c: i64,
}

impl Packed {
    fn new(desc: &TensorDesc, padding: i64, packed_w: i64, packed_c: i64) -> Self {
        let four = |values: &[i64]| [values[0], values[1], values[2], values[3]];
        Packed { dims: four(desc.dims()), strides: four(desc.strides()), padding, packed_w, packed_c }
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
        let Some(stream) = stream.gpu_stream() else {
            return Err(Error::NoDevice { reason: format!("{} needs a GPU's stream", function.name()) });
        };
        let [_, c, h, w] = self.dims;
        let params = ConvPackRowsParams {
            from,
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
            .map_err(|source| Error::Launch { kernel: function.name().to_owned(), source })
    }
}

impl Packing {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        if problem.axes().len() != 2 || shape.groups != 1 || shape.c > MAX_C {
            let (axes, groups, c) = (problem.axes().len(), shape.groups, shape.c);
            let reason =
                format!("takes two axes, one group and up to {MAX_C} input channels, given {axes}, {groups} and {c}");
            return Err(Refusal::new(reason));
        }
        let [_, _, axis] = shape.axes;
        if axis.dilation != 1 || problem.mode() == ConvMode::Convolution {
            let (dilation, mode) = (axis.dilation, problem.mode());
            return Err(Refusal::new(format!("takes undilated cross_correlation along w, given {dilation}, {mode}")));
        }
        // Windows begin at multiples of 16 bytes.
        let packed_c = if axis.stride % 2 == 0 { 4 } else { 8 };
        let (filter_w, output_w) = (shape.filter[2], shape.output[2]);
        let positions = RUN / packed_c;
        let whole = |w: i64| (w + positions - 1) / positions * positions;
        let packed_w = whole((output_w - 1) * axis.stride + filter_w);
        if packed_w > i64::from(i32::MAX) || axis.padding > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("takes rows up to {} positions, given {packed_w}", i32::MAX)));
        }
        Ok(Packing {
            x: Packed::new(problem.x(), axis.padding, packed_w, packed_c),
            w: Packed::new(problem.w(), 0, whole(filter_w), packed_c),
            stride_w: axis.stride,
        })
    }

    /// Where the workspace goes on behind the packed x.
    fn behind_x(&self) -> u64 {
        self.x.bytes().next_multiple_of(ALIGN_BYTES)
    }

    /// The packed x: a position of y along w is a window of a row.
    fn windows(&self, problem: &ConvProblem) -> Positions {
        let shape = problem.shape();
        Positions {
            element_bytes: 2,
            channels: self.window_elems(problem),
            extents: [1, shape.image[1], shape.output[2]],
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
        let (written, planes) = Positions::written("y", problem.y())?;
        let read = self.windows(problem);
        let filter = Filter {
            k: shape.k,
            group_c: read.channels,
            taps: [1, shape.filter[1], 1],
            tap_stride: self.w.row_elems(),
            k_stride: self.w.dims[2] * self.w.row_elems(),
        };
        let [_, axis, _] = shape.axes;
        let rows = AxisClass {
            n_taps: shape.filter[1],
            base: -axis.padding,
            tap_offset: axis.dilation,
            ..AxisClass::plain(shape.output[1])
        };
        let class = Class { axes: [AxisClass::plain(1), rows, AxisClass::plain(shape.output[2])] };
        let step = [1, axis.stride, 1];
        check_window("x", &read, &class.window(step), class.last_offset(), access::IM2COL_2D)?;
        let out_access = match planes {
            Some(_) => access::PLANES,
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
            group_written: shape.k,
            a_access: access::IM2COL_2D,
            out_access,
            sum_is_contiguous: true,
            spread: None,
            planes,
        })
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
    product: Product,
}

impl Launch for PackedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        // x and w lie anyhow: element by element.
        let [x, w, y] = [0, 1, 2].map(|operand| call.address(operand));
        if self.product.writes_by_map() {
            check_address("y", y)?;
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
