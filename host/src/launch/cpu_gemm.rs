//! Matrix products on the CPU: `matrixmultiply` behind bounds checks.

use crate::Error;

/// A matrix over a slice.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Distance between rows.
    pub row_stride: usize,
    /// Distance between columns.
    pub col_stride: usize,
}

/// A matrix over a slice, to be written. Its elements must not overlap.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    /// The elements.
    pub data: &'a mut [T],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Distance between rows.
    pub row_stride: usize,
    /// Distance between columns.
    pub col_stride: usize,
}

impl<'a, T> MatrixRef<'a, T> {
    /// Rows one after another.
    pub fn row_major(data: &'a [T], rows: usize, cols: usize) -> Self {
        MatrixRef { data, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// Rows and columns exchanged.
    pub fn transposed(self) -> Self {
        MatrixRef { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }
}

impl<'a, T> MatrixMut<'a, T> {
    /// Rows one after another.
    pub fn row_major(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        MatrixMut { data, rows, cols, row_stride: cols, col_stride: 1 }
    }
}

/// `f32` or `f64`.
pub trait GemmElement: Copy + Send + Sync + 'static {
    /// `c = alpha · a b + beta · c`; c is not read when beta is 0.
    ///
    /// # Errors
    /// `BadDescriptor` when extents do not fit each other or a slice.
    fn gemm(
        alpha: Self,
        a: MatrixRef<'_, Self>,
        b: MatrixRef<'_, Self>,
        beta: Self,
        c: MatrixMut<'_, Self>,
    ) -> Result<(), Error>;
}

macro_rules! gemm_element {
    ($($t:ty => $routine:path),*) => { $(
        impl GemmElement for $t {
            fn gemm(
                alpha: Self,
                a: MatrixRef<'_, Self>,
                b: MatrixRef<'_, Self>,
                beta: Self,
                c: MatrixMut<'_, Self>,
            ) -> Result<(), Error> {
                check(&a, &b, &c)?;
                // SAFETY: `check` has seen that every index of each matrix lies in its slice and that c's elements
                // are distinct; c is borrowed exclusively.
                unsafe {
                    $routine(
                        c.rows, a.cols, c.cols, alpha,
                        a.data.as_ptr(), a.row_stride as isize, a.col_stride as isize,
                        b.data.as_ptr(), b.row_stride as isize, b.col_stride as isize,
                        beta, c.data.as_mut_ptr(), c.row_stride as isize, c.col_stride as isize,
                    );
                }
                Ok(())
            }
        }
    )* };
}

gemm_element!(f32 => matrixmultiply::sgemm, f64 => matrixmultiply::dgemm);

fn check<T>(a: &MatrixRef<'_, T>, b: &MatrixRef<'_, T>, c: &MatrixMut<'_, T>) -> Result<(), Error> {
    let bad = |argument: &str, reason: String| Err(Error::bad("gemm", argument, reason));
    if (a.rows, b.cols, a.cols) != (c.rows, c.cols, b.rows) {
        let given = ((a.rows, a.cols), (b.rows, b.cols), (c.rows, c.cols));
        return bad("extents", format!("expected extents (m, k), (k, n), (m, n), given {given:?}"));
    }
    let reach = |rows: usize, cols: usize, row_stride: usize, col_stride: usize| {
        if rows == 0 || cols == 0 { 0 } else { (rows - 1) * row_stride + (cols - 1) * col_stride + 1 }
    };
    for (name, needed, given) in [
        ("a", reach(a.rows, a.cols, a.row_stride, a.col_stride), a.data.len()),
        ("b", reach(b.rows, b.cols, b.row_stride, b.col_stride), b.data.len()),
        ("c", reach(c.rows, c.cols, c.row_stride, c.col_stride), c.data.len()),
    ] {
        if needed > given {
            return bad(name, format!("expected at least {needed} elements, given {given}"));
        }
    }
    let (wide, narrow) = if c.row_stride >= c.col_stride {
        (c.row_stride, (c.col_stride, c.cols))
    } else {
        (c.col_stride, (c.row_stride, c.rows))
    };
    if c.rows > 1 && c.cols > 1 && (narrow.0 == 0 || wide <= narrow.0 * (narrow.1 - 1)) {
        return bad("c", format!("expected distinct elements, given strides ({}, {})", c.row_stride, c.col_stride));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_formula() {
        let a: Vec<f64> = (0..6).map(f64::from).collect();
        let b: Vec<f64> = (0..12).map(|v| f64::from(v) - 5.0).collect();
        let mut c = vec![1.0; 8];
        let a = MatrixRef::row_major(&a, 2, 3);
        f64::gemm(2.0, a, MatrixRef::row_major(&b, 3, 4), 3.0, MatrixMut::row_major(&mut c, 2, 4)).unwrap();
        for i in 0..2 {
            for j in 0..4 {
                let sum: f64 = (0..3).map(|k| a.data[i * 3 + k] * b[k * 4 + j]).sum();
                assert_eq!(c[i * 4 + j], 2.0 * sum + 3.0);
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let (a, mut c) = ([0.0f32; 4], [0.0f32; 4]);
        let square = MatrixRef::row_major(&a, 2, 2);
        let wide = MatrixRef::row_major(&a, 2, 3);
        assert!(f32::gemm(1.0, square, wide, 0.0, MatrixMut::row_major(&mut c, 2, 2)).is_err());
        assert!(f32::gemm(1.0, wide, wide.transposed(), 0.0, MatrixMut::row_major(&mut c, 2, 2)).is_err());
        let overlapping = MatrixMut { data: &mut c, rows: 2, cols: 2, row_stride: 1, col_stride: 1 };
        assert!(f32::gemm(1.0, square, square, 0.0, overlapping).is_err());
    }
}
