//! The best of an operator's algorithms by their estimates, for algorithms that are made of others.

use super::{Algorithm, Config, Spread};
use crate::Context;
use crate::operators::Operation;

/// An algorithm with one of its kernels.
pub(crate) struct Cheapest<P: 'static> {
    pub(crate) algorithm: &'static dyn Algorithm<P>,
    pub(crate) config: Config,
    pub(crate) estimate_us: f64,
}

impl<P: Operation> Cheapest<P> {
    /// Of the least estimate among those that `may` be taken and that a policy takes by itself; the first of equals.
    pub(crate) fn of(problem: &P, context: &Context, may: impl Fn(&dyn Algorithm<P>) -> bool) -> Option<Self> {
        let mut best: Option<Self> = None;
        for &algorithm in P::algorithms() {
            if !may(algorithm) {
                continue;
            }
            for config in algorithm.configs(problem, context).unwrap_or_default() {
                let spread = algorithm.spread_on(problem, config, context);
                if spread > Spread::UNASKED && !algorithm.is_asked_for(problem, config) {
                    continue;
                }
                let estimate_us = algorithm.estimate_us(problem, config, context);
                if best.as_ref().is_none_or(|best| estimate_us < best.estimate_us) {
                    best = Some(Cheapest { algorithm, config, estimate_us });
                }
            }
        }
        best
    }
}
