//! Matrix products.

use super::{Op, op};
use crate::device::Device;
use crate::layout::{Layout, broadcast_dims};
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::ops::matmul::{MatmulDesc, MatmulProblem};
use oxidnn::{Args, DType};

pub const OPS: &[Op] = &[
    op("Gemm", "transform, matmul with alpha and beta", gemm),
    op("MatMul", "matmul", matmul),
    op("MatMulInteger", "matmul", matmul_integer),
];

fn matmul(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let dtype = node.input(0)?.element.dtype()?;
    product(node, device, dtype)
}

fn matmul_integer(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    for (name, input) in [("a", 2), ("b", 3)] {
        if let Some(zero) = node.optional(input)
            && zero.ints()?.iter().any(|&zero| zero != 0)
        {
            return Err(Stop::refused(format!("matmul has no zero points, and {name} has one")));
        }
    }
    product(node, device, DType::I32)
}

/// The product of the first two inputs by the rules of numpy: vectors are a row and a column, batches repeat.
fn product(node: &Node<'_>, device: &Device, dtype: DType) -> Result<Vec<Value>, Stop> {
    let (a, b) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let a_matrix = if a.dims().len() == 1 { a.layout().of_rank(2)? } else { a.layout() };
    let b_matrix = if b.dims().len() == 1 { b.layout().split(0, &[b.dims()[0], 1])? } else { b.layout() };
    let (a_batch, a_extents) = a_matrix.dims().split_at(a_matrix.dims().len() - 2);
    let (b_batch, b_extents) = b_matrix.dims().split_at(b_matrix.dims().len() - 2);
    let batch = broadcast_dims([a_batch, b_batch])?;
    let repeated = |layout: &Layout, extents: &[i64]| layout.broadcast(&[&batch, extents].concat());
    let (a_layout, b_layout) = (repeated(&a_matrix, a_extents)?, repeated(&b_matrix, b_extents)?);
    let mut c = device.zeros(dtype, &[&batch[..], &[a_extents[0], b_extents[1]]].concat())?;
    let c_layout = c.layout();
    let problem = MatmulProblem::new(&a_layout.desc, &b_layout.desc, &c_layout.desc)?;
    let args = Args::new().input("a", a.at(&a_layout)?).input("b", b.at(&b_layout)?);
    device.run(&problem, args.output("c", c.at_mut(&c_layout)?))?;
    // A vector's own extent of 1 is not part of the result.
    let mut dims = batch;
    dims.extend((a.dims().len() > 1).then_some(a_extents[0]));
    dims.extend((b.dims().len() > 1).then_some(b_extents[1]));
    Ok(vec![device.value(&c.with_dims(&dims)?)?])
}

/// `Y = alpha · A B + beta · C`, with C repeated into Y first.
fn gemm(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (a, b) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let (alpha, mut beta) = (node.float("alpha", 1.0), node.float("beta", 1.0));
    let transposes = (node.int("transA", 0) != 0, node.int("transB", 0) != 0);
    let desc = MatmulDesc { transpose_a: transposes.0, transpose_b: transposes.1, ..MatmulDesc::default() };
    let (a_layout, b_layout) = (a.layout(), b.layout());
    // Before version 7, whether C repeats; its extents say so too.
    node.int("broadcast", 0);
    let dims = [a.dims()[usize::from(transposes.0)], b.dims()[usize::from(!transposes.1)]];
    let mut y = device.zeros(a.dtype(), &dims)?;
    let y_layout = y.layout();
    match node.optional(2) {
        Some(c) => {
            let c = device.array(c)?;
            let c_layout = c.layout().broadcast(&dims)?;
            device.copy((&c, &c_layout), (&mut y, &y_layout))?;
        }
        None => beta = 0.0,
    }
    let problem = desc.problem(&a_layout.desc, &b_layout.desc, &y_layout.desc)?;
    let args = Args::new().input("a", a.at(&a_layout)?).input("b", b.at(&b_layout)?);
    device.run(&problem, args.output("c", y.at_mut(&y_layout)?).alpha(alpha).beta(beta))?;
    Ok(vec![device.value(&y)?])
}
