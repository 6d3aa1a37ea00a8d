//! Workspace division: one choice for each of several classes, of least total time within a total weight.
//!
//! This is the 0-1 program of µ-cuDNN, min Σ T x with one x a class and Σ M x at most the total: a multiple-choice
//! knapsack. It is solved exactly. The relaxation, in which a class may be shared out over two choices, is solved by
//! taking the steepest steps of the classes' convex hulls first, and gives a bound below and a solution. A choice whose
//! bound is above that solution is dropped; dynamic programming over the others keeps, class by class, what is worth
//! having of (weight, time) and within the bound (Pisinger, "A minimal algorithm for the multiple-choice knapsack
//! problem", 1995).

use super::pareto::{Front, Picoseconds, Point};

/// A choice of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// What it takes.
    pub(crate) time: Picoseconds,
    /// What it weighs.
    pub(crate) weight: u64,
}

/// Even the lightest choices are too heavy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooHeavy {
    /// What they weigh.
    pub(crate) least: u64,
}

/// A step of a class's hull to a heavier and faster choice.
#[derive(Clone, Copy, Debug)]
struct Step {
    class: usize,
    weight: u64,
    saved: Picoseconds,
}

impl Step {
    /// Steeper steps first. Products of times and weights do not fit 64 bits.
    fn compare(&self, other: &Step) -> std::cmp::Ordering {
        let (a, b) = (self.product(other.weight), other.product(self.weight));
        b.cmp(&a).then(self.class.cmp(&other.class)).then(self.weight.cmp(&other.weight))
    }

    fn product(&self, weight: u64) -> u128 {
        u128::from(self.saved) * u128::from(weight)
    }
}

/// The choice of each class: of least total time within the capacity, and of least weight among those.
///
/// # Errors
/// `TooHeavy` when there is none. A class without choices weighs infinitely.
pub(crate) fn solve(classes: &[Vec<Choice>], capacity: u64) -> Result<Vec<usize>, TooHeavy> {
    let mut fronts: Vec<Vec<Point<usize>>> = classes.iter().map(|class| front(class)).collect();
    let lightest = |front: &Vec<Point<usize>>| front.first().map_or(u64::MAX, |point| point.bytes);
    let least = fronts.iter().map(lightest).fold(0u64, u64::saturating_add);
    if least > capacity {
        return Err(TooHeavy { least });
    }
    let steps = sorted_steps(&fronts);
    let greedy = greedy_time(&fronts, &steps, capacity - least);
    drop_hopeless(&mut fronts, &steps, capacity - least, greedy);
    // Classes with most left to decide last: until then few states are kept.
    let mut order: Vec<usize> = (0..fronts.len()).collect();
    order.sort_by_key(|&class| (fronts[class].len(), class));
    let bounds: Vec<Bound> = (0..=order.len()).map(|done| Bound::new(&fronts, &order[done..])).collect();
    let mut layers: Vec<Vec<Point<(usize, usize)>>> = Vec::new();
    for (done, &class) in order.iter().enumerate() {
        let start = [Point { time: 0, bytes: 0, n_parts: 0, choice: (0, 0) }];
        let before = layers.last().map_or(&start[..], Vec::as_slice);
        let next = extend(before, &fronts[class], &bounds[done + 1], capacity, greedy);
        layers.push(next);
    }
    let mut chosen = vec![0; classes.len()];
    let mut at = layers.last().map_or(0, |layer| layer.len().saturating_sub(1));
    for (layer, &class) in layers.iter().zip(&order).rev() {
        let (before, choice) = layer[at].choice;
        chosen[class] = choice;
        at = before;
    }
    Ok(chosen)
}

/// What is worth having of a class, by weight ascending.
fn front(class: &[Choice]) -> Vec<Point<usize>> {
    let mut front = Front::default();
    for (choice, &Choice { time, weight }) in class.iter().enumerate() {
        front.insert(Point { time, bytes: weight, n_parts: 1, choice });
    }
    front.points().to_vec()
}

