//! Many tensors in one launch, 16 bytes of f32 an access. Parts: dw, m, v, master, w. Grid and block as in `math::lists`.

use super::naive::Step;
use crate::math::lists::{Piece, Place, QUAD, Quad, UNDER_WAY, Update};
use core::marker::PhantomData;
use kernel_abi::ops::adam::AdamListParams;

/// One step. `S` is m's and v's type.
#[inline(always)]
pub unsafe fn update<T: Quad, S: Quad>(p: &AdamListParams) {
    let (step, piece) = (Step::new(&p.step), Piece::new(&p.list));
    let (addresses, types) = (piece.addresses, PhantomData::<(T, S)>);
    if addresses[MASTER] != 0 {
        piece.for_each(&Adam::<T, S, true> { step, addresses, types });
    } else {
        piece.for_each(&Adam::<T, S, false> { step, addresses, types });
    }
}

/// Place of the master parameters among the parts.
const MASTER: usize = 3;

/// A step with master parameters, or without.
struct Adam<T, S, const HAS_MASTER: bool> {
    step: Step<f32>,
    addresses: [u64; 5],
    types: PhantomData<(T, S)>,
}

impl<T: Quad, S: Quad, const HAS_MASTER: bool> Update for Adam<T, S, HAS_MASTER> {
    #[inline(always)]
    unsafe fn at<const WHOLE: bool>(&self, places: [Place; UNDER_WAY]) {
        let [dw_at, m_at, v_at, master_at, w_at] = self.addresses;
        let zeros = [[0.0; QUAD]; UNDER_WAY];
        let (mut dw, mut m, mut v, mut w) = (zeros, zeros, zeros, zeros);
        let mut k = 0;
        while k < UNDER_WAY {
            dw[k] = places[k].load::<T, WHOLE>(dw_at);
            m[k] = places[k].load::<S, WHOLE>(m_at);
            v[k] = places[k].load::<S, WHOLE>(v_at);
            w[k] = if HAS_MASTER { places[k].load::<f32, WHOLE>(master_at) } else { places[k].load::<T, WHOLE>(w_at) };
            k += 1;
        }
        k = 0;
        while k < UNDER_WAY {
            let mut i = 0;
            while i < QUAD {
                (m[k][i], v[k][i], w[k][i]) = self.step.take(dw[k][i], m[k][i], v[k][i], w[k][i]);
                i += 1;
            }
            places[k].store::<S, WHOLE>(m_at, m[k]);
            places[k].store::<S, WHOLE>(v_at, v[k]);
            if HAS_MASTER {
                places[k].store::<f32, WHOLE>(master_at, w[k]);
            }
            places[k].store::<T, WHOLE>(w_at, w[k]);
            k += 1;
        }
    }
}
