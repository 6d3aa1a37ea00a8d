//! Convolutions and poolings: each window of the result in turn.

use super::super::draw::Drawn;
use super::{Elems, Wide, float, indices, int, place, word};
use crate::value::ElementType;

/// Windows along one axis.
struct Axis {
    kernel: i64,
    stride: i64,
    dilation: i64,
    /// Padding at the begin and at the end.
    pads: [i64; 2],
    image: i64,
}

impl Axis {
    fn reach(&self) -> i64 {
        (self.kernel - 1) * self.dilation + 1
    }

    /// Number of windows; one that would start in the padding at the end is none.
    fn n_windows(&self, ceil: bool) -> usize {
        let room = self.image + self.pads[0] + self.pads[1] - self.reach();
        if !ceil {
            return (room / self.stride + 1) as usize;
        }
        let last = (room + self.stride - 1) / self.stride;
        (last + i64::from(last * self.stride < self.image + self.pads[0])) as usize
    }

    /// The place of an element of a window, in the padded image's bounds or beyond.
    fn at(&self, window: usize, element: usize) -> i64 {
        window as i64 * self.stride + element as i64 * self.dilation - self.pads[0]
    }
}

fn listed(drawn: &Drawn, name: &str) -> Option<Vec<i64>> {
    drawn.get(name).map(|attribute| attribute.ints.clone())
}

fn axes(drawn: &Drawn, image: &[usize], kernel: &[i64]) -> Vec<Axis> {
    let n_axes = image.len();
    let list = |name: &str, default: i64, n: usize| listed(drawn, name).unwrap_or_else(|| vec![default; n]);
    let (stride, dilation) = (list("strides", 1, n_axes), list("dilations", 1, n_axes));
    let pads = list("pads", 0, 2 * n_axes);
    let auto = word(drawn, "auto_pad", "NOTSET");
    let one = |i: usize| {
        let mut axis = Axis {
            kernel: kernel[i],
            stride: stride[i],
            dilation: dilation[i],
            pads: [pads[i], pads[n_axes + i]],
            image: image[i] as i64,
        };
        if auto.starts_with("SAME") {
            let n_windows = (axis.image + axis.stride - 1) / axis.stride;
            axis.pads = shared((n_windows - 1) * axis.stride + axis.reach() - axis.image, auto == "SAME_UPPER");
        }
        axis
    };
    (0..n_axes).map(one).collect()
}

/// Padding in equal halves; what is odd goes to the end or to the begin.
fn shared(total: i64, odd_at_end: bool) -> [i64; 2] {
    let (less, more) = (total.max(0) / 2, total.max(0) - total.max(0) / 2);
    if odd_at_end { [less, more] } else { [more, less] }
}

/// The place in an image of an element of a window, if it is none of the padding.
fn inside(axes: &[Axis], window: &[usize], element: &[usize]) -> Option<Vec<usize>> {
    let at = |i: usize| axes[i].at(window[i], element[i]);
    (0..axes.len()).map(|i| (0..axes[i].image).contains(&at(i)).then(|| at(i) as usize)).collect()
}

/// A result from the terms that each element is the sum of.
fn summed(element: ElementType, dims: &[usize], terms: &[Vec<[f64; 2]>]) -> Wide {
    let one =
        |terms: &Vec<[f64; 2]>| terms.iter().fold((0.0, 0.0), |(sum, all), [a, b]| (sum + a * b, all + (a * b).abs()));
    Wide::real(element, dims, terms.iter().map(one).collect())
}

/// What a convolution makes of its inputs.
pub fn convolution(drawn: &Drawn) -> Vec<Wide> {
    let x: Vec<Option<Wide>> = drawn.inputs.iter().map(|value| value.as_ref().map(Wide::of)).collect();
    match drawn.node.op_type.as_str() {
        "ConvTranspose" => vec![transposed(drawn, &x)],
        "CausalConvWithState" => causal(drawn, &x),
        "ConvInteger" => vec![of_integers(drawn, &x)],
        _ => {
            let [image, filters] = [0, 1].map(|i| x[i].as_ref().expect("an operand"));
            let (dims, places) = pairs(drawn, image, filters);
            let (x_values, w_values) = (image.reals(), filters.reals());
            let bias = x.get(2).and_then(Option::as_ref).map(Wide::reals);
            let terms: Vec<Vec<[f64; 2]>> = places
                .iter()
                .zip(indices(&dims))
                .map(|(places, index)| {
                    let products = places.iter().map(|&[x, w]| [x_values[x], w_values[w]]);
                    products.chain(bias.as_ref().map(|bias| [bias[index[1]], 1.0])).collect()
                })
                .collect();
            vec![summed(image.element, &dims, &terms)]
        }
    }
}

