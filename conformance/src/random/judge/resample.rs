//! Resampling and grids: the elements around each place, weighed.

use super::super::draw::Drawn;
use super::{Elems, Wide, counted, float, indices, int, list, place, word};

/// Elements of an axis with their weights; none where the place is outside and a constant stands there.
type Taps = Option<Vec<(usize, f64)>>;

/// A place as a fraction, so that which element is the nearest is exact.
#[derive(Clone, Copy)]
enum Place {
    Ratio(i128, i128),
    Real(f64),
}

impl Place {
    fn real(self) -> f64 {
        match self {
            Place::Ratio(above, below) => above as f64 / below as f64,
            Place::Real(place) => place,
        }
    }

    /// The largest integer that is not above the place.
    fn floor(self) -> i64 {
        match self {
            Place::Ratio(above, below) => above.div_euclid(below) as i64,
            Place::Real(place) => place.floor() as i64,
        }
    }

    fn negated(self) -> Self {
        match self {
            Place::Ratio(above, below) => Place::Ratio(-above, below),
            Place::Real(place) => Place::Real(-place),
        }
    }

    fn plus_half(self) -> Self {
        match self {
            Place::Ratio(above, below) => Place::Ratio(2 * above + below, 2 * below),
            Place::Real(place) => Place::Real(place + 0.5),
        }
    }

    fn nearest(self, round: &str) -> i64 {
        match round {
            "floor" => self.floor(),
            "ceil" => -self.negated().floor(),
            "round_prefer_ceil" => self.plus_half().floor(),
            // Half of the way goes down.
            _ => -self.negated().plus_half().floor(),
        }
    }
}

