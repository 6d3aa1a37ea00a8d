//! Convolution with groups of few channels on Hopper's tensor cores: as many groups as have multiples of 64 channels
//! together, or all of them, are merged into one, whose filter has zeros between the groups.
//!
//! The product instructions and the copy engine take 64 channels at a time. Merged groups multiply as many times more as
//! groups are merged, most of it zeros, and still take less than kernels that are not Hopper's where channels are many
//! and positions few. A small kernel writes the merged filter into the workspace; of `wgrad`, another one picks the
//! gradient out of that of the merged filter, to which the prior value was brought if there is one, so that the result is
//! rounded once. The product is that of another method, with an epilogue if the method has it.

use super::algorithms::{configs_of, owner};
use super::im2col_wgmma::{five, tma_type};
use super::nchw_transposed::channels_last;
use super::{ConvPass, ConvProblem, halo_wgmma, halo_wgmma_split, im2col_wgmma};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, Error, Problem, Stream, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::merged_groups::{ConvMergeParams, RUN};

macro_rules! rows {
    ($(($symbol:ident, $what:ident)),* $(,)?) => {
        [$((stringify!($symbol), stringify!($what))),*]
    };
}

/// Symbol, what it does.
const KERNELS: [(&str, &str); 2] = kernel_abi::conv_merge_kernels!(rows);

/// Methods that multiply.
const METHODS: [&dyn Algorithm<ConvProblem>; 5] = [
    &halo_wgmma::HaloWgmma,
    &halo_wgmma_split::HaloWgmmaSplit,
    &im2col_wgmma::Gather,
    &im2col_wgmma::Wgrad,
    &im2col_wgmma::Cluster,
];

/// Channels that kernels take at a time.
const PANEL: i64 = 64;
/// Groups beyond which zeros take longer than any other method.
const MAX_MERGED: i64 = 16;
/// Threads of a block.
const BLOCK: u32 = 256;
/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

/// Groups of few channels, several as one.
pub(super) struct MergedGroups;

impl Algorithm<ConvProblem> for MergedGroups {
    fn name(&self) -> &'static str {
        "merged_groups"
    }

    fn takes_epilogues(&self) -> bool {
        true
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        configs_of(&METHODS, &Merged::of(problem)?.problem, context)
    }

    fn spread(&self, problem: &ConvProblem, config: Config) -> Spread {
        let Ok(merged) = Merged::of(problem) else { return Spread::Group };
        let inner = owner(config).spread(&merged.problem, config);
        match problem.conv_pass() {
            // Groups that are merged have zeros between them.
            ConvPass::Fprop | ConvPass::Dgrad => Spread::Group.max(inner),
            ConvPass::Wgrad => inner,
        }
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let Ok(merged) = Merged::of(problem) else { return 0 };
        merged.behind_filter() + owner(config).workspace_bytes(&merged.problem, config)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// From the kernel's end to that of the next one, without its work.
        const LAUNCH_US: f64 = 2.0;
        /// Share of the memory's rate, by accesses of 2 bytes.
        const MEMORY_SHARE: f64 = 0.5;
        let Ok(merged) = Merged::of(problem) else { return f64::INFINITY };
        let bytes = problem.w().data_bytes() + merged.problem.w().data_bytes();
        let merging_us = LAUNCH_US + bytes as f64 / (MEMORY_SHARE * context.info().bytes_per_us);
        merging_us + owner(config).estimate_us(&merged.problem, config, context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let merged = Merged::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let step = |what: &str| -> Result<Step, Error> {
            let (symbol, _) = KERNELS.iter().find(|row| row.1 == what).expect("the kernel list has a row for each");
            Ok(Step { function: context.function(symbol)?, params: merged.params(what) })
        };
        let wgrad = problem.conv_pass() == ConvPass::Wgrad;
        Ok(Box::new(MergedLaunch {
            merge: step("merge")?,
            pick: if wgrad { Some(step("pick")?) } else { None },
            convolution: owner(config).prepare(&merged.problem, config, context)?,
            filter_bytes: merged.problem.w().span_bytes(),
            behind_filter: merged.behind_filter(),
        }))
    }
}

/// A problem whose groups are merged.
struct Merged {
    problem: ConvProblem,
    /// The filter as it is given.
    filter: TensorDesc,
    /// K of a group, and groups that are one now.
    group_k: i64,
    groups: i64,
}

