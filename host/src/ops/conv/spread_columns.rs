//! `dgrad` with few input channels on Hopper's tensor cores: the positions of dx between two steps of the stride, with
//! their channels, are the product's columns.
//!
//! All of them read the same window of dy, each with its own taps; where one has no tap, the packed filter has zeros.
//! One product then reads dy once for all of them, instead of once for every class of positions and three channels.
//! A small kernel packs the filter into the workspace; the product is [`halo_wgmma`]'s or [`im2col_wgmma`]'s, and its
//! columns are written where they belong, dx of any strides.
//!
//! [`halo_wgmma`]: super::halo_wgmma
//! [`im2col_wgmma`]: super::im2col_wgmma

use super::im2col_wgmma::{
    AxisClass, Class, Filter, KERNELS, Positions, Product, Spread, View, check_address, check_device, check_window,
    row, tma_type, unsupported,
};
use super::{ConvAxis, ConvMode, ConvPass, ConvProblem, halo_wgmma};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Stream};
use kernel_abi::ops::conv::ConvPackSpreadParams;
use kernel_abi::ops::conv::im2col_wgmma::{GATHER_256X64, access};

macro_rules! symbols {
    ($(($symbol:ident)),* $(,)?) => {
        [$(stringify!($symbol)),*]
    };
}

const PACK: [&str; 1] = kernel_abi::conv_pack_spread_kernels!(symbols);

/// `dgrad` of few channels.
pub(super) struct SpreadColumns;

impl Algorithm<ConvProblem> for SpreadColumns {
    fn name(&self) -> &'static str {
        "spread_columns"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_device(context)?;
        let view = Packing::of(problem)?.view(problem)?;
        let halo = halo_view(&view);
        // The product is fprop's: the packed filter lies with k contiguous.
        let dtype = problem.x().dtype();
        let with_halo = halo_wgmma::KERNELS
            .iter()
            .filter(|row| row.pass == "fprop" && row.dtype == dtype && halo.fits(row.form))
            .map(|row| Config(row.symbol));
        let fits = KERNELS.iter().filter(|row| row.pass == "fprop" && row.dtype == dtype && row.tile == GATHER_256X64);
        Ok(with_halo.chain(fits.map(|row| Config(row.symbol))).collect())
    }

    fn workspace_bytes(&self, problem: &ConvProblem, _: Config) -> u64 {
        Packing::of(problem).map_or(0, |packing| 2 * packing.n_elems() as u64)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// Launching and ending a kernel more.
        const PACKING_US: f64 = 3.0;
        let Ok(view) = Packing::of(problem).and_then(|packing| packing.view(problem)) else { return f64::INFINITY };
        let streaming = crate::select::cost::streaming_us(problem, context);
        let products_us = match halo_wgmma::KERNELS.iter().find(|row| row.symbol == config.0) {
            Some(row) => halo_view(&view).products_us(row.form, context),
            None => view.products_us(row(config).tile, context),
        };
        PACKING_US + streaming.max(products_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal| unsupported(problem, refusal);
        let packing = Packing::of(problem).map_err(refused)?;
        let view = packing.view(problem).map_err(refused)?;
        let product = if halo_wgmma::KERNELS.iter().any(|row| row.symbol == config.0) {
            Columns::Halo(Box::new(halo_wgmma::Product::new(halo_view(&view), config, context)?))
        } else {
            let tile = row(config).tile;
            let function = context.function(config.0)?;
            function.set_max_dynamic_shared(tile.smem_bytes() as usize)?;
            Columns::Gather(Product::new(view, function, tile, context))
        };
        Ok(Box::new(SpreadLaunch { pack: context.function(PACK[0])?, params: packing.params(problem), product }))
    }
}

/// The view for a kernel that reads the halo once.
fn halo_view(view: &View) -> halo_wgmma::View {
    let spread = view.spread.expect("columns are spread");
    halo_wgmma::View {
        data_type: view.data_type,
        read: view.read,
        filter: view.filter,
        class: view.classes[0],
        extents: view.written.extents,
        channels: view.group_read,
        columns: view.group_written,
        sum_is_contiguous: true,
        strides: [view.written.image_stride, 0],
        spread,
    }
}

/// The window of dy that the positions of a step read, and the filter for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    pub(super) axes: [ConvAxis; 2],
    /// Where the window begins, relative to the step.
    pub(super) first: [i64; 2],
    /// Extents of the window.
    pub(super) window: [i64; 2],
    pub(super) columns: i64,
    /// Elements for K.
    pub(super) packed_k: i64,
}

/// Where the window of dy that a step's positions read begins, relative to the step, and its extent.
fn window(axis: ConvAxis, filter: i64) -> [i64; 2] {
    let ConvAxis { padding, stride, dilation, .. } = axis;
    let reads = (0..stride).flat_map(|a| (0..filter).map(move |tap| a + padding - tap * dilation));
    let reads = reads.filter(|read| read.rem_euclid(stride) == 0).map(|read| read.div_euclid(stride));
    let (first, last) = reads.fold((i64::MAX, i64::MIN), |(first, last), read| (first.min(read), last.max(read)));
    // Steps wider than the filter may leave nothing to read.
    if first > last { [0, 1] } else { [first, last - first + 1] }
}

