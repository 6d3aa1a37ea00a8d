//! Lists of a run's operands: on the stack for all operators but those that step many tensors at once.

use arrayvec::ArrayVec;
use kernel_abi::problem::USUAL_OPERANDS;
use std::ops::{Index, IndexMut};

/// A list that allocates nothing until it is longer than [`USUAL_OPERANDS`].
#[derive(Debug)]
pub(crate) struct List<T> {
    first: ArrayVec<T, USUAL_OPERANDS>,
    rest: Vec<T>,
}

impl<T> List<T> {
    pub(crate) fn new() -> Self {
        List { first: ArrayVec::new(), rest: Vec::new() }
    }

    pub(crate) fn push(&mut self, value: T) {
        if let Err(full) = self.first.try_push(value) {
            self.rest.push(full.element());
        }
    }

    /// Drops all but the first `n`.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.first.truncate(n);
        self.rest.truncate(n.saturating_sub(USUAL_OPERANDS));
    }

    /// Exchanges the first with the second, which must be there.
    pub(crate) fn swap_first(&mut self) {
        self.first.swap(0, 1);
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(&mut self.rest)
    }
}

impl<T> Index<usize> for List<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        if at < USUAL_OPERANDS { &self.first[at] } else { &self.rest[at - USUAL_OPERANDS] }
    }
}

impl<T> IndexMut<usize> for List<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        if at < USUAL_OPERANDS { &mut self.first[at] } else { &mut self.rest[at - USUAL_OPERANDS] }
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut list = List::new();
        values.into_iter().for_each(|value| list.push(value));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_beyond_the_stack() {
        let mut list: List<usize> = (0..20).collect();
        assert_eq!(list.len(), 20);
        list[3] += 100;
        list[17] += 100;
        let expected: Vec<usize> = (0..20).map(|i| if i == 3 || i == 17 { i + 100 } else { i }).collect();
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), expected);
        assert_eq!((0..20).map(|i| list[i]).collect::<Vec<_>>(), expected);
        list.swap_first();
        assert_eq!([list[0], list[1]], [1, 0]);
        for n in [17, 3] {
            list.truncate(n);
            assert_eq!(list.len(), n);
        }
    }
}