/// Keys' cubic.
fn cubic(a: f64, distance: f64) -> f64 {
    let x = distance.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

/// What becomes of one axis.
struct Axis {
    length: usize,
    resized: usize,
    /// Where it is given, or common to all axes.
    scale: Option<f64>,
    region: [f64; 2],
}

impl Axis {
    fn scale(&self) -> f64 {
        self.scale.unwrap_or(self.resized as f64 / self.length as f64)
    }

    /// Where an index of the result is, by the name of the coordinates.
    fn place(&self, coordinates: &str, i: usize) -> Place {
        let (length, resized, index) = (self.length as i128, self.resized as i128, i as i128);
        // Where a scale is given, it says how long the result is.
        let wide = self.scale.map_or(self.resized as f64, |scale| scale * self.length as f64);
        let half_pixel = || match self.scale {
            Some(scale) => Place::Real((i as f64 + 0.5) / scale - 0.5),
            None => Place::Ratio((2 * index + 1) * length - resized, 2 * resized),
        };
        match coordinates {
            "asymmetric" => match self.scale {
                Some(scale) => Place::Real(i as f64 / scale),
                None => Place::Ratio(index * length, resized),
            },
            "align_corners" if wide == 1.0 => Place::Ratio(0, 1),
            "align_corners" => match self.scale {
                Some(_) => Place::Real((index * (length - 1)) as f64 / (wide - 1.0)),
                None => Place::Ratio(index * (length - 1), resized - 1),
            },
            "pytorch_half_pixel" if resized == 1 => Place::Ratio(0, 1),
            "half_pixel_symmetric" => {
                let middle = self.length as f64 / 2.0 * (1.0 - self.resized as f64 / wide);
                if self.scale.is_none() { half_pixel() } else { Place::Real(middle + half_pixel().real()) }
            }
            "tf_crop_and_resize" => {
                let (last, [begin, end]) = ((self.length - 1) as f64, self.region);
                let from = if wide == 1.0 { 0.5 * (end - begin) } else { i as f64 * (end - begin) / (wide - 1.0) };
                Place::Real(begin * last + from * last)
            }
            _ => half_pixel(),
        }
    }

    fn taps(&self, drawn: &Drawn, i: usize) -> Taps {
        let coordinates = word(drawn, "coordinate_transformation_mode", "half_pixel");
        let last = self.length as i64 - 1;
        let is_whole = self.resized == self.length && self.scale() == 1.0 && self.region == [0.0, 1.0];
        if is_whole {
            return Some(vec![(i, 1.0)]);
        }
        let at = self.place(&coordinates, i);
        if coordinates == "tf_crop_and_resize" && !(0.0..=last as f64).contains(&at.real()) {
            return None;
        }
        let mode = word(drawn, "mode", "nearest");
        if mode == "nearest" {
            let nearest = at.nearest(&word(drawn, "nearest_mode", "round_prefer_floor"));
            return Some(vec![(nearest.clamp(0, last) as usize, 1.0)]);
        }
        let shrinks = if int(drawn, "antialias", 0) != 0 { self.scale().min(1.0) } else { 1.0 };
        let a = float(drawn, "cubic_coeff_a", -0.75);
        let (reach, at) = (if mode == "cubic" { 2.0 } else { 1.0 }, at.real());
        let weight = |j: i64| {
            let distance = (j as f64 - at) * shrinks;
            if mode == "cubic" { cubic(a, distance) } else { (1.0 - distance.abs()).max(0.0) }
        };
        let first = at.floor() as i64 + (-reach / shrinks).floor() as i64;
        let behind = at.floor() as i64 + 2 + (reach / shrinks).ceil() as i64;
        let excludes = int(drawn, "exclude_outside", 0) != 0;
        let members: Vec<i64> = (first..behind).filter(|j| !excludes || (0..=last).contains(j)).collect();
        let sum: f64 = members.iter().map(|&j| weight(j)).sum();
        Some(members.iter().map(|&j| (j.clamp(0, last) as usize, weight(j) / sum)).collect())
    }
}

/// What a resampling makes of its input.
pub fn resized(drawn: &Drawn) -> Vec<Wide> {
    let x = Wide::of(drawn.inputs[0].as_ref().expect("an input"));
    let is_old = drawn.opset < 11;
    let axes = if is_old { old_axes(drawn, &x) } else { axes(drawn, &x) };
    let dims: Vec<usize> = axes.iter().map(|axis| axis.resized).collect();
    let one = |axis: &Axis, i: usize| if is_old { old_taps(drawn, axis, i) } else { axis.taps(drawn, i) };
    let taps: Vec<Vec<Taps>> = axes.iter().map(|axis| (0..axis.resized).map(|i| one(axis, i)).collect()).collect();
    let outside = float(drawn, "extrapolation_value", 0.0);
    let y = weighed(&x, &dims, outside, |index| index.iter().zip(&taps).map(|(&i, taps)| taps[i].clone()).collect());
    // A weight of 1 may be what a sum was divided by itself for.
    vec![Wide { exact: word(drawn, "mode", "nearest") == "nearest", ..y }]
}

/// The result of taps along each axis of all of x.
fn weighed(x: &Wide, dims: &[usize], outside: f64, taps: impl Fn(&[usize]) -> Option<Vec<Vec<(usize, f64)>>>) -> Wide {
    let all: Vec<_> = indices(dims).iter().map(|index| taps(index)).collect();
    let is_copy = |taps: &Option<Vec<Vec<(usize, f64)>>>| {
        taps.as_ref().is_none_or(|axes| axes.iter().all(|taps| matches!(taps[..], [(_, 1.0)])))
    };
    if all.iter().all(is_copy) {
        // An element each: nothing is computed.
        let at = |axes: &Vec<Vec<(usize, f64)>>| place(&x.dims, &axes.iter().map(|taps| taps[0].0).collect::<Vec<_>>());
        return x.picked(dims, &all.iter().map(|taps| taps.as_ref().map(at)).collect::<Vec<_>>(), outside);
    }
    let values = x.reals();
    let most = values.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let one = |axes: &Option<Vec<Vec<(usize, f64)>>>| {
        let Some(axes) = axes else { return (outside, 0.0) };
        let (mut sum, mut all) = (0.0, 0.0);
        for choice in indices(&axes.iter().map(Vec::len).collect::<Vec<_>>()) {
            let picked: Vec<(usize, f64)> = choice.iter().zip(axes).map(|(&i, taps)| taps[i]).collect();
            let at = place(&x.dims, &picked.iter().map(|tap| tap.0).collect::<Vec<_>>());
            let term = picked.iter().map(|tap| tap.1).product::<f64>() * values[at];
            (sum, all) = (sum + term, all + term.abs());
        }
        (sum, all + most)
    };
    Wide::real(x.element, dims, all.iter().map(one).collect())
}

/// Scales of Upsample and of version 10 of Resize.
fn old_axes(drawn: &Drawn, x: &Wide) -> Vec<Axis> {
    let scales: Vec<f64> = match drawn.get("scales") {
        Some(scales) => scales.floats.iter().map(|&scale| f64::from(scale)).collect(),
        None if drawn.opset < 7 => {
            vec![1.0, 1.0, float(drawn, "height_scale", 1.0), float(drawn, "width_scale", 1.0)]
        }
        None => Wide::of(drawn.inputs[1].as_ref().expect("scales")).reals(),
    };
    let axis = |(&length, &scale): (&usize, &f64)| Axis {
        length,
        resized: (length as f64 * scale) as usize,
        scale: Some(scale),
        region: [0.0, 1.0],
    };
    x.dims.iter().zip(&scales).map(axis).collect()
}

/// What is around `i / scale`; the nearest element is the one below of an axis that grows, that above of one that shrinks.
fn old_taps(drawn: &Drawn, axis: &Axis, i: usize) -> Taps {
    let (at, last) = (i as f64 / axis.scale(), axis.length - 1);
    if word(drawn, "mode", "nearest") == "nearest" {
        let nearest = if axis.scale() < 1.0 { at.ceil() } else { at.floor() };
        return Some(vec![((nearest as usize).min(last), 1.0)]);
    }
    let (below, share) = ((at.floor() as usize).min(last), at - at.floor());
    Some(vec![(below, 1.0 - share), ((below + 1).min(last), share)])
}

fn axes(drawn: &Drawn, x: &Wide) -> Vec<Axis> {
    let rank = x.dims.len();
    let whole = |&length: &usize| Axis { length, resized: length, scale: None, region: [0.0, 1.0] };
    let mut axes: Vec<Axis> = x.dims.iter().map(whole).collect();
    let named: Vec<usize> = match list(drawn, "axes", 9) {
        Some(axes) => axes.iter().map(|&axis| counted(axis, rank)).collect(),
        None => (0..rank).collect(),
    };
    let given = |i: usize| {
        let value = drawn.inputs.get(i).and_then(Option::as_ref).map(Wide::of);
        value.filter(|value| value.dims != [0])
    };
    if let Some(roi) = given(1) {
        let roi = roi.reals();
        named.iter().enumerate().for_each(|(i, &axis)| axes[axis].region = [roi[i], roi[named.len() + i]]);
    }
    if let Some(scales) = given(2) {
        for (&axis, scale) in named.iter().zip(scales.reals()) {
            axes[axis].scale = Some(scale);
            axes[axis].resized = (x.dims[axis] as f64 * scale).floor() as usize;
        }
        return axes;
    }
    let sizes = given(3).map(|sizes| sizes.ints()).unwrap_or_default();
    let ratios: Vec<(i128, i128)> =
        named.iter().zip(&sizes).map(|(&axis, &size)| (size, x.dims[axis] as i128)).collect();
    let below = |a: &(i128, i128), b: &(i128, i128)| (a.0 * b.1).cmp(&(b.0 * a.1));
    let common = match &word(drawn, "keep_aspect_ratio_policy", "stretch")[..] {
        "not_larger" => ratios.iter().copied().min_by(below),
        "not_smaller" => ratios.iter().copied().max_by(below),
        _ => None,
    };
    for (&axis, &size) in named.iter().zip(&sizes) {
        axes[axis].resized = size as usize;
        if let Some((above, under)) = common {
            axes[axis].resized = ((2 * above * x.dims[axis] as i128 + under) / (2 * under)) as usize;
            axes[axis].scale = Some(above as f64 / under as f64);
        }
    }
    axes
}

/// What a grid makes of an image, or a matrix of a grid.
pub fn sampled(drawn: &Drawn) -> Vec<Wide> {
    if drawn.node.op_type == "AffineGrid" { vec![affine_grid(drawn)] } else { vec![grid_sample(drawn)] }
}

/// A place reflected at both borders until it lies between them.
fn reflected(at: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    let beyond = (at - low).rem_euclid(2.0 * range);
    low + if beyond > range { 2.0 * range - beyond } else { beyond }
}

fn grid_sample(drawn: &Drawn) -> Wide {
    let [x, grid] = [0, 1].map(|i| Wide::of(drawn.inputs[i].as_ref().expect("an input")));
    let n_axes = x.dims.len() - 2;
    let (mode, padding) = (word(drawn, "mode", "linear"), word(drawn, "padding_mode", "zeros"));
    let align_corners = int(drawn, "align_corners", 0) != 0;
    let dims = [&x.dims[..2], &grid.dims[1..=n_axes]].concat();
    let places = grid.reals();
    let taps = |index: &[usize]| {
        let axis = |i: usize| {
            let of_grid = [&index[..1], &index[2..], &[n_axes - 1 - i]].concat();
            axis_taps(places[place(&grid.dims, &of_grid)], x.dims[2 + i], &mode, &padding, align_corners)
        };
        let outer = index[..2].iter().map(|&i| vec![(i, 1.0)]);
        Some(outer.chain((0..n_axes).map(axis)).collect())
    };
    Wide { exact: mode == "nearest", ..padded(&x, &dims, taps) }
}

/// The same where taps may be none: elements of zeros.
fn padded(x: &Wide, dims: &[usize], taps: impl Fn(&[usize]) -> Option<Vec<Vec<(usize, f64)>>>) -> Wide {
    weighed(x, dims, 0.0, |index| taps(index).filter(|axes| axes.iter().all(|taps| !taps.is_empty())))
}

/// Elements of an axis around a place of a grid, from -1 to 1, with their weights.
fn axis_taps(at: f64, length: usize, mode: &str, padding: &str, align_corners: bool) -> Vec<(usize, f64)> {
    let (wide, last) = (length as f64, length as i64 - 1);
    let at = if align_corners { (at + 1.0) / 2.0 * (wide - 1.0) } else { ((at + 1.0) * wide - 1.0) / 2.0 };
    let (low, high) = if align_corners { (0.0, wide - 1.0) } else { (-0.5, wide - 0.5) };
    let mut at = if mode == "nearest" { at.round_ties_even() } else { at };
    if padding == "border" && !(low..=high).contains(&at) {
        at = at.clamp(0.0, wide - 1.0);
    }
    if padding == "reflection" {
        at = reflected(at, low, high);
    }
    // Far outside is outside.
    let at = at.clamp(-1e9, 1e9);
    let below = at.floor() as i64;
    let around: Vec<(i64, f64)> = match mode {
        "nearest" => vec![(below, 1.0)],
        "linear" | "bilinear" => vec![(below, 1.0 - (at - at.floor())), (below + 1, at - at.floor())],
        _ => (below - 1..below + 3).map(|i| (i, cubic(-0.75, i as f64 - at))).collect(),
    };
    let inside = |(i, weight): (i64, f64)| {
        let i = match padding {
            "border" => i.clamp(0, last),
            "reflection" => reflected(i as f64, low, high) as i64,
            _ => i,
        };
        (0..=last).contains(&i).then_some((i as usize, weight))
    };
    around.into_iter().filter_map(inside).collect()
}

fn affine_grid(drawn: &Drawn) -> Wide {
    let theta = Wide::of(drawn.inputs[0].as_ref().expect("an input"));
    let size = list(drawn, "size", 1).unwrap_or_default();
    let n_axes = size.len() - 2;
    let image: Vec<usize> = size[2..].iter().map(|&dim| dim as usize).collect();
    let align_corners = int(drawn, "align_corners", 0) != 0;
    let dims = [&theta.dims[..1], &image, &[n_axes]].concat();
    let values = theta.reals();
    let one = |index: &Vec<usize>| {
        // The last axis of the image comes first, and 1 behind all.
        let base = |j: usize| {
            if j == n_axes {
                return 1.0;
            }
            let (i, dim) = (index[n_axes - j] as f64, image[n_axes - 1 - j] as f64);
            if align_corners { 2.0 * i / (dim - 1.0) - 1.0 } else { (2.0 * i + 1.0) / dim - 1.0 }
        };
        let term = |j: usize| values[place(&theta.dims, &[index[0], index[n_axes + 1], j])] * base(j);
        (0..=n_axes).map(term).fold((0.0, 0.0), |(sum, all), term: f64| (sum + term, all + term.abs()))
    };
    let elems = Elems::Real(indices(&dims).iter().map(one).collect());
    Wide { element: theta.element, dims, elems, exact: false }
}
