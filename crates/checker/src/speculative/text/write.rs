//! Formats a history, its procedures and results.

use std::fmt;

use crate::speculative::history::{
    Claim, Failure, History, KeyCommand, Operation, OperationId, Origin, Outcome, Procedure, Reply,
    Report, Strength, Swap, Value,
};
use crate::text::words::{quote, word};

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "solera-speculative-history 1")?;
        if self.acyclic {
            writeln!(f, "acyclic")?;
        }
        if self.strong_contexts {
            writeln!(f, "strong-contexts")?;
        }
        if self.unsettled {
            writeln!(f, "unsettled")?;
        }
        for site in &self.destroyed {
            writeln!(f, "destroyed {site}")?;
        }
        for operation in &self.operations {
            write_operation(f, operation)?;
        }
        for report in &self.reports {
            write_report(f, report)?;
        }
        for ids in self.order.chunks(16) {
            writeln!(f, "order{}", list(ids))?;
        }
        Ok(())
    }
}

fn write_operation(f: &mut fmt::Formatter<'_>, operation: &Operation) -> fmt::Result {
    let session = operation.session.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let origin = match operation.origin {
        Origin::Broadcast(id) => id.to_string(),
        Origin::Local { site, run } => format!("{site}.{run}"),
    };
    let strength = match operation.strength {
        Strength::Weak => "weak",
        Strength::Strong => "strong",
    };
    let Operation { invoked, procedure, .. } = operation;
    write!(f, "o {session}@{origin} {invoked} {strength} {procedure}")?;
    for Reply { kind, at, order: Claim { committed, tentative }, result } in &operation.replies {
        write!(f, " | {kind} {at} [{committed}{}] = {result}", list(tentative))?;
    }
    writeln!(f)
}

fn write_report(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let Report { site, run, at, from, operations, digest } = report;
    write!(f, "c {site}.{run} {at} [{from}{}]", list(operations))?;
    match digest {
        Some(digest) => writeln!(f, " = {digest}"),
        None => writeln!(f),
    }
}

fn list(ids: &[OperationId]) -> String {
    ids.iter().map(|id| format!(" {id}")).collect()
}

impl fmt::Display for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Procedure::Nothing => write!(f, "nothing"),
            Procedure::Read(key) => write!(f, "read {}", word(key)),
            Procedure::ReadMany(keys) => {
                write!(f, "read-many")?;
                keys.iter().try_for_each(|key| write!(f, " {}", word(key)))
            }
            Procedure::Write(key, value) => write!(f, "write {} {}", word(key), optional(value)),
            Procedure::Add(key, by) => write!(f, "add {} {by}", word(key)),
            Procedure::Append(key, element) => write!(f, "append {} {}", word(key), word(element)),
            Procedure::PutIfAbsent(key, value) => write!(f, "put-if-absent {} {value}", word(key)),
            Procedure::CompareAndSet(swaps) => {
                write!(f, "compare-and-set")?;
                swaps.iter().try_for_each(|Swap { key, expected, new }| {
                    write!(f, " {} {} {}", word(key), optional(expected), optional(new))
                })
            }
            Procedure::Transfer { from, to, amount } => {
                write!(f, "transfer {} {} {amount}", word(from), word(to))
            }
            Procedure::Commands(commands) => {
                write!(f, "commands")?;
                commands.iter().try_for_each(|(key, command)| write_command(f, key, command))
            }
        }
    }
}

fn write_command(f: &mut fmt::Formatter<'_>, key: &str, command: &KeyCommand) -> fmt::Result {
    let key = word(key);
    let texts = |texts: &[String]| Value::List(texts.to_vec());
    match command {
        KeyCommand::Get => write!(f, " get {key}"),
        KeyCommand::Set(text) => write!(f, " set {key} {}", word(text)),
        KeyCommand::IncrBy(by) => write!(f, " incr-by {key} {by}"),
        KeyCommand::SetAdd(elements) => write!(f, " set-add {key} {}", texts(elements)),
        KeyCommand::SetRemove(elements) => write!(f, " set-remove {key} {}", texts(elements)),
        KeyCommand::SetMembers => write!(f, " set-members {key}"),
        KeyCommand::Delete => write!(f, " delete {key}"),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(&quote(text)),
            Value::List(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| word(text)).collect();
                write!(f, "({})", texts.join(" "))
            }
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => write!(f, "done"),
            Outcome::Value(value) => f.write_str(&optional(value)),
            Outcome::Values(values) => {
                let values: Vec<String> = values.iter().map(optional).collect();
                write!(f, "<{}>", values.join(" "))
            }
            Outcome::Each(results) => {
                let results: Vec<String> = results.iter().map(Outcome::to_string).collect();
                write!(f, "{{{}}}", results.join(" "))
            }
            Outcome::Failed(Failure::NotANumber) => write!(f, "failed not-a-number"),
            Outcome::Failed(Failure::WrongType) => write!(f, "failed wrong-type"),
            Outcome::Failed(Failure::Overflow) => write!(f, "failed overflow"),
            Outcome::Failed(Failure::TooLittle) => write!(f, "failed too-little"),
            Outcome::Failed(Failure::Differs(key)) => write!(f, "failed differs {}", word(key)),
        }
    }
}

fn optional(value: &Option<Value>) -> String {
    value.as_ref().map_or_else(|| "nil".to_owned(), Value::to_string)
}
