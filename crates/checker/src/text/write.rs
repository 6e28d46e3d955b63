//! Formats a history.

use std::fmt;

use super::words::word;
use crate::history::{
    Answer, History, Interval, Level, Op, Operation, Origin, Status, Transaction, Witness,
};

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "solera-history 1\nsites {}", self.sites)?;
        if !self.destroyed.is_empty() {
            let sites: Vec<String> = self.destroyed.iter().map(usize::to_string).collect();
            writeln!(f, "destroyed {}", sites.join(" "))?;
        }
        for (one, other) in &self.conflicts {
            writeln!(f, "conflict {} {}", word(one), word(other))?;
        }
        for transaction in &self.transactions {
            writeln!(f, "{}", line(transaction))?;
        }
        for read in &self.finals {
            let answers = read.answers.each_ref().map(answer).join(" ");
            writeln!(f, "final {} {} = {answers}", read.site, word(&read.key))?;
        }
        Ok(())
    }
}

fn line(transaction: &Transaction) -> String {
    let status = match transaction.status {
        Status::Committed => "committed",
        Status::Aborted => "aborted",
        Status::Unknown => "unknown",
    };
    let mut line = format!("t {}@{}", transaction.session, transaction.site);
    if let Some(Interval { invoked, answered }) = transaction.interval {
        let answered = answered.map_or_else(String::new, |answered| answered.to_string());
        line += &format!(" {invoked}..{answered}");
    }
    line += &format!(" {status}");
    if let Some(witness) = &transaction.witness {
        line += &format!(" {}", self::witness(witness));
    }
    if transaction.lost {
        line += " lost";
    }
    for operation in &transaction.operations {
        line += &format!(" | {}", self::operation(operation));
    }
    line
}

fn witness(witness: &Witness) -> String {
    let mut entries: Vec<String> = witness.snapshot.iter().map(u64::to_string).collect();
    if witness.strong > 0 {
        entries.push(format!("!{}", witness.strong));
    }
    let snapshot = format!("[{}]", entries.join(" "));
    match witness.dot {
        Some((time, Origin::Site(site))) => format!("{snapshot} {time}@{site}"),
        Some((time, Origin::Strong)) => format!("{snapshot} {time}@strong"),
        None => snapshot,
    }
}

fn operation(operation: &Operation) -> String {
    let level = match &operation.level {
        Level::Eventual => "~".to_owned(),
        Level::Causal => String::new(),
        Level::Strong(None) => "!".to_owned(),
        Level::Strong(Some(kind)) => format!("{}!", word(kind)),
        Level::Linearizable => "!!".to_owned(),
    };
    let answer = operation.answer.as_ref().map_or_else(|| "?".to_owned(), answer);
    format!("{level}{} {} = {answer}", word(&operation.key), op(&operation.op))
}

fn op(op: &Op) -> String {
    match op {
        Op::Get => "GET".to_owned(),
        Op::Set(value) => format!("SET {}", word(value)),
        Op::SetNew(value) => format!("SETNX {}", word(value)),
        Op::Delete => "DEL".to_owned(),
        Op::Exists => "EXISTS".to_owned(),
        Op::Add(by) => format!("INCRBY {by}"),
        Op::SetAdd(elements) => with("SADD", elements),
        Op::SetRemove(elements) => with("SREM", elements),
        Op::Members => "SMEMBERS".to_owned(),
        Op::Contains(element) => format!("SISMEMBER {}", word(element)),
        Op::Len => "SCARD".to_owned(),
        Op::FieldSet(field, value) => format!("HSET {} {}", word(field), word(value)),
        Op::FieldAdd(field, by) => format!("HINCRBY {} {by}", word(field)),
        Op::FieldRemove(fields) => with("HDEL", fields),
        Op::Fields(fields) => with("HMGET", fields),
        Op::Pairs => "HGETALL".to_owned(),
        Op::Newest(most) => format!("NEWEST {most}"),
    }
}

fn with(name: &str, texts: &[String]) -> String {
    let words = texts.iter().map(|text| format!(" {}", word(text)));
    format!("{name}{}", words.collect::<String>())
}

fn answer(answer: &Answer) -> String {
    let joined = |words: Vec<String>| words.join(" ");
    match answer {
        Answer::Ok => "ok".to_owned(),
        Answer::Error => "error".to_owned(),
        Answer::Int(number) => number.to_string(),
        Answer::Values(values) => {
            let word = |value: &Option<String>| value.as_deref().map_or("nil".to_owned(), word);
            format!("({})", joined(values.iter().map(word).collect()))
        }
        Answer::Members(members) => {
            format!("{{{}}}", joined(members.iter().map(|member| word(member)).collect()))
        }
        Answer::Pairs(pairs) => {
            let pair =
                |(field, value): &(String, String)| format!("{} {}", word(field), word(value));
            format!("<{}>", joined(pairs.iter().map(pair).collect()))
        }
    }
}
