//! Index arithmetic of one axis, shared by kernels, CPU algorithms and the shape rules.
//!
//! `tap` is the position of a filter element as it slides, 0 at the begin of its window; [`filter_index`] says which
//! filter element that is.

/// Output extent Q of an axis, or None where the filter is larger than the padded input or a number overflows.
///
/// Expects extents, stride and dilation of at least 1 and no negative padding.
pub const fn output_extent(
    input: i64,
    filter: i64,
    padding: i64,
    padding_end: i64,
    stride: i64,
    dilation: i64,
) -> Option<i64> {
    let (Some(padded), Some(window)) = (padded_extent(input, padding, padding_end), window_extent(filter, dilation))
    else {
        return None;
    };
    if window > padded { None } else { Some((padded - window) / stride + 1) }
}

/// Extent of the input with its padding, or None on overflow.
pub const fn padded_extent(input: i64, padding: i64, padding_end: i64) -> Option<i64> {
    match input.checked_add(padding) {
        Some(sum) => sum.checked_add(padding_end),
        None => None,
    }
}

/// Extent of the dilated filter, or None on overflow.
pub const fn window_extent(filter: i64, dilation: i64) -> Option<i64> {
    match (filter - 1).checked_mul(dilation) {
        Some(last) => last.checked_add(1),
        None => None,
    }
}

/// The input position that `tap` meets at output position `output`; outside of the input in the padding.
#[inline(always)]
pub const fn input_position(output: i64, tap: i64, padding: i64, stride: i64, dilation: i64) -> i64 {
    output * stride + tap * dilation - padding
}

/// The output position whose `tap` meets input position `input`; negative when there is none.
///
/// The caller still has to compare it with the output's extent.
#[inline(always)]
pub const fn output_position(input: i64, tap: i64, padding: i64, stride: i64, dilation: i64) -> i64 {
    let scaled = input + padding - tap * dilation;
    // Most layers have stride 1, and a division costs more than the rest of a kernel's inner loop.
    if stride == 1 {
        return scaled;
    }
    // Unsigned and checked: a division that could panic would bring the panic's code into the kernels.
    match (scaled as u64).checked_div(stride as u64) {
        Some(output) if scaled >= 0 && output * stride as u64 == scaled as u64 => output as i64,
        _ => -1,
    }
}

/// The index in the filter of `tap`: the same, or counted from the far end when `flip`.
#[inline(always)]
pub const fn filter_index(tap: i64, filter: i64, flip: bool) -> i64 {
    if flip { filter - 1 - tap } else { tap }
}

/// The output positions `begin..end` at which `tap` meets the input and not its padding; `begin == end` where none.
pub const fn valid_outputs(tap: i64, input: i64, output: i64, padding: i64, stride: i64, dilation: i64) -> (i64, i64) {
    // Input position of output 0.
    let first = tap * dilation - padding;
    if stride == 1 {
        let begin = if first < 0 { -first } else { 0 };
        let end = if input - first < output { input - first } else { output };
        return if begin < end { (begin, end) } else { (0, 0) };
    }
    let begin = if first >= 0 { 0 } else { (-first - 1) / stride + 1 };
    let end = if first >= input { 0 } else { (input - 1 - first) / stride + 1 };
    let end = if end < output { end } else { output };
    if begin < end { (begin, end) } else { (0, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every small axis, with its output extent.
    fn axes(mut each: impl FnMut(i64, i64, i64, i64, i64, i64)) {
        for input in 1..7 {
            for filter in 1..4 {
                for padding in 0..5 {
                    for padding_end in 0..3 {
                        for stride in 1..5 {
                            for dilation in 1..4 {
                                if let Some(output) =
                                    output_extent(input, filter, padding, padding_end, stride, dilation)
                                {
                                    each(input, filter, output, padding, stride, dilation);
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn output_extent_counts_the_window_positions() {
        for (input, filter, padding, padding_end, stride, dilation) in
            [(7, 3, 1, 1, 1, 1), (224, 7, 3, 3, 2, 1), (5, 2, 0, 3, 4, 3), (1, 1, 0, 0, 9, 9), (2, 3, 0, 0, 1, 1)]
        {
            let fits = |start: i64| start + (filter - 1) * dilation < input + padding + padding_end;
            let count = (0..).map(|i| i * stride).take_while(|&start| fits(start)).count() as i64;
            let expected = (count > 0).then_some(count);
            assert_eq!(output_extent(input, filter, padding, padding_end, stride, dilation), expected);
        }
        assert_eq!(output_extent(i64::MAX, 1, 1, 0, 1, 1), None);
        assert_eq!(output_extent(9, i64::MAX, 0, 0, 1, 2), None);
    }

    #[test]
    fn output_position_inverts_input_position() {
        axes(|input, filter, output, padding, stride, dilation| {
            for tap in 0..filter {
                for at in 0..input {
                    let found = output_position(at, tap, padding, stride, dilation);
                    let expected = (0..output).find(|&o| input_position(o, tap, padding, stride, dilation) == at);
                    assert_eq!((0..output).contains(&found).then_some(found), expected);
                }
            }
        });
    }

    #[test]
    fn valid_outputs_are_those_inside_the_input() {
        axes(|input, filter, output, padding, stride, dilation| {
            for tap in 0..filter {
                let inside: Vec<i64> = (0..output)
                    .filter(|&o| (0..input).contains(&input_position(o, tap, padding, stride, dilation)))
                    .collect();
                let (begin, end) = valid_outputs(tap, input, output, padding, stride, dilation);
                assert_eq!((begin..end).collect::<Vec<_>>(), inside);
            }
        });
    }
}
