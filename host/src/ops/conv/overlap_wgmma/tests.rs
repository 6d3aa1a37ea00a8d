//! Tiles and windows against the formula, on the CPU.

use super::geometry::{Cut, Windows};
use super::{FPROP_KERNELS, ROWS_KERNELS, Strips, TURNS_KERNELS, WGRAD_KERNELS};
use crate::ops::conv::{ConvPass, ConvProblem};
use kernel_abi::ops::conv::overlap_wgmma::{
    ENTRY_BYTES, ENTRY_ELEMS, MAX_SHARED_BYTES, OverlapParams, OverlapPlace, OverlapTile, SLACK_ENTRIES, wgrad_planes,
};

/// Multiprocessors of the device that is imagined.
const N_UNITS: u64 = 132;

/// Element `element` of the window of tap `tap` that row `position` of a tile's product has: the index of the entry and
/// of the element in it, by the bytes that a descriptor would be given.
fn read(params: &OverlapParams, position: u32, tap: u32, element: u32) -> (u32, u32) {
    let tile = &params.tile;
    let (part, within) = (element / ENTRY_ELEMS, element % ENTRY_ELEMS);
    let bytes =
        (position + tile.tap_entries(tap)) * ENTRY_BYTES + part / 2 * tile.step_bytes() + part % 2 * tile.part_bytes();
    assert_eq!(bytes % ENTRY_BYTES, 0);
    (bytes / ENTRY_BYTES, within)
}

/// Where element `within` of an entry lies in x, if anywhere: row, column and channel.
fn source(params: &OverlapParams, place: OverlapPlace, entry: u32, within: u32) -> Option<[i64; 4]> {
    let [d, h, w] = params.source(place, entry);
    let c = within & ((1 << params.packed_c_log2) - 1);
    let w = w + (within >> params.packed_c_log2) as i32;
    let inside = |axis: usize, at: i32| (0..params.image[axis] as i32).contains(&at);
    let there = inside(0, d) && inside(1, h) && inside(2, w) && c < params.c;
    there.then_some([d.into(), h.into(), w.into(), c.into()])
}

/// Every position of every tile and every element of its windows, by the formula.
fn check(problem: &ConvProblem, params: &OverlapParams) {
    let shape = problem.shape();
    let [axis_d, axis_h, axis_w] = shape.axes;
    let mut positions = 0;
    for index in 0..params.n_tiles {
        let place = params.place(index);
        let [rows, columns] = params.extents(place);
        positions += rows * columns;
        assert!(rows >= 1 && columns >= 1 && rows <= params.tile.rows && columns <= params.tile.columns);
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let position = row * params.tile.row_entries.divisor + column;
            assert!(position < params.tile.positions(rows, columns));
            for tap in 0..params.tile.n_taps() {
                let [t, r] = params.tile.tap(tap).map(i64::from);
                for element in 0..16 * params.tile.steps {
                    let (entry, within) = read(params, position, tap, element);
                    let plane_end =
                        if params.tile.planes == 2 && element / 8 % 2 == 0 { 1 } else { params.tile.planes };
                    assert!(entry < plane_end * params.tile.plane_entries(), "{problem}: beyond the buffer");
                    let s = i64::from(element >> params.packed_c_log2);
                    let c = i64::from(element & ((1 << params.packed_c_log2) - 1));
                    if s >= shape.filter[2] || c >= shape.c {
                        continue;
                    }
                    let d = i64::from(place.z) * axis_d.stride - axis_d.padding + t * axis_d.dilation;
                    let h = i64::from(place.p + row) * axis_h.stride - axis_h.padding + r * axis_h.dilation;
                    let w = i64::from(place.q + column) * axis_w.stride - axis_w.padding + s;
                    let inside = [d, h, w].iter().zip(shape.image).all(|(&at, extent)| (0..extent).contains(&at));
                    let expected = inside.then_some([d, h, w, c]);
                    assert_eq!(
                        source(params, place, entry, within),
                        expected,
                        "{problem}: {place:?} {row} {column} {r} {s}"
                    );
                }
            }
        }
    }
    assert_eq!(i64::from(positions), shape.n * shape.output.iter().product::<i64>(), "{problem}");
}

