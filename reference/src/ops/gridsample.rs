//! Grid sampling, formula in [`kernel_abi::ops::gridsample`].

use crate::Judge;
use kernel_abi::ops::gridsample::{GridPadding, GridSampleMode, GridSamplePass, GridSampleProblem};

impl Judge for GridSampleProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        vec![match self.sample_pass() {
            GridSamplePass::Forward => forward(self, &operands[0], &operands[1]),
            GridSamplePass::BackwardData => backward_data(self, &operands[0], &operands[1]),
            GridSamplePass::BackwardGrid => backward_grid(self, &operands[0], &operands[1], &operands[2]),
        }]
    }
}

/// y from x and grid.
pub fn forward(problem: &GridSampleProblem, x: &[f64], grid: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; problem.y().n_elems() as usize];
    for_each_term(problem, grid, |term| y[term.y] += if term.weight == 0.0 { 0.0 } else { term.weight * x[term.x] });
    y
}

/// dx from grid and dy.
pub fn backward_data(problem: &GridSampleProblem, grid: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; problem.x().n_elems() as usize];
    for_each_term(problem, grid, |term| dx[term.x] += if term.weight == 0.0 { 0.0 } else { term.weight * dy[term.y] });
    dx
}

/// dgrid from x, grid and dy.
pub fn backward_grid(problem: &GridSampleProblem, x: &[f64], grid: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dgrid = vec![0.0; grid.len()];
    for_each_term(problem, grid, |term| {
        for (i, &slope) in term.slopes.iter().enumerate() {
            dgrid[term.grid + i] += if slope == 0.0 { 0.0 } else { slope * x[term.x] * dy[term.y] };
        }
    });
    dgrid
}

/// An element of x that an element of y reads.
struct Term {
    x: usize,
    y: usize,
    /// Where the output's coordinates begin in grid.
    grid: usize,
    weight: f64,
    /// How fast the weight grows with each coordinate.
    slopes: Vec<f64>,
}

fn for_each_term(problem: &GridSampleProblem, grid: &[f64], mut body: impl FnMut(Term)) {
    let s = problem.shape();
    let (pixels, positions) = (s.image.iter().product::<i64>() as usize, s.output.iter().product::<i64>() as usize);
    let images = &problem.x().dims()[2..];
    for n in 0..s.n as usize {
        for o in 0..positions {
            let begin = (n * positions + o) * s.n_axes;
            // Coordinates name axes from the last to the first.
            let along: Vec<Vec<Neighbour>> = (0..s.n_axes)
                .map(|axis| neighbours(problem, grid[begin + s.n_axes - 1 - axis], images[axis]))
                .collect();
            let mut found = vec![(0usize, Vec::<Neighbour>::new())];
            for (axis, along) in along.iter().enumerate() {
                let extent = images[axis] as usize;
                let join = |(at, list): &(usize, Vec<Neighbour>)| {
                    let (at, list) = (*at, list.clone());
                    along.iter().map(move |next| (at * extent + next.at, [&list[..], &[*next]].concat()))
                };
                found = found.iter().flat_map(join).collect();
            }
            for c in 0..s.c as usize {
                for (at, list) in &found {
                    let product = |slope_of: Option<usize>| {
                        let factor = |(axis, neighbour): (usize, &Neighbour)| {
                            if slope_of == Some(axis) { neighbour.slope } else { neighbour.weight }
                        };
                        list.iter().enumerate().map(factor).product::<f64>()
                    };
                    body(Term {
                        x: (n * s.c as usize + c) * pixels + at,
                        y: (n * s.c as usize + c) * positions + o,
                        grid: begin,
                        weight: product(None),
                        slopes: (0..s.n_axes).rev().map(|axis| product(Some(axis))).collect(),
                    });
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Neighbour {
    at: usize,
    weight: f64,
    slope: f64,
}

/// The neighbours in the image along an axis.
fn neighbours(problem: &GridSampleProblem, g: f64, extent: i64) -> Vec<Neighbour> {
    let desc = problem.desc();
    let size = extent as f64;
    // Between mirrors, places come again after 4 of the grid's units: an exact remainder, however large the coordinate.
    let g = if desc.padding == GridPadding::Reflection { g % 4.0 } else { g };
    let (place, mut speed) = if desc.align_corners {
        ((g + 1.0) / 2.0 * (size - 1.0), (size - 1.0) / 2.0)
    } else {
        (((g + 1.0) * size - 1.0) / 2.0, size / 2.0)
    };
    let still = |at: i64| vec![Neighbour { at: at as usize, weight: 1.0, slope: 0.0 }];
    match desc.padding {
        _ if place.abs() < FAR => {}
        GridPadding::Zeros => return Vec::new(),
        GridPadding::Border if place > 0.0 => return still(extent - 1),
        // NaN too: only the border has an end for what is infinite.
        GridPadding::Border | GridPadding::Reflection => return still(0),
    }
    let within = |at: f64| {
        let at = if desc.mode == GridSampleMode::Cubic { padded(problem, at, size).0 } else { at };
        (at >= 0.0 && at < size).then_some(at as usize)
    };
    let mut list = Vec::new();
    let mut push = |at: f64, weight: f64, slope: f64| {
        list.extend(within(at).map(|at| Neighbour { at, weight, slope }));
    };
    if desc.mode == GridSampleMode::Cubic {
        let (below, a) = (place.floor(), -0.75);
        for i in -1..=2 {
            let at = below + f64::from(i);
            let (d, sign) = ((at - place).abs(), if at > place { -1.0 } else { 1.0 });
            let (weight, slope) = if d <= 1.0 {
                ((a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0, 3.0 * (a + 2.0) * d.powi(2) - 2.0 * (a + 3.0) * d)
            } else if d < 2.0 {
                (
                    a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
                    3.0 * a * d.powi(2) - 10.0 * a * d + 8.0 * a,
                )
            } else {
                (0.0, 0.0)
            };
            push(at, weight, sign * slope * speed);
        }
        return list;
    }
    let (place, factor) = padded(problem, place, size);
    speed *= factor;
    if desc.mode == GridSampleMode::Nearest {
        push(place.round_ties_even(), 1.0, 0.0);
    } else {
        let below = place.floor();
        push(below, below + 1.0 - place, -speed);
        push(below + 1.0, place - below, speed);
    }
    list
}

/// Places this far from 0 are beyond every image, and their neighbours are no numbers of their own.
const FAR: f64 = 1e15;

/// What padding makes of a place, and the factor of its slope.
fn padded(problem: &GridSampleProblem, place: f64, size: f64) -> (f64, f64) {
    let desc = problem.desc();
    let (mut place, mut factor) = (place, 1.0);
    if desc.padding == GridPadding::Zeros {
        return (place, factor);
    }
    if desc.padding == GridPadding::Reflection {
        let (low, high) = if desc.align_corners { (0.0, size - 1.0) } else { (-0.5, size - 0.5) };
        if high <= low {
            return (0.0, 0.0);
        }
        // One mirror after another.
        while place < low || place > high {
            (place, factor) = if place < low { (2.0 * low - place, -factor) } else { (2.0 * high - place, -factor) };
        }
    }
    if place <= 0.0 {
        (0.0, 0.0)
    } else if place >= size - 1.0 {
        (size - 1.0, 0.0)
    } else {
        (place, factor)
    }
}
