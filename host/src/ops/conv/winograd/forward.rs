//! `fprop` and `dgrad`: the filter is transformed once, each turn goes from images to results.

use super::Transform;
use super::geometry::Geometry;
use super::variants::{Method, Variant};
use crate::ops::conv::f32_wgmma::Product;
use crate::ops::conv::ffma::Ffma;
use crate::plan::{Bound, Call, Launch};
use crate::select::{Algorithm, Config};
use crate::tensor::{Region, RegionMut};
use crate::{Context, Error, Stream};
use kernel_abi::ops::conv::winograd::WinogradFilterParams;

/// The kernel between the transforms, but for addresses.
enum Products {
    Parts(Box<Product>),
    Ffma(Box<dyn Launch>),
}

impl Products {
    fn new(geometry: &Geometry, tiles: i64, variant: &Variant, context: &Context) -> Result<Self, Error> {
        let (problem, inner) = (geometry.counted(tiles)?, Config(variant.inner));
        Ok(match variant.method {
            Method::Parts => Products::Parts(Box::new(Product::new(&problem, inner, context)?)),
            Method::Ffma => Products::Ffma(Ffma.prepare(&problem, inner, context)?),
        })
    }
}

/// Launches that are complete but for addresses and scalars.
pub(super) struct Forward {
    image: Transform,
    filter: Transform,
    output: Transform,
    geometry: Geometry,
    /// Tiles of a turn.
    chunk: i64,
    whole: Products,
    /// Of the last turn, where it has fewer tiles.
    rest: Option<Products>,
}

impl Forward {
    pub(super) fn new(geometry: Geometry, variant: &Variant, context: &Context) -> Result<Self, Error> {
        let chunk = geometry.chunk_tiles(variant.chunks);
        let product = |tiles: i64| Products::new(&geometry, tiles, variant, context);
        let filter = match variant.method {
            Method::Parts => "filter_parts",
            Method::Ffma => "filter",
        };
        let rest = geometry.n_tiles() % chunk;
        Ok(Forward {
            image: Transform::new("image", variant, context)?,
            filter: Transform::new(filter, variant, context)?,
            output: Transform::new("output", variant, context)?,
            chunk,
            whole: product(chunk)?,
            rest: if rest > 0 { Some(product(rest)?) } else { None },
            geometry,
        })
    }
}

impl Launch for Forward {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let [read, filter, written] = [0, 1, 2].map(|operand| call.address(operand));
        let workspace = call.gpu_workspace("winograd")?;
        let start = workspace.address();
        let [filter_end, images_end, sums_end] = self.geometry.layout(self.chunk);
        let (images, sums) = (start + filter_end, start + images_end);
        let params = WinogradFilterParams { from: filter, to: start, ..self.geometry.filter() };
        self.filter.queue(params.n_units, stream, &params)?;
        let (mut first, all) = (0, self.geometry.n_tiles());
        while first < all {
            let tiles = self.chunk.min(all - first);
            let params = self.geometry.images(first, tiles, [read, images]);
            self.image.queue(params.n_units, stream, &params)?;
            let products = match &self.rest {
                Some(rest) if tiles < self.chunk => rest,
                _ => &self.whole,
            };
            match products {
                Products::Parts(product) => product.launch(stream, [images, start, sums], [1.0, 0.0])?,
                Products::Ffma(product) => {
                    let operands = [
                        Bound::Read(Region::Device(workspace.part(filter_end, images_end))),
                        Bound::Read(Region::Device(workspace.part(0, filter_end))),
                        Bound::Write(RegionMut::Device(workspace.part(images_end, sums_end))),
                    ];
                    let workspace = RegionMut::Device(workspace.part(sums_end, sums_end));
                    let operands = operands.into_iter().collect();
                    product.launch(stream, &mut Call { operands, workspace, alpha: 1.0, beta: 0.0 })?;
                }
            }
            let params = self.geometry.results(first, tiles, [sums, written], [call.alpha, call.beta]);
            self.output.queue(params.n_units, stream, &params)?;
            first += tiles;
        }
        Ok(())
    }
}