/// A product of every second part of windows begins in its plane and steps from entry to entry.
fn check_planes(tile: &OverlapTile) {
    for part in 0..tile.window_parts() {
        let of_product = part % 2 * tile.plane_entries() + part / 2 * tile.part_entries;
        let of_window = (part / 2 * tile.step_bytes() + part % 2 * tile.part_bytes()) / ENTRY_BYTES;
        assert_eq!(of_product, of_window);
    }
}

const SHAPES: &[&str] = &[
    "pad=3x3 stride=2x2 x=2x3x31x29:bf16:nhwc w=64x3x7x7:bf16:nhwc",
    "pad=1x1 stride=1x1 x=1x3x13x17:bf16 w=40x3x3x3:bf16",
    "pad=2x2 stride=4x4 x=1x3x27x30:bf16:nhwc w=72x3x11x11:bf16:nhwc",
    "pad=0x0 stride=4x4 x=1x3x24x20:bf16:nhwc w=96x3x4x4:bf16:nhwc",
    "pad=2x2 stride=1x1 x=3x1x12x13:bf16:nhwc w=16x1x5x5:bf16:nhwc",
    "pad=0x0 stride=3x1 dil=2x1 x=1x2x33x14:bf16:nhwc w=12x2x5x20:bf16:nhwc pad_end=0x9",
    "pad=2x0 stride=2x2 dil=2x1 x=1x1x20x41:bf16:nhwc w=65x1x5x20:bf16:nhwc",
    "pad=1x1 stride=5x1 x=1x7x20x9:bf16:nhwc w=97x7x2x3:bf16:nhwc mode=convolution",
    "pad=1x1 stride=6x2 dil=4x1 x=1x8x30x9:bf16:nhwc w=8x8x4x3:bf16:nhwc",
    "pad=4 stride=2 x=2x2x97:bf16:nhwc w=24x2x9:bf16:nhwc",
    "pad=1x1x1 stride=1x1x1 x=2x1x6x9x11:bf16:nhwc w=16x1x3x3x3:bf16:nhwc",
    "pad=1x2x0 stride=2x3x2 dil=2x1x1 x=2x3x9x17x14:bf16:nhwc w=70x3x3x5x4:bf16:nhwc mode=convolution",
    "pad=0x0 stride=1x1 x=1x3x6x302:bf16:nhwc w=16x3x3x3:bf16:nhwc",
];

fn problem(pass: ConvPass, shape: &str) -> ConvProblem {
    let [x, w] = if pass == ConvPass::Wgrad { [" x=", " dw="] } else { [" x=", " w="] };
    format!("conv:{pass} {}", shape.replace(" x=", x).replace(" w=", w)).parse().unwrap()
}

#[test]
fn windows_of_fprop_hold_what_the_formula_says() {
    for shape in SHAPES {
        let problem = problem(ConvPass::Fprop, shape);
        let windows = Windows::of(&problem).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
        for row in FPROP_KERNELS {
            let cut =
                windows.fprop_cut(row.columns, N_UNITS).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
            assert!(cut.tile.fprop_smem_bytes(row.columns, cut.column_blocks, windows.y_access()) <= MAX_SHARED_BYTES);
            let computed = cut.parts * cut.column_blocks * row.columns;
            assert!(i64::from(computed) >= problem.shape().k, "{shape}: {computed} channels");
            check(&problem, &windows.params(&problem, &cut, 1));
        }
        // Cuts that no estimate prefers: strips, single rows, one buffer.
        for (rows, columns, buffers) in [(1, 1, 1), (1, 5, 2), (3, 4, 1), (2, 64, 2)] {
            let output = problem.shape().output;
            let tile = windows.tile(rows.min(output[1]), columns.min(output[2]), windows.steps(), buffers);
            let cut =
                Cut { tile, n_tiles: windows.n_tiles(&tile) as u32, blocks: 1, parts: 1, column_blocks: 1, us: 0.0 };
            check(&problem, &windows.params(&problem, &cut, 1));
        }
    }
}

