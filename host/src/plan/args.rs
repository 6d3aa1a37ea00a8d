//! The tensors and scalars of one run, and the checks every run makes of them.

use super::Plan;
use super::list::List;
use crate::driver::DeviceSpan;
use crate::tensor::{Region, RegionMut};
use crate::{Error, Operand, Role, Stream, TensorDesc, TensorView, TensorViewMut};
use arrayvec::ArrayVec;
use kernel_abi::problem::USUAL_OPERANDS;

/// The tensors and scalars of one run, tensors by the names of the formula.
///
/// Every [`Output`](Role::Output) becomes `alpha · result + beta · prior`; by default alpha is 1 and beta 0, and
/// the prior value is not read then. Makes no heap allocation for up to 8 tensors; with more of them, it is best to name
/// them in the order of [`Plan::operands`].
#[derive(Debug)]
pub struct Args<'a> {
    slots: List<Option<Slot<'a>>>,
    alpha: f64,
    beta: f64,
}

#[derive(Debug)]
struct Slot<'a> {
    name: &'a str,
    value: Value<'a>,
}

#[derive(Debug)]
enum Value<'a> {
    Read(TensorView<'a>),
    Write(TensorViewMut<'a>),
}

impl<'a> Args<'a> {
    /// No tensors, alpha 1, beta 0.
    pub fn new() -> Self {
        Args { slots: List::new(), alpha: 1.0, beta: 0.0 }
    }

    /// Adds a tensor that is read.
    pub fn input(self, name: &'a str, tensor: impl Into<TensorView<'a>>) -> Self {
        self.push(name, Value::Read(tensor.into()))
    }

    /// Adds a tensor that is written.
    pub fn output(self, name: &'a str, tensor: impl Into<TensorViewMut<'a>>) -> Self {
        self.push(name, Value::Write(tensor.into()))
    }

    /// Sets the factor of the result.
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }

    /// Sets the factor of the output's prior value.
    pub fn beta(mut self, beta: f64) -> Self {
        self.beta = beta;
        self
    }

    fn push(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.slots.push(Some(Slot { name, value }));
        self
    }
}

impl Default for Args<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// An operand whose memory has been checked.
#[derive(Debug)]
pub(crate) enum Bound<'a> {
    Read(Region<'a>),
    Write(RegionMut<'a>),
}

impl Bound<'_> {
    /// Bytes `start..end`, which must lie inside.
    pub(crate) fn part(&mut self, start: u64, end: u64) -> Bound<'_> {
        match self {
            Bound::Read(region) => Bound::Read(region.part(start, end)),
            Bound::Write(region) => Bound::Write(region.reborrow().part(start, end)),
        }
    }

    fn range(&self) -> (u64, u64) {
        match self {
            Bound::Read(region) => region.range(),
            Bound::Write(region) => region.range(),
        }
    }
}

/// One run after all checks: memory in the order of the problem's operands.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) operands: List<Bound<'a>>,
    pub(crate) workspace: RegionMut<'a>,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
}

impl<'a> Call<'a> {
    /// The workspace on a GPU, which an algorithm of this name needs.
    pub(crate) fn gpu_workspace(&self, name: &str) -> Result<DeviceSpan<'a>, Error> {
        match &self.workspace {
            RegionMut::Device(span) => Ok(*span),
            RegionMut::Host(_) => Err(Error::NoDevice { reason: format!("{name} needs a GPU's workspace") }),
        }
    }

    /// The run of a plan that this one is made of: with `copy(i)` for operand `i`, where there is one.
    pub(crate) fn inner<'b>(
        &'b mut self,
        copy: impl Fn(usize) -> Option<DeviceSpan<'b>>,
        workspace: DeviceSpan<'b>,
    ) -> Call<'b> {
        let operands = self.operands.iter_mut().enumerate().map(|(i, operand)| match (operand, copy(i)) {
            (Bound::Read(_), Some(copy)) => Bound::Read(Region::Device(copy)),
            (Bound::Write(_), Some(copy)) => Bound::Write(RegionMut::Device(copy)),
            (Bound::Read(region), None) => Bound::Read(*region),
            (Bound::Write(region), None) => Bound::Write(region.reborrow()),
        });
        Call {
            operands: operands.collect(),
            workspace: RegionMut::Device(workspace),
            alpha: self.alpha,
            beta: self.beta,
        }
    }

    /// Whether all operands lie at multiples of so many bytes.
    pub(crate) fn is_aligned(&self, bytes: u64) -> bool {
        (0..self.operands.len()).all(|operand| self.address(operand).is_multiple_of(bytes))
    }

    /// Device address of an operand.
    pub(crate) fn address(&self, operand: usize) -> u64 {
        self.operands[operand].range().0
    }

    /// Device address of the next operand, which `at` counts; 0 for one that is not there.
    pub(crate) fn take_address(&self, at: &mut usize, is_there: bool) -> u64 {
        if !is_there {
            return 0;
        }
        *at += 1;
        self.address(*at - 1)
    }

    /// Device address of the workspace.
    pub(crate) fn workspace_address(&self) -> u64 {
        self.workspace.range().0
    }
}

