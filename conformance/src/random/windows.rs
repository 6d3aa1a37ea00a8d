//! Operators with windows that move over an image: convolutions and poolings.

use super::draw::{Drawn, Holds, Rng, tensor};
use crate::value::ElementType::{self, *};
use crate::value::Value;

const REAL: [ElementType; 4] = [Float, Float, Double, Float16];

/// Types with a fraction that operators have in a version.
fn real(rng: &mut Rng, opset: i64) -> ElementType {
    if opset >= 22 && rng.chance(20) { Bfloat16 } else { rng.pick(&REAL) }
}

/// Windows with the image that they move over.
struct Windows {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    /// How padding is found; none where it is given.
    auto: Option<&'static str>,
    /// Padding at all begins and then at all ends, less than a kernel.
    pads: Vec<i64>,
    image: Vec<i64>,
}

impl Windows {
    fn new(rng: &mut Rng, dilates: bool) -> Self {
        let n_axes = rng.pick(&[1, 2, 2, 3]);
        let mut list = |low, high| (0..n_axes).map(|_| rng.int(low, high)).collect::<Vec<_>>();
        let (kernel, stride, mut dilation) = (list(1, 3), list(1, 3), list(1, 2));
        if !dilates || rng.chance(60) {
            dilation.fill(1);
        }
        let auto = rng.pick(&[None, None, None, Some("NOTSET"), Some("VALID"), Some("SAME_UPPER"), Some("SAME_LOWER")]);
        let is_padded = matches!(auto, None | Some("NOTSET")) && rng.chance(60);
        let pad = |&kernel: &i64| if is_padded { rng.int(0, kernel - 1) } else { 0 };
        let pads: Vec<i64> = kernel.iter().chain(&kernel).map(pad).collect();
        let extent = |axis: usize| (kernel[axis] - 1) * dilation[axis] + 1;
        let image = (0..n_axes).map(|axis| extent(axis) + rng.int(0, 4)).collect();
        Windows { kernel, stride, dilation, auto, pads, image }
    }

    /// Says it to a node; what is the default may be left out.
    fn say(&self, rng: &mut Rng, mut drawn: Drawn) -> Drawn {
        let lists = [("strides", &self.stride, 1), ("dilations", &self.dilation, 1), ("pads", &self.pads, 0)];
        for (name, list, default) in lists {
            if list.iter().any(|&value| value != default) || (name == "strides" && rng.chance(30)) {
                drawn = drawn.ints(name, list);
            }
        }
        match self.auto {
            Some(auto) => drawn.word("auto_pad", auto),
            None => drawn,
        }
    }
}

/// A convolution, transposed or of integers too.
pub fn convolution(rng: &mut Rng) -> Drawn {
    match rng.int(0, 9) {
        0..5 => conv(rng),
        5..8 => conv_transpose(rng),
        8 => conv_integer(rng),
        _ => causal(rng),
    }
}

/// An image and filters in groups.
struct Filters {
    groups: i64,
    x: Vec<i64>,
    w: Vec<i64>,
    n_filters: i64,
}

fn filters(rng: &mut Rng, windows: &Windows, transposed: bool) -> Filters {
    let groups = rng.pick(&[1, 1, 2, 3]);
    let (of_x, of_y) = (rng.int(1, 3), rng.int(1, 3));
    let w = if transposed { [groups * of_x, of_y] } else { [groups * of_y, of_x] };
    let x = [&[rng.int(1, 2), groups * of_x], &windows.image[..]].concat();
    Filters { groups, x, w: [&w, &windows.kernel[..]].concat(), n_filters: groups * of_y }
}

fn conv(rng: &mut Rng) -> Drawn {
    let (windows, opset) = (Windows::new(rng, true), rng.pick(&[1, 11, 22]));
    let (filters, element) = (filters(rng, &windows, false), real(rng, opset));
    let drawn = Drawn::new("Conv", opset).input(tensor(rng, element, &filters.x, Holds::Small));
    let drawn = drawn.input(tensor(rng, element, &filters.w, Holds::Small));
    let drawn = said(rng, drawn, &windows, filters.groups);
    if rng.chance(50) { drawn.input(tensor(rng, element, &[filters.n_filters], Holds::Small)) } else { drawn }
}

fn said(rng: &mut Rng, drawn: Drawn, windows: &Windows, groups: i64) -> Drawn {
    let mut drawn = windows.say(rng, drawn);
    if groups > 1 || rng.chance(30) {
        drawn = drawn.int("group", groups);
    }
    if rng.chance(50) { drawn.ints("kernel_shape", &windows.kernel) } else { drawn }
}

