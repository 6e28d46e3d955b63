//! Results of operations of the speculative space.

use solera_creek::OperationId;
use solera_data::{OpError, Outcome};
use solera_procedures::{CallError, Returned, Shown};
use solera_resp::Writer;

use crate::plan;

/// First answer to an operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invoked {
    /// The operation; `None` for a weak one that only reads.
    pub(crate) id: Option<OperationId>,
    /// Its result.
    pub(crate) returned: Returned,
    /// Whether the result is final.
    pub(crate) is_stable: bool,
}

/// Appends the result of an operation: the result of a command's only operation on a key, or an
/// array of the results of several ones.
pub(crate) fn write_returned(out: &mut Writer, returned: &Returned) {
    match returned {
        Returned::Outcomes(outcomes) => write_outcomes(out, outcomes),
        Returned::Changed => out.null(),
        Returned::Installed => out.simple("OK"),
        Returned::Result(shown) => write_shown(out, shown),
        Returned::Failed(error) => out.error(&failed(error)),
    }
}

/// Returns the error reply for a call that had no effect.
fn failed(error: &CallError) -> String {
    format!("{} {error}; nothing was changed", error.code())
}

fn write_shown(out: &mut Writer, shown: &Shown) {
    match shown {
        Shown::Done => out.simple("OK"),
        Shown::Null => out.null(),
        Shown::Bool(truth) => out.boolean(*truth),
        Shown::Int(number) => out.integer(*number),
        Shown::Float(number) => out.double(*number),
        Shown::Bytes(bytes) => out.bulk(bytes),
        Shown::List(items) => {
            out.array(items.len());
            items.iter().for_each(|item| write_shown(out, item));
        }
        Shown::Set(items) => {
            out.set(items.len());
            items.iter().for_each(|item| write_shown(out, item));
        }
        Shown::Map(pairs) => {
            out.map(pairs.len());
            for (key, value) in pairs {
                write_shown(out, key);
                write_shown(out, value);
            }
        }
    }
}

fn write_outcomes(out: &mut Writer, outcomes: &[Result<Outcome, OpError>]) {
    if let [single] = outcomes {
        plan::write_single(out, single);
        return;
    }
    out.array(outcomes.len());
    outcomes.iter().for_each(|outcome| {
        plan::write_single(out, outcome);
    });
}