impl Plan {
    /// Makes every check that a run owes its caller, without allocating.
    pub(super) fn bind<'a>(
        &self,
        stream: &Stream,
        args: Args<'a>,
        workspace: RegionMut<'a>,
    ) -> Result<Call<'a>, Error> {
        self.same_device("stream", stream.context())?;
        let (_, given_bytes) = workspace.range();
        if given_bytes < self.workspace_bytes {
            return Err(Error::WorkspaceTooSmall { needed_bytes: self.workspace_bytes, given_bytes });
        }
        let Args { mut slots, alpha, beta } = args;
        let n_slots = slots.len();
        let mut operands = List::new();
        let mut next = 0;
        for operand in &self.operands {
            // Tensors named in the order of the operands are found at once.
            let there = |at: &usize| slots[*at].as_ref().is_some_and(|slot| slot.name == operand.name);
            let Some(at) = (next..n_slots).chain(0..next.min(n_slots)).find(there) else {
                return Err(self.bad(operand.name, format!("expected a tensor {}, given none", operand.desc)));
            };
            next = at + 1;
            if let Some(slot) = slots[at].take() {
                operands.push(self.bind_operand(operand, slot.value)?);
            }
        }
        if let Some(Slot { name, .. }) = slots.iter().flatten().next() {
            let known = self.operands.iter().map(|operand| operand.name).collect::<Vec<_>>().join(", ");
            return Err(self.bad(name, format!("expected only {known}, given also {name}")));
        }
        self.check_overlap(&operands)?;
        Ok(Call { operands, workspace, alpha, beta })
    }

    fn bind_operand<'a>(&self, operand: &Operand, value: Value<'a>) -> Result<Bound<'a>, Error> {
        let (desc, context, bound) = match (operand.role, value) {
            (Role::Input, Value::Read(view)) => (*view.desc(), view.context(), Bound::Read(view.region())),
            (Role::Output | Role::Update | Role::Result, Value::Write(view)) => {
                (*view.desc(), view.context(), Bound::Write(view.into_region()))
            }
            (Role::Input, Value::Write(_)) => {
                return Err(self.bad(operand.name, "expected an input, given as an output".to_owned()));
            }
            (Role::Output | Role::Update | Role::Result, Value::Read(_)) => {
                return Err(self.bad(operand.name, "expected an output, given as an input".to_owned()));
            }
        };
        self.same_device(operand.name, context)?;
        if desc != operand.desc {
            return Err(self.bad(operand.name, format!("expected {}, given {desc}", operand.desc)));
        }
        let (address, len_bytes) = bound.range();
        if len_bytes < desc.span_bytes() {
            let reason = format!("expected {} bytes for {desc}, given {len_bytes}", desc.span_bytes());
            return Err(self.bad(operand.name, reason));
        }
        let align = desc.dtype().size_bytes() as u64;
        if address == 0 || address % align != 0 {
            let reason = format!("expected an address that is not null and a multiple of {align}, given {address:#x}");
            return Err(self.bad(operand.name, reason));
        }
        Ok(bound)
    }

    /// Refuses an output that shares elements with any other operand, unless the operator can work in place and
    /// both are the same elements.
    fn check_overlap(&self, operands: &List<Bound<'_>>) -> Result<(), Error> {
        let n = operands.len();
        if n <= USUAL_OPERANDS {
            return (0..n).try_for_each(|i| (i + 1..n).try_for_each(|j| self.check_pair(operands, i, j)));
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_unstable_by_key(|&i| operands[i].range().0);
        // Only those that begin before another ends can share an element with it.
        for (k, &i) in order.iter().enumerate() {
            let end = operands[i].range().0 + self.operands[i].desc.span_bytes();
            for &j in order[k + 1..].iter().take_while(|&&j| operands[j].range().0 < end) {
                self.check_pair(operands, i.min(j), i.max(j))?;
            }
        }
        Ok(())
    }

    /// The same for two operands.
    fn check_pair(&self, operands: &List<Bound<'_>>, i: usize, j: usize) -> Result<(), Error> {
        let (i, j) = match (&operands[i], &operands[j]) {
            (Bound::Read(_), Bound::Read(_)) => return Ok(()),
            (Bound::Read(_), Bound::Write(_)) => (j, i),
            (Bound::Write(_), _) => (i, j),
        };
        let (a_desc, b_desc) = (&self.operands[i].desc, &self.operands[j].desc);
        let (a_at, b_at) = (operands[i].range().0, operands[j].range().0);
        let same = a_at == b_at && a_desc == b_desc && matches!(operands[j], Bound::Read(_));
        if (same && self.in_place) || !may_share(a_desc, a_at, b_desc, b_at) {
            return Ok(());
        }
        let reason = format!(
            "expected memory of its own, given elements shared with {} (addresses {a_at:#x} and {b_at:#x})",
            self.operands[j].name
        );
        Err(self.bad(self.operands[i].name, reason))
    }

    pub(super) fn same_device(&self, what: &str, given: &crate::Context) -> Result<(), Error> {
        if self.context.shares_memory_with(given) {
            return Ok(());
        }
        Err(Error::WrongDevice {
            what: what.to_owned(),
            expected: self.context.info().name.clone(),
            given: given.info().name.clone(),
        })
    }

    fn bad(&self, argument: &str, reason: String) -> Error {
        Error::bad(self.op, argument, reason)
    }
}

