//! Contexts. All devices share one memory, so they are only names, current on threads.

use super::errors::{INVALID_CONTEXT, INVALID_VALUE};
use super::{api, device, driver, lock, put};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

/// A context, of the device with this number.
pub(super) struct Context(c_int);

thread_local! {
    /// The contexts that this thread pushed; the last is current.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The own context of each device, and how often it was retained.
static PRIMARY: Mutex<BTreeMap<c_int, (usize, usize)>> = Mutex::new(BTreeMap::new());

fn current() -> *mut c_void {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0)) as *mut c_void
}

/// An error where no context is current.
pub(super) fn needed() -> super::Outcome {
    if current().is_null() { Err(INVALID_CONTEXT) } else { Ok(()) }
}

api! {
    #[always]
    fn cuCtxGetCurrent(context: *mut *mut c_void) {
        // SAFETY: the caller gives a place for the result.
        unsafe { put(context, current()) }
    }

    #[always]
    fn cuCtxSetCurrent(context: *mut c_void) {
        if !context.is_null() {
            driver().contexts.get(context).map_err(|_| INVALID_CONTEXT)?;
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            if !context.is_null() {
                stack.push(context as usize);
            }
        });
        Ok(())
    }

    #[always]
    fn cuCtxPushCurrent_v2(context: *mut c_void) {
        driver().contexts.get(context).map_err(|_| INVALID_CONTEXT)?;
        STACK.with_borrow_mut(|stack| stack.push(context as usize));
        Ok(())
    }

    #[always]
    fn cuCtxPopCurrent_v2(context: *mut *mut c_void) {
        let popped = STACK.with_borrow_mut(|stack| stack.pop()).ok_or(INVALID_CONTEXT)?;
        if context.is_null() {
            return Ok(());
        }
        // SAFETY: the caller gives a place for the result.
        unsafe { put(context, popped as *mut c_void) }
    }

    fn cuCtxCreate_v2(context: *mut *mut c_void, flags: u32, number: c_int) {
        let _ = flags;
        device::known(number)?;
        let handle = driver().contexts.add(Arc::new(Context(number)));
        STACK.with_borrow_mut(|stack| stack.push(handle as usize));
        // SAFETY: the caller gives a place for the result.
        unsafe { put(context, handle) }
    }

    fn cuCtxDestroy_v2(context: *mut c_void) {
        driver().contexts.remove(context).map_err(|_| INVALID_CONTEXT)?;
        STACK.with_borrow_mut(|stack| stack.retain(|&other| other != context as usize));
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, number: c_int) {
        device::known(number)?;
        let mut all = lock(&PRIMARY);
        let new = || (driver().contexts.add(Arc::new(Context(number))) as usize, 0);
        let primary = all.entry(number).or_insert_with(new);
        primary.1 += 1;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(context, primary.0 as *mut c_void) }
    }

    // The context stays, so that memory and modules of other holders are never lost.
    #[always]
    fn cuDevicePrimaryCtxRelease_v2(number: c_int) {
        device::known(number)?;
        let mut all = lock(&PRIMARY);
        let primary = all.get_mut(&number).ok_or(INVALID_CONTEXT)?;
        primary.1 = primary.1.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        Ok(())
    }

    #[always]
    fn cuDevicePrimaryCtxSetFlags_v2(number: c_int, flags: u32) {
        let _ = flags;
        device::known(number)
    }

    fn cuCtxGetDevice(number: *mut c_int) {
        needed()?;
        let context = driver().contexts.get(current()).map_err(|_| INVALID_CONTEXT)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(number, context.0) }
    }

    #[always]
    fn cuCtxGetFlags(flags: *mut u32) {
        needed()?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(flags, 0) }
    }

    #[always]
    fn cuCtxGetApiVersion(context: *mut c_void, version: *mut u32) {
        let _ = context;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(version, 13_000) }
    }

    fn cuCtxSynchronize() {
        needed()
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        if !least.is_null() {
            // SAFETY: the caller gives a place for the result.
            unsafe { put(least, 0) }?;
        }
        // SAFETY: the caller gives a place for the result.
        if greatest.is_null() { Ok(()) } else { unsafe { put(greatest, -5) } }
    }

    fn cuCtxGetLimit(value: *mut usize, limit: u32) {
        match limit {
            // SAFETY: the caller gives a place for the result.
            0 => unsafe { put(value, 1024) },
            // SAFETY: the caller gives a place for the result.
            1 => unsafe { put(value, 1 << 20) },
            // SAFETY: the caller gives a place for the result.
            2 => unsafe { put(value, 8 << 20) },
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuCtxSetLimit(limit: u32, value: usize) {
        let _ = (limit, value);
        Ok(())
    }
}
