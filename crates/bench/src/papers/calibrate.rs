//! The table of costs by which virtual clusters are charged: `solera papers calibrate`.

use crate::error::BenchError;
use crate::virtual_cluster::calibrate;
use crate::virtual_cluster::cost::{Costs, Factors, Host};

/// A kind of steps has drifted if it costs so much more or less than by the table.
const DRIFT: f64 = 0.05;
/// Kinds of steps that take a smaller share of all instructions are not told of.
const SHARE: f64 = 0.01;

/// Counts and measures anew. `tell` hears what is going on. Returns the table as a file.
///
/// # Errors
/// A tool cannot be run, or what runs under it fails.
pub fn table(tell: &dyn Fn(&str)) -> Result<String, BenchError> {
    calibrate::calibrate(tell).map(|costs| costs.write())
}

/// Counts anew, and compares with the table that ships with the program. Returns a line for each
/// kind of steps that has drifted.
///
/// # Errors
/// As with [`table`].
pub fn check(tell: &dyn Fn(&str)) -> Result<Vec<String>, BenchError> {
    let (now, then) = (calibrate::calibrate(tell)?, Costs::shipped());
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
        tell(&format!(
            "{then:.3} {name} in the table ({}), {now:.3} here",
            Costs::shipped().measured
        ));
    }
    Ok(then.drift(&now, DRIFT, SHARE).iter().map(ToString::to_string).collect())
}

/// Runs what is counted under callgrind, for the protocol of this name. Returns a line for each
/// class of steps.
///
/// # Errors
/// There is no such protocol.
pub fn steps(variant: &str) -> Result<String, BenchError> {
    let known = calibrate::Table::all().find(|table| table.name() == variant);
    let known =
        known.ok_or_else(|| BenchError::Settings(format!("there is no protocol '{variant}'")))?;
    Ok(calibrate::steps(known))
}