/// Whether two tensors at these addresses may share an element.
///
/// Exact when both have one element type and, for dimensions of extent above 1, equal strides, as two channel slices
/// of one image batch do; otherwise the spans decide.
fn may_share(a: &TensorDesc, a_at: u64, b: &TensorDesc, b_at: u64) -> bool {
    if a_at + a.span_bytes() <= b_at || b_at + b.span_bytes() <= a_at {
        return false;
    }
    let item = a.dtype().size_bytes() as i64;
    let bytes = b_at as i64 - a_at as i64;
    if a.dtype() != b.dtype() || a.rank() != b.rank() || bytes % item != 0 {
        return true;
    }
    let mut axes = ArrayVec::<(i64, i64, i64), { kernel_abi::MAX_RANK }>::new();
    for i in 0..a.rank() {
        let (stride_a, dim_a, stride_b, dim_b) = (a.strides()[i], a.dims()[i], b.strides()[i], b.dims()[i]);
        if dim_a > 1 && dim_b > 1 && stride_a != stride_b {
            return true;
        }
        let stride = if dim_a > 1 { stride_a } else { stride_b };
        if dim_a.max(dim_b) > 1 && stride > 0 {
            axes.push((stride, dim_a, dim_b));
        }
    }
    axes.sort_unstable_by_key(|axis| std::cmp::Reverse(axis.0));
    reaches(&axes, bytes / item)
}

/// Whether `distance` is a sum of `stride · (i - j)` with `i` below the first and `j` below the second extent.
fn reaches(axes: &[(i64, i64, i64)], distance: i64) -> bool {
    let Some(&(stride, dim_a, dim_b)) = axes.first() else {
        return distance == 0;
    };
    let rest: i64 = axes[1..].iter().map(|&(stride, dim_a, dim_b)| stride * (dim_a.max(dim_b) - 1)).sum();
    let low = (distance - rest).div_euclid(stride).max(1 - dim_b);
    let high = (distance + rest).div_euclid(stride).min(dim_a - 1);
    (low..=high).any(|steps| reaches(&axes[1..], distance - steps * stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_slices_of_one_batch_do_not_share() {
        let slice: TensorDesc = "2x3x4x4:f32:s112x1x28x7".parse().unwrap();
        assert!(!may_share(&slice, 1000, &slice, 1000 + 3 * 4));
        assert!(may_share(&slice, 1000, &slice, 1000 + 2 * 4));
        assert!(may_share(&slice, 1000, &slice, 1000 + 7 * 4));
        assert!(!may_share(&slice, 1000, &slice, 1000 + 4 * 112 * 4));
        let other: TensorDesc = "2x4x4x4:f32:s112x1x28x7".parse().unwrap();
        assert!(!may_share(&slice, 1000, &other, 1000 + 3 * 4));
        assert!(may_share(&other, 1000, &slice, 1000 + 3 * 4));
    }

    #[test]
    fn other_layouts_are_judged_by_their_spans() {
        let (a, b): (TensorDesc, TensorDesc) = ("4x4:f32".parse().unwrap(), "4x4:f32:s1x4".parse().unwrap());
        assert!(may_share(&a, 64, &b, 64 + 60));
        assert!(!may_share(&a, 64, &b, 64 + 64));
    }
}
