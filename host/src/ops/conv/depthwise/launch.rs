//! One or two kernels a run: the products, and for `wgrad` the sum over slabs.

use crate::launch::KernelLaunch;
use crate::ops::conv::ConvPass;
use crate::plan::{Call, Launch};
use crate::{Error, Stream};
use kernel_abi::ops::conv::DepthwiseParams;

pub(super) struct DepthwiseLaunch {
    pub(super) products: KernelLaunch<DepthwiseParams>,
    /// Adds up what `products` left in the workspace.
    pub(super) reduce: Option<KernelLaunch<DepthwiseParams>>,
    /// What addresses of the operands in `aligned` must be multiples of.
    pub(super) align_bytes: u64,
    pub(super) aligned: &'static [usize],
    /// For other addresses.
    pub(super) fallback: Option<Box<DepthwiseLaunch>>,
}

impl Launch for DepthwiseLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        if let Some(fallback) = &self.fallback
            && !self.aligned.iter().all(|&i| call.address(i).is_multiple_of(self.align_bytes))
        {
            return fallback.launch(stream, call);
        }
        self.products.launch(stream, call)?;
        self.reduce.as_ref().map_or(Ok(()), |reduce| reduce.launch(stream, call))
    }
}

/// Which operands of a pass are images.
pub(super) fn images(pass: ConvPass) -> &'static [usize] {
    if pass == ConvPass::Wgrad { &[0, 1] } else { &[0, 2] }
}

/// Puts addresses and scalars into the parameters.
pub(super) fn bind(pass: ConvPass) -> fn(&mut DepthwiseParams, &Call<'_>) {
    match pass {
        ConvPass::Fprop | ConvPass::Dgrad => |params, call| {
            (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
            (params.source, params.w, params.target) = (call.address(0), call.address(1), call.address(2));
        },
        ConvPass::Wgrad => |params, call| {
            (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
            (params.source, params.target, params.w) = (call.address(0), call.address(1), call.address(2));
            params.partials = call.workspace_address();
        },
    }
}