fn conv_transpose(rng: &mut Rng) -> Drawn {
    let (mut windows, opset) = (Windows::new(rng, true), rng.pick(&[1, 11, 22]));
    let n_axes = windows.kernel.len();
    windows.image = (0..n_axes).map(|_| rng.int(1, 5)).collect();
    if windows.auto.is_some_and(|auto| auto.starts_with("SAME")) {
        // Windows that reach each other: the result is not larger than what they meet.
        (0..n_axes).for_each(|axis| windows.stride[axis] = windows.stride[axis].min(windows.kernel[axis]));
    }
    let more: Vec<i64> = windows.stride.iter().map(|&stride| rng.int(0, stride - 1)).collect();
    let has_more = windows.auto.is_none() && rng.chance(40);
    let reach = |axis: usize| {
        let extent = (windows.kernel[axis] - 1) * windows.dilation[axis] + 1;
        windows.stride[axis] * (windows.image[axis] - 1) + extent + if has_more { more[axis] } else { 0 }
    };
    let reaches: Vec<i64> = (0..n_axes).map(reach).collect();
    // Something is left of each axis.
    for (axis, &reach) in reaches.iter().enumerate() {
        if reach <= windows.pads[axis] + windows.pads[n_axes + axis] {
            (windows.pads[axis], windows.pads[n_axes + axis]) = (0, 0);
        }
    }
    let asks = opset >= 11 && windows.pads.iter().all(|&pad| pad == 0) && windows.auto.is_none() && rng.chance(40);
    let (filters, element) = (filters(rng, &windows, true), real(rng, opset));
    let drawn = Drawn::new("ConvTranspose", opset).input(tensor(rng, element, &filters.x, Holds::Small));
    let drawn = drawn.input(tensor(rng, element, &filters.w, Holds::Small));
    let mut drawn = said(rng, drawn, &windows, filters.groups);
    if has_more {
        drawn = drawn.ints("output_padding", &more);
    }
    if asks {
        let shape: Vec<i64> = reaches.iter().map(|&reach| rng.int((reach - 3).max(1), reach)).collect();
        drawn = drawn.ints("output_shape", &shape);
    }
    if rng.chance(50) { drawn.input(tensor(rng, element, &[filters.n_filters], Holds::Small)) } else { drawn }
}

fn conv_integer(rng: &mut Rng) -> Drawn {
    let windows = Windows::new(rng, true);
    let filters = filters(rng, &windows, false);
    let (of_x, of_w) = (rng.pick(&[Uint8, Int8]), rng.pick(&[Uint8, Int8]));
    let drawn = Drawn::new("ConvInteger", 10).input(tensor(rng, of_x, &filters.x, Holds::Edges));
    let drawn = drawn.input(tensor(rng, of_w, &filters.w, Holds::Edges));
    let drawn = said(rng, drawn, &windows, filters.groups);
    zero_points(rng, drawn, [of_x, of_w])
}

/// Zero points of a product of integers, most often none.
pub fn zero_points(rng: &mut Rng, drawn: Drawn, elements: [ElementType; 2]) -> Drawn {
    if rng.chance(60) {
        return drawn;
    }
    let is_zero = rng.chance(60);
    elements.into_iter().fold(drawn, |drawn, element| {
        let zero = i128::from(if is_zero { 0 } else { rng.int(0, 9) });
        drawn.input(super::draw::ints(element, &[], &[zero]))
    })
}

fn causal(rng: &mut Rng) -> Drawn {
    let [n, channels, len, kernel] = [rng.int(1, 2), rng.int(1, 4), rng.int(1, 6), rng.int(1, 4)];
    let element = rng.pick(&[Float, Float, Float16, Bfloat16]);
    let mut drawn =
        Drawn::new("CausalConvWithState", 27).input(tensor(rng, element, &[n, channels, len], Holds::Small));
    drawn = drawn.input(tensor(rng, element, &[channels, 1, kernel], Holds::Small));
    drawn =
        if rng.chance(50) { drawn.input(tensor(rng, element, &[channels], Holds::Small)) } else { drawn.no_input() };
    if kernel > 1 && rng.chance(60) {
        drawn = drawn.input(tensor(rng, element, &[n, channels, kernel - 1], Holds::Small));
    }
    if kernel > 1 && rng.chance(60) {
        drawn = drawn.output();
    }
    if rng.chance(60) { drawn.word("activation", rng.pick(&["none", "silu", "swish"])) } else { drawn }
}

