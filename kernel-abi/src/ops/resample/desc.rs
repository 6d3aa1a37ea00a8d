//! What a resampling is apart from its tensors.

use super::{Coordinates, NearestRound, ResampleAxis, ResampleFilter, ResampleMode};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::Coefficient;

const OP: &str = "resample";

/// Filter and coordinates of a resampling.
///
/// Lists hold one value for each spatial axis, outermost first (height, width). They are judged together with the
/// tensors, when a problem is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResampleDesc {
    pub(super) mode: ResampleMode,
    pub(super) coordinates: Coordinates,
    pub(super) round: NearestRound,
    pub(super) cubic: Coefficient,
    pub(super) antialias: bool,
    pub(super) exclude_outside: bool,
    pub(super) scale: Option<Vec<Coefficient>>,
    pub(super) region: Option<Vec<[Coefficient; 2]>>,
    pub(super) extrapolation: Coefficient,
}

/// The coefficient of cubic polynomials, unless another is set.
pub(super) const CUBIC: f64 = -0.75;

impl ResampleDesc {
    /// A filter in half-pixel coordinates.
    pub fn new(mode: ResampleMode) -> Self {
        ResampleDesc {
            mode,
            coordinates: Coordinates::HalfPixel,
            round: NearestRound::PreferFloor,
            cubic: Coefficient::new(CUBIC),
            antialias: false,
            exclude_outside: false,
            scale: None,
            region: None,
            extrapolation: Coefficient::new(0.0),
        }
    }

    /// Sets the coordinates; for [`Coordinates::Crop`] see [`ResampleDesc::crop`].
    pub fn coordinates(mut self, coordinates: Coordinates) -> Self {
        self.coordinates = coordinates;
        self
    }

    /// Samples a region of the image: its first and last place on each axis, in parts of the axis. Outputs outside of the
    /// image become `extrapolation`.
    pub fn crop(mut self, region: &[[f64; 2]], extrapolation: f64) -> Self {
        self.coordinates = Coordinates::Crop;
        self.region = Some(region.iter().map(|ends| ends.map(Coefficient::new)).collect());
        self.extrapolation = Coefficient::new(extrapolation);
        self
    }

    /// Sets which neighbour is the nearest.
    pub fn round(mut self, round: NearestRound) -> Self {
        self.round = round;
        self
    }

    /// Sets the coefficient of cubic polynomials, -3/4 otherwise.
    pub fn cubic_coefficient(mut self, a: f64) -> Self {
        self.cubic = Coefficient::new(a);
        self
    }

    /// Widens the filter where the image becomes smaller.
    pub fn antialias(mut self) -> Self {
        self.antialias = true;
        self
    }

    /// Lets positions outside the image weigh nothing.
    pub fn exclude_outside(mut self) -> Self {
        self.exclude_outside = true;
        self
    }

    /// Sets the scale of each axis, where it is not the ratio of the extents.
    pub fn scale(mut self, scale: &[f64]) -> Self {
        self.scale = Some(scale.iter().copied().map(Coefficient::new).collect());
        self
    }

    /// Extents of y that the scales give for an x: rounded down, as in ONNX and PyTorch. A cropped region has no part in
    /// them: so do onnxruntime and ONNX's reference evaluator, against the text of ONNX's Resize.
    ///
    /// # Errors
    /// `BadDescriptor` for another number of scales than spatial axes, or where there are none; for extents below 1.
    pub fn output_dims(&self, x: &TensorDesc) -> Result<Vec<i64>, BadDescriptor> {
        let bad = |reason: String| Err(BadDescriptor::new(OP, "scale", reason));
        let n_axes = x.rank().saturating_sub(2);
        let Some(scale) = self.scale.as_ref().filter(|scale| scale.len() == n_axes) else {
            let given = self.scale.as_ref().map_or(0, Vec::len);
            return bad(format!("expected {n_axes} values, one a spatial axis, given {given}"));
        };
        let mut dims = x.dims().to_vec();
        for (i, scale) in scale.iter().enumerate() {
            let extent = (dims[2 + i] as f64 * scale.get()).floor();
            // Also false for NaN.
            if !(1.0..=MOST).contains(&extent) {
                return bad(format!("expected an extent from 1 to {MOST}, given scale {} for axis {i}", scale.get()));
            }
            dims[2 + i] = extent as i64;
        }
        Ok(dims)
    }

