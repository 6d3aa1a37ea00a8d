//! The registry and what must mirror it.

use oxidnn::operators::operators;

#[test]
fn every_operator_can_be_judged() {
    let names: Vec<&str> = operators().iter().map(|operator| operator.name).collect();
    assert_eq!(names, oxidnn_reference::operators());
}

#[test]
fn every_operator_ends_with_the_naive_kernel() {
    for operator in operators() {
        let algorithms = operator.algorithms();
        assert_eq!(algorithms.last(), Some(&"naive"), "{}", operator.name);
        assert!(algorithms.iter().any(|name| name.starts_with("cpu_")), "{} has a CPU algorithm", operator.name);
        let mut sorted = algorithms.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), algorithms.len(), "{}: names are unique", operator.name);
    }
}
