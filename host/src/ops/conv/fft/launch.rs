//! The steps of a convolution.

use super::super::ConvPass;
use super::geometry::{Geometry, Grid};
use crate::driver::Function;
use crate::launch::{KernelParams, LaunchConfig, launch};
use crate::plan::{Bound, Call, Launch};
use crate::tensor::{Region, RegionMut};
use crate::{Error, Stream};
use kernel_abi::ops::conv::fft::{ConvFftFilterParams, ConvFftTilesParams};

/// A kernel with its block.
pub(super) struct Step {
    pub(super) function: Function,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
}

impl Step {
    fn queue<P: KernelParams>(&self, blocks: u64, stream: &Stream, params: &P) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        // At most 2³¹, see `Geometry::of`.
        let config = LaunchConfig {
            grid: [blocks as u32, 1, 1],
            block: [self.threads, 1, 1],
            shared_bytes: self.shared_bytes,
            ..Default::default()
        };
        launch(&self.function, &config, stream, params)
    }
}

/// Launches that are complete but for addresses and scalars.
pub(super) struct FftLaunch {
    pub(super) geometry: Geometry,
    pub(super) tiles_forward: Step,
    pub(super) tiles_inverse: Step,
    pub(super) filter_forward: Step,
    pub(super) filter_inverse: Step,
    pub(super) product: Box<dyn Launch>,
}

impl FftLaunch {
    fn n_tiles(&self) -> u64 {
        let params = &self.geometry.results;
        params.frequency_numbers / u64::from(params.row_numbers)
    }

    fn transform_image(&self, which: usize, stream: &Stream, image: u64, spectra: u64) -> Result<(), Error> {
        let params = ConvFftTilesParams { image, spectra, ..self.geometry.images[which] };
        self.tiles_forward.queue(Grid::blocks(self.n_tiles(), &params), stream, &params)
    }
}

impl Launch for FftLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let workspace = call.gpu_workspace(self.tiles_forward.function.name())?;
        let geometry = &self.geometry;
        let [a_end, b_end, c_end] = geometry.ends;
        let start = workspace.address();
        let (a, b, c) = (start, start + a_end, start + b_end);
        let [first, second, written] = [0, 1, 2].map(|operand| call.address(operand));
        let is_wgrad = geometry.pass == ConvPass::Wgrad;
        self.transform_image(0, stream, first, a)?;
        if is_wgrad {
            self.transform_image(1, stream, second, b)?;
        } else {
            let params = ConvFftFilterParams { filter: second, spectra: b, ..geometry.filter };
            self.filter_forward.queue(geometry.filter_blocks(), stream, &params)?;
        }
        let operands = [
            Bound::Read(Region::Device(workspace.part(0, a_end))),
            Bound::Read(Region::Device(workspace.part(a_end, b_end))),
            Bound::Write(RegionMut::Device(workspace.part(b_end, c_end))),
        ];
        let mut product = Call {
            operands: operands.into_iter().collect(),
            workspace: RegionMut::Device(workspace.part(c_end, workspace.len_bytes())),
            alpha: 1.0,
            beta: 0.0,
        };
        self.product.launch(stream, &mut product)?;
        let (alpha, beta) = (call.alpha as f32 * geometry.scale(), call.beta as f32);
        if is_wgrad {
            let params = ConvFftFilterParams { filter: written, spectra: c, alpha, beta, ..geometry.filter };
            self.filter_inverse.queue(geometry.filter_blocks(), stream, &params)
        } else {
            let params = ConvFftTilesParams { image: written, spectra: c, alpha, beta, ..geometry.results };
            self.tiles_inverse.queue(Grid::blocks(self.n_tiles(), &params), stream, &params)
        }
    }
}
