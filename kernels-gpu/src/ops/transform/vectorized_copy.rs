//! A plain copy: each thread has `WORDS` loads of 16 bytes under way before its first store, past the first-level
//! cache. Grid: exact, `WORDS · BLOCK` words a block. No shared memory. Measured against a memcpy of the driver.

use cuda_std::{memory, thread};
use kernel_abi::ops::transform::TransformParams;

/// y = x, byte by byte.
pub unsafe fn forward<const WORDS: usize, const BLOCK: usize>(p: &TransformParams) {
    let (from, to) = (p.x.address as *const u32, p.y.address as *mut u32);
    let me = thread::thread_idx_x() as usize;
    let first = thread::block_idx_x() as usize * (WORDS * BLOCK);
    let n_words = p.n_elems as usize;
    if first + WORDS * BLOCK <= n_words {
        let mut words = [[0u32; 4]; WORDS];
        let mut i = 0;
        while i < WORDS {
            words[i] = memory::load_x4_streaming(from.add(4 * (first + i * BLOCK + me)));
            i += 1;
        }
        i = 0;
        while i < WORDS {
            memory::store_x4_streaming(to.add(4 * (first + i * BLOCK + me)), words[i]);
            i += 1;
        }
        return;
    }
    let mut at = first + me;
    while at < n_words {
        memory::store_x4_streaming(to.add(4 * at), memory::load_x4_streaming(from.add(4 * at)));
        at += BLOCK;
    }
    // Only the last block comes here, also when there is nothing but a tail.
    if (me as i64) < p.tail_bytes {
        *(to as *mut u8).add(16 * n_words + me) = *(from as *const u8).add(16 * n_words + me);
    }
}
