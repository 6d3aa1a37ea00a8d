//! What convolutions and poolings say about their windows.

use crate::node::Node;
use crate::stop::Stop;

/// Windows of a node, one value for each spatial axis.
pub struct Windows {
    pub kernel: Vec<i64>,
    pub stride: Vec<i64>,
    pub dilation: Vec<i64>,
    /// How padding is found.
    pub padding: Padding,
}

/// Where the padding of a node comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Given at the begin and the end of each axis.
    Given(Vec<i64>, Vec<i64>),
    /// So much that there are as many windows as strides fit the image; what is odd goes to the end (`SAME_UPPER`) or to
    /// the begin (`SAME_LOWER`).
    Same { odd_at_end: bool },
}

impl Windows {
    /// Reads the attributes; `kernel` where there is no `kernel_shape`.
    pub fn of(node: &Node<'_>, n_axes: usize, kernel: Option<&[i64]>) -> Result<Self, Stop> {
        let list = |name: &str, default: i64| node.ints(name).map_or(vec![default; n_axes], <[i64]>::to_vec);
        let kernel = match (node.ints("kernel_shape"), kernel) {
            (Some(kernel), _) | (None, Some(kernel)) => kernel.to_vec(),
            (None, None) => return Err(Stop::failed("expected a kernel_shape, given none")),
        };
        let pads = list("pads", 0);
        let padding = match node.word("auto_pad", "NOTSET")? {
            // Two values for each axis; without the attribute, zeros.
            "NOTSET" if pads.len() == 2 * n_axes => Padding::Given(pads[..n_axes].to_vec(), pads[n_axes..].to_vec()),
            "NOTSET" | "VALID" => Padding::Given(vec![0; n_axes], vec![0; n_axes]),
            "SAME_UPPER" => Padding::Same { odd_at_end: true },
            "SAME_LOWER" => Padding::Same { odd_at_end: false },
            other => return Err(Stop::failed(format!("expected a kind of padding, given {other}"))),
        };
        Ok(Windows { kernel, stride: list("strides", 1), dilation: list("dilations", 1), padding })
    }

    /// How far a window reaches along an axis.
    pub fn extent(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }

    /// Padding at the begin and the end of each axis, for an image of these extents.
    pub fn pads(&self, image: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let odd_at_end = match &self.padding {
            Padding::Given(begin, end) => return (begin.clone(), end.clone()),
            Padding::Same { odd_at_end } => *odd_at_end,
        };
        let total = |(axis, &image): (usize, &i64)| {
            let n_windows = (image + self.stride[axis] - 1) / self.stride[axis];
            ((n_windows - 1) * self.stride[axis] + self.extent(axis) - image).max(0)
        };
        image.iter().enumerate().map(total).map(|total| shared(total, odd_at_end)).unzip()
    }
}

/// A number of elements shared out to begin and end.
pub fn shared(total: i64, odd_at_end: bool) -> (i64, i64) {
    let half = total / 2;
    if odd_at_end { (half, total - half) } else { (total - half, half) }
}
