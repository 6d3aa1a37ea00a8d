//! Batch norm of planar tensors in one kernel that reads and writes every element once: teams of blocks that stay keep the
//! planes of a channel on the chip from its sums to its results.

use super::channelwise::resident::{Room, SHARED_BYTES};
use super::channelwise::{Channelwise, Layout, Shape, params, place_addresses};
use super::{NormMode, NormPass, NormProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, div_ceil, launch_on, tag};
use crate::plan::{Call, Launch};
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::division::Divisor;
use kernel_abi::ops::norm::channelwise::ChannelwiseParams;
use kernel_abi::ops::norm::resident_planes::{
    FIXED_BYTES, MAX_GROUP, MAX_STAGES, MIN_STAGES, ResidentPlanesParams, STAGE_ALIGN, THREADS,
};

/// A kernel.
#[derive(Clone, Copy)]
struct Row {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    vector_bytes: i64,
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $bytes:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            vector_bytes: $bytes,
        }),*]
    };
}

const KERNELS: &[Row] = kernel_abi::norm_resident_planes_kernels!(rows);

/// What the copy engine moves is a multiple of so many bytes at a multiple of them.
const COPY_BYTES: i64 = 16;
/// Units are up to so many bytes where planes can be cut evenly, and pieces at least the second number; a plane that cannot
/// be cut may have the third.
const UNIT_BYTES: i64 = 8 << 10;
const MIN_UNIT_BYTES: i64 = 1 << 10;
const MAX_UNIT_BYTES: i64 = 32 << 10;
/// More do not fit the shared memory of all multiprocessors.
const MAX_PLANE_BYTES: i64 = 64 << 20;
/// Room for the stages of a block.
const STAGES_BYTES: u32 = SHARED_BYTES - FIXED_BYTES - STAGE_ALIGN;

/// One read of all tensors.
pub(super) struct ResidentPlanes;

impl Algorithm<NormProblem> for ResidentPlanes {
    fn name(&self) -> &'static str {
        "resident_planes"
    }

    fn configs(&self, problem: &NormProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        if !matches!(problem.norm_pass(), NormPass::Forward | NormPass::Backward) {
            return Err(Refusal::new(format!("takes forward and backward, given {}", problem.pass())));
        }
        if problem.mode() != NormMode::Batch {
            return Err(Refusal::new(format!("takes batch, given {}", problem.mode().name())));
        }
        if problem.norm_pass() == NormPass::Backward && problem.operand("inv_std").is_none() {
            return Err(Refusal::new("takes mean and inv_std for backward, given none"));
        }
        // Activations and parameters are the same.
        Channelwise.configs(problem, context)?;
        Ok(vec![Config(Cut::of(problem, context)?.symbol)])
    }

    fn workspace_bytes(&self, problem: &NormProblem, config: Config) -> u64 {
        Channelwise.workspace_bytes(problem, config)
    }

    fn workspace_bytes_on(&self, problem: &NormProblem, config: Config, context: &Context) -> u64 {
        let own = Cut::of(problem, context).map_or(0, |cut| cut.room(problem).total);
        // Addresses that are no multiples of 16 take the kernels of `channelwise`.
        own.max(Channelwise.workspace_bytes_on(problem, config, context))
    }

    fn estimate_us(&self, problem: &NormProblem, _: Config, context: &Context) -> f64 {
        Cut::of(problem, context).map_or(f64::INFINITY, |cut| LAUNCH_US + cut.us)
    }

    fn prepare(&self, problem: &NormProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let cut = Cut::of(problem, context).map_err(refused)?;
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared((STAGES_BYTES + STAGE_ALIGN) as usize)?;
        let fallback_config = Channelwise.configs(problem, context).map_err(refused)?[0];
        Ok(Box::new(ResidentLaunch {
            function,
            config: LaunchConfig {
                grid: [cut.params.blocks, cut.params.teams, 1],
                block: [THREADS, 1, 1],
                shared_bytes: cut.params.n_stages * cut.stage_bytes() + STAGE_ALIGN,
                cooperative: true,
                ..LaunchConfig::default()
            },
            params: ResidentPlanesParams { tag: tag(), ..cut.params },
            room: cut.room(problem),
            fallback: Channelwise.prepare(problem, fallback_config, context)?,
        }))
    }
}

/// Groups, teams, units and stages.
struct Cut {
    symbol: &'static str,
    /// Complete but for addresses.
    params: ResidentPlanesParams,
    /// Time from the first byte to the last.
    us: f64,
}

