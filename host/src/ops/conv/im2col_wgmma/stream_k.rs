//! `fprop` and `dgrad` whose workers share the stages of tiles, and add what others have of a tile (stream-K: Osama et al.,
//! "Stream-K", PPoPP 2023): for sums that are long where tiles are few, or leave the last round short.
//!
//! Workers that are at the same stage of their tiles read the same part of the filter, whose requests become one on the way
//! to the second-level cache. So `+equal` gives every tile as many parts, and `+last` shares the tiles of the last round
//! alone: with more than a round of tiles, stages shared evenly among all workers took up to half as long again on an H200.
//!
//! Of a tile with equal parts the worker with the first adds the others, or each adds up and writes some panels: see
//! `all_add`.

use super::cuts::MULTIPROCESSORS;
use super::epilogue::Fused;
use super::gather::{GatherLaunch, Product, View};
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, FIXUP_FLAGS};

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    /// Its name where all parts of a tile have the same number of stages, or one more.
    equal: &'static str,
    /// Its name where only the tiles of the last round are shared.
    last: &'static str,
    pass: &'static str,
    dtype: DType,
    tile: ConvTile,
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $tile:ident, $cluster:tt)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            equal: concat!(stringify!($symbol), "+equal"),
            last: concat!(stringify!($symbol), "+last"),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            tile: kernel_abi::ops::conv::im2col_wgmma::$tile,
        }),*]
    };
}

impl Row {
    /// Its names. Of tiles with a narrow panel all workers add, which they do of equal parts.
    fn names(&self) -> Vec<&'static str> {
        let all = self.tile.narrow_columns().is_none();
        if all { vec![self.symbol, self.equal, self.last] } else { vec![self.equal] }
    }
}

const KERNELS: &[Row] = kernel_abi::conv_stream_k_kernels!(rows);

/// Stages of a worker, at least.
const STAGES: u64 = 4;

/// Rounds of tiles, at most, that are all shared, and of which the last one is: of more, it is no great part.
const MOST_ROUNDS: u64 = 4;
const MOST_ROUNDS_OF_LAST: u64 = 8;

/// Whether all workers of a tile of so many stages add up some of it, where it has so many parts.
///
/// Each then reads less, but all must be at work at once, and such kernels do not start before what was before has ended.
/// By 240 problems that were timed in both ways on H200s (`oxidnn compare` with `--quick --verbose`, of unet3d, deepbench_conv
/// and the suites of images, at 0b6f5e2 and 8bb68df, and at 296ab29), in parts of the other's time: blocks of 256 columns took
/// 0.74 to 1.02 from four parts on, 0.97 to 1.31 with fewer; in pairs 0.79 to 0.99 from eight on, 0.88 to 1.34 with fewer;
/// those of 128 columns 0.85 to 0.98 with 20 stages a part, 0.94 to 1.23 with fewer, and in pairs 1.01 to 1.27. That was
/// before more than four parts were on their way at once. Tiles of 160 columns are only shared so.
fn all_add(tile: ConvTile, parts: u64, stages: u64) -> bool {
    match (tile.gemm_n, tile.cluster) {
        (160, _) => parts >= 4,
        (256, 1) => parts >= 4,
        (256, _) => parts >= 8,
        (_, 1) => stages >= 20 * parts,
        _ => false,
    }
}

/// Who has which tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    /// Blocks, or clusters of them.
    pub(super) workers: u64,
    /// Tiles that are not shared: as many of each worker.
    pub(super) whole_tiles: u64,
    /// How many workers share the others.
    pub(super) sharers: u64,
    /// Parts of every tile, all of whose workers add up some of it; 0 where stages are shared otherwise.
    pub(super) parts: u64,
}

impl Sharing {
    /// Places for parts that sharers leave, one of each block, and flags of each: all, or all but the first.
    fn slots(&self, tile: ConvTile) -> (u64, u32) {
        let (of_clusters, flags) =
            if self.parts > 0 { (self.sharers, tile.all_runs()) } else { (self.sharers - 1, FIXUP_FLAGS) };
        (of_clusters * u64::from(tile.cluster), flags)
    }

