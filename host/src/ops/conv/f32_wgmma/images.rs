//! Images as the copy engine can gather them: as they lie, or copied.

use super::{ALIGN_BYTES, ConvProblem, launch_linear};
use crate::driver::Function;
use crate::launch::div_ceil;
use crate::ops::conv::im2col_wgmma::{Positions, five};
use crate::ops::conv::{ConvMode, ConvPass};
use crate::select::Refusal;
use crate::{Context, Error, Stream, TensorDesc};
use kernel_abi::ops::conv::f32_wgmma::ConvPackF32Params;

/// Input channels for which a filter's row and the channels are summed over as one.
const MAX_ROW_CHANNELS: i64 = 12;

/// Elements of 16 bytes.
const QUAD: i64 = 4;

/// Images, and the copy that is made of them before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Images {
    pub(super) positions: Positions,
    pub(super) copy: Option<Copy5>,
}

/// A copy `[N][D][H][packed W][packed C]` of images of any strides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy5 {
    strides: [i64; 5],
    dims: [i64; 5],
    padding: i64,
    packed_w: i64,
    pub(super) packed_c: i64,
}

impl Copy5 {
    fn new(desc: &TensorDesc, padding: i64, packed_w: i64) -> Result<Self, Refusal> {
        const MOST: i64 = 1 << 40;
        let mut dims = [1; 5];
        for (i, &dim) in desc.dims().iter().enumerate() {
            dims[if i < 2 { i } else { i + 5 - desc.rank() }] = dim;
        }
        let packed_c = div_ceil(dims[1], QUAD) * QUAD;
        let copy = Copy5 { strides: five(desc), dims, padding, packed_w, packed_c };
        let bytes = [dims[0], dims[2], dims[3], packed_w, packed_c]
            .iter()
            .try_fold(4i64, |bytes, &dim| bytes.checked_mul(dim))
            .filter(|&bytes| bytes < MOST);
        match bytes {
            Some(_) => Ok(copy),
            None => Err(Refusal::new(format!("copies images of less than {MOST} bytes, given {:?}", desc.dims()))),
        }
    }

    fn n_elems(&self) -> i64 {
        self.dims[0] * self.dims[2] * self.dims[3] * self.packed_w * self.packed_c
    }

    /// What it takes of the workspace.
    pub(super) fn bytes(&self) -> u64 {
        (4 * self.n_elems() as u64).next_multiple_of(ALIGN_BYTES)
    }

    /// Time of the kernel that makes it.
    pub(super) fn time_us(&self, context: &Context) -> f64 {
        let read: i64 = self.dims.iter().product();
        // Reads are of 4 bytes.
        super::LAUNCH_US + 4.0 * (read + self.n_elems()) as f64 / (0.6 * context.info().bytes_per_us)
    }

    /// Distances along N, D, H, W of the copy.
    fn packed_strides(&self) -> [i64; 4] {
        let w = self.packed_c;
        let h = self.packed_w * w;
        let d = self.dims[3] * h;
        [self.dims[2] * d, d, h, w]
    }

    pub(super) fn launch(&self, function: &Function, stream: &Stream, from: u64, to: u64) -> Result<(), Error> {
        let params = ConvPackF32Params {
            from,
            to,
            strides: self.strides,
            dims: self.dims,
            padding: self.padding,
            packed_w: self.packed_w,
            packed_c: self.packed_c,
            w_first: u32::from(self.strides[1] != 1 && self.dims[1] > 1),
            unused: 0,
        };
        launch_linear(function, stream, self.n_elems() / QUAD, &params)
    }
}

impl Images {
    /// Images as they are, or a channels-last copy where they cannot be gathered so, or `linear` is asked for and their
    /// positions do not lie one behind the other.
    pub(super) fn of(name: &str, desc: &TensorDesc, linear: bool) -> Result<Self, Refusal> {
        if let Ok(positions) = Positions::of(name, desc, false)
            && (!linear || positions.linear_stride().is_some())
        {
            return Ok(Images { positions, copy: None });
        }
        let w = if desc.rank() > 2 { desc.dims()[desc.rank() - 1] } else { 1 };
        let copy = Copy5::new(desc, 0, w)?;
        let [image_stride, d, h, w] = copy.packed_strides();
        let [images, channels, depth, height, width] = copy.dims;
        let positions = Positions {
            element_bytes: 4,
            channels,
            extents: [depth, height, width],
            strides: [d, h, w],
            images,
            image_stride,
        };
        Ok(Images { positions, copy: Some(copy) })
    }

    /// x with a filter's row and the channels as one, where there are few of them: a position along w is then a window of
    /// a row, of S · packed C elements, and there is a single tap along w.
    pub(super) fn rows(problem: &ConvProblem) -> Option<Self> {
        let shape = problem.shape();
        let [_, _, axis] = shape.axes;
        let fits = problem.conv_pass() != ConvPass::Dgrad
            && shape.groups == 1
            && shape.c <= MAX_ROW_CHANNELS
            && shape.filter[2] > 1
            && axis.dilation == 1
            && problem.mode() == ConvMode::CrossCorrelation;
        if !fits {
            return None;
        }
        let packed_w = (shape.output[2] - 1) * axis.stride + shape.filter[2];
        let copy = Copy5::new(problem.x(), axis.padding, packed_w).ok()?;
        let [image_stride, d, h, w] = copy.packed_strides();
        let positions = Positions {
            element_bytes: 4,
            channels: shape.filter[2] * copy.packed_c,
            extents: [shape.image[0], shape.image[1], shape.output[2]],
            strides: [d, h, axis.stride * w],
            images: shape.n,
            image_stride,
        };
        Some(Images { positions, copy: Some(copy) })
    }

    /// What the copy takes of the workspace.
    pub(super) fn bytes(&self) -> u64 {
        self.copy.map_or(0, |copy| copy.bytes())
    }

    /// Time of making it.
    pub(super) fn time_us(&self, context: &Context) -> f64 {
        self.copy.map_or(0.0, |copy| copy.time_us(context))
    }

    /// Makes the copy at `to`, where there is one to be made; gives where the images lie then.
    pub(super) fn make(
        &self,
        (name, function): (&'static str, &Function),
        stream: &Stream,
        from: u64,
        to: u64,
    ) -> Result<u64, Error> {
        match &self.copy {
            Some(copy) => copy.launch(function, stream, from, to).map(|()| to),
            None => super::check_address(name, from).map(|()| from),
        }
    }
}