    /// The filter as kernels take it.
    pub(super) fn filter(&self) -> ResampleFilter {
        ResampleFilter {
            a: self.cubic.get(),
            mode: self.mode as u32,
            round: self.round as u32,
            exclude_outside: u32::from(self.exclude_outside),
            normalize: u32::from(self.exclude_outside || self.antialias),
        }
    }

    /// The axes from x to y, of which names and ranks have been judged.
    pub(super) fn axes(&self, x: &TensorDesc, y: &TensorDesc) -> Result<Vec<ResampleAxis>, BadDescriptor> {
        let n_axes = x.rank() - 2;
        let count = |name: &str, given: Option<usize>| match given {
            Some(given) if given != n_axes => {
                let reason = format!("expected {n_axes} values, one a spatial axis, given {given}");
                Err(BadDescriptor::new(OP, name, reason))
            }
            _ => Ok(()),
        };
        count("scale", self.scale.as_ref().map(Vec::len))?;
        count("region", self.region.as_ref().map(Vec::len))?;
        if (self.coordinates == Coordinates::Crop) != self.region.is_some() {
            let reason = "expected a region with coords=crop, and only then";
            return Err(BadDescriptor::new(OP, "region", reason));
        }
        (0..n_axes).map(|i| self.axis(i, x.dims()[2 + i], y.dims()[2 + i])).collect()
    }

    fn axis(&self, i: usize, image: i64, output: i64) -> Result<ResampleAxis, BadDescriptor> {
        let given = self.scale.as_ref().map(|scale| scale[i].get());
        let (extent, outputs) = (image as f64, output as f64);
        let scale = given.unwrap_or(outputs / extent);
        // What a scale gives is no whole number in general.
        let length = given.map_or(outputs, |scale| scale * extent);
        if !(scale > 0.0 && (1.0 / MOST..=MOST).contains(&scale)) {
            let reason = format!("expected from 1/{MOST} to {MOST}, given {scale} for axis {i}");
            return Err(BadDescriptor::new(OP, "scale", reason));
        }
        let mut axis = ResampleAxis { image, output, ..ResampleAxis::ABSENT };
        // A scale divides as it is. Without one, extents do, so that places are rounded once.
        let (factor, divisor) = given.map_or((extent, outputs), |scale| (1.0, scale));
        // Step, first numerator and denominator of places that are fractions of extents.
        let fraction;
        match self.coordinates {
            Coordinates::PytorchHalfPixel if output == 1 => (axis.factor, fraction) = (0.0, [0, 0, 1]),
            Coordinates::HalfPixel | Coordinates::HalfPixelSymmetric | Coordinates::PytorchHalfPixel => {
                (axis.add, axis.factor, axis.divisor, axis.shift) = (0.5, factor, divisor, -0.5);
                if self.coordinates == Coordinates::HalfPixelSymmetric {
                    axis.offset = extent / 2.0 * (1.0 - outputs / length);
                }
                fraction = [2 * image, image - output, 2 * output];
            }
            Coordinates::Asymmetric => {
                ((axis.factor, axis.divisor), fraction) = ((factor, divisor), [image, 0, output])
            }
            Coordinates::AlignCorners if length == 1.0 => (axis.factor, fraction) = (0.0, [0, 0, 1]),
            Coordinates::AlignCorners => {
                (axis.factor, axis.divisor) = (extent - 1.0, length - 1.0);
                fraction = [image - 1, 0, output - 1];
            }
            Coordinates::Crop => {
                fraction = [0; 3];
                let [begin, end] = self.region.as_ref().map_or([0.0, 1.0], |region| region[i].map(Coefficient::get));
                (axis.crops, axis.shift) = (1, begin * (extent - 1.0));
                if length == 1.0 {
                    (axis.factor, axis.offset) = (0.0, (end - begin) * (extent - 1.0) / 2.0);
                } else {
                    (axis.span, axis.factor, axis.divisor) = (end - begin, extent - 1.0, length - 1.0);
                }
            }
        }
        [axis.step, axis.first, axis.denominator] = if given.is_none() { fraction } else { [0; 3] };
        if self.antialias {
            axis.shrink = scale.min(1.0);
        }
        for place in [axis.place(0), axis.place(output - 1)] {
            // Also for NaN.
            if !(0.0..=MOST * MOST).contains(&place.abs()) {
                let reason = format!("expected places up to {}, given {place} for axis {i}", MOST * MOST);
                return Err(BadDescriptor::new(OP, "coords", reason));
            }
        }
        Ok(axis)
    }
}

