//! `wgrad` on Hopper's tensor cores that reads strips of rows with their halo once for all taps.
//!
//! Where [`im2col_wgmma`] copies x anew for every tap, and with few channels waits for the caches, here one copy of x
//! serves up to 3 × 3 taps, since the product instruction begins its positions wherever a tap has them. What it computes
//! for nothing are positions behind the end of a row, and of an image.
//!
//! Of up to 32 channels, tiles of 64 × 64 are half empty or more: there are narrow ones ([`Form::NARROW`]) as well. So
//! they are of 33 to 40 output channels, as DenseNet's layers have: [`Form::FEW_K`].
//!
//! [`im2col_wgmma`]: super::im2col_wgmma

mod cut;
#[cfg(test)]
mod tests;

use super::im2col_wgmma::{Filter, Positions, check_addresses, tma_type};
use super::{ConvMode, ConvPass, ConvProblem};
use crate::driver::{Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, DType, Error, Stream};
use cut::{Cut, Plane};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;
use kernel_abi::ops::conv::halo_wgmma_split::{
    CONSUMERS, ConvHaloWgradParams, Form, ROW_TAPS, SUM_QUADS, SUM_ROWS, THREADS,
};

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $form:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), Form::$form)),*]
    };
}

macro_rules! sum_rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}

pub(super) const KERNELS: &[(&str, DType, Form)] = kernel_abi::conv_halo_wgrad_kernels!(rows);

/// The kernels that add partial sums.
const SUMS: &[(&str, DType)] = kernel_abi::conv_halo_wgrad_sum_kernels!(sum_rows);

/// Size of an element.
const ELEMENT_BYTES: i64 = 2;
/// Tiles of dw that the kernels count.
const MAX_TILES: u64 = 1 << 16;

/// Rows of dy whose positions the kernels count.
const MAX_ROWS: i64 = 1 << 20;

/// `wgrad` with the halo in shared memory.
pub(super) struct HaloWgmmaSplit;

impl Algorithm<ConvProblem> for HaloWgmmaSplit {
    fn name(&self) -> &'static str {
        "halo_wgmma_split"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let (mut configs, mut reasons) = (Vec::new(), Vec::new());
        for form in Form::ALL {
            match View::of(problem, form) {
                Ok(_) => {
                    let rows = KERNELS.iter().filter(|row| row.1 == problem.x().dtype() && row.2 == form);
                    configs.extend(rows.map(|row| Config(row.0)));
                }
                Err(Refusal(reason)) if reasons.contains(&reason) => {}
                Err(Refusal(reason)) => reasons.push(reason),
            }
        }
        if configs.is_empty() { Err(Refusal(reasons.join("; "))) } else { Ok(configs) }
    }

    fn spread(&self, _: &ConvProblem, _: Config) -> Spread {
        // What lies beside, above and below a strip is multiplied with zeros of dy.
        Spread::Window
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        View::of(problem, form(config)).map_or(0, |view| view.partials_bytes())
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(view) = View::of(problem, form(config)) else { return f64::INFINITY };
        crate::select::cost::streaming_us(problem, context).max(view.cut.us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let view = View::of(problem, form(config)).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let params = view.params();
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(MAX_SHARED_BYTES as usize)?;
        let (sum, _) =
            SUMS.iter().find(|(_, of)| *of == problem.x().dtype()).expect("configs are of the types of the list");
        let blocks = (params.n_tiles * params.splits).min(context.info().n_units as u32);
        Ok(Box::new(SplitLaunch {
            function,
            config: LaunchConfig {
                grid: [blocks, 1, 1],
                block: [THREADS, 1, 1],
                shared_bytes: view.cut.stage.smem_bytes(),
                programmatic: true,
                ..LaunchConfig::default()
            },
            sum: context.function(sum)?,
            sum_config: LaunchConfig {
                grid: [params.n_tiles * params.tile_quads() / SUM_QUADS, 1, 1],
                block: [SUM_QUADS * SUM_ROWS, 1, 1],
                programmatic: true,
                ..LaunchConfig::default()
            },
            params,
            view,
        }))
    }
}

/// The form of a config's kernel.
fn form(config: Config) -> Form {
    KERNELS.iter().find(|row| row.0 == config.0).expect("configs come from the kernel list").2
}

/// A problem as the kernels of a form see it.
#[derive(Clone, Debug)]
struct View {
    data_type: TmaType,
    x: Positions,
    dy: Positions,
    /// dw's taps as x has them, and its distances.
    dw: Filter,
    groups: i64,
    group_c: i64,
    group_k: i64,
    padding: [i64; 3],
    /// Distance in x between neighbouring taps; 1 where there is one.
    tap_offset: [i64; 3],
    flip: bool,
    plane: Plane,
    cut: Cut,
}

