//! ONNX's operators in terms of ours, one file a family.
//!
//! A mapping may look at tensors in other ways (transposed, repeated by a stride of 0, in part), but whatever is
//! computed or moved is computed or moved by our operators. What they do not have is refused.

mod activation;
mod conv;
mod dropout;
mod elementwise;
mod later;
mod layout;
mod loss;
mod matmul;
mod norm;
mod optimizer;
mod part;
mod pool;
mod reduce;
mod resample;
mod softmax;
mod view;
mod window;

use crate::device::Device;
use crate::node::Node;
use crate::proto::NodeProto;
use crate::stop::Stop;
use crate::value::Value;

/// Computes the outputs of a node, in their order; those at the end that nobody asks for may be left out.
pub type Compute = fn(&Node<'_>, &Device) -> Result<Vec<Value>, Stop>;

/// Who computes an operator of ONNX.
pub enum By {
    /// Operators of ours, whose names are given.
    Operator(&'static str, Compute),
    /// Nobody: it only names the elements of its input in another way, or tells its extents. No case of its own counts.
    View(Compute),
    /// Nobody yet.
    Nothing,
}

/// An operator of ONNX.
pub struct Op {
    /// Its name, with the domain in front unless that is ONNX's own.
    pub name: &'static str,
    /// Who computes it.
    pub by: By,
}

/// An operator of ONNX that `ours` compute.
const fn op(name: &'static str, ours: &'static str, compute: Compute) -> Op {
    Op { name, by: By::Operator(ours, compute) }
}

/// Every operator of ONNX that this project has, or is to have.
pub fn all() -> impl Iterator<Item = &'static Op> {
    [
        activation::OPS,
        conv::OPS,
        dropout::OPS,
        elementwise::OPS,
        later::OPS,
        layout::OPS,
        loss::OPS,
        matmul::OPS,
        norm::OPS,
        optimizer::OPS,
        part::OPS,
        pool::OPS,
        reduce::OPS,
        resample::OPS,
        softmax::OPS,
        view::OPS,
    ]
    .into_iter()
    .flatten()
}

/// The operator of a node.
pub fn find(node: &NodeProto) -> Option<&'static Op> {
    all().find(|op| match op.name.rsplit_once('.') {
        Some((domain, name)) => domain == node.domain && name == node.op_type,
        None => node.domain.is_empty() && op.name == node.op_type,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_operator_stands_twice() {
        let mut names: Vec<_> = all().map(|op| op.name).collect();
        names.sort_unstable();
        let n_names = names.len();
        names.dedup();
        assert_eq!(names.len(), n_names);
    }
}
