//! `wgrad`: each turn's products are added to those before, and their sums transformed once.

use super::Transform;
use super::geometry::Geometry;
use super::variants::{Method, Variant};
use crate::ops::conv::ConvProblem;
use crate::ops::conv::f32_wgmma::Wgrad;
use crate::ops::conv::ffma::Ffma;
use crate::plan::{Bound, Call, Launch};
use crate::select::{Algorithm, Config};
use crate::tensor::{Region, RegionMut};
use crate::{Context, Error, Stream};
use kernel_abi::ops::conv::winograd::WinogradFilterParams;

/// Whose kernels multiply.
pub(super) fn products(method: Method) -> &'static dyn Algorithm<ConvProblem> {
    match method {
        Method::Parts => &Wgrad,
        Method::Ffma => &Ffma,
    }
}

/// Bytes of the workspace that the products of a turn take.
pub(super) fn product_bytes(geometry: &Geometry, variant: &Variant) -> u64 {
    let chunk = geometry.chunk_tiles(variant.chunks);
    let bytes = |tiles: i64| {
        let bytes = |problem| products(variant.method).workspace_bytes(&problem, Config(variant.inner));
        geometry.product(tiles).map_or(0, bytes)
    };
    let rest = geometry.n_tiles() % chunk;
    bytes(chunk).max(if rest > 0 { bytes(rest) } else { 0 })
}

/// Launches that are complete but for addresses and scalars.
pub(super) struct Gradient {
    image: Transform,
    gradient: Transform,
    taps: Transform,
    geometry: Geometry,
    /// Tiles of a turn.
    chunk: i64,
    whole: Box<dyn Launch>,
    /// Of the last turn, where it has fewer tiles.
    rest: Option<Box<dyn Launch>>,
}

impl Gradient {
    pub(super) fn new(geometry: Geometry, variant: &Variant, context: &Context) -> Result<Self, Error> {
        let chunk = geometry.chunk_tiles(variant.chunks);
        let product =
            |tiles: i64| products(variant.method).prepare(&geometry.counted(tiles)?, Config(variant.inner), context);
        let rest = geometry.n_tiles() % chunk;
        Ok(Gradient {
            image: Transform::new("image", variant, context)?,
            gradient: Transform::new("gradient", variant, context)?,
            taps: Transform::new("taps", variant, context)?,
            chunk,
            whole: product(chunk)?,
            rest: if rest > 0 { Some(product(rest)?) } else { None },
            geometry,
        })
    }
}

impl Launch for Gradient {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        let workspace = call.gpu_workspace("winograd")?;
        let start = workspace.address();
        let [sums_end, images_end, gradients_end] = self.geometry.layout(self.chunk);
        let (mut first, all) = (0, self.geometry.n_tiles());
        while first < all {
            let tiles = self.chunk.min(all - first);
            let params = self.geometry.images(first, tiles, [x, start + sums_end]);
            self.image.queue(params.n_units, stream, &params)?;
            let params = self.geometry.gradients(first, tiles, [dy, start + images_end]);
            self.gradient.queue(params.n_units, stream, &params)?;
            let product = match &self.rest {
                Some(rest) if tiles < self.chunk => rest,
                _ => &self.whole,
            };
            let operands = [
                Bound::Read(Region::Device(workspace.part(sums_end, images_end))),
                Bound::Read(Region::Device(workspace.part(images_end, gradients_end))),
                Bound::Write(RegionMut::Device(workspace.part(0, sums_end))),
            ];
            let mut inner = Call {
                operands: operands.into_iter().collect(),
                workspace: RegionMut::Device(workspace.part(gradients_end, workspace.len_bytes())),
                alpha: 1.0,
                beta: if first == 0 { 0.0 } else { 1.0 },
            };
            product.launch(stream, &mut inner)?;
            first += tiles;
        }
        let (alpha, beta) = (call.alpha as f32, call.beta as f32);
        let params = WinogradFilterParams { from: start, to: dw, alpha, beta, ..self.geometry.filter() };
        self.taps.queue(params.n_units, stream, &params)
    }
}