/// Extents of a convolution's result, and for each element the places of operands whose products it sums.
fn pairs(drawn: &Drawn, x: &Wide, w: &Wide) -> (Vec<usize>, Vec<Vec<[usize; 2]>>) {
    let kernel: Vec<i64> = w.dims[2..].iter().map(|&dim| dim as i64).collect();
    let axes = axes(drawn, &x.dims[2..], &kernel);
    let groups = int(drawn, "group", 1) as usize;
    let (per_group, in_group) = (w.dims[0] / groups, w.dims[1]);
    let windows: Vec<usize> = axes.iter().map(|axis| axis.n_windows(false)).collect();
    let dims = [&[x.dims[0], w.dims[0]], &windows[..]].concat();
    let elements = indices(&w.dims[1..]);
    let one = |index: &Vec<usize>| {
        let group = index[1] / per_group;
        let pair = |element: &Vec<usize>| {
            let at = inside(&axes, &index[2..], &element[1..])?;
            let of_x = [&[index[0], group * in_group + element[0]], &at[..]].concat();
            Some([place(&x.dims, &of_x), place(&w.dims, &[&[index[1]], &element[..]].concat())])
        };
        elements.iter().filter_map(pair).collect()
    };
    let places = indices(&dims).iter().map(one).collect();
    (dims, places)
}

fn of_integers(drawn: &Drawn, x: &[Option<Wide>]) -> Wide {
    let [image, filters] = [0, 1].map(|i| x[i].as_ref().expect("an operand"));
    let zero = |i: usize| x.get(i).and_then(Option::as_ref).map_or(0, |zero| zero.ints()[0]);
    let (dims, places) = pairs(drawn, image, filters);
    let (x_values, w_values) = (image.ints(), filters.ints());
    let one = |places: &Vec<[usize; 2]>| {
        places.iter().map(|&[x, w]| (x_values[x] - zero(2)) * (w_values[w] - zero(3))).sum::<i128>()
    };
    Wide::int(ElementType::Int32, &dims, places.iter().map(one).collect())
}

fn transposed(drawn: &Drawn, inputs: &[Option<Wide>]) -> Wide {
    let [x, w] = [0, 1].map(|i| inputs[i].as_ref().expect("an operand"));
    let kernel: Vec<i64> = w.dims[2..].iter().map(|&dim| dim as i64).collect();
    let n_axes = kernel.len();
    let mut axes = axes(drawn, &x.dims[2..], &kernel);
    let auto = word(drawn, "auto_pad", "NOTSET");
    let more = listed(drawn, "output_padding").unwrap_or_else(|| vec![0; n_axes]);
    let asked_for = listed(drawn, "output_shape");
    let mut image = Vec::new();
    for (i, axis) in axes.iter_mut().enumerate() {
        let reach = axis.stride * (axis.image - 1) + more[i] + axis.reach();
        let wanted = match &asked_for {
            Some(shape) => Some(shape[i]),
            None => auto.starts_with("SAME").then_some(axis.image * axis.stride),
        };
        if let Some(wanted) = wanted {
            axis.pads = shared(reach - wanted, auto == "SAME_UPPER");
        }
        image.push((reach - axis.pads[0] - axis.pads[1]) as usize);
    }
    let groups = int(drawn, "group", 1) as usize;
    let (per_group, in_group) = (w.dims[1], w.dims[0] / groups);
    let dims = [&[x.dims[0], per_group * groups], &image[..]].concat();
    let bias = inputs.get(2).and_then(Option::as_ref).map(Wide::reals);
    let mut terms: Vec<Vec<[f64; 2]>> =
        indices(&dims).iter().map(|index| bias.iter().map(|bias| [bias[index[1]], 1.0]).collect()).collect();
    let (x_values, w_values) = (x.reals(), w.reals());
    for (from, window) in indices(&x.dims).iter().enumerate() {
        for element in indices(&w.dims[1..]) {
            let at: Option<Vec<usize>> = (0..n_axes)
                .map(|i| {
                    let at = axes[i].at(window[2 + i], element[1 + i]);
                    (0..image[i] as i64).contains(&at).then_some(at as usize)
                })
                .collect();
            let Some(at) = at else { continue };
            let to = [&[window[0], window[1] / in_group * per_group + element[0]], &at[..]].concat();
            let filter = place(&w.dims, &[&[window[1]], &element[..]].concat());
            terms[place(&dims, &to)].push([x_values[from], w_values[filter]]);
        }
    }
    summed(x.element, &dims, &terms)
}

