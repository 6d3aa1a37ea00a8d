//! Wide accesses of global memory.

use cuda_std::memory::{self, X2, X4};
use cuda_std::{kernel, thread};

/// Copies 16 bytes a thread, in the way that `how` says.
///
/// # Safety
/// `x` and `out` have 16 bytes a thread.
#[kernel]
pub unsafe fn unit_vector_copy(x: u64, out: u64, how: u32) {
    let i = thread::index_1d() as usize;
    let (x, out) = (x as *const u32, out as *mut u32);
    let (from, to) = (x.add(4 * i), out.add(4 * i));
    match how {
        0 => memory::store_x4(to, memory::load_x4(from)),
        1 => memory::store_x4_streaming(to, memory::load_x4_streaming(from)),
        2 => memory::store_x4(to, memory::load_x4_readonly(from)),
        3 => {
            memory::store_x2(to, memory::load_x2(from));
            memory::store_x2_streaming(to.add(2), memory::load_x2_streaming(from.add(2)));
        }
        4 => {
            memory::store_x1(to, memory::load_x1(from));
            memory::store_x1_streaming(to.add(1), memory::load_x1_streaming(from.add(1)));
            memory::store_x2(to.add(2), memory::load_x2_readonly(from.add(2)));
        }
        5 => *(to as *mut X4<u32>) = *(from as *const X4<u32>),
        6 => {
            memory::prefetch_l2(from as *const u8);
            *(to as *mut X2<f32>) = *(from as *const X2<f32>);
            *(to.add(2) as *mut X2<u32>) = *(from.add(2) as *const X2<u32>);
        }
        _ => {
            *to = memory::load_x1_readonly(from);
            *to.add(1) = *from.add(1);
            *to.add(2) = *from.add(2);
            *to.add(3) = *from.add(3);
        }
    }
}
