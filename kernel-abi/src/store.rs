//! How threads store sums as elements of any type.

crate::abi_struct! {
    /// What kernels that store sums in several types are told of the tensor they write.
    pub struct StoreParams {
        /// Factor of the sums.
        pub alpha: f64,
        /// Factor of the prior values.
        pub beta: f64,
        /// Elements between neighbouring columns.
        pub col_stride: i64,
        /// The element type, a [`DType`](crate::DType) as a number.
        pub dtype: u32,
        /// Its size.
        pub element_bytes: u32,
        /// 1 where nothing but alpha is to be applied (to i32: nothing at all), columns lie one behind the other and all
        /// accesses of 16 bytes, or of 8 where elements have 4, are whole and at multiples of their size.
        pub whole: u32,
        /// Nothing.
        pub unused: u32,
    }
}

impl StoreParams {
    /// Bytes of an access with [`whole`](Self::whole).
    pub const fn access_bytes(element_bytes: u32) -> u32 {
        if element_bytes == 4 { 8 } else { 16 }
    }
}