fn causal(drawn: &Drawn, inputs: &[Option<Wide>]) -> Vec<Wide> {
    let [x, w] = [0, 1].map(|i| inputs[i].as_ref().expect("an operand"));
    let (values, filters) = (x.reals(), w.reals());
    let [n, channels, len, n_past] = [x.dims[0], x.dims[1], x.dims[2], w.dims[2] - 1];
    let past = inputs.get(3).and_then(Option::as_ref).map(Wide::reals);
    let bias = inputs.get(2).and_then(Option::as_ref).map(Wide::reals);
    // The element at a place of a row that begins with the past ones.
    let at = |row: usize, i: usize| match i.checked_sub(n_past) {
        Some(i) => values[row * len + i],
        None => past.as_ref().map_or(0.0, |past| past[row * n_past + i]),
    };
    let one = |index: &Vec<usize>| {
        let (row, channel) = (index[0] * channels + index[1], index[1]);
        let terms = (0..=n_past).map(|k| at(row, index[2] + k) * filters[channel * (n_past + 1) + k]);
        let terms = terms.chain(bias.as_ref().map(|bias| bias[channel]));
        let (sum, all) = terms.fold((0.0, 0.0), |(sum, all), term: f64| (sum + term, all + term.abs()));
        match &word(drawn, "activation", "none")[..] {
            "none" => (sum, all),
            _ => (sum / (1.0 + (-sum).exp()), all),
        }
    };
    let y = Wide::real(x.element, &x.dims, indices(&x.dims).iter().map(one).collect());
    let dims = [n, channels, n_past];
    let kept = |index: &Vec<usize>| (at(index[0] * channels + index[1], len + index[2]), 0.0);
    let mut present = Wide::real(x.element, &dims, indices(&dims).iter().map(kept).collect());
    present.exact = true;
    if drawn.node.output.len() > 1 { vec![y, present] } else { vec![y] }
}

/// What a pooling makes of its input.
pub fn pooling(drawn: &Drawn) -> Vec<Wide> {
    let x = Wide::of(drawn.inputs[0].as_ref().expect("an input"));
    let op = drawn.node.op_type.as_str();
    if op == "MaxUnpool" {
        return vec![unpooling(drawn, &x)];
    }
    let is_global = op.starts_with("Global");
    let whole: Vec<i64> = x.dims[2..].iter().map(|&dim| dim as i64).collect();
    let kernel = if is_global { whole } else { listed(drawn, "kernel_shape").unwrap_or_default() };
    let axes = axes(drawn, &x.dims[2..], &kernel);
    let ceil = int(drawn, "ceil_mode", 0) != 0;
    let windows: Vec<usize> = axes.iter().map(|axis| axis.n_windows(ceil)).collect();
    let dims = [&x.dims[..2], &windows].concat();
    let kernel: Vec<usize> = kernel.iter().map(|&extent| extent as usize).collect();
    let elements = indices(&kernel);
    let all = indices(&dims);
    let members = |index: &Vec<usize>| {
        let at = |element: &Vec<usize>| inside(&axes, &index[2..], element);
        let to = |at: Vec<usize>| place(&x.dims, &[&index[..2], &at].concat());
        elements.iter().filter_map(at).map(to).collect::<Vec<usize>>()
    };
    if op.ends_with("MaxPool") {
        return maxima(drawn, &x, &dims, &all.iter().map(members).collect::<Vec<_>>());
    }
    let values = x.reals();
    if op == "LpPool" {
        let p = if drawn.opset < 2 { float(drawn, "p", 2.0) } else { int(drawn, "p", 2) as f64 };
        let one = |index: &Vec<usize>| {
            (members(index).iter().map(|&at| values[at].abs().powf(p)).sum::<f64>().powf(1.0 / p), 0.0)
        };
        return vec![Wide::real(x.element, &dims, all.iter().map(one).collect())];
    }
    let counts_pads = int(drawn, "count_include_pad", 0) != 0;
    let one = |index: &Vec<usize>| {
        let members = members(index);
        // What lies behind the padding at the end is no element of a window.
        let is_padded = |element: &&Vec<usize>| {
            let at = |i: usize| axes[i].at(index[2 + i], element[i]);
            (0..axes.len()).all(|i| at(i) < axes[i].image + axes[i].pads[1])
        };
        let n = if counts_pads { elements.iter().filter(is_padded).count() } else { members.len() } as f64;
        let (sum, all) = members.iter().fold((0.0, 0.0), |(sum, all), &at| (sum + values[at], all + values[at].abs()));
        (sum / n, all / n)
    };
    vec![Wide::real(x.element, &dims, all.iter().map(one).collect())]
}

