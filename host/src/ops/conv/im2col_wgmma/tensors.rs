//! Operands of a convolution as tensor maps describe them.

use super::{ALIGN_BYTES, ELEMENT_BYTES};
use crate::driver::{GpuContext, Im2col, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::div_ceil;
use crate::select::Refusal;
use crate::{Error, TensorDesc};
use kernel_abi::ops::conv::im2col_wgmma::access;

/// The largest extent whose indices the hardware's signed coordinates reach.
const MAX_EXTENT: i64 = i32::MAX as i64;

/// Strides must stay below this many bytes.
const MAX_STRIDE_BYTES: i64 = 1 << 40;

/// A channels-last tensor `[N, C, D, H, W]`.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::conv) struct Positions {
    /// Size of an element.
    pub(in crate::ops::conv) element_bytes: i64,
    pub(in crate::ops::conv) channels: i64,
    /// Extents of depth, height and width.
    pub(in crate::ops::conv) extents: [i64; 3],
    /// Distances along depth, height and width, in elements; where the extent is 1, that of a neighbouring axis.
    pub(in crate::ops::conv) strides: [i64; 3],
    pub(in crate::ops::conv) images: i64,
    pub(in crate::ops::conv) image_stride: i64,
}

/// How a tensor lies whose channels are not contiguous, or that the copy engine cannot write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::conv) struct Planes {
    /// Distance between channels, in elements: 1 where they are contiguous.
    pub(in crate::ops::conv) channel_stride: i64,
    /// The most bytes that can be stored at a time, where the tensor's address is a multiple of as many.
    pub(in crate::ops::conv) store_bytes: u32,
}

impl Planes {
    /// How it is stored, of [`access`].
    pub(in crate::ops::conv) fn access(&self) -> u32 {
        if self.channel_stride == 1 { access::ROWS } else { access::PLANES }
    }
}

/// How positions are visited: from where, how far apart, up to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::conv) struct Window {
    /// The first position along each axis.
    pub(in crate::ops::conv) first: [i64; 3],
    /// The last.
    pub(in crate::ops::conv) last: [i64; 3],
    /// The distance between neighbours.
    pub(in crate::ops::conv) step: [i64; 3],
}

impl Window {
    /// That of every position.
    pub(in crate::ops::conv) fn all(positions: &Positions) -> Self {
        Window { first: [0; 3], last: positions.extents.map(|extent| extent - 1), step: [1; 3] }
    }
}

impl Positions {
    /// Describes a tensor, or tells why a tensor map cannot.
    pub(in crate::ops::conv) fn of(name: &str, desc: &TensorDesc, written: bool) -> Result<Self, Refusal> {
        let absent = 5 - desc.rank();
        let channels = desc.dims()[1];
        if desc.strides()[1] != 1 && channels > 1 {
            let given = desc.strides()[1];
            return Err(Refusal::new(format!("needs {name} channels-last, the stride of its channels is {given}")));
        }
        let element_bytes = desc.dtype().size_bytes() as i64;
        let align = ALIGN_BYTES as i64 / element_bytes;
        // Stores were seen to end with 16 bytes (H200, driver 580.159); loads end with the element.
        if written && channels % align != 0 {
            return Err(Refusal::new(format!("writes channels by {align}, {name} has {channels}")));
        }
        let mut positions = Positions {
            element_bytes,
            channels,
            extents: [1; 3],
            strides: [0; 3],
            images: desc.dims()[0],
            image_stride: desc.strides()[0],
        };
        // From the innermost axis out, so that an axis of extent 1 can take the place behind its neighbour.
        let mut behind = div_ceil(channels, align) * align;
        for axis in (0..3).rev() {
            if axis >= absent {
                positions.extents[axis] = desc.dims()[2 + axis - absent];
            }
            let extent = positions.extents[axis];
            positions.strides[axis] = if extent > 1 { desc.strides()[2 + axis - absent] } else { behind };
            behind = positions.strides[axis] * extent;
        }
        if positions.images == 1 {
            positions.image_stride = behind;
        }
        for stride in positions.strides.into_iter().chain([positions.image_stride]) {
            let most = MAX_STRIDE_BYTES / element_bytes;
            if stride % align != 0 || stride <= 0 || stride >= most {
                let reason = format!(
                    "needs {name} with strides of a multiple of {align} elements above 0 and below {most}, one is \
                     {stride}"
                );
                return Err(Refusal::new(reason));
            }
        }
        for extent in positions.extents.into_iter().chain([channels, positions.images, positions.count()]) {
            if extent > MAX_EXTENT {
                return Err(Refusal::new(format!("counts up to {MAX_EXTENT} positions, {name} has {extent}")));
            }
        }
        Ok(positions)
    }

