//! Many tensors in one launch, 16 bytes of f32 an access. Parts: dw, v, master, w. Grid and block as in `math::lists`.

use super::naive::Step;
use crate::math::lists::{Piece, Place, QUAD, Quad, UNDER_WAY, Update};
use core::marker::PhantomData;
use kernel_abi::ops::sgd::SgdListParams;

/// One step. `S` is v's type.
#[inline(always)]
pub unsafe fn update<T: Quad, S: Quad>(p: &SgdListParams) {
    let (step, piece) = (Step::new(&p.step), Piece::new(&p.list));
    let (addresses, types) = (piece.addresses, PhantomData::<(T, S)>);
    match (addresses[VELOCITY] != 0, addresses[MASTER] != 0) {
        (false, false) => piece.for_each(&Sgd::<T, S, false, false> { step, addresses, types }),
        (false, true) => piece.for_each(&Sgd::<T, S, false, true> { step, addresses, types }),
        (true, false) => piece.for_each(&Sgd::<T, S, true, false> { step, addresses, types }),
        (true, true) => piece.for_each(&Sgd::<T, S, true, true> { step, addresses, types }),
    }
}

/// Places of v and of the master parameters among the parts.
const VELOCITY: usize = 1;
const MASTER: usize = 2;

/// A step with momentum, or without; with master parameters, or without.
struct Sgd<T, S, const HAS_VELOCITY: bool, const HAS_MASTER: bool> {
    step: Step<f32>,
    addresses: [u64; 5],
    types: PhantomData<(T, S)>,
}

impl<T: Quad, S: Quad, const HAS_VELOCITY: bool, const HAS_MASTER: bool> Update
    for Sgd<T, S, HAS_VELOCITY, HAS_MASTER>
{
    #[inline(always)]
    unsafe fn at<const WHOLE: bool>(&self, places: [Place; UNDER_WAY]) {
        let [dw_at, v_at, master_at, w_at, _] = self.addresses;
        let (mut dw, mut v, mut w) = ([[0.0; QUAD]; UNDER_WAY], [[0.0; QUAD]; UNDER_WAY], [[0.0; QUAD]; UNDER_WAY]);
        let mut k = 0;
        while k < UNDER_WAY {
            dw[k] = places[k].load::<T, WHOLE>(dw_at);
            if HAS_VELOCITY {
                v[k] = places[k].load::<S, WHOLE>(v_at);
            }
            w[k] = if HAS_MASTER { places[k].load::<f32, WHOLE>(master_at) } else { places[k].load::<T, WHOLE>(w_at) };
            k += 1;
        }
        k = 0;
        while k < UNDER_WAY {
            let mut i = 0;
            while i < QUAD {
                (v[k][i], w[k][i]) = self.step.take(dw[k][i], v[k][i], w[k][i]);
                i += 1;
            }
            if HAS_VELOCITY {
                places[k].store::<S, WHOLE>(v_at, v[k]);
            }
            if HAS_MASTER {
                places[k].store::<f32, WHOLE>(master_at, w[k]);
            }
            places[k].store::<T, WHOLE>(w_at, w[k]);
            k += 1;
        }
    }
}
