//! The order of a kernel's blocks of code.
//!
//! Lanes that went different ways meet again because the way with the least place in the code goes first. This works
//! best when whatever may be executed before something else also stands before it, and loops stand together, before
//! what follows them. That is a weak topological order (Bourdoncle 1993): strongly connected components in topological
//! order, each beginning with the block where it is entered, the rest of it ordered in the same way.

use super::program::{Inst, Op};

struct Block {
    first: usize,
    end: usize,
    successors: Vec<usize>,
    /// The successor without a jump.
    next: Option<usize>,
}

/// Arranges code and makes labels places in it.
pub(super) fn arrange(code: Vec<Inst>, labels: &[Option<u32>]) -> Vec<Inst> {
    let position = |label: u32| labels[label as usize].unwrap_or_default() as usize;
    let n = code.len();
    let mut is_first = vec![false; n + 1];
    is_first[0] = true;
    for label in labels.iter().flatten() {
        is_first[*label as usize] = true;
    }
    for (i, inst) in code.iter().enumerate() {
        is_first[i + 1] |= matches!(inst.op, Op::Jump(_) | Op::Table(..) | Op::Exit | Op::Trap);
    }
    let mut block_at = vec![usize::MAX; n + 1];
    let mut blocks: Vec<Block> = Vec::new();
    for first in (0..n).filter(|&i| is_first[i]) {
        let end = (first + 1..=n).find(|&i| is_first[i] || i == n).unwrap_or(n);
        block_at[first] = blocks.len();
        blocks.push(Block { first, end, successors: Vec::new(), next: None });
    }
    for i in 0..blocks.len() {
        let last = &code[blocks[i].end - 1];
        let (targets, ends): (Vec<usize>, bool) = match &last.op {
            Op::Jump(label) => (vec![position(*label)], true),
            Op::Table(_, table) => (table.iter().map(|&label| position(label)).collect(), true),
            Op::Exit | Op::Trap => (Vec::new(), true),
            _ => (Vec::new(), false),
        };
        let mut successors: Vec<usize> = targets.into_iter().map(|at| block_at[at]).collect();
        if (!ends || last.guard.is_some()) && i + 1 < blocks.len() {
            successors.push(i + 1);
            blocks[i].next = Some(i + 1);
        }
        blocks[i].successors = successors;
    }
    let mut order = Vec::new();
    let all: Vec<usize> = reachable(&blocks);
    weak_order(&blocks, &all, Some(0), &mut order);
    emit(code, &blocks, &order, |label| block_at[position(label)])
}

fn reachable(blocks: &[Block]) -> Vec<usize> {
    let mut seen = vec![false; blocks.len()];
    let mut left = vec![0];
    while let Some(block) = left.pop() {
        if !std::mem::replace(&mut seen[block], true) {
            left.extend(&blocks[block].successors);
        }
    }
    (0..blocks.len()).filter(|&block| seen[block]).collect()
}

/// Adds the blocks of a part of the graph to the order.
fn weak_order(blocks: &[Block], part: &[usize], entry: Option<usize>, order: &mut Vec<usize>) {
    let mut inside = vec![false; blocks.len()];
    part.iter().for_each(|&block| inside[block] = true);
    let mut components = components(blocks, part, entry, &inside);
    components.reverse();
    let mut predecessors = vec![Vec::new(); blocks.len()];
    for (i, block) in blocks.iter().enumerate() {
        block.successors.iter().for_each(|&successor| predecessors[successor].push(i));
    }
    for mut component in components {
        component.sort_unstable();
        if let [single] = component[..] {
            order.push(single);
            continue;
        }
        let enters = |block: &usize| {
            *block == 0 || predecessors[*block].iter().any(|other| component.binary_search(other).is_err())
        };
        let head = component.iter().copied().find(enters).unwrap_or(component[0]);
        order.push(head);
        component.retain(|&block| block != head);
        weak_order(blocks, &component, None, order);
    }
}