    /// Describes a tensor that threads access, of any strides.
    pub(in crate::ops::conv) fn anyhow(desc: &TensorDesc) -> Self {
        let [image_stride, _, d, h, w] = five(desc);
        let mut extents = [1; 3];
        let absent = 5 - desc.rank();
        for (i, &extent) in desc.dims()[2..].iter().enumerate() {
            extents[i + absent] = extent;
        }
        Positions {
            element_bytes: desc.dtype().size_bytes() as i64,
            channels: desc.dims()[1],
            extents,
            strides: [d, h, w],
            images: desc.dims()[0],
            image_stride,
        }
    }

    /// Describes a tensor that is written: channels-last as the copy engine writes it, or by threads, channels-last with
    /// any channels, or in planes.
    pub(in crate::ops::conv) fn written(name: &str, desc: &TensorDesc) -> Result<(Self, Option<Planes>), Refusal> {
        let (channels, channel_stride) = (desc.dims()[1], desc.strides()[1]);
        if (channels == 1 || channel_stride == 1)
            && let Ok(positions) = Self::of(name, desc, true)
        {
            return Ok((positions, None));
        }
        // A single channel is a plane.
        let channel_stride = if channels == 1 { 0 } else { channel_stride };
        let absent = 5 - desc.rank();
        let spatial = |values: &[i64], of_absent: i64| {
            std::array::from_fn(|axis| if axis < absent { of_absent } else { values[2 + axis - absent] })
        };
        let positions = Positions {
            element_bytes: ELEMENT_BYTES,
            channels,
            extents: spatial(desc.dims(), 1),
            strides: spatial(desc.strides(), 0),
            images: desc.dims()[0],
            image_stride: desc.strides()[0],
        };
        for extent in positions.extents.into_iter().chain([channels, positions.images, positions.count()]) {
            if extent > MAX_EXTENT {
                return Err(Refusal::new(format!("counts up to {MAX_EXTENT} positions, {name} has {extent}")));
            }
        }
        let image_stride = if positions.images > 1 { positions.image_stride } else { 0 };
        if channel_stride == 1 {
            let spatial = positions.extents.into_iter().zip(positions.strides);
            let strides =
                spatial.fold(image_stride, |all, (extent, stride)| if extent > 1 { all | stride } else { all });
            let all = strides | channels | (ALIGN_BYTES as i64 / ELEMENT_BYTES);
            let store_bytes = ELEMENT_BYTES as u32 * (1 << all.trailing_zeros());
            return Ok((positions, Some(Planes { channel_stride, store_bytes: store_bytes.min(8) })));
        }
        let one = Positions { images: 1, ..positions };
        let contiguous = one.count() == 1 || one.linear_stride() == Some(1);
        let all = one.count() | channel_stride | image_stride | (ALIGN_BYTES as i64 / ELEMENT_BYTES);
        let run = if contiguous { 1 << all.trailing_zeros() } else { 1 };
        Ok((positions, Some(Planes { channel_stride, store_bytes: run * ELEMENT_BYTES as u32 })))
    }

    /// Positions of all images.
    pub(in crate::ops::conv) fn count(&self) -> i64 {
        self.extents.iter().product::<i64>().saturating_mul(self.images)
    }

    /// The given factors' sum: of positions that do not begin where a cache line does, and that do not begin where a
    /// sector does, for most positions.
    pub(in crate::ops::conv) fn misalignment(&self, of_line: f64, of_sector: f64) -> f64 {
        /// Bytes of a cache line, and of what is moved of it at least.
        const LINE: i64 = 128;
        const SECTOR: i64 = 32;
        let apart = self.strides[2] * self.element_bytes;
        let line = if apart % LINE == 0 { 0.0 } else { of_line };
        line + if apart % SECTOR == 0 { 0.0 } else { of_sector }
    }

