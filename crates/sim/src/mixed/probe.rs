//! Transactions that always fail and report their reads in a strong store, and a check of these
//! reports.
//!
//! Nothing is ever removed from the sets. A report with certainty must hold at one point in the
//! order of commits, after all transactions that had committed before the call began. It must
//! therefore report a number as present if a client's answer or an earlier report has shown that
//! the number was written.

use std::collections::BTreeSet;

use solera_mixt::executor::{Clock, run};
use solera_mixt::outcome::{Outcome, Why};
use solera_program::run::FailureKind;
use solera_program::value::Value;

use super::tasks::{Host, Known, OBJECTS, handle};
use super::users::DATABASES;

/// The transaction also changes something, which must not take effect.
pub(super) const SOURCE: &str = r#"
transaction probe(a: handle<set<int>> in directory, an: handle<counter> in directory, number: int) {
    an.add(1);
    if a.contains(number) { abort "there"; }
    abort "missing";
}
"#;

/// Reports of probes.
#[derive(Default)]
pub(super) struct Probes {
    /// Numbers that were reported as certainly present.
    there: BTreeSet<i64>,
    /// Number of reports that a number is certainly missing.
    pub(super) missing: u32,
    /// Number of reports without certainty.
    pub(super) uncertain: u32,
}

impl Probes {
    /// Returns the number of reports that a number is certainly present.
    pub(super) fn there(&self) -> u32 {
        self.there.len() as u32
    }
}

impl Host {
    /// Repeatedly probes whether a number is present, most often the last one.
    pub(super) async fn prober(self) {
        let (clock, exchange) = (self.clock(), &self.shared.exchange);
        let mut connections = self.connections(None);
        loop {
            clock.sleep(exchange.within(10, 150)).await;
            let object = exchange.below(OBJECTS);
            let numbers = numbers_of(&self.shared.known.borrow(), object);
            let Some(last) = numbers.len().checked_sub(1) else { continue };
            let number =
                numbers[if exchange.below(3) > 0 { last } else { exchange.below(last + 1) }];
            let was_there = is_there(&self.shared.known.borrow(), number);
            let of = |kind| handle(DATABASES[0], kind, object);
            let args = vec![of("set"), of("count"), Value::Int(number)];
            let mut probe = self.coordinator("probe", args);
            let outcome = run(&mut probe, &mut connections, &clock).await;
            judge(&mut self.shared.known.borrow_mut(), number, was_there, &outcome);
        }
    }
}

/// Returns the numbers of the transactions that write an object.
fn numbers_of(known: &Known, object: usize) -> Vec<i64> {
    let writes = known.writes.iter().filter(|(_, write)| write.object == object);
    writes.map(|(number, _)| *number).collect()
}

/// Returns whether an answer to a client or probe has shown that a number is present.
fn is_there(known: &Known, number: i64) -> bool {
    matches!(known.writes[&number].outcome, Some(Outcome::Done { .. }))
        || known.probes.there.contains(&number)
}

fn judge(known: &mut Known, number: i64, was_there: bool, outcome: &Outcome) {
    let text = match outcome {
        Outcome::Failed(Why::Program(failure)) => match &failure.kind {
            FailureKind::Aborted(text) => &**text,
            other => panic!("the program does nothing else: {other:?}"),
        },
        Outcome::Failed(_) => {
            known.probes.uncertain += 1;
            return;
        }
        other => {
            known.violations.push(format!("a probe of {number} took effect: {other}"));
            return;
        }
    };
    if text == "there" {
        known.probes.there.insert(number);
        return;
    }
    known.probes.missing += 1;
    if was_there {
        known
            .violations
            .push(format!("{number} was there, and is reported as missing for certain"));
    }
}

/// Returns the numbers that were reported as present and never were.
pub(super) fn violations(known: &Known) -> Vec<String> {
    let failed = |number: &&i64| matches!(known.writes[number].outcome, Some(Outcome::Failed(_)));
    let never = known.probes.there.iter().filter(failed);
    never.map(|number| format!("{number} was never there, and is reported as there")).collect()
}
