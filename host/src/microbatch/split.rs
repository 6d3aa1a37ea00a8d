//! What a micro-batch takes of each operand of a problem.

use crate::select::Refusal;
use crate::{Operand, Problem, Role, TensorDesc};

/// What a micro-batch takes of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Its images: a slice along this dimension.
    Along(usize),
    /// All of it; it is only read.
    Whole,
    /// It is a sum over the batch: the first micro-batch writes it with the caller's beta, each other one adds to it.
    Sum,
}

/// How the batch of a problem can be computed in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchSplit {
    /// One an operand, in their order.
    shares: Vec<Share>,
    batch: i64,
}

/// Addresses that every kernel takes are multiples of this: the widest access of threads, and the copy engine's rule.
const ADDRESS_BYTES: i64 = 16;

impl BatchSplit {
    /// The shares of all operands, by their names.
    ///
    /// # Errors
    /// Where the parts would not make the whole: slices of different numbers of images, none at all, a sum that is not
    /// `alpha · result + beta · prior` in a floating-point type, a sum beside another result, since there is one beta.
    pub(crate) fn new<P: Problem>(problem: &P, share: impl Fn(&Operand) -> Share) -> Result<Self, Refusal> {
        let operands = problem.operands();
        let shares: Vec<Share> = operands.iter().map(share).collect();
        let mut batch: Option<(&str, i64)> = None;
        let mut written = Vec::new();
        let mut sums = Vec::new();
        for (operand, &share) in operands.iter().zip(&shares) {
            let Operand { name, desc, role, .. } = operand;
            match share {
                Share::Along(axis) => {
                    let Some(&images) = desc.dims().get(axis) else {
                        return Err(Refusal(format!("{name} has no dimension {axis}, given {desc}")));
                    };
                    let &mut (first, expected) = batch.get_or_insert((*name, images));
                    if images != expected {
                        return Err(Refusal(format!("{name} has {images} images, {first} has {expected}")));
                    }
                }
                Share::Whole if *role != Role::Input => {
                    return Err(Refusal(format!("{name} belongs to the batch as a whole and is written")));
                }
                Share::Whole => {}
                Share::Sum if *role != Role::Output || !desc.dtype().is_general() => {
                    return Err(Refusal(format!("{name} is a sum that cannot be added to part by part, given {desc}")));
                }
                Share::Sum => sums.push(*name),
            }
            if *role != Role::Input {
                written.push(*name);
            }
        }
        if let (Some(sum), Some(other)) = (sums.first(), written.iter().find(|name| !sums.contains(name))) {
            let reason = format!("{sum} is added up over parts, {other} is not: one beta cannot do for both");
            return Err(Refusal(reason));
        }
        let Some((_, batch)) = batch else { return Err(Refusal::new("no operand has a batch")) };
        Ok(BatchSplit { shares, batch })
    }

    /// Slices of every operand along its first dimension.
    ///
    /// # Errors
    /// As [`BatchSplit::new`].
    pub(crate) fn along_first<P: Problem>(problem: &P) -> Result<Self, Refusal> {
        Self::new(problem, |_| Share::Along(0))
    }

    /// Images.
    pub(crate) fn batch(&self) -> i64 {
        self.batch
    }

    /// Whether parts add to a result.
    pub(crate) fn accumulates(&self) -> bool {
        self.shares.contains(&Share::Sum)
    }

    /// Whether what parts add up is rounded to 16 bits after each.
    pub(crate) fn rounds(&self, operands: &[Operand]) -> bool {
        let is_narrow = |operand: &Operand| operand.desc.dtype().size_bytes() <= 2;
        operands.iter().zip(&self.shares).any(|(operand, &share)| share == Share::Sum && is_narrow(operand))
    }

    /// A part may begin at multiples of so many images: then addresses are as well aligned as the whole operands'.
    pub(crate) fn unit(&self, operands: &[Operand]) -> i64 {
        let of = |(operand, share): (&Operand, &Share)| {
            let Share::Along(axis) = share else { return 1 };
            let step = operand.desc.strides()[*axis] * operand.desc.dtype().size_bytes() as i64;
            // The largest power of two in it; 0 has them all.
            ADDRESS_BYTES / (1 << step.trailing_zeros().min(ADDRESS_BYTES.trailing_zeros()))
        };
        operands.iter().zip(&self.shares).map(of).max().unwrap_or(1)
    }

    /// The bytes of each operand that `images` images from `begin` on take, as start and end.
    pub(crate) fn ranges(&self, operands: &[Operand], begin: i64, images: i64) -> Result<Vec<(u64, u64)>, Refusal> {
        let range = |(operand, &share): (&Operand, &Share)| {
            let desc = slice(&operand.desc, share, images)?;
            let start = match share {
                Share::Along(axis) => begin * operand.desc.strides()[axis] * operand.desc.dtype().size_bytes() as i64,
                Share::Whole | Share::Sum => 0,
            };
            Ok((start as u64, start as u64 + desc.span_bytes()))
        };
        operands.iter().zip(&self.shares).map(range).collect()
    }

    /// The problem of `images` of the images: its text with other tensors, judged as any text is.
    ///
    /// # Errors
    /// Where that is no problem, or not one of these tensors.
    pub(crate) fn part<P: Problem>(&self, problem: &P, images: i64) -> Result<P, Refusal> {
        let operands = problem.operands();
        let descs: Vec<TensorDesc> = (operands.iter().zip(&self.shares))
            .map(|(operand, &share)| slice(&operand.desc, share, images))
            .collect::<Result<_, _>>()?;
        let whole = problem.to_string();
        let mut text = String::with_capacity(whole.len());
        for word in whole.split(' ') {
            let key = word.split_once('=').map(|(key, _)| key);
            let operand = key.and_then(|key| operands.iter().position(|operand| operand.name == key));
            if !text.is_empty() {
                text.push(' ');
            }
            match operand {
                Some(at) => text.push_str(&format!("{}={}", operands[at].name, descs[at])),
                None => text.push_str(word),
            }
        }
        let part: P = text.parse().map_err(|e| Refusal(format!("{images} of {} images: {e}", self.batch)))?;
        let given: Vec<TensorDesc> = part.operands().iter().map(|operand| operand.desc).collect();
        if given != descs {
            return Err(Refusal(format!("{images} of {} images have other tensors: {part}", self.batch)));
        }
        Ok(part)
    }
}

/// The same tensor with other images; strides stay.
fn slice(desc: &TensorDesc, share: Share, images: i64) -> Result<TensorDesc, Refusal> {
    let Share::Along(axis) = share else { return Ok(*desc) };
    let mut dims = desc.dims().to_vec();
    dims[axis] = images;
    TensorDesc::strided(desc.dtype(), &dims, desc.strides()).map_err(Refusal::from)
}
