//! Gradients: sums of parts, what rows and parameters make of them, and dx.

use super::forward::parts_of_row;
use super::place::{Place, elements, join_block, load, number, parameter, set_parameter, store};
use crate::math::element::Element;
use crate::math::vector::for_each;
use cuda_std::thread::{grid_threads_1d, index_1d, lane_id};
use cuda_std::{shared_array, warp};
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams, tensor};

const LANES: u32 = 32;

/// What [`gradient_sums`] and [`apply_gradients`] load of a place: x, dy, and y where there is an activation.
type Loaded = [[u32; 4]; 3];

#[inline(always)]
unsafe fn load_all<T: Element<Acc = f32>, const V: usize>(
    p: &ChannelwiseParams,
    place: &Place,
    image: u32,
    at: u32,
) -> Loaded {
    let has_y = p.addresses[tensor::Y] != 0;
    [
        load::<T, V>(place.address::<T>(p, tensor::X, image, at)),
        load::<T, V>(place.address::<T>(p, tensor::DY, image, at)),
        if has_y { load::<T, V>(place.address::<T>(p, tensor::Y, image, at)) } else { [0; 4] },
    ]
}

/// dy · act'.
#[inline(always)]
unsafe fn gradient<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams, loaded: &Loaded) -> [f32; V] {
    let mut g = elements::<T, V>(&loaded[1]);
    if p.addresses[tensor::Y] != 0 {
        let y = elements::<T, V>(&loaded[2]);
        for_each!(I < V, {
            let y = *y.get_unchecked(I);
            // No number is at least a bound that is none.
            *g.get_unchecked_mut(I) *= if y > p.low && !(y >= p.high) { 1.0 } else { 0.0 };
        });
    }
    g
}

/// Means and inverse standard deviations of a vector's channels.
#[inline(always)]
unsafe fn of_rows<const V: usize>(p: &ChannelwiseParams, place: &Place, image: u32) -> ([f32; V], [f32; V]) {
    (
        place.each::<V>(p, |i| number(p.mean, place.row(p, image, i))),
        place.each::<V>(p, |i| number(p.inv_std, place.row(p, image, i))),
    )
}

/// Σ g and Σ g x̂ of every channel of a part.
pub unsafe fn gradient_sums<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V>(p);
    let slots = shared_array![f32; 2 * BLOCK as usize];
    let mut sums = [[0.0f32; 2]; V];
    place.walk(
        |image| of_rows::<V>(p, &place, image),
        |image, at| load_all::<T, V>(p, &place, image, at),
        |(mean, inv_std), _, _, loaded| {
            let (x, g) = (elements::<T, V>(&loaded[0]), gradient::<T, V>(p, &loaded));
            for_each!(I < V, {
                let normal = (*x.get_unchecked(I) - *mean.get_unchecked(I)) * *inv_std.get_unchecked(I);
                let [g_sum, gx_sum] = sums.get_unchecked_mut(I);
                *g_sum += *g.get_unchecked(I);
                *gx_sum += *g.get_unchecked(I) * normal;
            });
        },
    );
    let add = |a: [f32; 2], b: [f32; 2]| [a[0] + b[0], a[1] + b[1]];
    let write = |channel: u32, [g, gx]: [f32; 2]| {
        let to = (p.partials as *mut f32).add((place.part * p.share.channels + channel) as usize);
        *to = g;
        *to.add((p.share.n_parts * p.share.channels) as usize) = gx;
    };
    let is_first = cuda_std::thread::thread_idx_x() < place.apart && place.there;
    if p.share.along_channels != 0 {
        for_each!(I < V, {
            let joined = join_block(slots, place.apart, *sums.get_unchecked(I), add);
            if is_first {
                write(place.channel + I as u32, joined);
            }
        });
    } else {
        let mut own = [0.0; 2];
        for_each!(I < V, {
            own = add(own, *sums.get_unchecked(I));
        });
        let joined = join_block(slots, place.apart, own, add);
        if is_first {
            write(place.channel, joined);
        }
    }
}