/// The steps of the lower convex hull of a class.
fn hull(class: usize, front: &[Point<usize>]) -> Vec<Step> {
    let step = |from: &Point<usize>, to: &Point<usize>| Step {
        class,
        weight: to.bytes - from.bytes,
        saved: from.time - to.time,
    };
    let mut corners: Vec<&Point<usize>> = Vec::new();
    for point in front {
        while let [.., a, b] = corners[..]
            && step(b, point).product(step(a, b).weight) >= step(a, b).product(step(b, point).weight)
        {
            corners.pop();
        }
        corners.push(point);
    }
    corners.windows(2).map(|pair| step(pair[0], pair[1])).collect()
}

fn sorted_steps(fronts: &[Vec<Point<usize>>]) -> Vec<Step> {
    let mut steps: Vec<Step> = fronts.iter().enumerate().flat_map(|(class, front)| hull(class, front)).collect();
    steps.sort_by(Step::compare);
    steps
}

fn lightest_time(front: &[Point<usize>]) -> Picoseconds {
    front.first().map_or(0, |point| point.time)
}

/// The time of a solution: steps in the order of their slopes, those left out that do not fit, with all behind them in
/// their class.
fn greedy_time(fronts: &[Vec<Point<usize>>], steps: &[Step], mut room: u64) -> Picoseconds {
    let mut open = vec![true; fronts.len()];
    let mut time: Picoseconds = fronts.iter().map(|front| lightest_time(front)).sum();
    for step in steps {
        if open[step.class] && step.weight <= room {
            room -= step.weight;
            time -= step.saved;
        } else {
            open[step.class] = false;
        }
    }
    time
}

/// Drops choices that no solution as good as `greedy` holds, by the price of weight at which the relaxation breaks:
/// time + price · weight of a choice may exceed the least of its class by no more than the solution the bound.
fn drop_hopeless(fronts: &mut [Vec<Point<usize>>], steps: &[Step], room: u64, greedy: Picoseconds) {
    let mut used = 0u64;
    let breaking = steps.iter().find(|step| {
        used = used.saturating_add(step.weight);
        used > room
    });
    // Where everything fits, weight costs nothing.
    let (saved, weight) = breaking.map_or((0, 1), |step| (i128::from(step.saved), i128::from(step.weight)));
    let price = |point: &Point<usize>, lightest: u64| -> Option<i128> {
        let cost = i128::from(point.time).checked_mul(weight)?;
        cost.checked_add(i128::from(point.bytes - lightest).checked_mul(saved)?)
    };
    let mut bound = Some(0i128);
    let mut least = Vec::with_capacity(fronts.len());
    for front in fronts.iter() {
        let lightest = front.first().map_or(0, |point| point.bytes);
        let low = front.iter().map(|point| price(point, lightest)).min().flatten();
        bound = bound.zip(low).and_then(|(bound, low)| bound.checked_add(low));
        least.push((lightest, low));
    }
    let gap = bound.and_then(|bound| {
        let bound = bound.checked_sub(i128::from(room).checked_mul(saved)?)?;
        i128::from(greedy).checked_mul(weight)?.checked_sub(bound)
    });
    // Numbers beyond 127 bits: nothing is dropped, which costs time and no exactness.
    let Some(gap) = gap else { return };
    for (front, (lightest, low)) in fronts.iter_mut().zip(least) {
        front.retain(|point| price(point, lightest).zip(low).is_none_or(|(price, low)| price - low <= gap));
    }
}

/// What some classes add at least, by the room they are given.
struct Bound {
    /// Of the lightest choices.
    weight: u64,
    time: Picoseconds,
    /// Sums of weights and savings of the steps so far, steepest first.
    reached: Vec<(u64, Picoseconds)>,
}

