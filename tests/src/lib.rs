//! What the tests of every operator share: random problems, fills, the oracle and its tolerances.

pub mod edges;
pub mod fill;
pub mod in_place;
pub mod oracle;
pub mod problems;
pub mod skip;

pub use fill::Fill;
pub use in_place::check_in_place;
pub use oracle::{Case, check, check_case, check_exact, contexts, refusal};
pub use skip::{gpu, hopper};

/// Cases a property test runs: 48, or `OXIDNN_CASES`.
pub fn config() -> proptest::test_runner::Config {
    let cases = std::env::var("OXIDNN_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(48);
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
