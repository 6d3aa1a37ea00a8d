//! Lists of tensors in launch parameters: what optimizers step in one launch.
//!
//! Longer lists are stepped by several launches. A table of addresses on the device would take any number in one, but
//! addresses are known only when a plan runs: it would have to be copied there by each run, from host memory that stays
//! as it is until the copy is done, which a captured graph would read anew at every replay.

/// The most tensors of a launch: what fits the 4 KB of launch parameters that every driver takes.
pub const MAX_TENSORS: usize = 64;

/// The most operands a tensor of the list stands for, as parameters, gradients and state.
pub const MAX_PARTS: usize = 5;

/// Elements a block takes.
pub const BLOCK_ELEMS: i64 = 4096;

crate::abi_struct! {
    /// Tensors that lie alike in all their operands, without gaps, cut into equal pieces, one a block.
    pub struct TensorList {
        /// How many.
        pub n_tensors: u32,
        /// Unused, keeps the next field aligned.
        pub reserved: u32,
        /// The first block of each.
        pub first_block: [u32; MAX_TENSORS],
        /// Elements of each.
        pub n_elems: [i64; MAX_TENSORS],
        /// Where the operands of each lie.
        pub addresses: [[u64; MAX_PARTS]; MAX_TENSORS],
    }
}

impl TensorList {
    /// No tensors.
    pub const EMPTY: Self = TensorList {
        n_tensors: 0,
        reserved: 0,
        first_block: [0; MAX_TENSORS],
        n_elems: [0; MAX_TENSORS],
        addresses: [[0; MAX_PARTS]; MAX_TENSORS],
    };

    /// The tensor that a block has a piece of: the last that does not begin behind it.
    #[inline(always)]
    pub fn tensor_of(&self, block: u32) -> u32 {
        let (mut low, mut high) = (0, self.n_tensors);
        while high - low > 1 {
            let middle = (low + high) / 2;
            // SAFETY: `middle` is below the number of tensors.
            if unsafe { *self.first_block.get_unchecked(middle as usize) } <= block {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Launches for tensors of these sizes: which tensors each takes, and its blocks.
#[cfg(not(target_arch = "nvptx64"))]
pub fn launches(n_elems: &[i64]) -> Vec<(TensorList, std::ops::Range<usize>, u32)> {
    /// Blocks of a launch; more only for tensors that no memory holds.
    const MAX_BLOCKS: i64 = i32::MAX as i64;
    let mut launches = Vec::new();
    let mut first = 0;
    while first < n_elems.len() {
        let (mut list, mut blocks, mut i) = (TensorList::EMPTY, 0i64, first);
        while i < n_elems.len() && i - first < MAX_TENSORS {
            let more = (n_elems[i] + BLOCK_ELEMS - 1) / BLOCK_ELEMS;
            if i > first && blocks + more > MAX_BLOCKS {
                break;
            }
            list.first_block[i - first] = blocks as u32;
            list.n_elems[i - first] = n_elems[i];
            blocks += more;
            i += 1;
        }
        list.n_tensors = (i - first) as u32;
        launches.push((list, first..i, blocks.min(MAX_BLOCKS) as u32));
        first = i;
    }
    launches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_in_one_block() {
        let n_elems: Vec<i64> = (0..150).map(|i| 1 + i * 997 % 20_000).collect();
        let mut seen = vec![0; n_elems.len()];
        for (list, tensors, blocks) in launches(&n_elems) {
            assert!(tensors.len() <= MAX_TENSORS);
            for block in 0..blocks {
                let at = list.tensor_of(block) as usize;
                let begin = i64::from(block - list.first_block[at]) * BLOCK_ELEMS;
                assert!(begin < list.n_elems[at]);
                seen[tensors.start + at] += BLOCK_ELEMS.min(list.n_elems[at] - begin);
            }
        }
        assert_eq!(seen, n_elems);
    }
}
