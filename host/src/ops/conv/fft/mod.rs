//! f32 convolution of stride 1 by Fourier transforms (Mathieu, Henaff, LeCun, "Fast Training of Convolutional Networks
//! through FFTs", 2014; Vasilache et al., "Fast Convolutional Nets With fbfft", 2015): images and filters are transformed
//! into the workspace, one matrix for each frequency; whichever of `matmul`'s algorithms is best multiplies them, and
//! results are transformed back. For `dgrad` the image is dy and the filter is turned around; for `wgrad` the spectra of x
//! and dy are multiplied over all images.
//!
//! `fft_tiled` cuts images into tiles of 16 × 16 or 32 × 32 positions that overlap by the filter's window, up to half of
//! a tile. `fft` transforms whole images, of up to 128 × 128 positions with all that the window adds, whatever the window.
//!
//! A filter's size decides how far tiles overlap, or how large the transform is, and nothing else, so it pays for large
//! ones. The workspace, which grows with the batch, is several times the size of the images; each pair of channels of a
//! filter has a spectrum four times as large as a tile's, or an image's.

mod geometry;
mod launch;

use super::{ConvPass, ConvProblem};
use crate::plan::Launch;
use crate::select::cost::{LAUNCH_US, UNTIMED};
use crate::select::{Algorithm, Cheapest, Config, Refusal, Spread, check_gpu};
use crate::{Context, Error};
pub(super) use geometry::Cut;
use geometry::Geometry;
use kernel_abi::ops::conv::fft::whole_bytes;
use launch::{FftLaunch, Step};

macro_rules! rows {
    ($(($symbol:ident, $form:ident, $what:ident, $params:ident, $size:literal, $threads:literal, $blocks:literal)),*
        $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            what: stringify!($what),
            size: $size,
            threads: $threads,
            shared_bytes: rows!(@$form $size),
        }),*]
    };
    (@tiled $size:literal) => { 0 };
    (@whole $size:literal) => { whole_bytes($size) };
}

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    what: &'static str,
    /// Of a tile.
    size: u32,
    threads: u32,
    /// Dynamic.
    shared_bytes: u32,
}

const KERNELS: &[Kernel] = kernel_abi::conv_fft_kernels!(rows);

/// What a config is named by.
const NAMING: &str = "tiles_forward";
/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

fn kernel(what: &str, size: u32) -> &'static Kernel {
    let fits = |kernel: &&Kernel| kernel.what == what && kernel.size == size;
    KERNELS.iter().find(fits).expect("the kernel list has a row for each step and size")
}

/// The size of tiles, or images, that a config means.
fn size_of(config: Config) -> u32 {
    KERNELS.iter().find(|kernel| kernel.symbol == config.0).map_or(KERNELS[0].size, |kernel| kernel.size)
}

/// Fourier transforms of tiles, or of whole images.
pub(super) struct Fft(pub(super) Cut);

impl Algorithm<ConvProblem> for Fft {
    fn name(&self) -> &'static str {
        match self.0 {
            Cut::Tiles => "fft_tiled",
            Cut::Whole => "fft",
        }
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let mut configs = Vec::new();
        let mut reason = None;
        for size in self.0.sizes(problem)? {
            let row = kernel(NAMING, size);
            match self.geometry(problem, row, context) {
                Ok(_) => configs.push(Config(row.symbol)),
                Err(refusal) => reason = Some(refusal),
            }
        }
        match reason {
            Some(refusal) if configs.is_empty() => Err(refusal),
            _ => Ok(configs),
        }
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        // Transforms mix all positions of a tile, or of an image.
        match (self.0, problem.conv_pass()) {
            (Cut::Tiles, ConvPass::Fprop | ConvPass::Dgrad) => Spread::Tile,
            (Cut::Tiles, ConvPass::Wgrad) | (Cut::Whole, _) => Spread::Channel,
        }
    }

    /// Of the spectra alone: the product's depends on the device.
    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        Geometry::of(problem, self.0, size_of(config)).map_or(0, |geometry| geometry.ends[2])
    }

    fn workspace_bytes_on(&self, problem: &ConvProblem, config: Config, context: &Context) -> u64 {
        let Ok(geometry) = Geometry::of(problem, self.0, size_of(config)) else { return 0 };
        let product = geometry.product(context).map_or(0, |Cheapest { algorithm, config, .. }| {
            algorithm.workspace_bytes_on(&geometry.problem, config, context)
        });
        geometry.ends[2].saturating_add(product)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// Share of the memory's rate that the transforms should reach.
        const MEMORY_SHARE: f64 = 0.5;
        let Ok(geometry) = Geometry::of(problem, self.0, size_of(config)) else { return f64::INFINITY };
        let Some(product) = geometry.product(context) else { return f64::INFINITY };
        let operands = problem.x().data_bytes() + problem.w().data_bytes() + problem.y().data_bytes();
        let bytes = geometry.ends[2] as f64 + operands as f64;
        let transforms_us = 3.0 * LAUNCH_US + bytes / (MEMORY_SHARE * context.info().bytes_per_us);
        UNTIMED * (transforms_us + product.estimate_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let size = size_of(config);
        let geometry =
            Geometry::of(problem, self.0, size).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let Some(Cheapest { algorithm, config, .. }) = geometry.product(context) else {
            return Err(Refusal::new("needs an algorithm for its product").into_error(self.name(), problem));
        };
        let step = |what: &str| -> Result<Step, Error> {
            let row = kernel(what, size);
            let function = context.function(row.symbol)?;
            if row.shared_bytes > 0 {
                function.allow_dynamic_shared(row.shared_bytes as usize)?;
            }
            Ok(Step { function, threads: row.threads, shared_bytes: row.shared_bytes })
        };
        Ok(Box::new(FftLaunch {
            product: algorithm.prepare(&geometry.problem, config, context)?,
            tiles_forward: step("tiles_forward")?,
            tiles_inverse: step("tiles_inverse")?,
            filter_forward: step("filter_forward")?,
            filter_inverse: step("filter_inverse")?,
            geometry,
        }))
    }
}

impl Fft {
    /// What a device can do with kernels of a size.
    fn geometry(&self, problem: &ConvProblem, row: &Kernel, context: &Context) -> Result<Geometry, Refusal> {
        let (needed, most) = (row.shared_bytes, most_shared_bytes(context));
        if needed > most {
            return Err(Refusal::new(format!("needs {needed} bytes of shared memory a block, the device has {most}")));
        }
        let geometry = Geometry::of(problem, self.0, row.size)?;
        if geometry.product(context).is_none() {
            let product = &geometry.problem;
            return Err(Refusal::new(format!("needs an algorithm for {product}, which every one refuses")));
        }
        Ok(geometry)
    }
}

/// The most dynamic shared memory of a block.
fn most_shared_bytes(context: &Context) -> u32 {
    match (context.gpu_context(), context.info().compute_capability) {
        (Some(gpu), _) => gpu.max_shared_bytes() as u32,
        // Of a device that is only described.
        (None, (8, 0) | (8, 7)) => 163 << 10,
        (None, (9..=11, _)) => 227 << 10,
        (None, _) => 99 << 10,
    }
}
