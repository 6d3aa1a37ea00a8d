//! The slow, independent judge: every operator as plain f64 loops.