    /// Whether the device has room for all blocks that wait for one another.
    fn has_room(&self, tile: ConvTile, context: &Context) -> Result<(), Refusal> {
        let (blocks, units) = (self.workers * u64::from(tile.cluster), context.info().n_units);
        match self.parts > 0 && blocks > units as u64 {
            true => Err(Refusal::new(format!("{blocks} blocks wait for one another, given {units} multiprocessors"))),
            false => Ok(()),
        }
    }

    /// Bytes of the parts.
    pub(super) fn partials_bytes(&self, tile: ConvTile) -> u64 {
        self.slots(tile).0 * u64::from(tile.partials()) * 4
    }

    /// Bytes of the parts and of the flags behind them.
    fn workspace_bytes(&self, tile: ConvTile) -> u64 {
        let (slots, flags) = self.slots(tile);
        self.partials_bytes(tile) + slots * u64::from(flags) * 8
    }
}

/// `fprop` and `dgrad` of channels-last tensors of 16-bit types, stages shared evenly.
pub(in crate::ops::conv) struct StreamK;

impl Algorithm<ConvProblem> for StreamK {
    fn name(&self) -> &'static str {
        "im2col_wgmma_stream_k"
    }

    fn takes_epilogues(&self) -> bool {
        true
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.conv_pass() == ConvPass::Wgrad {
            return Err(Refusal::new("computes fprop and dgrad, the pass is wgrad"));
        }
        check_hopper(context)?;
        Fused::of(problem)?;
        let view = View::of(problem)?;
        let dtype = problem.x().dtype();
        let fits = |row: &&Row| row.pass == problem.pass() && row.dtype == dtype && view.fits(row.tile);
        let (mut configs, mut reason) = (Vec::new(), None);
        for row in KERNELS.iter().filter(fits) {
            for name in row.names() {
                match view.sharing(row, name).and_then(|sharing| sharing.has_room(row.tile, context)) {
                    Ok(()) => configs.push(Config(name)),
                    Err(refusal) => reason = Some(refusal),
                }
            }
        }
        match reason {
            _ if !configs.is_empty() => Ok(configs),
            Some(refusal) => Err(refusal),
            None => {
                let (k, c) = (view.group_written, view.group_read);
                Err(Refusal::new(format!("takes groups of multiples of 64 channels, more than 64, given {k} and {c}")))
            }
        }
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let row = row(config);
        let sharing = View::of(problem).and_then(|view| view.sharing(row, config.0));
        sharing.map_or(0, |sharing| sharing.workspace_bytes(row.tile))
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, _: &Context) -> f64 {
        let Ok(view) = View::of(problem) else { return f64::INFINITY };
        let row = row(config);
        let Ok(sharing) = view.sharing(row, config.0) else { return f64::INFINITY };
        view.stream_k_us(row.tile, sharing, problem.bytes())
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let view = View::of(problem).map_err(refused)?;
        let row = row(config);
        let sharing = view.sharing(row, config.0).map_err(refused)?;
        let function = context.function(row.symbol)?;
        function.allow_dynamic_shared(row.tile.smem_bytes() as usize)?;
        let mut product = Product::stream_k(view, function, row.tile, sharing, context);
        product.epilogue = Fused::of(problem).map_err(refused)?;
        Ok(Box::new(GatherLaunch { product, pass: problem.conv_pass() }))
    }
}

fn row(config: Config) -> &'static Row {
    KERNELS.iter().find(|row| row.names().contains(&config.0)).expect("configs come from the kernel list")
}

