//! `wgrad`'s windows where threads read x: of any strides.

use super::{check_groups, taps_in_a_row};
use crate::Error;
use crate::driver::{GpuContext, TmaType};
use crate::ops::conv::im2col_wgmma::{Filter, Positions, WgradView, Window, five};
use crate::ops::conv::{ConvMode, ConvProblem};
use crate::select::Refusal;
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::f32_wgmma::ConvPartsWindowsParams;
use kernel_abi::ops::conv::im2col_wgmma::{ConvWgradParams, access};

/// A problem as the kernels see it: all taps' channels are those of one tap.
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) view: WgradView,
    /// Distances of x along N, C, H, W.
    strides: [i64; 4],
    extents: [i64; 2],
    dilation: [i64; 2],
    channels: i64,
    taps_w: i64,
    /// How far behind dw's address the first column lies, in elements.
    first_tap: i64,
}

impl Windows {
    pub(super) fn of(problem: &ConvProblem, dy: Positions) -> Result<Self, Refusal> {
        /// What sums of a few of them can be counted of.
        const MOST: i64 = 1 << 28;
        let shape = problem.shape();
        if problem.axes().len() > 2 {
            let given = problem.axes().len();
            return Err(Refusal::new(format!("reads windows of one or two axes, given {given}")));
        }
        check_groups("dy", shape.groups, shape.group_k(), 4)?;
        let [k_stride, c_stride, t, r, s] = five(problem.w());
        let tap_stride = taps_in_a_row(shape.filter, [t, r, s]).ok_or_else(|| {
            let given = problem.w().strides();
            Refusal::new(format!("needs dw with taps one behind the other, its strides are {given:?}"))
        })?;
        for i in 0..3 {
            let axis = shape.axes[i];
            let reach = (shape.filter[i] - 1).saturating_mul(axis.dilation);
            let last = (shape.output[i] - 1).saturating_mul(axis.stride);
            for extent in [shape.image[i], axis.padding, reach, last, axis.dilation] {
                if extent >= MOST {
                    return Err(Refusal::new(format!("reads windows below {MOST} positions wide, given {extent}")));
                }
            }
        }
        let n_taps: i64 = shape.filter.iter().product();
        let columns = n_taps.saturating_mul(shape.group_c());
        if columns >= MOST || shape.k >= MOST {
            return Err(Refusal::new(format!("counts up to {MOST} elements of dw for each k, given {columns}")));
        }
        let flip = problem.mode() == ConvMode::Convolution;
        let [of_n, of_c, _, of_h, of_w] = five(problem.x());
        let view = WgradView {
            data_type: TmaType::F32,
            x: Positions::anyhow(problem.x()),
            dy,
            dw: Filter { k: shape.k, group_c: columns, taps: [1; 3], tap_stride: 0, k_stride },
            groups: shape.groups,
            group_c: columns,
            group_k: shape.group_k(),
            tap_offset: [1; 3],
            flip: false,
            x_access: access::LINEAR,
            window: Window {
                first: shape.axes.map(|axis| -axis.padding),
                last: [0; 3],
                step: shape.axes.map(|axis| axis.stride),
            },
            packed: Some((shape.group_c(), shape.group_c(), c_stride, if flip { -tap_stride } else { tap_stride })),
        };
        Ok(Windows {
            view,
            strides: [of_n, of_c, of_h, of_w],
            extents: [shape.image[1], shape.image[2]],
            dilation: [shape.axes[1].dilation, shape.axes[2].dilation],
            channels: shape.group_c(),
            taps_w: shape.filter[2],
            first_tap: if flip { (n_taps - 1) * tap_stride } else { 0 },
        })
    }

    /// Launch parameters for operands that lie at `[x, dy]`.
    pub(super) fn params(
        &self,
        context: &GpuContext,
        wgrad: ConvWgradParams,
        [x, dy]: [u64; 2],
    ) -> Result<ConvPartsWindowsParams, Error> {
        let width = self.view.width();
        let dy_map = self.view.dy.linear_map(context, self.view.data_type, dy, width, width)?;
        Ok(ConvPartsWindowsParams {
            wgrad: ConvWgradParams { dy_map, dw: wgrad.dw + (4 * self.first_tap) as u64, ..wgrad },
            x,
            strides: self.strides,
            extents: self.extents.map(|extent| extent as u32),
            dilation: self.dilation.map(|dilation| dilation as u32),
            channels: Divisor::new(self.channels as u32),
            taps_w: Divisor::new(self.taps_w as u32),
            positions: self.view.dy.count() as u32,
            unused: 0,
        })
    }
}
