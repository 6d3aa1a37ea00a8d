//! Many tensors in one launch, 16 bytes of f32 an access. Parts: dw, m, v, master, w. Grid and block as in `math::lists`.

use super::naive::Step;
use crate::math::lists::{Piece, QUAD, Quad, UNDER_WAY};
use kernel_abi::ops::adam::AdamListParams;

/// One step. `S` is m's and v's type.
#[inline(always)]
pub unsafe fn update<T: Quad, S: Quad>(p: &AdamListParams) {
    let step = Step::<f32>::new(&p.step);
    let piece = Piece::new(&p.list);
    let [dw_at, m_at, v_at, master_at, w_at] = piece.addresses;
    piece.for_each(|places| {
        let zeros = [[0.0; QUAD]; UNDER_WAY];
        let (mut dw, mut m, mut v, mut w) = (zeros, zeros, zeros, zeros);
        let mut k = 0;
        while k < UNDER_WAY {
            dw[k] = places[k].load::<T>(dw_at);
            m[k] = places[k].load::<S>(m_at);
            v[k] = places[k].load::<S>(v_at);
            w[k] = if master_at != 0 { places[k].load::<f32>(master_at) } else { places[k].load::<T>(w_at) };
            k += 1;
        }
        k = 0;
        while k < UNDER_WAY {
            let mut i = 0;
            while i < QUAD {
                (m[k][i], v[k][i], w[k][i]) = step.take(dw[k][i], m[k][i], v[k][i], w[k][i]);
                i += 1;
            }
            places[k].store::<S>(m_at, m[k]);
            places[k].store::<S>(v_at, v[k]);
            if master_at != 0 {
                places[k].store::<f32>(master_at, w[k]);
            }
            places[k].store::<T>(w_at, w[k]);
            k += 1;
        }
    });
}