/// The first of the largest elements of each window, and its place in the tensor.
fn maxima(drawn: &Drawn, x: &Wide, dims: &[usize], members: &[Vec<usize>]) -> Vec<Wide> {
    let (reals, ints) = (x.reals(), x.ints());
    let is_real = matches!(x.elems, Elems::Real(_));
    let is_larger = |a: usize, b: usize| if is_real { reals[a] > reals[b] } else { ints[a] > ints[b] };
    let first = |members: &Vec<usize>| {
        members[1..].iter().fold(members[0], |best, &at| if is_larger(at, best) { at } else { best })
    };
    let places: Vec<usize> = members.iter().map(first).collect();
    let y = x.picked(dims, &places.iter().copied().map(Some).collect::<Vec<_>>(), 0.0);
    if drawn.node.output.len() < 2 {
        return vec![y];
    }
    // Counted along the rows, or with a storage order of 1 along the columns.
    let mut strides: Vec<usize> = (0..x.dims.len()).map(|i| x.dims[i + 1..].iter().product()).collect();
    if int(drawn, "storage_order", 0) == 1 {
        (2..x.dims.len()).for_each(|i| strides[i] = x.dims[2..i].iter().product());
    }
    let index = indices(&x.dims);
    let number = |&at: &usize| index[at].iter().zip(&strides).map(|(i, stride)| i * stride).sum::<usize>() as i128;
    vec![y, Wide::int(ElementType::Int64, dims, places.iter().map(number).collect())]
}

/// Elements at the places that they were taken from, zeros elsewhere. Places are those in the image that windows need; it
/// stands in the first corner of a larger one.
fn unpooling(drawn: &Drawn, x: &Wide) -> Wide {
    let places = Wide::of(drawn.inputs[1].as_ref().expect("places")).ints();
    let axes = axes(drawn, &x.dims[2..], &listed(drawn, "kernel_shape").unwrap_or_default());
    let extent = |axis: &Axis| ((axis.image - 1) * axis.stride + axis.reach() - axis.pads[0] - axis.pads[1]) as usize;
    let image = [&x.dims[..2], &axes.iter().map(extent).collect::<Vec<_>>()].concat();
    let dims = match drawn.inputs.get(2).and_then(Option::as_ref) {
        Some(shape) => Wide::of(shape).ints().iter().map(|&dim| dim as usize).collect(),
        None => image.clone(),
    };
    let is_inside = |index: &Vec<usize>| index.iter().zip(&image).all(|(i, dim)| i < dim);
    let taken = |index: &Vec<usize>| {
        let at = place(&image, index) as i128;
        if is_inside(index) { places.iter().position(|&place| place == at) } else { None }
    };
    x.picked(&dims, &indices(&dims).iter().map(taken).collect::<Vec<_>>(), 0.0)
}