impl View {
    fn of(problem: &ConvProblem, form: Form) -> Result<Self, Refusal> {
        if problem.conv_pass() != ConvPass::Wgrad {
            return Err(Refusal::new(format!("computes wgrad, the pass is {}", problem.conv_pass())));
        }
        let data_type = tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        let [t, r, s] = shape.filter;
        let (rows, columns) = (i64::from(CONSUMERS), i64::from(ROW_TAPS));
        if r > rows || s > columns || r * s < 2 {
            return Err(Refusal::new(format!("takes 2 to {rows} x {columns} taps along h and w, given {r} x {s}")));
        }
        let strides = shape.axes.map(|axis| axis.stride);
        if strides != [1; 3] {
            return Err(Refusal::new(format!("takes stride 1, given {strides:?}")));
        }
        let (c, k) = (shape.group_c(), shape.group_k());
        let [tile_k, tile_c] = [form.tile_k, form.tile_c].map(i64::from);
        if form == Form::NARROW && c.min(k) > tile_c {
            return Err(Refusal::new(format!("has narrow tiles for up to {tile_c} channels, given {k} and {c}")));
        }
        let narrow = i64::from(Form::NARROW.tile_k);
        if form == Form::FEW_K && !(narrow + 1..=tile_k).contains(&k) {
            let reason = format!("has tiles of {tile_k} x {tile_c} for {} to {tile_k} k, given {k}", narrow + 1);
            return Err(Refusal::new(reason));
        }
        if shape.groups > 1 && (c % tile_c != 0 || k % tile_k != 0) {
            return Err(Refusal::new(format!(
                "takes groups of multiples of {tile_k} and {tile_c} channels, given {k} and {c}"
            )));
        }
        // Two neighbouring channels of dw are written together.
        if c % 2 != 0 {
            return Err(Refusal::new(format!("writes channels by 2, a group of dw has {c}")));
        }
        let x = Positions::of("x", problem.x(), false)?;
        let dy = Positions::of("dy", problem.y(), false)?;
        let dw = Filter::of("dw", problem.w())?;
        let tap_offset = std::array::from_fn(|i| if shape.filter[i] > 1 { shape.axes[i].dilation } else { 1 });
        let padding = shape.axes.map(|axis| axis.padding);
        // Coordinates: the last strip's last tap, and the first one's first.
        for i in 0..3 {
            let reach = shape.output[i].saturating_add(shape.filter[i].saturating_mul(tap_offset[i]));
            let most = 1 << 28;
            if reach.max(padding[i]) >= most {
                return Err(Refusal::new(format!("takes windows within {most} positions, given {reach}")));
            }
        }
        if shape.output[1] > MAX_ROWS {
            return Err(Refusal::new(format!("takes up to {MAX_ROWS} rows of an image, given {}", shape.output[1])));
        }
        let blocks = |channels: i64, tile: i64| (channels as u64).div_ceil(tile as u64);
        let of_group = blocks(c, tile_c).saturating_mul(blocks(k, tile_k));
        let tiles = of_group.saturating_mul((shape.groups as u64).saturating_mul(t as u64));
        if tiles > MAX_TILES {
            let reason =
                format!("takes filters of up to {MAX_TILES} tiles of {tile_k} x {tile_c} channels, given {tiles}");
            return Err(Refusal::new(reason));
        }
        let plane = Plane {
            form,
            planes: shape.n.saturating_mul(shape.output[0]),
            output: [shape.output[1], shape.output[2]],
            image: [shape.image[1], shape.image[2]],
            padding: [padding[1], padding[2]],
            taps: [r, s],
            dilation: [tap_offset[1], tap_offset[2]],
            tiles,
            planes_are_linear: dy.images == 1 || dy.extents[0] == 1 || dy.image_stride == dy.strides[0] * dy.extents[0],
        };
        let cut = plane.cut().ok_or_else(|| {
            Refusal::new(format!(
                "needs strips whose halo fits twice in shared memory, given rows of {} positions and {r} x {s} taps, \
                 {} and {} apart",
                plane.output[1], plane.dilation[0], plane.dilation[1]
            ))
        })?;
        Ok(View {
            data_type,
            x,
            dy,
            dw,
            groups: shape.groups,
            group_c: c,
            group_k: k,
            padding,
            tap_offset,
            flip: problem.mode() == ConvMode::Convolution,
            plane,
            cut,
        })
    }

