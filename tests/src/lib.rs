//! Random problems, oracles, tolerances and the property tests of every operator.