impl Merged {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        let (c, k, all) = (shape.group_c(), shape.group_k(), shape.groups);
        let is_whole = |groups: i64| groups * c % PANEL == 0 && groups * k % PANEL == 0;
        if all == 1 || is_whole(1) {
            return Err(Refusal::new(format!(
                "merges groups that have no multiples of {PANEL} channels, given {all} groups of {c} and {k}"
            )));
        }
        let whole = (2..=all.min(MAX_MERGED)).find(|&groups| all % groups == 0 && is_whole(groups));
        let groups = whole.unwrap_or(all);
        if groups > MAX_MERGED {
            return Err(Refusal::new(format!(
                "merges up to {MAX_MERGED} groups, {all} of {c} and {k} channels would be {groups} each"
            )));
        }
        let filter = *problem.w();
        let mut dims = filter.dims().to_vec();
        dims[1] = groups * c;
        let packed = TensorDesc::packed(filter.dtype(), &dims).map_err(Refusal::from)?;
        let w = channels_last(&packed, true).map_err(Refusal::from)?;
        let n_runs = w.span_elems() / i64::from(RUN) + 1;
        if n_runs > i64::from(i32::MAX) {
            let most = i32::MAX;
            return Err(Refusal::new(format!("merges filters of up to {most} runs of 8 channels, given {n_runs}")));
        }
        let (desc, x, y) = (problem.desc().groups(all / groups), problem.x(), problem.y());
        let merged = ConvProblem::new(problem.conv_pass(), &desc, x, &w, y);
        let merged = match problem.epilogue() {
            Some(epilogue) => merged.and_then(|merged| merged.with_epilogue(epilogue.clone())),
            None => merged,
        };
        Ok(Merged { problem: merged.map_err(Refusal::from)?, filter, group_k: k, groups })
    }

    /// Where the workspace goes on behind the merged filter.
    fn behind_filter(&self) -> u64 {
        self.problem.w().span_bytes().next_multiple_of(ALIGN_BYTES)
    }

    /// Parameters but for addresses, of a kernel that does `what`.
    fn params(&self, what: &str) -> ConvMergeParams {
        let shape = self.problem.shape();
        let (group_c, merged_c) = (self.filter.dims()[1] as u32, self.problem.w().dims()[1] as u32);
        let runs = if what == "merge" { merged_c.div_ceil(RUN) } else { group_c.div_ceil(RUN) };
        let rows = shape.k * shape.filter.iter().product::<i64>();
        ConvMergeParams {
            filter: 0,
            merged: 0,
            strides: five(&self.filter),
            taps: shape.filter.map(|taps| Divisor::new(taps as u32)),
            runs: Divisor::new(runs),
            group_k: Divisor::new(self.group_k as u32),
            groups: Divisor::new(self.groups as u32),
            group_c,
            pitch: merged_c.next_multiple_of(RUN),
            n_runs: rows as u32 * runs,
            reserved: 0,
        }
    }
}

/// A kernel between the filter and the merged one, but for addresses.
struct Step {
    function: Function,
    params: ConvMergeParams,
}

impl Step {
    fn queue(&self, stream: &Stream, filter: u64, merged: u64) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let params = ConvMergeParams { filter, merged, ..self.params };
        let config = LaunchConfig { programmatic: true, ..linear_grid(params.n_runs.into(), BLOCK) };
        launch(&self.function, &config, stream, &params)
    }
}

/// Launches that are complete but for addresses and scalars.
struct MergedLaunch {
    /// Writes the merged filter.
    merge: Step,
    /// Of `wgrad`: reads the gradient.
    pick: Option<Step>,
    convolution: Box<dyn Launch>,
    filter_bytes: u64,
    behind_filter: u64,
}