/// Σ h / m and Σ h x̂ / m of every row, dscale and dbias of every channel. A warp a row, then a warp a channel.
pub unsafe fn finish_gradients<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let s = &p.share;
    let (wide, strides) = (p.parameters_are_wide, &p.parameter_strides);
    let n_warps = (grid_threads_1d() / u64::from(LANES)) as u32;
    let second = s.n_parts * s.channels;
    let wants_parameters = p.dscale != 0 || p.dbias != 0;
    let n_items = p.n_rows + if wants_parameters { s.channels } else { 0 };
    let mut item = (index_1d() / u64::from(LANES)) as u32;
    while item < n_items {
        let of_row = item < p.n_rows;
        let (first_part, n_parts, first_channel) =
            if of_row { parts_of_row(p, item) } else { (0, s.n_parts, item - p.n_rows) };
        let n = if of_row { n_parts * p.channels_per_row.divisor } else { n_parts };
        let (mut g, mut gx) = (0.0f32, 0.0f32);
        let mut i = lane_id();
        while i < n {
            let (part, channel) = if of_row { p.channels_per_row.div_rem(i) } else { (i, 0) };
            let channel = first_channel + channel;
            let at = (first_part + part) * s.channels + channel;
            let factor = if of_row { parameter::<T>(p.scale, wide, strides[0], channel, 1.0) } else { 1.0 };
            g += factor * number(p.partials, at);
            gx += factor * number(p.partials, second + at);
            i += LANES;
        }
        warp::sync_warp();
        let (g, gx) = (warp::sum_f32(g), warp::sum_f32(gx));
        if lane_id() == 0 {
            if of_row {
                *(p.shift as *mut f32).add(item as usize) = g * p.row_share;
                *(p.tilt as *mut f32).add(item as usize) = gx * p.row_share;
            } else {
                blend::<T>(p, p.dscale, strides[2], first_channel, gx);
                blend::<T>(p, p.dbias, strides[3], first_channel, g);
            }
        }
        item += n_warps;
    }
}

/// Writes `alpha · result + beta · prior` where that is wanted.
#[inline(always)]
unsafe fn blend<T: Element<Acc = f32>>(p: &ChannelwiseParams, address: u64, stride: i64, channel: u32, result: f32) {
    if address == 0 {
        return;
    }
    let wide = p.parameters_are_wide;
    let mut value = p.alpha * result;
    if p.beta != 0.0 {
        value += p.beta * parameter::<T>(address, wide, stride, channel, 0.0);
    }
    set_parameter::<T>(address, wide, stride, channel, value);
}

/// dx and dz.
pub unsafe fn apply_gradients<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let place = Place::new::<V>(p);
    if !place.there {
        return;
    }
    let (wide, stride) = (p.parameters_are_wide, p.parameter_strides[0]);
    let scale = place.each::<V>(p, |i| parameter::<T>(p.scale, wide, stride, place.channel + i, 1.0));
    place.walk(
        |image| {
            let (mean, inv_std) = of_rows::<V>(p, &place, image);
            let shift = place.each::<V>(p, |i| number(p.shift, place.row(p, image, i)));
            let tilt = place.each::<V>(p, |i| number(p.tilt, place.row(p, image, i)));
            (mean, inv_std, shift, tilt)
        },
        |image, at| load_all::<T, V>(p, &place, image, at),
        |(mean, inv_std, shift, tilt), image, at, loaded| {
            let (x, g) = (elements::<T, V>(&loaded[0]), gradient::<T, V>(p, &loaded));
            let mut dx = g;
            for_each!(I < V, {
                let inv_std = *inv_std.get_unchecked(I);
                let normal = (*x.get_unchecked(I) - *mean.get_unchecked(I)) * inv_std;
                let h = *g.get_unchecked(I) * *scale.get_unchecked(I);
                *dx.get_unchecked_mut(I) = inv_std * (h - *shift.get_unchecked(I) - normal * *tilt.get_unchecked(I));
            });
            store::<T, V>(p, place.address::<T>(p, tensor::OUT, image, at), dx);
            if p.addresses[tensor::DZ] != 0 {
                store::<T, V>(p, place.address::<T>(p, tensor::DZ, image, at), g);
            }
        },
    );
}
