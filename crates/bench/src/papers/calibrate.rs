//! Creates and checks the table of costs of virtual clusters, for `solera papers calibrate`.

use crate::error::BenchError;
use crate::virtual_cluster::calibrate;
use crate::virtual_cluster::cost::{Costs, Factors, Host};

/// Minimum relative change of a kind's cost that counts as drift.
const DRIFT: f64 = 0.05;
/// Minimum share of all instructions of kinds whose drift is reported.
const SHARE: f64 = 0.01;

/// Counts and measures the costs, and returns the table as the text of a file. Reports progress to
/// `report`.
///
/// # Errors
/// Fails if a tool cannot be run, or if the program under it fails.
pub fn table(report: &dyn Fn(&str)) -> Result<String, BenchError> {
    calibrate::calibrate(report).map(|costs| costs.write())
}

/// Counts the costs, and compares with the built-in table. Returns a line for each kind of steps
/// that has drifted.
///
/// # Errors
/// The same as those of [`table`].
pub fn check(report: &dyn Fn(&str)) -> Result<Vec<String>, BenchError> {
    let (now, then) = (calibrate::calibrate(report)?, Costs::shipped());
    let numbers = |costs: &Costs| {
        let Factors { ns_per_instruction, ns_per_system_call } = costs.factors;
        let Host { request, command, write, hop } = costs.host;
        [
            ("ns for an instruction", ns_per_instruction),
            ("ns for a system call", ns_per_system_call),
            ("instructions of a host for what is sent together", request),
            ("instructions of a host for a command", command),
            ("more instructions of a host for a command that writes", write),
            ("instructions of a host for a message between workers", hop),
        ]
    };
    for ((name, then), (_, now)) in numbers(&then).into_iter().zip(numbers(&now)) {
        report(&format!(
            "{then:.3} {name} in the table ({}), {now:.3} here",
            Costs::shipped().measured
        ));
    }
    Ok(then.drift(&now, DRIFT, SHARE).iter().map(ToString::to_string).collect())
}

/// Runs the steps that are counted under callgrind, for the protocol of this name. Returns a line
/// for each class of steps.
///
/// # Errors
/// Fails if there is no such protocol.
pub fn steps(variant: &str) -> Result<String, BenchError> {
    let known = calibrate::Table::all().find(|table| table.name() == variant);
    let known =
        known.ok_or_else(|| BenchError::Settings(format!("there is no protocol '{variant}'")))?;
    Ok(calibrate::steps(known))
}