    fn partials_bytes(&self) -> u64 {
        self.plane.tiles * self.cut.splits * self.plane.tile_bytes()
    }

    fn params(&self) -> ConvHaloWgradParams {
        let blocks = |channels: i64, tile: u32| (channels as u32).div_ceil(tile);
        let form = self.plane.form;
        let divisor = |value: i64| Divisor::new(value as u32);
        ConvHaloWgradParams {
            dy_map: [0; 16],
            dy_last_map: [0; 16],
            x_map: [0; 16],
            form,
            stage: self.cut.stage,
            part_w: self.cut.part_w as u32,
            row_parts: divisor(self.cut.parts),
            row_blocks: divisor(self.cut.row_blocks),
            planes: divisor(self.dy.extents[0]),
            n_strips: self.cut.n_strips as u32,
            n_tiles: self.plane.tiles as u32,
            splits: self.cut.splits as u32,
            base: self.padding.map(|padding| -padding as i32),
            tap_offset: self.tap_offset.map(|offset| offset as u32),
            taps: self.dw.taps.map(|taps| taps as u32),
            group_k: self.group_k as u32,
            group_c: self.group_c as u32,
            groups: self.groups as u32,
            k_blocks: blocks(self.group_k, form.tile_k),
            c_blocks: blocks(self.group_c, form.tile_c),
            flip: u32::from(self.flip),
            alpha: 1.0,
            beta: 0.0,
            partials: 0,
            dw: 0,
            k_stride: self.dw.k_stride,
            tap_stride: self.dw.tap_stride,
        }
    }

    /// A map of boxes of rows with their halo, of x or of dy: outside lie zeros.
    fn map(&self, context: &GpuContext, of: &Positions, address: u64, rows: u32) -> Result<[u64; 16], Error> {
        let Positions { channels, extents: [d, h, w], strides: [sd, sh, sw], images, image_stride, .. } = *of;
        self.tiled(context, address, [channels, w, h, d, images], [sw, sh, sd, image_stride], [rows, 1])
    }

    /// A map of dy for all parts of a row but the last: columns of the next one lie outside.
    fn parts_map(&self, context: &GpuContext, address: u64) -> Result<[u64; 16], Error> {
        let Positions { channels, extents: [d, h, _], strides: [sd, sh, sw], images, image_stride, .. } = self.dy;
        let Cut { parts, part_w, stage, .. } = self.cut;
        let between = if d == 1 { image_stride } else { sd };
        let dims = [channels, part_w, (parts - 1).max(1), h, d * images];
        self.tiled(context, address, dims, [sw, sw * part_w, sh, between], [1, stage.rows[0]])
    }

    /// A map of boxes of as many channels as a tile has of x, positions of a row, and `third` and `fourth` as many of the dimensions behind.
    fn tiled(
        &self,
        context: &GpuContext,
        address: u64,
        dims: [i64; 5],
        strides: [i64; 4],
        [third, fourth]: [u32; 2],
    ) -> Result<[u64; 16], Error> {
        let form = self.plane.form;
        let tiled = Tiled {
            data_type: self.data_type,
            address,
            dims: &dims.map(|dim| dim as u64),
            strides_bytes: &strides.map(|stride| (stride * ELEMENT_BYTES) as u64),
            box_dims: &[form.tile_c, self.cut.stage.pitch.divisor, third, fourth, 1],
            element_strides: &[],
            swizzle: if form.position_bytes() == 128 { Swizzle::B128 } else { Swizzle::B64 },
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
struct SplitLaunch {
    function: Function,
    config: LaunchConfig,
    sum: Function,
    sum_config: LaunchConfig,
    params: ConvHaloWgradParams,
    view: View,
}

impl Launch for SplitLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        check_addresses(["x", "dy", "dw"], call)?;
        let stream = stream.gpu_stream_for(self.function.name())?;
        let context = stream.context();
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        let (view, [dy_rows, x_rows]) = (&self.view, self.params.stage.rows);
        let mut params = self.params;
        params.x_map = view.map(context, &view.x, x, x_rows)?;
        params.dy_last_map = view.map(context, &view.dy, dy, dy_rows)?;
        // Prefetched also where rows are whole.
        params.dy_map = if view.cut.parts > 1 { view.parts_map(context, dy)? } else { params.dy_last_map };
        params.dw = dw;
        params.partials = call.workspace_address();
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        for (function, config) in [(&self.function, &self.config), (&self.sum, &self.sum_config)] {
            launch(function, config, stream, &params)?;
        }
        Ok(())
    }
}
