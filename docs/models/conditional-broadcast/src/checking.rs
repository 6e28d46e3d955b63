//! Checks of scenarios and traps.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::protocol::{Broadcast, State};
use crate::scenarios::{Rule, SCENARIOS, Scenario, TRAPS};
use crate::steps::Action;

/// Checks a scenario with all rules, and prints how large it is.
fn check(scenario: &'static Scenario) -> bool {
    let start = Instant::now();
    let model = Broadcast::new(scenario, None);
    let finish = HasDiscoveries::AnyFailures;
    let checker = model.clone().checker().threads(2).finish_when(finish).spawn_bfs().join();
    println!(
        "{:12} {:>9} states, depth {:>2}, {:>5.1} s",
        scenario.name,
        checker.unique_state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f32()
    );
    let reaches = || scenario.reaches.iter().map(|(name, _)| *name);
    let mut holds = true;
    // No property holds because its states are never reached.
    for name in reaches().filter(|name| checker.discovery(name).is_none()) {
        println!("  never reached: {name}");
        holds = false;
    }
    for (name, path) in checker.discoveries() {
        if !reaches().any(|reached| reached == name) {
            println!("  violated: {name}");
            print(&model, name, path);
            holds = false;
        }
    }
    holds
}

/// Finds the violation of a property in a scenario without a rule, and prints it if `steps` asks
/// for that.
fn trap(rule: Rule, scenario: &'static Scenario, property: &'static str, steps: bool) -> bool {
    let start = Instant::now();
    let finish = HasDiscoveries::AnyOf([property].into());
    let model = Broadcast::new(scenario, Some(rule));
    // One thread finds a short path.
    let checker = model.clone().checker().finish_when(finish).spawn_bfs().join();
    let found = checker.discovery(property);
    let violated = found.is_some();
    let result = if violated { "violates" } else { "DOES NOT VIOLATE" };
    let (text, seconds) = (format!("{rule:?}"), start.elapsed().as_secs_f32());
    println!("without {text:18} {:12} {result} {property}, {seconds:.1} s", scenario.name);
    if let Some(path) = found.filter(|_| steps) {
        print(&model, property, path);
    }
    violated
}

/// Prints the steps up to the first state that violates a property.
fn print(model: &Broadcast, property: &str, path: Path<State, Action>) {
    let properties = model.properties();
    let holds = |state: &State| {
        let property = properties.iter().find(|other| other.name == property);
        property.is_none_or(|property| (property.condition)(model, state))
    };
    for (number, (state, action)) in path.into_vec().into_iter().enumerate() {
        if !holds(&state) {
            break;
        }
        if let Some(action) = action {
            println!("  {:>2}. {action:?}", number + 1);
        }
    }
}

/// Checks everything that the arguments select.
pub fn run(arguments: &[String]) -> bool {
    let selects = |option: &str, name: &str| arguments.is_empty() || *arguments == [option, name];
    let mut holds = true;
    for scenario in SCENARIOS {
        if selects("--scenario", scenario.name) {
            holds &= check(scenario);
        }
    }
    for (rule, name, property) in TRAPS {
        if selects("--trap", &format!("{rule:?}")) {
            let scenario = SCENARIOS.iter().find(|scenario| scenario.name == *name);
            holds &= scenario
                .is_some_and(|scenario| trap(*rule, scenario, property, !arguments.is_empty()));
        }
    }
    holds
}
