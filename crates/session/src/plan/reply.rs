//! Replies of commands on keys.

use solera_commands::CommandId;
use solera_data::{Op, OpError, Outcome};
use solera_resp::Writer;
use uuid::Uuid;

use super::{Plan, Shape};

/// Appends the reply of a command on keys. Returns whether it is not an error.
pub(crate) fn write_results(
    out: &mut Writer,
    plan: &Plan<'_>,
    results: &[Result<Outcome, OpError>],
) -> bool {
    if let Shape::Strings = plan.shape {
        out.array(results.len());
        for result in results {
            match result {
                Ok(outcome) => write_outcome(out, outcome),
                Err(_) => out.null(),
            }
        }
        return true;
    }
    if let Some(error) = results.iter().find_map(|result| result.as_ref().err()) {
        return write_error(out, error);
    }
    let outcomes = results.iter().filter_map(|result| result.as_ref().ok());
    match plan.shape {
        Shape::Ok => out.simple("OK"),
        Shape::Sum => out.integer(
            outcomes
                .map(|outcome| match outcome {
                    Outcome::Int(number) => *number,
                    _ => 0,
                })
                .sum(),
        ),
        Shape::Taken => match results.first() {
            Some(Ok(Outcome::Int(0))) => out.null(),
            _ => out.simple("OK"),
        },
        Shape::Identifiers(count) => write_identifiers(out, count),
        Shape::Single | Shape::Strings => outcomes.for_each(|outcome| write_outcome(out, outcome)),
    }
    true
}

/// Appends the reply of a command with one operation. Returns whether it is not an error.
pub(crate) fn write_at_once(
    out: &mut Writer,
    id: CommandId,
    op: &Op,
    result: &Result<Outcome, OpError>,
) -> bool {
    match Shape::of_single(id, op) {
        Shape::Identifiers(count) if result.is_ok() => {
            write_identifiers(out, count);
            true
        }
        _ => write_single(out, result),
    }
}

/// Appends the outcome of an operation. Returns whether it is not an error.
pub(crate) fn write_single(out: &mut Writer, result: &Result<Outcome, OpError>) -> bool {
    match result {
        Ok(outcome) => {
            write_outcome(out, outcome);
            true
        }
        Err(error) => write_error(out, error),
    }
}

/// Appends new identifiers.
fn write_identifiers(out: &mut Writer, count: usize) {
    out.array(count);
    for _ in 0..count {
        out.bulk(Uuid::new_v4().to_string().as_bytes());
    }
}

fn write_error(out: &mut Writer, error: &OpError) -> bool {
    out.error(&error_reply(error));
    false
}

/// Returns the error reply for an error of an operation.
pub(crate) fn error_reply(error: &OpError) -> String {
    let code = if *error == OpError::WrongType { "WRONGTYPE" } else { "ERR" };
    format!("{code} {error}")
}

fn write_outcome(out: &mut Writer, outcome: &Outcome) {
    match outcome {
        Outcome::Ok => out.simple("OK"),
        Outcome::Nil => out.null(),
        Outcome::Int(number) => out.integer(*number),
        Outcome::Bulk(value) => out.bulk(value),
        Outcome::Type(kind) => out.simple(kind.map_or("none", |kind| kind.name())),
        Outcome::Values(values) => {
            out.array(values.len());
            for value in values {
                match value {
                    Some(value) => out.bulk(value),
                    None => out.null(),
                }
            }
        }
        Outcome::Members(members) => {
            out.set(members.len());
            members.iter().for_each(|member| out.bulk(member));
        }
        Outcome::Pairs(pairs) => {
            out.map(pairs.len());
            for (field, value) in pairs {
                out.bulk(field);
                out.bulk(value);
            }
        }
    }
}