impl Cut {
    fn of(problem: &NormProblem, context: &Context) -> Result<Self, Refusal> {
        let shape = Shape::apart(problem)?;
        let units = Units::of(problem, &shape)?;
        let row = KERNELS.iter().find(|row| {
            let fits = row.vector_bytes == units.vector_bytes;
            fits && row.pass == problem.pass() && row.dtype == problem.x().dtype()
        });
        let row = row.ok_or_else(|| {
            let (pass, dtype) = (problem.pass(), problem.x().dtype());
            Refusal::new(format!("has no kernel for pass {pass} with {dtype}"))
        })?;
        let n_units = shape.images * units.pieces;
        if n_units > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("takes up to {} runs of a channel, given {n_units}", i32::MAX)));
        }
        let is_there = |name: &str| u32::from(problem.operand(name).is_some());
        let (brought, sent) = match problem.norm_pass() {
            NormPass::Backward => (2 + is_there("y"), 1 + is_there("dz")),
            _ => (1 + is_there("z"), 1),
        };
        let n_groups = shape.channels / units.group;
        let channels = ChannelwiseParams { strides: shape.strides, ..params(problem, &Layout::of(problem, context)?) };
        let mut best: Option<Cut> = None;
        for blocks in 1..=(context.info().n_units as i64).min(n_units) {
            let teams = (context.info().n_units as i64 / blocks).min(n_groups);
            let most = div_ceil(n_units, blocks);
            let pitch = div_ceil(most * units.bytes, STAGE_ALIGN.into()) * i64::from(STAGE_ALIGN);
            let stage_bytes = pitch * i64::from(brought);
            if stage_bytes > i64::from(STAGES_BYTES / MIN_STAGES) {
                continue;
            }
            let params = ResidentPlanesParams {
                channels,
                flags: 0,
                tag: 0,
                counters: 0,
                group: units.group as u32,
                n_groups: n_groups as u32,
                teams: teams as u32,
                blocks: blocks as u32,
                pieces: Divisor::new(units.pieces as u32),
                unit_bytes: units.bytes as u32,
                unit_vectors: (units.bytes / units.group / units.vector_bytes) as u32,
                unit_elems: (units.bytes / units.group / problem.x().dtype().size_bytes() as i64) as u32,
                even: (n_units / blocks) as u32,
                more: (n_units % blocks) as u32,
                tensors: brought,
                pitch: pitch as u32,
                n_stages: (STAGES_BYTES / stage_bytes as u32).min(MAX_STAGES),
            };
            let cut = Cut { symbol: row.symbol, us: time_us(&params, most * units.bytes, sent, context), params };
            if best.as_ref().is_none_or(|best| cut.us < best.us) {
                best = Some(cut);
            }
        }
        best.ok_or_else(|| {
            let most = i64::from(STAGES_BYTES / MIN_STAGES) * context.info().n_units as i64;
            let given = n_units * units.bytes * i64::from(brought);
            Refusal::new(format!("takes up to some {most} bytes of a channel at a time, given {given}"))
        })
    }

    fn stage_bytes(&self) -> u32 {
        self.params.tensors * self.params.pitch
    }

    fn room(&self, problem: &NormProblem) -> Room {
        let p = &self.params;
        let slots = u64::from(p.teams) * u64::from(p.slots() * p.blocks);
        Room::new(problem, slots * u64::from(p.group), slots, p.teams.into())
    }
}

/// The time of so many rounds of stages, in which `bytes` of each tensor are the most of a block.
fn time_us(p: &ResidentPlanesParams, bytes: i64, sent: u32, context: &Context) -> f64 {
    /// Share of the memory's rate, and what of it one multiprocessor can take, as a multiple of an even share.
    const MEMORY_SHARE: f64 = 0.95;
    const ALONE: f64 = 2.0;
    /// What a stage takes beside its bytes in the slowest role.
    const STAGE_US: f64 = 1.2;
    /// From a stage's last byte to its first result. With 12, which chooses twice as many blocks of half as large stages,
    /// forward took 4 to 7 % longer, and backward 16 to 18 % (H100).
    const JOIN_US: f64 = 3.0;
    let info = context.info();
    let blocks = f64::from(p.blocks * p.teams);
    let share = info.bytes_per_us * MEMORY_SHARE / blocks.max(info.n_units as f64 / ALONE);
    let [brought, sent] = [p.tensors, sent].map(|n| f64::from(n) * bytes as f64 / share);
    let rounds = f64::from(p.n_groups.div_ceil(p.teams));
    // A stage is brought and sent, each beside what others are, and its sums joined, before it is filled again.
    let turn = (2.0 * (brought + sent) + JOIN_US) / f64::from(p.n_stages);
    brought + sent + JOIN_US + (rounds - 1.0) * (brought + sent).max(STAGE_US).max(turn)
}

/// How the planes of an image are cut.
struct Units {
    /// Channels that are brought together.
    group: i64,
    /// Units of their planes of an image, and bytes of each.
    pieces: i64,
    bytes: i64,
    vector_bytes: i64,
}

