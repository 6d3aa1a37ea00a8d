//! Which elements share statistics, and which share parameters.

use super::NormMode;
use crate::desc::{BadDescriptor, TensorDesc};

/// The dimensions of a normalization, where those of channels are taken apart into groups and channels of a group.
#[derive(Clone, Debug)]
pub struct Sharing {
    mode: NormMode,
    /// x's extents, taken apart.
    dims: Vec<i64>,
    /// For each dimension, whether rows run along it.
    in_row: Vec<bool>,
    /// For each dimension, whether parameters are the same along it.
    shares: Vec<bool>,
}

/// A packed x as rows, for loops over memory: element i of piece (outer, row) lies at
/// `(outer · n_rows + row) · n_inner + i`, and its parameter is `row % period · params_per_row + i / run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedRows {
    /// Pieces of a row.
    pub n_outer: usize,
    /// Rows.
    pub n_rows: usize,
    /// Elements of a piece.
    pub n_inner: usize,
    /// Rows until parameters repeat.
    pub period: usize,
    /// Parameters that a piece meets.
    pub params_per_row: usize,
    /// Neighbours in a piece that have one parameter.
    pub run: usize,
}

impl Sharing {
    /// That of a mode for x of these extents, which the mode must accept.
    pub fn new(mode: NormMode, x: &TensorDesc) -> Self {
        let mut dims = x.dims().to_vec();
        if let NormMode::Group { groups } = mode {
            dims.splice(1..2, [groups, dims[1] / groups]);
        }
        let along = |in_row: &dyn Fn(usize) -> bool| (0..dims.len()).map(in_row).collect::<Vec<bool>>();
        let (in_row, shares) = match mode {
            NormMode::Batch => (along(&|i| i != 1), along(&|i| i != 1)),
            NormMode::PerActivation => (along(&|i| i == 0), along(&|i| i == 0)),
            NormMode::Layer { axis } | NormMode::Rms { axis } => (along(&|i| i >= axis), along(&|i| i < axis)),
            NormMode::Group { .. } => (along(&|i| i > 1), along(&|i| i == 0 || i > 2)),
            NormMode::Instance => (along(&|i| i > 1), along(&|i| i != 1)),
        };
        Sharing { mode, dims, in_row, shares }
    }

    /// A tensor of x's extents with its channels taken apart.
    ///
    /// # Errors
    /// None for tensors that the mode accepts.
    pub fn split(&self, x: &TensorDesc) -> Result<TensorDesc, BadDescriptor> {
        let mut strides = x.strides().to_vec();
        if let NormMode::Group { .. } = self.mode {
            strides.insert(1, self.dims[2] * strides[1]);
        }
        TensorDesc::strided(x.dtype(), &self.dims, &strides)
    }

    /// Extents of mean and inverse standard deviation.
    pub fn statistic_extents(&self) -> Vec<i64> {
        match self.mode {
            NormMode::Layer { .. } | NormMode::Rms { .. } => {
                self.dims.iter().zip(&self.in_row).map(|(&dim, &within)| if within { 1 } else { dim }).collect()
            }
            _ => self.across_dims().iter().map(|&i| self.dims[i]).collect(),
        }
    }

    /// Extents of scale and bias.
    pub fn parameter_extents(&self) -> Vec<i64> {
        let dims = self.parameter_dims();
        match self.mode {
            NormMode::Group { .. } => vec![self.extent(&dims)],
            _ => dims.iter().map(|&i| self.dims[i]).collect(),
        }
    }

    /// Rows.
    pub fn n_rows(&self) -> i64 {
        self.extent(&self.across_dims())
    }

    /// Elements of a row.
    pub fn row_elems(&self) -> i64 {
        self.extent(&self.row_dims())
    }

    /// Parameters.
    pub fn n_params(&self) -> i64 {
        self.extent(&self.parameter_dims())
    }

    /// Elements that share a parameter.
    pub fn param_elems(&self) -> i64 {
        self.extent(&self.sharing_dims())
    }

    fn extent(&self, dims: &[usize]) -> i64 {
        dims.iter().map(|&i| self.dims[i]).product()
    }

    /// Dimensions that rows run along.
    pub fn row_dims(&self) -> Vec<usize> {
        (0..self.dims.len()).filter(|&i| self.in_row[i]).collect()
    }