/// The largest scale and extent: products of two are exact in f64.
const MOST: f64 = (1u32 << 24) as f64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn axis(desc: &ResampleDesc, image: i64, output: i64) -> ResampleAxis {
        let tensor = |extent: i64| TensorDesc::packed(DType::F32, &[1, 1, extent]).unwrap();
        desc.axes(&tensor(image), &tensor(output)).unwrap()[0]
    }

    /// Weights of every pair of an output and an image position, from the outputs' side and from the image's.
    #[test]
    fn both_sides_find_the_same_weights() {
        use Coordinates::{AlignCorners, Asymmetric, HalfPixel, HalfPixelSymmetric, PytorchHalfPixel};
        let mut descs = Vec::new();
        for mode in [ResampleMode::Nearest, ResampleMode::Linear, ResampleMode::Cubic] {
            for coordinates in [HalfPixel, PytorchHalfPixel, HalfPixelSymmetric, Asymmetric, AlignCorners] {
                descs.push(ResampleDesc::new(mode).coordinates(coordinates));
            }
            descs.push(ResampleDesc::new(mode).crop(&[[0.9, 0.2]], 1.0));
            descs.push(ResampleDesc::new(mode).crop(&[[-0.3, 1.4]], 1.0));
            descs.push(ResampleDesc::new(mode).scale(&[0.7]));
            if mode != ResampleMode::Nearest {
                descs.push(ResampleDesc::new(mode).antialias());
                descs.push(ResampleDesc::new(mode).antialias().exclude_outside());
                descs.push(ResampleDesc::new(mode).exclude_outside().scale(&[0.3]));
            }
        }
        for desc in descs {
            for (image, output) in [(1, 1), (1, 5), (4, 1), (4, 8), (9, 4), (5, 7), (7, 5), (2, 9), (20, 3)] {
                let (axis, filter) = (axis(&desc, image, output), desc.filter());
                let mut expected = vec![vec![0.0; image as usize]; output as usize];
                for (o, row) in expected.iter_mut().enumerate() {
                    let taps = axis.taps(&filter, o as i64);
                    if axis.has(taps.centre) {
                        let at = |i: i64| axis.inside(i) as usize;
                        (taps.begin..taps.end).for_each(|i| row[at(i)] += axis.weight(&filter, &taps, i));
                        let sum: f64 = row.iter().sum();
                        assert!((sum - 1.0).abs() < 1e-12 || sum == 0.0, "{desc:?} {image} {output}: {sum}");
                    }
                }
                let mut found = vec![vec![0.0; image as usize]; output as usize];
                for i in 0..image {
                    let (begin, end) = axis.covering(&filter, i);
                    (begin..end).for_each(|o| found[o as usize][i as usize] = axis.weight_at(&filter, o, i));
                }
                assert_eq!(found, expected, "{desc:?} {image} {output}");
            }
        }
    }

    #[test]
    fn scales_give_extents() {
        let x: TensorDesc = "1x1x4x5:f32".parse().unwrap();
        let dims = |scale: &[f64]| ResampleDesc::new(ResampleMode::Linear).scale(scale).output_dims(&x);
        assert_eq!(dims(&[2.0, 0.6]).unwrap(), [1, 1, 8, 3]);
        assert!(dims(&[2.0]).unwrap_err().to_string().contains("2 values"));
        assert!(dims(&[0.1, 1.0]).unwrap_err().to_string().contains("from 1 to"));
        assert!(dims(&[f64::NAN, 1.0]).is_err());
    }
}