impl Bound {
    fn new(fronts: &[Vec<Point<usize>>], classes: &[usize]) -> Self {
        let mut steps: Vec<Step> = classes.iter().flat_map(|&class| hull(class, &fronts[class])).collect();
        steps.sort_by(Step::compare);
        let mut reached = vec![(0, 0)];
        let (mut weight, mut saved) = (0u64, 0u64);
        for step in steps {
            weight += step.weight;
            saved += step.saved;
            reached.push((weight, saved));
        }
        let of = |value: fn(&Point<usize>) -> u64| {
            classes.iter().filter_map(|&class| fronts[class].first()).map(value).sum::<u64>()
        };
        Bound { weight: of(|point| point.bytes), time: of(|point| point.time), reached }
    }

    /// None where there is not even room for the lightest choices.
    fn least_time(&self, room: u64) -> Option<Picoseconds> {
        let room = room.checked_sub(self.weight)?;
        let at = self.reached.partition_point(|&(weight, _)| weight <= room) - 1;
        let (weight, saved) = self.reached[at];
        // A part of the step that does not fit, rounded so that the bound stays below.
        let part = self.reached.get(at + 1).map_or(0, |&(next_weight, next_saved)| {
            let product = u128::from(next_saved - saved) * u128::from(room - weight);
            product.div_ceil(u128::from(next_weight - weight)) as u64
        });
        Some(self.time.saturating_sub(saved + part))
    }
}