/// Strongly connected components of a part of the graph, after Tarjan: those that are reached from others first.
fn components(blocks: &[Block], part: &[usize], entry: Option<usize>, inside: &[bool]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut number = vec![UNSEEN; blocks.len()];
    let mut low = vec![0; blocks.len()];
    let mut on_stack = vec![false; blocks.len()];
    let (mut stack, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for &root in entry.iter().chain(part) {
        if number[root] != UNSEEN {
            continue;
        }
        // A block and how many of its successors were visited.
        let mut path = vec![(root, 0)];
        while let Some((block, visited)) = path.last_mut() {
            let block = *block;
            if *visited == 0 && number[block] == UNSEEN {
                (number[block], low[block]) = (count, count);
                count += 1;
                stack.push(block);
                on_stack[block] = true;
            }
            if let Some(&successor) = blocks[block].successors.get(*visited) {
                *visited += 1;
                if !inside[successor] {
                } else if number[successor] == UNSEEN {
                    path.push((successor, 0));
                } else if on_stack[successor] {
                    low[block] = low[block].min(number[successor]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[block]);
            }
            if low[block] == number[block] {
                let first = stack.iter().rposition(|&other| other == block).unwrap_or(0);
                let component = stack.split_off(first);
                component.iter().for_each(|&member| on_stack[member] = false);
                found.push(component);
            }
        }
    }
    found
}

fn emit(code: Vec<Inst>, blocks: &[Block], order: &[usize], target: impl Fn(u32) -> usize) -> Vec<Inst> {
    let mut code: Vec<Option<Inst>> = code.into_iter().map(Some).collect();
    let mut start = vec![0u32; blocks.len()];
    let mut out: Vec<Inst> = Vec::with_capacity(code.len());
    // Jumps name blocks until all have their places.
    for (i, &block) in order.iter().enumerate() {
        start[block] = out.len() as u32;
        let following = order.get(i + 1).copied();
        for inst in &mut code[blocks[block].first..blocks[block].end] {
            let Some(mut inst) = inst.take() else { continue };
            match &mut inst.op {
                Op::Jump(label) => {
                    let to = target(*label);
                    *label = to as u32;
                    if inst.guard.is_none() && following == Some(to) {
                        continue;
                    }
                }
                Op::Table(_, table) => table.iter_mut().for_each(|label| *label = target(*label) as u32),
                _ => {}
            }
            out.push(inst);
        }
        if let Some(next) = blocks[block].next
            && following != Some(next)
        {
            let line = out.last().map_or(0, |inst| inst.line);
            out.push(Inst { guard: None, line, op: Op::Jump(next as u32) });
        }
    }
    for inst in &mut out {
        match &mut inst.op {
            Op::Jump(block) => *block = start[*block as usize],
            Op::Table(_, table) => table.iter_mut().for_each(|block| *block = start[*block as usize]),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[&[usize]]) -> Vec<Block> {
        edges
            .iter()
            .enumerate()
            .map(|(i, successors)| Block { first: i, end: i + 1, successors: successors.to_vec(), next: None })
            .collect()
    }

    fn order_of(edges: &[&[usize]]) -> Vec<usize> {
        let blocks = graph(edges);
        let mut order = Vec::new();
        weak_order(&blocks, &reachable(&blocks), Some(0), &mut order);
        order
    }

    #[test]
    fn loops_stand_before_what_follows_them() {
        // 0 → 1; 1 is the head of a loop over 3, left for 2.
        assert_eq!(order_of(&[&[1], &[2, 3], &[], &[1]]), [0, 1, 3, 2]);
        // A branch whose rare side stands at the end.
        assert_eq!(order_of(&[&[1, 3], &[2], &[], &[1]]), [0, 3, 1, 2]);
        // A loop in a loop: 1 { 2 { 4 } 5 } 3.
        assert_eq!(order_of(&[&[1], &[2, 3], &[4, 5], &[], &[2], &[1]]), [0, 1, 2, 4, 5, 3]);
        // What is not reached is left out.
        assert_eq!(order_of(&[&[2], &[2], &[]]), [0, 2]);
    }
}
