//! Handles: opaque pointers that name things which are alive.

use super::{Outcome, lock};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Handles of all kinds are different, so that a stream is no module.
static NEXT: AtomicUsize = AtomicUsize::new(0x5171_0000);

/// The living things of a kind.
pub(super) struct Handles<T> {
    alive: Mutex<HashMap<usize, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles { alive: Mutex::new(HashMap::new()) }
    }
}

impl<T> Handles<T> {
    /// A new handle.
    pub fn add(&self, value: Arc<T>) -> *mut c_void {
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        lock(&self.alive).insert(handle, value);
        handle as *mut c_void
    }

    /// What a handle names.
    pub fn get(&self, handle: *mut c_void) -> Outcome<Arc<T>> {
        lock(&self.alive).get(&(handle as usize)).cloned().ok_or(super::errors::INVALID_HANDLE)
    }

    /// Makes a handle invalid.
    pub fn remove(&self, handle: *mut c_void) -> Outcome<Arc<T>> {
        lock(&self.alive).remove(&(handle as usize)).ok_or(super::errors::INVALID_HANDLE)
    }

    /// Makes all of them invalid for which `f` holds not.
    pub fn retain(&self, f: impl Fn(&T) -> bool) {
        lock(&self.alive).retain(|_, value| f(value));
    }
}
