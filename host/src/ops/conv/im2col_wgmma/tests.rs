//! Geometry against a plain search.

use super::classes::classes;
use super::cuts::{Cut, MULTIPROCESSORS, Rule};
use super::gather::View;
use super::tensors::{Filter, Positions};
use super::wgrad::{FIXUP_KERNELS, WGRAD_KERNELS, Wgrad, WgradView, wgrad_row};
use crate::ops::conv::ConvProblem;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DeviceInfo};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ConvWgradFixupParams, Evenly, FIXUP_FLAGS, GATHER_128X128};
use std::collections::{HashMap, HashSet};

fn problem(text: &str) -> ConvProblem {
    text.parse().unwrap()
}

/// Every (position read, filter element) that position `at` of dx meets along the only axis, by the formula.
fn formula(problem: &ConvProblem, at: i64) -> Vec<(i64, i64)> {
    let (axis, shape) = (problem.axes()[0], problem.shape());
    let mut pairs = Vec::new();
    for r in 0..shape.filter[2] {
        for p in 0..shape.output[2] {
            if p * axis.stride + r * axis.dilation - axis.padding == at {
                pairs.push((p, r));
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn dgrad_classes_meet_what_the_formula_says() {
    for stride in 1..6 {
        for dilation in 1..5 {
            for (filter, padding) in [(1, 0), (2, 1), (3, 1), (5, 2), (7, 3)] {
                let image = 17;
                let text = format!(
                    "conv:dgrad pad={padding} stride={stride} dil={dilation} groups=1 dx=1x8x{image}:bf16:nhwc \
                     w=8x8x{filter}:bf16:nhwc"
                );
                let Ok(problem) = text.parse::<ConvProblem>() else { continue };
                let (classes, step) = classes(&problem);
                assert_eq!(step, [1; 3]);
                let mut covered = 0;
                for class in &classes {
                    let axis = class.axes[2];
                    covered += axis.extent;
                    for i in 0..axis.extent {
                        let reads = |tap: i64| axis.base + i + tap * axis.tap_offset;
                        let mut pairs: Vec<_> = (0..axis.n_taps)
                            .map(|tap| (reads(tap), axis.first_tap + tap * axis.tap_step))
                            .filter(|(p, _)| (0..problem.shape().output[2]).contains(p))
                            .collect();
                        pairs.sort_unstable();
                        assert_eq!(pairs, formula(&problem, axis.first + i * axis.step), "{text}, class {axis:?}");
                    }
                }
                assert_eq!(covered, image, "{text}");
            }
        }
    }
}

#[test]
fn positions_are_linear_where_nothing_lies_between() {
    let linear = |text: &str| {
        let problem = problem(text);
        Positions::of("x", problem.x(), true).map(|positions| positions.linear_stride()).map_err(|refusal| refusal.0)
    };
    assert_eq!(linear("conv:fprop x=2x16x7x5:bf16:nhwc w=8x16x1x1:bf16:nhwc"), Ok(Some(16)));
    assert_eq!(linear("conv:fprop x=1x16x1x1:bf16:nhwc w=8x16x1x1:bf16:nhwc"), Ok(Some(16)));
    // Rows with a gap behind them.
    assert_eq!(linear("conv:fprop x=2x16x7x5:bf16:s1120x1x160x16 w=8x16x1x1:bf16:nhwc"), Ok(None));
    // A slice of the channels.
    assert_eq!(linear("conv:fprop x=2x16x7x5:bf16:s1120x1x160x32 w=8x16x1x1:bf16:nhwc"), Ok(Some(32)));
    assert!(linear("conv:fprop x=2x16x7x5:bf16 w=8x16x1x1:bf16").unwrap_err().contains("channels-last"));
    assert!(linear("conv:fprop x=2x12x7x5:bf16:nhwc w=8x12x1x1:bf16:nhwc").unwrap_err().contains("by 8, x has 12"));
    assert!(linear("conv:fprop x=2x16x7x5:bf16:s700x1x100x20 w=8x16x1x1:bf16:nhwc").unwrap_err().contains("one is"));
}

#[test]
fn filters_have_their_taps_in_a_row() {
    let filter = |text: &str| Filter::of("w", problem(text).w()).map_err(|refusal| refusal.0);
    let w = filter("conv:fprop pad=1 x=2x16x7x5:bf16:nhwc w=8x16x3x2:bf16:nhwc").unwrap();
    assert_eq!((w.taps, w.tap_stride, w.k_stride, w.n_taps()), ([1, 3, 2], 16, 96, 6));
    let gap = "conv:fprop pad=1 x=2x16x7x5:bf16:nhwc w=8x16x3x2:bf16:s160x1x48x16";
    assert!(filter(gap).unwrap_err().contains("one behind the other"));
}

/// Every stage of every tile is somebody's, sums have places of their own, and whoever adds finds them in order.
#[test]
fn wgrad_is_cut_without_gaps() {
    let texts = [
        "conv:wgrad pad=1x1 x=4x64x7x7:bf16:nhwc dw=192x64x3x3:bf16:nhwc",
        "conv:wgrad x=16x320x5x5:bf16:nhwc dw=520x320x1x1:bf16:nhwc",
        "conv:wgrad pad=1x1 groups=2 x=3x128x9x9:bf16:nhwc dw=256x64x3x3:bf16:nhwc",
    ];
    for text in texts {
        let view = WgradView::of(&problem(text)).unwrap();
        for tile in WGRAD_KERNELS.iter().map(|row| row.tile) {
            let cuts = [1, 2, 5].map(Cut::Splits).into_iter();
            let cuts = cuts.chain([1, 2, 3, 7, 66, 132].map(|workers| Cut::Evenly { workers }));
            let cuts = cuts.chain(Rule::ALL.into_iter().filter_map(|rule| view.cut_by(tile, rule)));
            for cut in cuts {
                let p = view.params(tile, cut);
                let (tiles, k_blocks) = (view.tiles(tile) as u32, view.k_blocks() as u32);
                let n = match cut {
                    Cut::Evenly { workers } if workers as u32 <= tiles * k_blocks => workers as u32,
                    Cut::Splits(splits) | Cut::Shares(splits) if splits as u32 <= k_blocks => 4,
                    // Nobody is left without a stage.
                    _ => continue,
                };
                let mut slots = HashSet::new();
                let mut parts: HashMap<_, Vec<_>> = HashMap::new();
                for worker in 0..n {
                    let mut work = p.work(worker, n);
                    while work.at < work.end {
                        let (part, step) = p.part(tile, work);
                        work.at += step;
                        assert!(part.begin < part.end && part.end <= k_blocks, "{text} {tile:?} {cut:?} {part:?}");
                        assert_eq!(part.is_whole, part.begin == 0 && part.end == k_blocks);
                        assert!(part.is_whole || slots.insert(part.slot), "{text} {tile:?} {cut:?} {part:?}");
                        let key = (part.place.group, part.place.m, part.place.panel);
                        parts.entry(key).or_default().push((part.begin, part.end, part.slot));
                    }
                }
                assert_eq!(parts.len(), tiles as usize);
                for index in 0..tiles {
                    let place = p.place(tile, index);
                    let of_tile = parts.get_mut(&(place.group, place.m, place.panel)).unwrap();
                    of_tile.sort_unstable();
                    let ends = of_tile.iter().map(|part| part.1);
                    let begins = of_tile.iter().map(|part| part.0).chain([k_blocks]);
                    assert!(begins.eq([0].into_iter().chain(ends)), "{text} {tile:?} {cut:?} {of_tile:?}");
                    let (first, end) = p.parts_of(index);
                    assert_eq!((end - first) as usize, of_tile.len(), "{text} {tile:?} {cut:?}");
                    if of_tile.len() > 1 {
                        let found: Vec<u32> = (first..end).map(|part| p.slot_of(index, part, first)).collect();
                        let written: Vec<u32> = of_tile.iter().map(|part| part.2).collect();
                        assert_eq!(found, written, "{text} {tile:?} {cut:?}");
                    }
                }
            }
        }
    }
}

/// What a fixup kernel does of a problem.
struct Fixup {
    text: String,
    view: WgradView,
    tile: ConvTile,
    cut: Cut,
    params: ConvWgradFixupParams,
    workers: u32,
}

impl Fixup {
    /// Places for parts, in tiles of clusters.
    fn places(&self) -> u64 {
        let of_cluster = u64::from(self.tile.partials() * 4 * self.tile.cluster);
        self.view.fixup_partials_bytes(self.tile, self.cut) / of_cluster
    }
}

/// What fixup kernels do of some problems, whose sums are cut in all ways that they take.
fn fixups() -> Vec<Fixup> {
    let texts = [
        "conv:wgrad pad=1x1 x=4x64x13x13:bf16:nhwc dw=192x64x3x3:bf16:nhwc",
        "conv:wgrad x=16x320x5x5:bf16:nhwc dw=520x320x1x1:bf16:nhwc",
        "conv:wgrad x=4x640x8x8:bf16:nhwc dw=2120x640x1x1:bf16:nhwc",
        "conv:wgrad x=64x256x14x14:bf16:nhwc dw=1024x256x1x1:bf16:nhwc",
    ];
    let mut found = Vec::new();
    for text in texts {
        for tile in FIXUP_KERNELS.iter().map(|row| row.tile) {
            let view = || WgradView::of(&problem(text)).unwrap();
            let cuts = Rule::ALL.into_iter().filter_map(|rule| view().cut_by(tile, rule)).chain(view().fixup_cut(tile));
            for cut in cuts.filter(|cut| view().takes_fixup(tile, *cut)) {
                let all_add = u32::from(matches!(cut, Cut::Shares(_)));
                let params = ConvWgradFixupParams { wgrad: view().params(tile, cut), flags: 0, tag: 1, all_add };
                let workers = match cut {
                    Cut::Evenly { workers } => workers as u32,
                    Cut::Splits(parts) | Cut::Shares(parts) => (parts * view().tiles(tile)) as u32,
                };
                let text = format!("{text} {tile:?} {cut:?}");
                found.push(Fixup { text, view: view(), tile, cut, params, workers });
            }
        }
    }
    found
}

/// Whoever has a tile's first part finds each other part where its worker leaves it, as the first thing that it computes or
/// the only one, in a cluster that starts before his own; and places are as many as there are such parts, or one is spare.
#[test]
fn workers_that_add_wait_only_for_clusters_before_theirs() {
    let mut n_cuts = 0;
    for fixup in fixups().iter().filter(|fixup| fixup.params.all_add == 0) {
        let Fixup { text, tile, params: p, workers: n, .. } = fixup;
        let (tile, n) = (*tile, *n);
        n_cuts += 1;
        let place = |index: u32, number: u32| {
            let (first, step) = p.places(index);
            first.wrapping_add(number * step)
        };
        let (mut left, mut added) = (HashMap::new(), HashSet::new());
        for cluster in 0..n {
            let mut work = p.wgrad.work(Evenly::worker(cluster, n), n);
            let mut is_first = true;
            while work.at < work.end {
                let (part, step) = p.wgrad.part(tile, work);
                work.at += step;
                if part.begin > 0 {
                    let key = (part.tile, part.number);
                    let slot = place(part.tile, part.number);
                    assert!(is_first && left.insert(slot, key).is_none(), "{text} {part:?}");
                } else {
                    let (first, end) = p.wgrad.parts_of(part.tile);
                    assert_eq!(first, part.number, "{text}");
                    for number in first + 1..end {
                        let slot = place(part.tile, number);
                        assert_eq!(left.get(&slot), Some(&(part.tile, number)), "{text}");
                        assert!(added.insert(slot), "{text}");
                    }
                }
                is_first = false;
            }
        }
        assert_eq!(left.len(), added.len(), "{text}");
        assert!(left.keys().all(|slot| u64::from(*slot) < fixup.places()), "{text}");
    }
    assert!(n_cuts > 20, "{n_cuts}");
}

/// Where all workers of a tile add, each has one part and about as much to add up, and there are places for all parts.
#[test]
fn workers_that_all_add_have_every_share_between_them() {
    let mut n_cuts = 0;
    for fixup in fixups().iter().filter(|fixup| fixup.params.all_add != 0) {
        let Fixup { text, view, tile, cut, params: p, workers: n } = fixup;
        let (tile, cut, n) = (*tile, *cut, *n);
        n_cuts += 1;
        let mut parts = HashMap::new();
        for worker in 0..n {
            let work = p.wgrad.work(worker, n);
            let (part, step) = p.wgrad.part(tile, work);
            assert!(work.at + step >= work.end, "{text}");
            assert_eq!(p.places(part.tile), (part.tile, p.wgrad.tiles()), "{text}");
            *parts.entry(part.tile).or_insert(0) += 1;
        }
        assert!(parts.len() as u32 == p.wgrad.tiles() && parts.values().all(|n| *n == p.wgrad.splits), "{text}");
        let own = |warp: u32, number: u32| p.own_runs(tile, warp, number);
        let all = (1 << tile.sum_runs()) - 1;
        let sum = |warp: u32| (0..p.wgrad.splits).map(|number| u64::from(own(warp, number))).sum::<u64>();
        assert!((0..FIXUP_FLAGS).all(|warp| sum(warp) == all), "{text}");
        let each = |number: u32| (0..FIXUP_FLAGS).map(|warp| own(warp, number).count_ones()).sum::<u32>();
        let n_runs: Vec<u32> = (0..p.wgrad.splits).map(each).collect();
        assert!(n_runs.iter().max().unwrap() - n_runs.iter().min().unwrap() <= 1, "{text} {n_runs:?}");
        assert_eq!(fixup.places(), u64::from(n), "{text}");
        assert!(view.fixup_has_room(tile, cut, MULTIPROCESSORS), "{text}");
        assert!(!view.fixup_has_room(tile, cut, u64::from(n * tile.cluster) - 1), "{text}");
    }
    assert!(n_cuts > 20, "{n_cuts}");
}

/// Blocks add few parts each, and dw is written by 16 bytes; else a second kernel adds.
#[test]
fn workers_add_where_parts_are_few() {
    let context = Context::described(DeviceInfo::h200());
    let configs = |text: &str| {
        let problem = problem(text);
        let configs = Wgrad.configs(&problem, &context).unwrap();
        configs.into_iter().filter(|config| wgrad_row(*config).unwrap().fixup).collect::<Vec<_>>()
    };
    let few = "conv:wgrad pad=1x1 x=256x512x7x7:bf16:nhwc dw=512x512x3x3:bf16:nhwc";
    let names = configs(few);
    assert!(names.contains(&Config("wgrad_im2col_fixup_bf16_128x256_c2_sm90")), "{names:?}");
    let problem = problem(few);
    for config in names {
        let view = WgradView::of(&problem).unwrap();
        let (row, cut) = view.chosen(config);
        assert!(view.takes_fixup(row.tile, cut), "{config:?} {cut:?}");
        assert_eq!(Wgrad.workspace_bytes(&problem, config), view.fixup_bytes(row.tile, cut));
        let flags = if matches!(cut, Cut::Shares(_)) { view.fixup_partials_bytes(row.tile, cut) / 256 } else { 0 };
        assert!(view.fixup_bytes(row.tile, cut) <= view.partials_bytes(row.tile, cut) + flags, "{config:?} {cut:?}");
        assert!(view.fixup_us(row.tile, cut) < view.estimate_us(row.tile, cut), "{config:?} {cut:?}");
    }
    // In both ways, for who measures.
    for text in [
        "conv:wgrad x=64x256x14x14:bf16:nhwc dw=1024x256x1x1:bf16:nhwc",
        "conv:wgrad pad=1x1 x=8x72x16x16:bf16:nhwc dw=136x72x3x3:bf16:nhwc",
    ] {
        let view = WgradView::of(&self::problem(text)).unwrap();
        let cuts: Vec<_> = configs(text).into_iter().map(|config| view.chosen(config).1).collect();
        let all = cuts.iter().any(|cut| matches!(cut, Cut::Shares(_)));
        let first = cuts.iter().any(|cut| matches!(cut, Cut::Splits(2..) | Cut::Evenly { .. }));
        assert!(all && first, "{text} {cuts:?}");
    }
    assert!(configs("conv:wgrad x=256x64x56x56:bf16:nhwc dw=64x64x1x1:bf16:nhwc").is_empty());
    assert!(configs("conv:wgrad x=256x512x7x7:bf16:nhwc dw=512x512x1x1:bf16:s516x1x1x1").is_empty());
}

#[test]
fn cuts_have_names_of_their_own() {
    let mut names = HashSet::new();
    for row in WGRAD_KERNELS.iter().chain(FIXUP_KERNELS) {
        assert!(names.insert(row.symbol));
        for (name, _) in row.cuts {
            assert!(names.insert(name));
            assert_eq!(wgrad_row(Config(name)).map(|row| row.symbol), Some(row.symbol));
        }
    }
}

/// A sum that waits for the memory keeps enough blocks at work to wait for it.
#[test]
fn cuts_count_the_blocks_at_work() {
    let context = Context::described(DeviceInfo::h200());
    let problem = problem("conv:wgrad x=256x256x56x56:bf16:nhwc dw=128x256x1x1:bf16:nhwc");
    let view = WgradView::of(&problem).unwrap();
    for row in WGRAD_KERNELS.iter().filter(|row| view.fits(row.tile)) {
        let active = view.active(row.tile, view.cut(row.tile));
        assert!((66..=MULTIPROCESSORS).contains(&active), "{}: {active} blocks", row.symbol);
    }
    let configs = Wgrad.configs(&problem, &context).unwrap();
    let halves: Vec<_> = configs.iter().filter(|config| config.0.ends_with("+half")).collect();
    assert_eq!(halves.len(), 3, "{configs:?}");
    for &&config in &halves {
        let (row, cut) = view.chosen(config);
        assert_eq!(cut, Cut::Evenly { workers: MULTIPROCESSORS / u64::from(row.tile.cluster) / 2 });
        assert_eq!(Wgrad.workspace_bytes(&problem, config), view.partials_bytes(row.tile, cut));
        let plain = Wgrad.estimate_us(&problem, Config(row.symbol), &context);
        assert!(Wgrad.estimate_us(&problem, config, &context) >= plain);
    }
    // Where there are few stages, nobody is left without one.
    let short = WgradView::of(&self::problem("conv:wgrad x=1x64x8x8:bf16:nhwc dw=64x64x1x1:bf16:nhwc")).unwrap();
    for row in WGRAD_KERNELS {
        assert!([Rule::Evenly, Rule::Half].iter().all(|rule| short.cut_by(row.tile, *rule).is_none()));
    }
}

/// One tap, more than the cache holds, and channels so few that the memory counts.
#[test]
fn what_the_cache_does_not_hold_is_given_up_last() {
    let keep = |text: &str| {
        let view = View::of(&problem(text)).map_err(|Refusal(reason)| reason).unwrap();
        view.params(&view.classes, GATHER_128X128, 1).keep
    };
    assert_eq!(keep("conv:fprop x=256x64x56x56:bf16:nhwc w=64x64x1x1:bf16:nhwc"), 1);
    assert_eq!(keep("conv:dgrad dx=256x512x28x28:bf16:nhwc w=128x512x1x1:bf16:nhwc"), 0);
    assert_eq!(keep("conv:dgrad dx=256x128x28x28:bf16:nhwc w=512x128x1x1:bf16:nhwc"), 1);
    for text in ["x=64x64x56x56:bf16:nhwc w=64x64x1x1", "pad=1x1 x=256x64x56x56:bf16:nhwc w=64x64x3x3"] {
        assert_eq!(keep(&format!("conv:fprop {text}:bf16:nhwc")), 0, "{text}");
    }
    assert_eq!(keep("conv:fprop x=512x1024x14x14:bf16:nhwc w=1024x1024x1x1:bf16:nhwc"), 0);
}