/// Strips' windows lie in the buffer, those of an instruction's columns behind a strip too.
#[test]
fn windows_of_strips_hold_what_the_formula_says() {
    let mut checked = 0;
    for shape in [
        "pad=3x3 stride=2x2 x=2x3x31x224:bf16:nhwc w=64x3x7x7:bf16:nhwc",
        "pad=3x3 stride=2x2 x=1x3x9x228:bf16:nhwc w=40x3x7x7:bf16:nhwc",
        "pad=3x3 stride=1x1 x=1x4x9x300:bf16:nhwc w=72x4x7x7:bf16:nhwc",
        "pad=0x3x3 stride=1x1x1 x=2x1x4x9x131:bf16:nhwc w=16x1x2x7x7:bf16:nhwc",
        "pad=3x3 stride=2x2 x=2x3x31x29:bf16:nhwc w=64x3x7x7:bf16:nhwc",
        "pad=1x1 stride=1x1 x=2x3x31x224:bf16:nhwc w=64x3x3x3:bf16:nhwc",
    ] {
        let problem = problem(ConvPass::Fprop, shape);
        let windows = Windows::of(&problem).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
        for row in ROWS_KERNELS.iter().filter(|row| row.fits(&windows)) {
            let cut = windows.rows_cut(row.columns, N_UNITS).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
            assert_eq!(cut.tile.n_taps() * cut.tile.steps, row.instructions);
            assert!(cut.tile.rows_smem_bytes(row.columns) <= MAX_SHARED_BYTES);
            assert!(cut.tile.columns <= row.columns && row.columns - cut.tile.columns <= SLACK_ENTRIES);
            check(&problem, &windows.params(&problem, &cut, 1));
            checked += 1;
        }
    }
    assert_eq!(checked, 4 * ROWS_KERNELS.len());
}