impl Units {
    fn of(problem: &NormProblem, shape: &Shape) -> Result<Self, Refusal> {
        let element_bytes = problem.x().dtype().size_bytes() as i64;
        if shape.positions == 1 || shape.strides.iter().any(|strides| strides[1] != 1) {
            let reason = format!("takes planes without gaps, given {} and {}", problem.x(), problem.out());
            return Err(Refusal::new(reason));
        }
        let plane_bytes =
            shape.positions.checked_mul(element_bytes).ok_or_else(|| Refusal::new("counts in 64 bits"))?;
        let group = (COPY_BYTES >> plane_bytes.trailing_zeros().min(4)).min(MAX_GROUP.into());
        let follow = |strides: &[i64; 3]| group == 1 || strides[2] == shape.positions;
        if shape.channels % group != 0 || !shape.strides.iter().all(follow) {
            return Err(Refusal::new(format!(
                "takes planes of {plane_bytes} bytes by {group}, one behind the other, given {} channels of {}",
                shape.channels,
                problem.x()
            )));
        }
        let apart = |strides: &[i64; 3], axis: usize, extent: i64| {
            extent == 1 || strides[axis].wrapping_mul(element_bytes) % COPY_BYTES == 0
        };
        let is_apart = |s: &[i64; 3]| apart(s, 0, shape.images) && (group > 1 || apart(s, 2, shape.channels));
        if !shape.strides.iter().all(is_apart) {
            return Err(Refusal::new(format!(
                "takes images and channels at multiples of {COPY_BYTES} bytes, given {} and {}",
                problem.x(),
                problem.out()
            )));
        }
        // All of small planes, else pieces: equal ones, so that those of a block lie side by side.
        let (all, copies) = (group * plane_bytes, plane_bytes / COPY_BYTES);
        let most = MAX_PLANE_BYTES.min(all) / MIN_UNIT_BYTES;
        let pieces = (div_ceil(all, UNIT_BYTES)..=most).find(|pieces| group == 1 && copies % pieces == 0);
        let pieces = pieces.unwrap_or(1);
        if all / pieces > MAX_UNIT_BYTES {
            return Err(Refusal::new(format!(
                "takes planes of up to {MAX_PLANE_BYTES} bytes that are cut into equal runs of {MIN_UNIT_BYTES} to \
                 {MAX_UNIT_BYTES}, given {all}"
            )));
        }
        let vector_bytes = [16, 8].into_iter().find(|bytes| plane_bytes % bytes == 0).unwrap_or(element_bytes);
        Ok(Units { group, pieces, bytes: all / pieces, vector_bytes })
    }
}

/// A launch whose parameters are complete but for addresses and scalars.
struct ResidentLaunch {
    function: Function,
    config: LaunchConfig,
    params: ResidentPlanesParams,
    room: Room,
    /// For addresses that are no multiples of 16, and results that are scaled or added.
    fallback: Box<dyn Launch>,
}

impl Launch for ResidentLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let mut params = self.params;
        let p = &mut params.channels;
        let all = place_addresses(p, call);
        if !all.is_multiple_of(COPY_BYTES as u64) || call.alpha != 1.0 || call.beta != 0.0 {
            return self.fallback.launch(stream, call);
        }
        (params.flags, params.counters) = self.room.put(p, call);
        launch_on(stream, &self.function, &self.config, &params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceInfo;

    /// Every group has a team, every unit a block, and every byte of a plane a unit.
    #[test]
    fn all_of_a_tensor_is_shared_out() {
        for x in [
            "1x3x5x16:bf16",
            "256x64x112x112:bf16",
            "256x2048x7x7:bf16",
            "7x6x2x6:f16",
            "33x8x3x3:f32",
            "5x1x4000x9:f16",
        ] {
            let problem: NormProblem = format!("norm:forward mode=batch x={x}").parse().unwrap();
            let context = Context::described(DeviceInfo::h200());
            let cut = Cut::of(&problem, &context).unwrap_or_else(|refusal| panic!("{x}: {}", refusal.0));
            let (p, shape) = (&cut.params, Shape::apart(&problem).unwrap());
            assert!(i64::from(p.blocks * p.teams) <= context.info().n_units as i64, "{x}");
            assert!(p.n_stages >= MIN_STAGES && p.n_stages * cut.stage_bytes() <= STAGES_BYTES, "{x}");
            assert_eq!((0..p.teams).map(|team| p.groups_of(team)).sum::<u32>(), p.n_groups, "{x}");
            assert_eq!(i64::from(p.n_groups * p.group), shape.channels, "{x}");
            let mut next = 0;
            for block in 0..p.blocks {
                assert_eq!(p.first_unit_of(block), next, "{x}");
                assert!(p.units_of(block) > 0 && p.units_of(block) * p.unit_bytes <= p.pitch, "{x}");
                next += p.units_of(block);
            }
            assert_eq!(i64::from(next), shape.images * i64::from(p.pieces.divisor), "{x}");
            let plane = p.pieces.divisor * p.unit_elems;
            assert_eq!(i64::from(plane), shape.positions, "{x}");
            assert_eq!(p.unit_elems * p.group * problem.x().dtype().size_bytes() as u32, p.unit_bytes, "{x}");
        }
    }
}