    /// The distance between neighbours when all positions lie one behind the other.
    pub(in crate::ops::conv) fn linear_stride(&self) -> Option<i64> {
        let mut expected = None;
        let axes = [self.extents[2], self.extents[1], self.extents[0], self.images];
        let strides = [self.strides[2], self.strides[1], self.strides[0], self.image_stride];
        let mut innermost = None;
        for (extent, stride) in axes.into_iter().zip(strides) {
            if extent == 1 {
                continue;
            }
            if expected.is_some_and(|expected| expected != stride) {
                return None;
            }
            innermost.get_or_insert(stride);
            expected = Some(stride * extent);
        }
        Some(innermost.unwrap_or(self.strides[2]))
    }

    /// The class of every `step`-th position from `first` on.
    pub(in crate::ops::conv) fn every(&self, first: [i64; 3], step: [i64; 3]) -> Positions {
        Positions {
            extents: std::array::from_fn(|axis| (self.extents[axis] - first[axis] + step[axis] - 1) / step[axis]),
            strides: std::array::from_fn(|axis| self.strides[axis] * step[axis]),
            ..*self
        }
    }

    /// How the copy engine reads them: one behind the other for a plain product, if they lie so, else in windows of so many
    /// axes.
    pub(in crate::ops::conv) fn access(&self, plain: bool, n_axes: usize) -> u32 {
        match n_axes {
            _ if plain && self.linear_stride().is_some() => access::LINEAR,
            0..=2 => access::IM2COL_2D,
            _ => access::IM2COL_3D,
        }
    }

    /// How rows of so many channels lie in shared memory.
    fn swizzle(&self, columns: u32) -> Swizzle {
        if i64::from(columns) * self.element_bytes == 128 { Swizzle::B128 } else { Swizzle::B64 }
    }

    /// A map of all positions one behind the other.
    pub(in crate::ops::conv) fn linear_map(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
        rows: u32,
        columns: u32,
    ) -> Result<[u64; 16], Error> {
        let tiled = Tiled {
            data_type,
            address,
            dims: &[self.channels as u64, self.count() as u64],
            strides_bytes: &[(self.linear_stride().unwrap_or(0) * self.element_bytes) as u64],
            box_dims: &[columns, rows],
            element_strides: &[],
            swizzle: self.swizzle(columns),
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }

    /// A map of runs of positions in a window.
    #[allow(clippy::too_many_arguments)]
    pub(in crate::ops::conv) fn im2col_map(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
        access: u32,
        window: &Window,
        rows: u32,
        columns: u32,
    ) -> Result<[u64; 16], Error> {
        // Fastest first.
        let axes: &[usize] = if access == access::IM2COL_2D { &[2, 1] } else { &[2, 1, 0] };
        let of_axes = |value: &dyn Fn(usize) -> i64| axes.iter().map(|&axis| value(axis)).collect::<Vec<_>>();
        let narrow = |values: Vec<i64>| values.into_iter().map(|value| value as i32).collect::<Vec<_>>();
        let mut dims = vec![self.channels as u64];
        dims.extend(of_axes(&|axis| self.extents[axis]).into_iter().map(|extent| extent as u64));
        dims.push(self.images as u64);
        let mut strides_bytes: Vec<u64> =
            of_axes(&|axis| self.strides[axis] * self.element_bytes).into_iter().map(|stride| stride as u64).collect();
        strides_bytes.push((self.image_stride * self.element_bytes) as u64);
        let mut element_strides = vec![1];
        element_strides.extend(of_axes(&|axis| window.step[axis]).into_iter().map(|step| step as u32));
        element_strides.push(1);
        let im2col = Im2col {
            data_type,
            address,
            dims: &dims,
            strides_bytes: &strides_bytes,
            lower_corner: &narrow(of_axes(&|axis| window.first[axis])),
            upper_corner: &narrow(of_axes(&|axis| window.last[axis] - (self.extents[axis] - 1))),
            channels_per_pixel: columns,
            pixels_per_column: rows,
            element_strides: &element_strides,
            swizzle: self.swizzle(columns),
        };
        Ok(TensorMap::im2col(context, &im2col)?.words())
    }
}

/// Strides along N, C, D, H, W, or K, C, T, R, S; 0 along axes that there are not.
pub(in crate::ops::conv) fn five(desc: &TensorDesc) -> [i64; 5] {
    let mut strides = [0; 5];
    let absent = 5 - desc.rank();
    for (i, &stride) in desc.strides().iter().enumerate() {
        strides[if i < 2 { i } else { i + absent }] = stride;
    }
    strides
}

/// Refuses windows that the fields of an im2col map cannot hold.
pub(in crate::ops::conv) fn check_window(
    name: &str,
    positions: &Positions,
    window: &Window,
    last_offset: [i64; 3],
    access: u32,
) -> Result<(), Refusal> {
    // Widths of the fields, PTX ISA, "im2col mode".
    let (corner_bits, offset_bits, axes) = if access == access::IM2COL_2D { (7, 8, 1..3) } else { (4, 5, 0..3) };
    for axis in axes {
        let upper = window.last[axis] - (positions.extents[axis] - 1);
        for corner in [window.first[axis], upper] {
            if corner < -(1 << corner_bits) || corner >= 1 << corner_bits {
                let (low, high) = (-(1i64 << corner_bits), (1i64 << corner_bits) - 1);
                let reason = format!("takes windows of {name} whose corners lie in {low}..={high}, one is {corner}");
                return Err(Refusal::new(reason));
            }
        }
        if last_offset[axis] >= 1 << offset_bits {
            let most = (1i64 << offset_bits) - 1;
            let given = last_offset[axis];
            return Err(Refusal::new(format!("takes filters up to {most} positions wide, given {given}")));
        }
        if window.step[axis] > 8 {
            return Err(Refusal::new(format!("takes strides up to 8, given {}", window.step[axis])));
        }
    }
    Ok(())
}

/// w or dw as `[K][taps][C of a group]`.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::conv) struct Filter {
    pub(in crate::ops::conv) k: i64,
    pub(in crate::ops::conv) group_c: i64,
    /// T, R, S.
    pub(in crate::ops::conv) taps: [i64; 3],
    pub(in crate::ops::conv) tap_stride: i64,
    pub(in crate::ops::conv) k_stride: i64,
}