/// The states after one more class: those worth having, and within the bound.
fn extend(
    before: &[Point<(usize, usize)>],
    front: &[Point<usize>],
    behind: &Bound,
    capacity: u64,
    greedy: Picoseconds,
) -> Vec<Point<(usize, usize)>> {
    let mut states = Vec::with_capacity(before.len() * front.len());
    for (at, state) in before.iter().enumerate() {
        for point in front {
            let (time, weight) = (state.time + point.time, state.bytes.saturating_add(point.bytes));
            let Some(least) = capacity.checked_sub(weight).and_then(|room| behind.least_time(room)) else { break };
            if time + least <= greedy {
                states.push(Point { time, bytes: weight, n_parts: 0, choice: (at, point.choice) });
            }
        }
    }
    // Equal costs in a fixed order, so that the same problem always has the same solution.
    states.sort_by_key(|state| (state.bytes, state.time, state.choice));
    let mut best = Picoseconds::MAX;
    states.retain(|state| {
        let is_faster = state.time < best;
        best = best.min(state.time);
        is_faster
    });
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, SolveOutcome, Variable};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn random_classes(rng: &mut Xoshiro256PlusPlus, most: usize, weights: u64, times: u64) -> Vec<Vec<Choice>> {
        let choice = |rng: &mut Xoshiro256PlusPlus| Choice {
            time: rng.random_range(0..times),
            weight: rng.random_range(0..weights),
        };
        let n = rng.random_range(1..=most);
        (0..n)
            .map(|_| {
                let choices = rng.random_range(1..=5);
                (0..choices).map(|_| choice(rng)).collect()
            })
            .collect()
    }

    fn cost(classes: &[Vec<Choice>], chosen: &[usize]) -> (u64, u64) {
        let choices = classes.iter().zip(chosen).map(|(class, &choice)| class[choice]);
        choices.fold((0, 0), |(time, weight), choice| (time + choice.time, weight + choice.weight))
    }

    /// The optimum of the 0-1 program, by an independent solver.
    fn by_program(classes: &[Vec<Choice>], capacity: u64) -> Option<u64> {
        let mut program = Problem::new(OptimizationDirection::Minimize);
        let mut weights = LinearExpr::empty();
        for class in classes {
            let vars: Vec<Variable> = class.iter().map(|choice| program.add_binary_var(choice.time as f64)).collect();
            for (&var, choice) in vars.iter().zip(class) {
                weights.add(var, choice.weight as f64);
            }
            let ones: Vec<(Variable, f64)> = vars.into_iter().map(|var| (var, 1.0)).collect();
            program.add_constraint(&ones[..], ComparisonOp::Eq, 1.0);
        }
        program.add_constraint(weights, ComparisonOp::Le, capacity as f64);
        match program.solve() {
            Ok(SolveOutcome::Solution(found)) => Some(found.objective().round() as u64),
            _ => None,
        }
    }

    #[test]
    fn ten_thousand_random_knapsacks_have_the_programs_optimum() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut refused = 0;
        for case in 0..10_000 {
            let weights = [4, 30, 1000][case % 3];
            let classes = random_classes(&mut rng, 6, weights, [10, 1000][case % 2]);
            let capacity = rng.random_range(0..=weights * classes.len() as u64);
            match (solve(&classes, capacity), by_program(&classes, capacity)) {
                (Ok(chosen), Some(expected)) => {
                    let (time, weight) = cost(&classes, &chosen);
                    assert!(weight <= capacity);
                    assert_eq!(time, expected, "case {case}: {classes:?}, {capacity}");
                }
                (Err(TooHeavy { least }), None) => {
                    assert!(least > capacity);
                    refused += 1;
                }
                (ours, theirs) => panic!("case {case}: {ours:?}, {theirs:?}: {classes:?}, {capacity}"),
            }
        }
        assert!(refused > 100);
    }

    #[test]
    fn of_equal_times_the_lightest_is_chosen_always_the_same() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        for _ in 0..2000 {
            let classes = random_classes(&mut rng, 4, 6, 4);
            let capacity = rng.random_range(0..20);
            // All solutions, one after the other.
            let mut best = None;
            let mut chosen = vec![0; classes.len()];
            loop {
                let (time, weight) = cost(&classes, &chosen);
                if weight <= capacity {
                    best = best.into_iter().chain([(time, weight)]).min();
                }
                let Some(class) = (0..classes.len()).find(|&class| chosen[class] + 1 < classes[class].len()) else {
                    break;
                };
                chosen[class] += 1;
                chosen[..class].fill(0);
            }
            let got = solve(&classes, capacity).ok();
            assert_eq!(got.as_ref().map(|got| cost(&classes, got)), best, "{classes:?}, {capacity}");
            assert_eq!(got, solve(&classes, capacity).ok());
        }
    }

    /// The optimum by a table over all weights.
    fn by_table(classes: &[Vec<Choice>], capacity: u64) -> Option<u64> {
        let mut best: Vec<Option<u64>> = vec![Some(0); capacity as usize + 1];
        for class in classes {
            let of = |room: usize| {
                let fits = class.iter().filter(|choice| choice.weight as usize <= room);
                fits.filter_map(|choice| Some(best[room - choice.weight as usize]? + choice.time)).min()
            };
            best = (0..best.len()).map(of).collect();
        }
        best[capacity as usize]
    }

    #[test]
    fn networks_of_hundreds_of_layers_are_solved_exactly() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        for case in 0..20 {
            // Times about in proportion to what is spared are the hard case: every choice is about as good.
            let mut choice = || {
                let weight = rng.random_range(0..60);
                Choice { time: 1000 - 10 * weight + rng.random_range(0..30), weight }
            };
            let classes: Vec<Vec<Choice>> = (0..200).map(|_| (0..8).map(|_| choice()).collect()).collect();
            let capacity = 2000 + 300 * case;
            let chosen = solve(&classes, capacity).ok().map(|chosen| cost(&classes, &chosen).0);
            assert_eq!(chosen, by_table(&classes, capacity), "case {case}");
        }
    }

    #[test]
    fn the_least_weight_is_told() {
        let choice = |time, weight| Choice { time, weight };
        let classes = [vec![choice(1, 9), choice(2, 5)], vec![choice(1, 7)]];
        assert_eq!(solve(&classes, 11), Err(TooHeavy { least: 12 }));
        assert_eq!(solve(&classes, 12), Ok(vec![1, 0]));
        assert_eq!(solve(&[], 0), Ok(vec![]));
        assert_eq!(solve(&[vec![]], u64::MAX - 1), Err(TooHeavy { least: u64::MAX }));
    }
}