impl Packing {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        Packing::by(problem, 8)
    }

    /// Of any type, with K filled up to a multiple of `align`.
    pub(super) fn by(problem: &ConvProblem, align: i64) -> Result<Self, Refusal> {
        /// Columns of the tile.
        const MAX_COLUMNS: i64 = 64;
        if problem.conv_pass() != ConvPass::Dgrad {
            return Err(Refusal::new(format!("computes dgrad, the pass is {}", problem.conv_pass())));
        }
        let shape = problem.shape();
        if problem.axes().len() != 2 || shape.groups != 1 || problem.mode() == ConvMode::Convolution {
            let (axes, groups, mode) = (problem.axes().len(), shape.groups, problem.mode());
            let reason = format!("takes two axes, one group and cross_correlation, given {axes}, {groups} and {mode}");
            return Err(Refusal::new(reason));
        }
        let axes = [shape.axes[1], shape.axes[2]];
        let columns = axes[0].stride.saturating_mul(axes[1].stride).saturating_mul(shape.c);
        // With more channels, a class of positions has columns enough of its own.
        if columns > MAX_COLUMNS || shape.c >= 32 {
            let reason = format!(
                "takes up to 31 channels and {MAX_COLUMNS} columns of strides times channels, given {} and {columns}",
                shape.c
            );
            return Err(Refusal::new(reason));
        }
        let windows = [0, 1].map(|i| window(axes[i], shape.filter[1 + i]));
        Ok(Packing {
            axes,
            first: windows.map(|[first, _]| first),
            window: windows.map(|[_, extent]| extent),
            columns,
            packed_k: (shape.k + align - 1) / align * align,
        })
    }

    pub(super) fn n_elems(&self) -> i64 {
        self.columns * self.window[0] * self.window[1] * self.packed_k
    }

    pub(super) fn params(&self, problem: &ConvProblem) -> ConvPackSpreadParams {
        let (shape, w) = (problem.shape(), problem.w());
        ConvPackSpreadParams {
            from: 0,
            to: 0,
            strides: [w.strides()[0], w.strides()[1], w.strides()[2], w.strides()[3]],
            n_elems: self.n_elems(),
            k: [shape.k, self.packed_k],
            c: shape.c,
            filter: [shape.filter[1], shape.filter[2]],
            stride: self.axes.map(|axis| axis.stride),
            padding: self.axes.map(|axis| axis.padding),
            dilation: self.axes.map(|axis| axis.dilation),
            first: self.first,
            window: self.window,
        }
    }

    fn view(&self, problem: &ConvProblem) -> Result<View, Refusal> {
        let shape = problem.shape();
        let read = Positions::of("dy", problem.y(), false)?;
        let written = self.steps(problem);
        let filter = Filter {
            k: self.columns,
            group_c: shape.k,
            taps: [1, self.window[0], self.window[1]],
            tap_stride: self.packed_k,
            k_stride: self.window[0] * self.window[1] * self.packed_k,
        };
        let class = self.class(&written);
        check_window("dy", &read, &class.window([1; 3]), class.last_offset(), access::IM2COL_2D)?;
        if written.count() > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("counts up to {} steps, given {}", i32::MAX, written.count())));
        }
        Ok(View {
            data_type: tma_type(problem.x().dtype())?,
            read,
            written,
            filter,
            classes: vec![class],
            step: [1; 3],
            groups: 1,
            group_read: shape.k,
            group_written: self.columns,
            a_access: access::IM2COL_2D,
            out_access: access::SPREAD,
            sum_is_contiguous: true,
            planes: None,
            spread: Some(self.spread(problem)),
        })
    }

    /// Where the columns go.
    pub(super) fn spread(&self, problem: &ConvProblem) -> Spread {
        let (shape, strides) = (problem.shape(), problem.x().strides());
        Spread {
            counts: [self.axes[0].stride, self.axes[1].stride, shape.c],
            extents: [shape.image[1], shape.image[2]],
            strides: [strides[2], strides[3], strides[1]],
        }
    }

    /// What is written: for each image its steps, each as many columns.
    pub(super) fn steps(&self, problem: &ConvProblem) -> Positions {
        let shape = problem.shape();
        let steps = [0, 1].map(|i| (shape.image[1 + i] + self.axes[i].stride - 1) / self.axes[i].stride);
        Positions {
            element_bytes: problem.x().dtype().size_bytes() as i64,
            channels: self.columns,
            extents: [1, steps[0], steps[1]],
            strides: [1; 3],
            images: shape.n,
            image_stride: problem.x().strides()[0],
        }
    }

    /// The only class: all steps, which read the same window.
    pub(super) fn class(&self, steps: &Positions) -> Class {
        let axis = |i: usize| AxisClass {
            n_taps: self.window[i],
            base: self.first[i],
            ..AxisClass::plain(steps.extents[1 + i])
        };
        Class { axes: [AxisClass::plain(1), axis(0), axis(1)] }
    }
}

/// Launches whose parameters are complete but for addresses and scalars.
struct SpreadLaunch {
    pack: Function,
    params: ConvPackSpreadParams,
    product: Columns,
}

/// The product whose columns are spread.
enum Columns {
    Gather(Product),
    Halo(Box<halo_wgmma::Product>),
}

impl Launch for SpreadLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        // w and dx lie anyhow: element by element.
        let [dy, w, dx] = [0, 1, 2].map(|operand| call.address(operand));
        check_address("dy", dy)?;
        let Some(gpu_stream) = stream.gpu_stream() else {
            return Err(Error::NoDevice { reason: format!("{} needs a GPU's stream", self.pack.name()) });
        };
        let packed = call.workspace_address();
        let params = ConvPackSpreadParams { from: w, to: packed, ..self.params };
        let config = LaunchConfig { programmatic: true, ..linear_grid(params.n_elems, 256) };
        launch(&self.pack, &config, gpu_stream, &params)
            .map_err(|source| Error::Launch { kernel: self.pack.name().to_owned(), source })?;
        let addresses = [dy, packed, dx];
        match &self.product {
            Columns::Gather(product) => product.launch(stream, addresses, call.alpha, call.beta),
            Columns::Halo(product) => product.launch(stream, addresses, call.alpha, call.beta),
        }
    }
}