impl Filter {
    /// Describes a filter, or tells why a tensor map cannot.
    pub(in crate::ops::conv) fn of(name: &str, desc: &TensorDesc) -> Result<Self, Refusal> {
        // A filter's K stands where a tensor has its images.
        let as_positions = Positions::of(name, desc, false)?;
        let positions_of_one = Positions { images: 1, ..as_positions };
        let tap_stride = positions_of_one.linear_stride().ok_or_else(|| {
            Refusal::new(format!("needs {name} with taps one behind the other, its strides are {:?}", desc.strides()))
        })?;
        Ok(Filter {
            k: desc.dims()[0],
            group_c: desc.dims()[1],
            taps: as_positions.extents,
            tap_stride,
            k_stride: as_positions.image_stride,
        })
    }

    /// Describes a filter that is written by pairs of channels, or tells why it cannot be.
    pub(in crate::ops::conv) fn written(name: &str, desc: &TensorDesc) -> Result<Self, Refusal> {
        let channels = desc.dims()[1];
        if desc.strides()[1] != 1 && channels > 1 {
            let given = desc.strides()[1];
            return Err(Refusal::new(format!("needs {name} channels-last, the stride of its channels is {given}")));
        }
        let positions = Positions::anyhow(desc);
        let of_one = Positions { images: 1, ..positions };
        let tap_stride = match of_one.linear_stride() {
            _ if of_one.count() == 1 => 0,
            Some(stride) if stride % 2 == 0 => stride,
            _ => {
                let given = desc.strides();
                let reason =
                    format!("needs {name} with taps an even distance one behind the other, its strides are {given:?}");
                return Err(Refusal::new(reason));
            }
        };
        let k_stride = if positions.images == 1 { 0 } else { positions.image_stride };
        if k_stride % 2 != 0 {
            return Err(Refusal::new(format!("needs {name} with an even distance between k, given {k_stride}")));
        }
        Ok(Filter { k: desc.dims()[0], group_c: channels, taps: positions.extents, tap_stride, k_stride })
    }

    /// Taps of all axes.
    pub(in crate::ops::conv) fn n_taps(&self) -> i64 {
        self.taps.iter().product()
    }

    /// A map `[C, taps, K]`, fastest first, for boxes of `columns` channels and `rows` k.
    pub(in crate::ops::conv) fn map(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
        rows: u32,
        columns: u32,
    ) -> Result<[u64; 16], Error> {
        let tiled = Tiled {
            data_type,
            address,
            dims: &[self.group_c as u64, self.n_taps() as u64, self.k as u64],
            strides_bytes: &[(self.tap_stride * ELEMENT_BYTES) as u64, (self.k_stride * ELEMENT_BYTES) as u64],
            box_dims: &[columns, 1, rows],
            element_strides: &[],
            swizzle: if columns == 64 { Swizzle::B128 } else { Swizzle::B64 },
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}