/// A pooling by windows, of the whole image, or back.
pub fn pooling(rng: &mut Rng) -> Drawn {
    let op = rng.pick(&[
        "AveragePool",
        "AveragePool",
        "MaxPool",
        "MaxPool",
        "LpPool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "MaxUnpool",
    ]);
    match op {
        "MaxUnpool" => return unpooling(rng),
        "GlobalAveragePool" | "GlobalMaxPool" => {
            let (opset, dims) = (rng.pick(&[1, 22]), [rng.dims(2, 2, 3), rng.dims(1, 3, 5)].concat());
            let element = real(rng, opset);
            let holds = if op == "GlobalMaxPool" { Holds::Ordered } else { Holds::Small };
            return Drawn::new(op, opset).input(tensor(rng, element, &dims, holds));
        }
        _ => {}
    }
    let (opset, since) = match op {
        "AveragePool" => (rng.pick(&[1, 7, 10, 11, 19, 22]), 19),
        "MaxPool" => (rng.pick(&[1, 8, 10, 11, 12, 22]), 10),
        _ => (rng.pick(&[1, 2, 11, 18, 22]), 18),
    };
    let windows = Windows::new(rng, opset >= since);
    let dims = [rng.dims(2, 2, 3), windows.image.clone()].concat();
    let element = match op {
        "MaxPool" if opset >= 12 && rng.chance(30) => rng.pick(&[Int8, Uint8]),
        _ => real(rng, opset),
    };
    let with_places = op == "MaxPool" && opset >= 8 && rng.chance(50);
    let holds = if op == "MaxPool" && !with_places { Holds::Ordered } else { Holds::Small };
    let drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, holds)).ints("kernel_shape", &windows.kernel);
    let mut drawn = windows.say(rng, drawn);
    if opset >= if op == "LpPool" { 18 } else { 10 } && windows.auto.is_none() && rng.chance(40) {
        drawn = drawn.int("ceil_mode", 1);
    }
    if op == "AveragePool" && opset >= 7 && rng.chance(50) {
        drawn = drawn.int("count_include_pad", rng.int(0, 1));
    }
    if op == "LpPool" && rng.chance(70) {
        let p = rng.int(1, 4);
        drawn = if opset < 2 { drawn.float("p", p as f32) } else { drawn.int("p", p) };
    }
    if with_places {
        drawn = drawn.output();
        if rng.chance(50) {
            drawn = drawn.int("storage_order", rng.int(0, 1));
        }
    }
    drawn
}

fn unpooling(rng: &mut Rng) -> Drawn {
    let mut windows = Windows::new(rng, false);
    windows.auto = None;
    let n_axes = windows.kernel.len();
    let extents: Vec<i64> = (0..n_axes).map(|_| rng.int(2, 4)).collect();
    for axis in 0..n_axes {
        // Strides of at least a kernel give each element a place of its own.
        windows.stride[axis] = windows.stride[axis].max(windows.kernel[axis]);
        if windows.kernel[axis] < 3 {
            (windows.pads[axis], windows.pads[n_axes + axis]) = (0, 0);
        }
    }
    let outer = rng.dims(2, 2, 2);
    let dims = [&outer[..], &extents].concat();
    let extent = |axis: usize| {
        (extents[axis] - 1) * windows.stride[axis] + windows.kernel[axis]
            - windows.pads[axis]
            - windows.pads[n_axes + axis]
    };
    let image: Vec<i64> = (0..n_axes).map(extent).collect();
    let (n_places, n_elems): (i64, i64) = (image.iter().product(), extents.iter().product());
    let anywhere = rng.chance(10);
    let mut places = Vec::new();
    for plane in 0..outer.iter().product::<i64>() {
        let mut free: Vec<i64> = (0..n_places).collect();
        for element in 0..n_elems {
            let place = if anywhere {
                free.swap_remove(rng.int(0, free.len() as i64 - 1) as usize)
            } else {
                place_in_window(rng, &windows, &extents, &image, element)
            };
            places.push(plane * n_places + place);
        }
    }
    let opset = rng.pick(&[9, 11, 22]);
    let element = real(rng, opset);
    let drawn = Drawn::new("MaxUnpool", opset).input(tensor(rng, element, &dims, Holds::Small));
    let drawn = drawn.input(Value::of_ints(&places).with_dims(&dims)).ints("kernel_shape", &windows.kernel);
    let drawn = windows.say(rng, drawn);
    if rng.chance(60) {
        return drawn;
    }
    let larger: Vec<i64> = image.iter().map(|extent| extent + rng.int(0, 2)).collect();
    drawn.input(Value::of_ints(&[&outer[..], &larger].concat()))
}

/// A place in the image that is in the window of an element.
fn place_in_window(rng: &mut Rng, windows: &Windows, extents: &[i64], image: &[i64], element: i64) -> i64 {
    let (mut rest, mut place, mut stride) = (element, 0, 1);
    for axis in (0..extents.len()).rev() {
        let first = rest % extents[axis] * windows.stride[axis] - windows.pads[axis];
        let last = (first + windows.kernel[axis]).min(image[axis]) - 1;
        place += rng.int(first.max(0), last) * stride;
        (rest, stride) = (rest / extents[axis], stride * image[axis]);
    }
    place
}
