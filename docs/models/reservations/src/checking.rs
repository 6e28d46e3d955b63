//! Checks of scenarios and traps.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::intervals::{self, Intervals};
use crate::rights::{self, Rights};

/// Checks a scenario with all rules, and prints how large it is. `reaches` are the states that it
/// must reach, so that no property holds vacuously.
fn check<M>(name: &str, model: M, reaches: &[&'static str]) -> bool
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let start = Instant::now();
    let finish = HasDiscoveries::AnyFailures;
    let checker = model.checker().threads(2).finish_when(finish).spawn_bfs().join();
    println!(
        "{name:15} {:>9} states, depth {:>2}, {:>5.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f32()
    );
    let mut holds = true;
    for name in reaches {
        if checker.discovery(name).is_none() {
            println!("  never reached: {name}");
            holds = false;
        }
    }
    for (name, path) in checker.discoveries() {
        if !reaches.contains(&name) {
            println!("  violated: {name}");
            print(path);
            holds = false;
        }
    }
    holds
}

/// Finds the violation of a property in a scenario without a rule, and prints it if `steps` asks
/// for that.
fn trap<M>(rule: &str, name: &str, model: M, property: &'static str, steps: bool) -> bool
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let finish = HasDiscoveries::AnyOf([property].into());
    // One thread finds a shortest path.
    let checker = model.checker().finish_when(finish).spawn_bfs().join();
    let Some(path) = checker.discovery(property) else {
        println!("without {rule:21} {name:15} DOES NOT VIOLATE {property}");
        return false;
    };
    println!("without {rule:21} {name:15} violates {property}");
    if steps {
        print(path);
    }
    true
}

fn print<S: Clone + Debug + PartialEq + Hash, A: Clone + Debug + PartialEq>(path: Path<S, A>) {
    for (number, action) in path.into_actions().into_iter().enumerate() {
        println!("  {:>2}. {action:?}", number + 1);
    }
}

/// Checks everything that the arguments select.
pub fn run(arguments: &[String]) -> bool {
    let selects = |option: &str, name: &str| arguments.is_empty() || *arguments == [option, name];
    let steps = !arguments.is_empty();
    let mut holds = true;
    for scenario in intervals::SCENARIOS {
        if selects("--scenario", scenario.name) {
            let reaches: Vec<&'static str> =
                scenario.reaches.iter().map(|(name, _)| *name).collect();
            holds &= check(scenario.name, Intervals { scenario, trap: None }, &reaches);
        }
    }
    for scenario in rights::SCENARIOS {
        if selects("--scenario", scenario.name) {
            let reaches: Vec<&'static str> =
                scenario.reaches.iter().map(|(name, _)| *name).collect();
            holds &= check(scenario.name, Rights { scenario, trap: None }, &reaches);
        }
    }
    for (rule, name, property) in intervals::TRAPS {
        let text = format!("{rule:?}");
        if selects("--trap", &text) {
            let scenario = intervals::SCENARIOS.iter().find(|scenario| scenario.name == *name);
            holds &= scenario.is_some_and(|scenario| {
                let model = Intervals { scenario, trap: Some(*rule) };
                trap(&text, name, model, property, steps)
            });
        }
    }
    for (rule, name, property) in rights::TRAPS {
        let text = format!("{rule:?}");
        if selects("--trap", &text) {
            let scenario = rights::SCENARIOS.iter().find(|scenario| scenario.name == *name);
            holds &= scenario.is_some_and(|scenario| {
                let model = Rights { scenario, trap: Some(*rule) };
                trap(&text, name, model, property, steps)
            });
        }
    }
    holds
}