impl Launch for MergedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let workspace = call.gpu_workspace("merged_groups")?;
        // The operand that is the filter: w, or dw behind x and dy.
        let at = if self.pick.is_some() { 2 } else { 1 };
        let filter = call.address(at);
        if self.pick.is_none() || call.beta != 0.0 {
            self.merge.queue(stream, filter, workspace.address())?;
        }
        let merged = workspace.part(0, self.filter_bytes);
        let rest = workspace.part(self.behind_filter, workspace.len_bytes());
        self.convolution.launch(stream, &mut call.inner(|i| (i == at).then_some(merged), rest))?;
        match &self.pick {
            Some(pick) => pick.queue(stream, filter, workspace.address()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceInfo;
    use crate::select::{Candidate, Verdict, candidates};

    fn merged(text: &str) -> Result<Merged, String> {
        Merged::of(&text.parse().unwrap()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn groups_become_the_fewest_channels_that_kernels_take() {
        let of = |text: &str| {
            let merged = merged(&format!("conv:fprop pad=1 {text}")).unwrap();
            (merged.groups, merged.problem.groups(), merged.problem.w().to_string())
        };
        let resnext = of("groups=32 x=2x1024x7x7:bf16:nhwc w=1024x32x3x3:bf16:nhwc");
        assert_eq!(resnext, (2, 16, "1024x64x3x3:bf16:nhwc".to_owned()));
        assert_eq!(of("groups=32 x=2x512x7x7:f16 w=512x16x3x3:f16").0, 4);
        assert_eq!(of("groups=6 x=2x288x7x7:bf16:nhwc w=768x48x3x3:bf16:nhwc").0, 6);
        assert_eq!(of("groups=8 x=2x384x7x7:bf16:nhwc w=768x48x3x3:bf16:nhwc").0, 4);
        // All of them, with channels filled up.
        let all = of("groups=3 x=2x15x7x7:bf16:nhwc w=12x5x3x3:bf16:nhwc");
        assert_eq!(all, (3, 1, "12x15x3x3:bf16:s144x1x48x16".to_owned()));
        let refusal = |text: &str| merged(&format!("conv:fprop pad=1 {text}")).err().unwrap();
        assert!(refusal("x=2x32x7x7:bf16:nhwc w=32x32x3x3:bf16:nhwc").contains("given 1 groups of 32 and 32"));
        assert!(refusal("groups=2 x=2x128x7x7:bf16 w=256x64x3x3:bf16").contains("given 2 groups of 64 and 128"));
        assert!(refusal("groups=64 x=2x128x7x7:bf16 w=128x2x3x3:bf16").contains("would be 64 each"));
        assert!(refusal("groups=4 x=2x64x7x7:f32:nhwc w=64x16x3x3:f32:nhwc").contains("the element type is f32"));
    }

    /// The merged filter, and the gradient picked out of one, as the kernels compute them.
    #[test]
    fn filters_are_merged_and_picked() {
        for text in [
            "conv:wgrad pad=1 groups=8 x=1x128x5x5:bf16:nhwc dw=256x16x3x2:bf16:nhwc",
            "conv:wgrad pad=1 groups=3 x=1x15x5x5:bf16:nhwc dw=12x5x3x3:bf16",
            "conv:wgrad groups=2 x=1x96x5x5x5:f16:nhwc dw=10x48x2x1x3:f16:nhwc",
        ] {
            let merged = merged(text).unwrap();
            let (w, wide) = (merged.filter, *merged.problem.w());
            let mut filter: Vec<i64> = vec![-1; w.span_elems() as usize];
            for linear in 0..w.n_elems() {
                filter[w.offset_of(linear) as usize] = 1 + linear;
            }
            let p = merged.params("merge");
            let mut written = vec![-2; wide.span_elems().max(i64::from(p.n_runs * RUN)) as usize];
            for index in 0..p.n_runs {
                let run = p.run(index);
                for i in 0..RUN {
                    let c = (run.channel + i).wrapping_sub(run.first);
                    let value =
                        if c < p.group_c { filter[(run.filter + i64::from(c) * p.strides[1]) as usize] } else { 0 };
                    written[run.merged as usize + (run.channel + i) as usize] = value;
                }
            }
            assert!(written.iter().all(|&value| value >= 0), "{text}");
            // Element (k, c) of the merged filter is that of k's group, or zero.
            let (taps, group_c) = (w.dims()[2..].iter().product::<i64>(), w.dims()[1]);
            for linear in 0..wide.n_elems() {
                let (rest, tap) = (linear / taps, linear % taps);
                let (k, c) = (rest / wide.dims()[1], rest % wide.dims()[1]);
                let member = k / merged.group_k % merged.groups;
                let of_group = c - member * group_c;
                let expected =
                    if (0..group_c).contains(&of_group) { 1 + (k * group_c + of_group) * taps + tap } else { 0 };
                assert_eq!(written[wide.offset_of(linear) as usize], expected, "{text}: {k} {c} {tap}");
            }
            let p = merged.params("pick");
            let mut picked = vec![-1; filter.len()];
            for index in 0..p.n_runs {
                let run = p.run(index);
                for c in run.channel..p.group_c.min(run.channel + RUN) {
                    let from = run.merged + i64::from(run.first + c);
                    picked[(run.filter + i64::from(c) * p.strides[1]) as usize] = written[from as usize];
                }
            }
            assert_eq!(picked, filter, "{text}");
        }
    }

    /// Few positions and wide groups are multiplied as merged ones, of all passes.
    #[test]
    fn estimates_choose_it_where_groups_are_wide() {
        let context = Context::described(DeviceInfo::h200());
        // `grouped_tma` has no kernels for groups of 24 channels.
        let shape = "pad=1x1 groups=32 x=128x768x7x7:bf16:nhwc w=768x24x3x3:bf16:nhwc";
        let fprop: ConvProblem = format!("conv:fprop {shape}").parse().unwrap();
        for pass in ConvPass::ALL {
            let (desc, x, w, y) = (fprop.desc(), fprop.x(), fprop.w(), fprop.y());
            let problem = ConvProblem::new(*pass, &desc, x, w, y).unwrap();
            let estimate = |candidate: &Candidate| match candidate.verdict {
                Verdict::Able { estimate_us, .. } => estimate_us,
                Verdict::Refused(_) => f64::INFINITY,
            };
            let mut all = candidates(&context, &problem, None);
            all.sort_by(|a, b| estimate(a).total_cmp(&estimate(b)));
            assert_eq!(all[0].algorithm, "merged_groups", "{}", all[0]);
        }
    }
}
