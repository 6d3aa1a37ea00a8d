//! The way of a thread down a plane.

use kernel_abi::ChannelTensor;

/// Where a row of a tensor is, for a thread's first column, and what lies between its columns and rows, in bytes.
#[derive(Clone, Copy)]
pub struct Walk {
    at: u64,
    column: u64,
    row: u64,
}

impl Walk {
    /// From a row and a column of a plane on.
    #[inline(always)]
    pub fn new<T>(tensor: &ChannelTensor, plane: i64, [h, w]: [i32; 2]) -> Self {
        let bytes = |elements: i64| (elements as u64).wrapping_mul(size_of::<T>() as u64);
        let (row, column) = (tensor.strides[3], tensor.strides[4]);
        let at = tensor.address.wrapping_add(bytes(plane + i64::from(h) * row + i64::from(w) * column));
        Walk { at, column: bytes(column), row: bytes(row) }
    }

    #[inline(always)]
    pub fn column(&self, column: usize) -> u64 {
        self.at.wrapping_add(self.column.wrapping_mul(column as u64))
    }

    #[inline(always)]
    pub fn go_down(&mut self) {
        self.at = self.at.wrapping_add(self.row);
    }
}
