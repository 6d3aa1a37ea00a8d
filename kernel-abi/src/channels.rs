//! Images whose channels are taken some at a time.

crate::abi_struct! {
    /// A tensor `[N, C, D, H, W]` whose channels are taken some at a time.
    pub struct ChannelTensor {
        /// Device address.
        pub address: u64,
        /// Elements between images, vectors of channels (or channels), planes, rows, columns.
        pub strides: [i64; 5],
    }
}

impl ChannelTensor {
    /// The offset of a vector of channels.
    #[inline(always)]
    pub const fn offset(&self, n: i64, c: i64, d: i64) -> i64 {
        n * self.strides[0] + c * self.strides[1] + d * self.strides[2]
    }
}
