//! Graphs: recorded work, done again in its order.

use super::launches::Prepared;
use super::memory::{End, copy, fill};
use super::streams::{Event, record};
use super::{Outcome, api, driver, put};
use std::ffi::c_void;
use std::sync::Arc;

/// A piece of recorded work.
#[derive(Clone)]
pub(super) enum Recorded {
    Launch(Arc<Prepared>),
    Copy(End, End, usize),
    Fill(u64, u32, usize, usize),
    Event(Arc<Event>),
    Host(unsafe extern "C" fn(*mut c_void), usize),
    Graph(Arc<Graph>),
    Nothing,
}

/// A graph, executable or not.
pub(super) struct Graph {
    work: Vec<Recorded>,
}

impl Graph {
    /// A graph of this work.
    pub fn new(work: Vec<Recorded>) -> Self {
        Graph { work }
    }

    fn launch(&self) -> Outcome {
        for work in &self.work {
            match work {
                Recorded::Launch(prepared) => prepared.run()?,
                // SAFETY: whoever recorded the copy keeps its host memory while the graph is launched.
                Recorded::Copy(to, from, bytes) => unsafe { copy(*to, *from, *bytes) }?,
                Recorded::Fill(at, value, size, count) => fill(*at, *value, *size, *count)?,
                Recorded::Event(event) => event.now(),
                // SAFETY: as for copies.
                Recorded::Host(function, data) => unsafe { function(*data as *mut c_void) },
                Recorded::Graph(graph) => graph.launch()?,
                Recorded::Nothing => {}
            }
        }
        Ok(())
    }
}

fn instantiate(exec: *mut *mut c_void, graph: *mut c_void) -> Outcome {
    let graph = driver().graphs.get(graph)?;
    let copy = Graph { work: graph.work.clone() };
    // SAFETY: the caller of the API gave a place for a handle.
    unsafe { put(exec, driver().graphs.add(Arc::new(copy))) }
}

api! {
    fn cuGraphCreate(graph: *mut *mut c_void, flags: u32) {
        let _ = flags;
        unsafe { put(graph, driver().graphs.add(Arc::new(Graph::new(Vec::new())))) }
    }

    fn cuGraphInstantiateWithFlags(exec: *mut *mut c_void, graph: *mut c_void, flags: u64) {
        let _ = flags;
        instantiate(exec, graph)
    }

    fn cuGraphLaunch(exec: *mut c_void, stream: *mut c_void) {
        let exec = driver().graphs.get(exec)?;
        if record(stream, || Ok(Recorded::Graph(Arc::clone(&exec))))? {
            return Ok(());
        }
        exec.launch()
    }

    fn cuGraphGetNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize) {
        if !nodes.is_null() {
            return Err(super::errors::NOT_SUPPORTED);
        }
        let graph = driver().graphs.get(graph)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(count, graph.work.len()) }
    }

    #[always]
    fn cuGraphExecDestroy(exec: *mut c_void) { driver().graphs.remove(exec).map(drop) }

    #[always]
    fn cuGraphDestroy(graph: *mut c_void) { driver().graphs.remove(graph).map(drop) }
}