    /// The others.
    pub fn across_dims(&self) -> Vec<usize> {
        (0..self.dims.len()).filter(|&i| !self.in_row[i]).collect()
    }

    /// Dimensions that parameters have.
    pub fn parameter_dims(&self) -> Vec<usize> {
        (0..self.dims.len()).filter(|&i| !self.shares[i]).collect()
    }

    /// The others.
    pub fn sharing_dims(&self) -> Vec<usize> {
        (0..self.dims.len()).filter(|&i| self.shares[i]).collect()
    }

    /// A tensor with an element for each row, as one of x's extents that repeats it.
    ///
    /// # Errors
    /// None for tensors that the mode accepts.
    pub fn spread_rows(&self, tensor: &TensorDesc) -> Result<TensorDesc, BadDescriptor> {
        self.spread(tensor, &self.across_dims(), tensor.strides())
    }

    /// A tensor with an element for each parameter, as one of x's extents that repeats it.
    ///
    /// # Errors
    /// None for tensors that the mode accepts.
    pub fn spread_parameters(&self, tensor: &TensorDesc) -> Result<TensorDesc, BadDescriptor> {
        let stride = tensor.strides()[0];
        match self.mode {
            NormMode::Group { .. } => self.spread(tensor, &[1, 2], &[self.dims[2] * stride, stride]),
            _ => self.spread(tensor, &self.parameter_dims(), tensor.strides()),
        }
    }

    fn spread(&self, tensor: &TensorDesc, dims: &[usize], strides: &[i64]) -> Result<TensorDesc, BadDescriptor> {
        let mut spread = vec![0; self.dims.len()];
        // Statistics of layer norm have further dimensions, of extent 1.
        for (&dim, &stride) in dims.iter().zip(strides) {
            spread[dim] = stride;
        }
        TensorDesc::strided(tensor.dtype(), &self.dims, &spread)
    }

    /// The rows of a packed x.
    pub fn packed_rows(&self) -> PackedRows {
        let product = |dims: &[i64]| dims.iter().product::<i64>() as usize;
        let (n_rows, elems) = (self.n_rows() as usize, self.row_elems() as usize);
        let piece = PackedRows { n_outer: 1, n_rows, n_inner: elems, period: n_rows, params_per_row: 1, run: 1 };
        match self.mode {
            NormMode::Batch => {
                let (n, positions) = (self.dims[0] as usize, product(&self.dims[2..]));
                PackedRows { n_outer: n, n_inner: positions, run: positions, ..piece }
            }
            NormMode::PerActivation => PackedRows { n_outer: elems, n_inner: 1, ..piece },
            NormMode::Layer { .. } | NormMode::Rms { .. } => PackedRows { period: 1, params_per_row: elems, ..piece },
            NormMode::Group { groups } => {
                let (period, params_per_row) = (groups as usize, self.dims[2] as usize);
                PackedRows { period, params_per_row, run: product(&self.dims[3..]), ..piece }
            }
            NormMode::Instance => PackedRows { period: self.dims[1] as usize, run: elems, ..piece },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_meet_what_the_spread_tensors_say() {
        let x: TensorDesc = "3x4x2x5:f32".parse().unwrap();
        for mode in [
            NormMode::Batch,
            NormMode::PerActivation,
            NormMode::Layer { axis: 0 },
            NormMode::Layer { axis: 2 },
            NormMode::Rms { axis: 3 },
            NormMode::Group { groups: 2 },
            NormMode::Group { groups: 4 },
            NormMode::Instance,
        ] {
            let sharing = Sharing::new(mode, &x);
            let packed = |dims: &[i64]| TensorDesc::packed(x.dtype(), dims).unwrap();
            let row_of = sharing.spread_rows(&packed(&sharing.statistic_extents())).unwrap();
            let param_of = sharing.spread_parameters(&packed(&sharing.parameter_extents())).unwrap();
            let rows = sharing.packed_rows();
            assert_eq!(rows.n_outer * rows.n_rows * rows.n_inner, 120, "{mode:?}");
            for linear in 0..120 {
                let (piece, i) = (linear / rows.n_inner, linear % rows.n_inner);
                let row = piece % rows.n_rows;
                let param = row % rows.period * rows.params_per_row + i / rows.run;
                let spread = (row_of.offset_of(linear as i64), param_of.offset_of(linear as i64));
                assert_eq!((row as i64, param as i64), spread, "{mode:?}, element {linear}");
            }
        }
    }
}