impl View {
    /// Who has which tiles in a config.
    fn sharing(&self, row: &Row, name: &str) -> Result<Sharing, Refusal> {
        let [class] = &self.classes[..] else {
            let n = self.classes.len();
            return Err(Refusal::new(format!("shares the stages of one class of positions, given {n}")));
        };
        let (tiles, stages) = self.tiles_of(class, row.tile);
        let most = MULTIPROCESSORS / u64::from(row.tile.cluster);
        let rounds = if name == row.last { MOST_ROUNDS_OF_LAST } else { MOST_ROUNDS };
        let (given, least, most_tiles) = (tiles * stages, STAGES * most, rounds * most);
        if tiles > most_tiles || given > u64::from(u32::MAX) {
            return Err(Refusal::new(format!("shares the stages of up to {most_tiles} tiles, given {tiles}")));
        }
        if name == row.symbol {
            return match given < least {
                true => Err(Refusal::new(format!("shares at least {least} stages, given {given}"))),
                false => Ok(Sharing { workers: most, whole_tiles: 0, sharers: most, parts: 0 }),
            };
        }
        if name == row.last {
            let (whole_tiles, rest) = (tiles - tiles % most, tiles % most);
            if whole_tiles == 0 || rest == 0 || rest * stages < least {
                return Err(Refusal::new(format!(
                    "shares at least {least} stages behind full rounds of {most} tiles, given {tiles} tiles of {stages}"
                )));
            }
            // Parts of the same length, unless too many workers would have none.
            let parts = (most / rest).min(stages / STAGES);
            let sharers = if 4 * parts * rest >= 3 * most { parts * rest } else { most };
            return Ok(Sharing { workers: most, whole_tiles, sharers, parts: 0 });
        }
        let parts = (most / tiles).min(stages / STAGES);
        let all_add = all_add(row.tile, parts, stages);
        if !all_add && row.tile.narrow_columns().is_some() {
            return Err(Refusal::new(format!("shares tiles in four parts or more, given {tiles} tiles of {stages}")));
        }
        if parts < 2 || !all_add && parts * tiles == most && given >= least {
            return Err(Refusal::new(format!(
                "shares {STAGES} stages each of {most}, given {tiles} tiles of {stages}"
            )));
        }
        let workers = parts * tiles;
        Ok(Sharing { workers, whole_tiles: 0, sharers: workers, parts: if all_add { parts } else { 0 } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceInfo;
    use kernel_abi::division::Divisor;
    use kernel_abi::ops::conv::im2col_wgmma::{ConvGatherParams, ConvStreamKParams, Evenly};
    use std::collections::HashMap;

    fn configs(text: &str) -> Result<Vec<&'static str>, String> {
        let context = Context::described(DeviceInfo::h200());
        let configs = StreamK.configs(&text.parse().unwrap(), &context);
        configs.map(|configs| configs.iter().map(|config| config.0).collect()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn few_tiles_are_shared() {
        let dgrad = "conv:dgrad dy=1x512x8x9x9:bf16:nhwc w=512x256x3x3x3:bf16:nhwc dx=1x256x10x11x11:bf16:nhwc";
        let names = configs(dgrad).unwrap();
        assert!(names.contains(&"convstreamk_dgrad_wgmma_bf16_128x128_sm90"), "{names:?}");
        assert!(names.contains(&"convstreamk_dgrad_wgmma_bf16_128x128_sm90+equal"), "{names:?}");
        // 20 tiles in 6 parts each, all of which are left where all add, or 10 of two blocks in 6, of which first parts are
        // not, nor is that of stages shared by all.
        let problem: ConvProblem = dgrad.parse().unwrap();
        let bytes = |name| StreamK.workspace_bytes(&problem, Config(name));
        assert_eq!(bytes("convstreamk_dgrad_wgmma_bf16_128x128_sm90"), 131 * (128 * 128 * 4 + 64));
        assert_eq!(bytes("convstreamk_dgrad_wgmma_bf16_128x128_sm90+equal"), 120 * (128 * 128 * 4 + 256));
        assert_eq!(bytes("convstreamk_dgrad_wgmma_bf16_128x128_c2_sm90+equal"), 118 * (128 * 128 * 4 + 64));
    }

    #[test]
    fn all_add_where_it_pays() {
        for (text, all) in [
            ("conv:fprop pad=1x1 x=11x512x7x7:f16:nhwc w=1104x512x3x3:f16:nhwc", &["128x128_sm90", "128x256_sm90"][..]),
            ("conv:fprop pad=1x1 x=2x320x9x9:f16:nhwc w=200x320x3x3:f16:nhwc", &["128x256_sm90"]),
        ] {
            let view = View::of(&text.parse().unwrap()).map_err(|Refusal(reason)| reason).unwrap();
            for tile in ["128x128_sm90", "128x128_c2_sm90", "128x256_sm90"] {
                let name = format!("convstreamk_fprop_wgmma_f16_{tile}+equal");
                let row = KERNELS.iter().find(|row| row.equal == name).unwrap();
                let parts = view.sharing(row, row.equal).map(|sharing| sharing.parts).unwrap_or(0);
                assert_eq!(parts > 0, all.contains(&tile), "{tile} {text}");
                assert!(configs(text).unwrap().contains(&row.equal), "{tile} {text}");
            }
        }
    }

    #[test]
    fn narrow_panels_are_for_counts_that_nearly_fill_them() {
        let offered = |k: i64, c: i64| {
            let names = configs(&format!("conv:fprop pad=1x1 x=2x{c}x9x9:bf16:nhwc w={k}x{c}x3x3:bf16:nhwc")).unwrap();
            names.into_iter().filter(|name| name.contains("128x160")).collect::<Vec<_>>()
        };
        let all = ["convstreamk_fprop_wgmma_bf16_128x160_sm90+equal"];
        assert_eq!((offered(320, 320), offered(296, 320), offered(136, 128)), (all.into(), all.into(), all.into()));
        assert!(offered(256, 320).is_empty() && offered(288, 320).is_empty() && offered(128, 320).is_empty());
        // 9 stages are no four parts of four.
        let problem: ConvProblem = "conv:fprop pad=1x1 x=2x64x9x9:bf16:nhwc w=160x64x3x3:bf16:nhwc".parse().unwrap();
        let row = KERNELS.iter().find(|row| row.names() == all).unwrap();
        let Refusal(reason) = View::of(&problem).unwrap().sharing(row, row.equal).unwrap_err();
        assert_eq!(reason, "shares tiles in four parts or more, given 2 tiles of 9");
    }

    #[test]
    fn devices_have_room_for_who_waits() {
        let tails = "conv:fprop pad=1x1 x=2x640x9x9:bf16:nhwc w=400x640x3x3:bf16:nhwc";
        let [all, first] =
            ["convstreamk_fprop_wgmma_bf16_128x256_sm90+equal", "convstreamk_fprop_wgmma_bf16_128x128_c2_sm90+equal"]
                .map(Config);
        // 4 tiles in 22 parts each, or 4 of two blocks in 16.
        let problem: ConvProblem = tails.parse().unwrap();
        for (n_units, takes_all) in [(132, true), (88, true), (87, false)] {
            let context = Context::described(DeviceInfo { n_units, ..DeviceInfo::h200() });
            let names = StreamK.configs(&problem, &context).map_err(|Refusal(reason)| reason).unwrap();
            assert_eq!((names.contains(&all), names.contains(&first)), (takes_all, true), "{n_units} {names:?}");
        }
    }

    #[test]
    fn last_rounds_are_shared() {
        let names = configs("conv:fprop pad=1x2 groups=170 x=1x10880x2x5:bf16:nhwc w=21760x64x3x5:bf16:nhwc").unwrap();
        assert!(names.contains(&"convstreamk_fprop_wgmma_bf16_128x128_sm90+last"), "{names:?}");
        assert!(names.contains(&"convstreamk_fprop_wgmma_bf16_128x128_c2_sm90+last"), "{names:?}");
    }

    #[test]
    fn refusals_name_the_numbers() {
        let short = configs("conv:fprop x=1x64x7x7:bf16:nhwc w=128x64x1x1:bf16:nhwc").unwrap_err();
        assert!(short.contains("given 1 tiles of 1"), "{short}");
        let many = configs("conv:fprop x=256x64x56x56:bf16:nhwc w=256x64x1x1:bf16:nhwc").unwrap_err();
        assert!(many.contains("tiles, given 6272"), "{many}");
        let strided =
            "conv:dgrad pad=1x1 stride=2x2 dy=8x128x7x7:bf16:nhwc w=128x128x3x3:bf16:nhwc dx=8x128x14x14:bf16:nhwc";
        let strided = configs(strided).unwrap_err();
        assert!(strided.contains("one class of positions, given 4"), "{strided}");
    }

    fn params(
        gather: ConvGatherParams,
        (tile_stages, whole_tiles, sharers): (Divisor, u32, u32),
        evenly: Evenly,
        parts: u32,
    ) -> ConvStreamKParams {
        ConvStreamKParams { gather, partials: 0, flags: 0, tag: 1, tile_stages, whole_tiles, sharers, evenly, parts }
    }

    /// Where all tiles have as many parts, every stage of every tile is somebody's, and so is every panel of its columns.
    #[test]
    fn equal_parts_have_every_panel_between_them() {
        let problem: ConvProblem = "conv:fprop x=1x64x8x8:bf16:nhwc w=128x64x1x1:bf16:nhwc".parse().unwrap();
        let view = View::of(&problem).map_err(|Refusal(reason)| reason).unwrap();
        for (tiles, stages, parts) in [(20, 216, 6), (1, 9, 2), (3, 13, 5), (10, 101, 13)] {
            let gather = ConvGatherParams { n_tiles: tiles, ..view.params(&view.classes, KERNELS[0].tile, tiles) };
            let evenly = Evenly::new(stages, parts);
            let p = params(gather, (Divisor::new(stages), 0, tiles * parts), evenly, parts);
            let mut done = vec![vec![0; parts as usize]; tiles as usize];
            for worker in 0..tiles * parts {
                let mut work = p.work(worker, tiles * parts);
                let part = p.next(&mut work);
                assert!(!p.is_left(&work) && part.begin < part.end);
                let number = p.part_of(worker);
                assert_eq!((part.begin, part.end), evenly.of(number));
                done[part.tile as usize][number as usize] += part.end - part.begin;
            }
            assert!(done.iter().all(|tile| tile.iter().sum::<u32>() == stages && !tile.contains(&0)));
            for tile in KERNELS.iter().map(|row| row.tile) {
                for consumer in 0..2 {
                    let own = (0..parts).map(|part| p.own_panels(tile, consumer, part));
                    assert_eq!(own.sum::<u32>(), (1 << tile.n_panels()) - 1);
                }
            }
        }
    }

    /// Every stage of every tile is somebody's, who has a tile's first part finds all others where they were left, and those
    /// are of workers whose blocks start before his.
    #[test]
    fn stages_are_shared_without_gaps() {
        let problem: ConvProblem = "conv:fprop x=1x64x8x8:bf16:nhwc w=128x64x1x1:bf16:nhwc".parse().unwrap();
        let view = View::of(&problem).map_err(|Refusal(reason)| reason).unwrap();
        let gather = view.params(&view.classes, KERNELS[0].tile, 1);
        for (tiles, stages, workers, whole_tiles, sharers) in [
            (20, 216, 132, 0, 132),
            (20, 216, 120, 0, 120),
            (1, 9, 2, 0, 2),
            (196, 72, 132, 0, 132),
            (33, 5, 37, 0, 37),
            (160, 108, 132, 132, 112),
            (160, 108, 132, 132, 132),
            (7, 9, 3, 6, 3),
            (8, 5, 3, 6, 2),
        ] {
            let tile_stages = Divisor::new(stages);
            let evenly = Evenly::new((tiles - whole_tiles) * stages, sharers);
            let p = params(gather, (tile_stages, whole_tiles, sharers), evenly, 0);
            let (mut left, mut done) = (HashMap::new(), vec![0; tiles as usize]);
            for block in 0..workers {
                let worker = Evenly::worker(block, workers);
                let mut work = p.work(worker, workers);
                let mut is_first = true;
                while p.is_left(&work) {
                    let part = p.next(&mut work);
                    assert!(part.begin < part.end);
                    done[part.tile as usize] += part.end - part.begin;
                    if part.begin > 0 {
                        assert!(is_first && worker > 0 && left.insert(worker, part.tile).is_none());
                    } else if part.end < stages {
                        // What arrives takes the place of stages.
                        assert!(!p.is_left(&work));
                        let (first, last) = p.parts_of(part.tile);
                        assert_eq!(first, worker);
                        for other in first + 1..last {
                            assert_eq!(left.remove(&other), Some(part.tile), "{tiles} {stages} {workers}");
                        }
                    }
                    is_first = false;
                }
            }
            assert!(left.is_empty() && done.iter().all(|&done| done == stages), "{tiles} {stages} {workers}");
        }
    }
}