#[test]
fn windows_of_wgrad_hold_what_the_formula_says() {
    let mut checked = 0;
    for shape in SHAPES {
        let problem = problem(ConvPass::Wgrad, shape);
        let windows = Windows::of(&problem).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
        for row in TURNS_KERNELS.iter().chain(WGRAD_KERNELS).filter(|row| row.fits(&windows)) {
            let Ok(cut) = row.cut(&windows) else { continue };
            assert_eq!(cut.tile.steps * 16, row.elements());
            if wgrad_planes(row.columns) == 2 {
                check_planes(&cut.tile);
            }
            assert!(cut.tile.wgrad_smem_bytes() <= MAX_SHARED_BYTES);
            check(&problem, &windows.params(&problem, &cut, 1));
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked}");
}

/// Every element that an entry reads lies in its row's place, and in the row's bytes where it lies in the image.
#[test]
fn staged_rows_hold_what_entries_read() {
    for (shape, is_staged) in [
        ("pad=3x3 stride=2x2 x=2x3x31x224:bf16:nhwc w=64x3x7x7:bf16:nhwc", true),
        ("pad=3x3 stride=2x2 x=2x3x31x224:bf16 w=64x3x7x7:bf16", true),
        ("pad=3x9 stride=1x2 x=1x4x9x96:bf16:nhwc w=40x4x7x7:bf16:nhwc", true),
        ("pad=2x0 stride=4x4 x=1x3x27x96:bf16:nhwc w=72x3x11x11:bf16:nhwc", true),
        ("pad=0x10 stride=2x2 x=2x1x33x64:bf16 w=32x1x5x20:bf16", true),
        ("pad=3x3 stride=2x2 x=2x3x31x226:bf16:nhwc w=64x3x7x7:bf16:nhwc", false),
        ("pad=3x3 stride=2x2 x=2x3x31x226:bf16 w=64x3x7x7:bf16", false),
        ("pad=3x3 stride=2x2 x=2x3x9x2048:bf16:nhwc w=64x3x7x7:bf16:nhwc", false),
    ] {
        let problem = problem(ConvPass::Fprop, shape);
        let windows = Windows::of(&problem).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
        let [_, p, q] = problem.shape().output;
        let tile = windows.staged_tile(p.min(3), q, windows.steps(), 2);
        let staged = tile.staged;
        assert_eq!(staged.bytes > 0, is_staged, "{shape}");
        if !is_staged {
            continue;
        }
        let cut = Cut { tile, n_tiles: windows.n_tiles(&tile) as u32, blocks: 1, parts: 1, column_blocks: 1, us: 0.0 };
        let params = windows.params(&problem, &cut, 1);
        let position_bytes = i64::from(2 * params.x_inner[0]);
        assert_eq!(position_bytes * i64::from(params.image[2]), staged.bytes.into(), "{shape}");
        assert_eq!([staged.margin % 16, staged.pitch % 16, staged.bytes % 16], [0; 3], "{shape}");
        for entry in 0..tile.rows_of_entries() * tile.row_entries.divisor {
            let [_, _, w] = params.source(params.place(0), entry);
            for position in 0..ENTRY_ELEMS >> params.packed_c_log2 {
                let w = i64::from(w) + i64::from(position);
                let at = i64::from(staged.margin) + w * position_bytes;
                assert!((0..i64::from(staged.pitch)).contains(&at), "{shape}: entry {entry}");
                let in_row = (0..i64::from(staged.bytes)).contains(&(w * position_bytes));
                assert_eq!(in_row, (0..i64::from(params.image[2])).contains(&w), "{shape}: entry {entry}");
            }
        }
    }
}

/// NCHW's rows of y leave as they lie where they are whole strips, or parts of one, of whole units of a copy.
#[test]
fn planar_strips_are_rows_of_y() {
    for (y, is_taken) in [
        ("2x64x16x112:bf16", true),
        ("2x64x16x104:bf16", true),
        ("2x64x16x224:bf16", true),
        ("2x64x16x100:bf16", false),
        ("2x64x16x120:bf16", false),
        ("2x64x16x112:bf16:s114688x1792x112x1", true),
        ("2x64x16x112:bf16:s114756x1792x112x1", false),
    ] {
        let q: i64 = y.split(['x', ':']).nth(3).unwrap().parse().unwrap();
        let shape = format!("pad=3x3 stride=2x2 x=2x3x31x{}:bf16 w=64x3x7x7:bf16 y={y}", 2 * q - 1);
        let problem = problem(ConvPass::Fprop, &shape);
        let windows = Windows::of(&problem).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
        assert_eq!(Strips::of(&problem, &windows, 112).is_ok(), is_taken, "{shape}");
    }
}

/// What `overlap_wgmma` is for: the first layers of networks.
#[test]
fn first_layers_are_taken() {
    for shape in [
        "pad=3x3 stride=2x2 x=256x3x224x224:bf16:nhwc w=64x3x7x7:bf16:nhwc",
        "pad=0x0 stride=2x2 x=256x3x299x299:bf16:nhwc w=32x3x3x3:bf16:nhwc",
        "pad=1x1 stride=1x1 x=64x3x224x224:bf16:nhwc w=64x3x3x3:bf16:nhwc",
        "pad=0x0 stride=4x4 x=256x3x227x227:bf16:nhwc w=96x3x11x11:bf16:nhwc",
        "pad=0x0 stride=4x4 x=128x3x224x224:bf16:nhwc w=96x3x4x4:bf16:nhwc",
        "pad=1x1 stride=1x1 x=256x3x32x32:bf16:nhwc w=16x3x3x3:bf16:nhwc",
        "pad=0x0 stride=2x2 x=16x1x161x700:bf16 w=32x1x5x20:bf16",
    ] {
        let problem = problem(ConvPass::Fprop, shape);
        let windows = Windows::of(&problem).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
        for row in FPROP_KERNELS.iter().filter(|row| row.fits(&windows)) {
            let cut =
                windows.fprop_cut(row.columns, N_UNITS).unwrap_or_else(|refusal| panic!("{shape}: {}", refusal.0));
            let Cut { tile, n_tiles, blocks, parts, column_blocks, us } = cut;
            let cut = (tile.rows, tile.columns, tile.buffers, n_tiles, blocks, parts, column_blocks);
            println!("{shape}: {} columns: {cut:?}, {us:.0} us", row.columns);
        }
        let wgrad = self::problem(ConvPass::Wgrad, shape);
        for row in TURNS_KERNELS.iter().chain(WGRAD_KERNELS).filter(|row| row.fits(&windows)) {
            match row.cut(&windows) {
                Ok(Cut { tile, n_tiles, blocks, parts, us, .. }) => {
                    let cut = (tile.rows, tile.columns, tile.buffers, n_tiles, blocks, parts);
                    println!(
                        "{wgrad}: {}x{}{}: {cut:?}, {us:.0} us",
                        row.products,
                        row.columns,
                        if row.in_turns { " in turns" } else { "" }
                    );
                }
                Err(refusal) => println!("{wgrad}: {}x{}: {}", row.products, row.columns, refusal.0),
            }
        }
    }
}
