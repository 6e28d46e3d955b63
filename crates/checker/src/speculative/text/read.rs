//! Parses a history.

use std::iter::from_fn;
use std::str::FromStr;

use crate::speculative::history::{
    Claim, Failure, History, KeyCommand, Operation, OperationId, Origin, Outcome, Procedure, Reply,
    ReplyKind, Report, Strength, Swap, Value,
};
use crate::text::line::{Line, expected, unexpected};
use crate::text::words::{Word, split};
use crate::text::{ParseError, Reason};

impl FromStr for History {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut history = None;
        let mut last = 1;
        for (at, text) in text.lines().enumerate() {
            last = at + 1;
            let words = split(text).map_err(Reason::Words);
            let result = words.and_then(|words| read_line(&mut history, words));
            result.map_err(|reason| ParseError { line: last, reason })?;
        }
        let reason = Reason::Expected { what: FORMAT, found: String::new() };
        history.ok_or(ParseError { line: last, reason })
    }
}

const FORMAT: &str = "'solera-speculative-history 1'";

fn read_line(history: &mut Option<History>, words: Vec<Word>) -> Result<(), Reason> {
    if words.is_empty() {
        return Ok(());
    }
    let mut line = Line::new(words, None);
    let Some(history) = history else {
        for part in ["solera-speculative-history", "1"] {
            line.bare(FORMAT).and_then(|found| match found == part {
                true => Ok(()),
                false => expected(FORMAT, &found),
            })?;
        }
        *history = Some(History::default());
        return line.end();
    };
    let what = "'acyclic', 'strong-contexts', 'unsettled', 'destroyed', 'o', 'c' or 'order'";
    match line.bare(what)?.as_str() {
        "acyclic" => history.acyclic = true,
        "strong-contexts" => history.strong_contexts = true,
        "unsettled" => history.unsettled = true,
        "destroyed" => history.destroyed.push(line.number("a site")?),
        "o" => history.operations.push(operation(&mut line)?),
        "c" => history.reports.push(report(&mut line)?),
        "order" => {
            while line.words.peek().is_some() {
                history.order.push(id(&mut line)?);
            }
        }
        other => return expected(what, other),
    }
    line.end()
}

fn operation(line: &mut Line) -> Result<Operation, Reason> {
    let session = match line.bare("a session or '-'")?.as_str() {
        "-" => None,
        number => Some(number.parse().or_else(|_| expected("a session or '-'", number))?),
    };
    line.sign('@', "'@'")?;
    let origin = origin(line)?;
    let invoked = line.number("an instant")?;
    let strength = match line.bare("a strength")?.as_str() {
        "weak" => Strength::Weak,
        "strong" => Strength::Strong,
        other => return expected("'weak' or 'strong'", other),
    };
    let procedure = procedure(line)?;
    let mut replies = Vec::new();
    while line.takes('|') {
        replies.push(reply(line)?);
    }
    Ok(Operation { session, origin, strength, procedure, invoked, replies })
}

fn reply(line: &mut Line) -> Result<Reply, Reason> {
    let kind = match line.bare("a kind of reply")?.as_str() {
        "weak" => ReplyKind::Weak,
        "tentative" => ReplyKind::Tentative,
        "revised" => ReplyKind::Revised,
        "stable" => ReplyKind::Stable,
        other => return expected("'weak', 'tentative', 'revised' or 'stable'", other),
    };
    let at = line.number("an instant")?;
    let (committed, tentative) = numbered(line)?;
    line.sign('=', "'='")?;
    Ok(Reply { kind, at, order: Claim { committed, tentative }, result: outcome(line)? })
}

fn report(line: &mut Line) -> Result<Report, Reason> {
    let what = "a site and a run such as 0.1";
    let word = line.bare(what)?;
    let [site, run] = parts(&word, what)?;
    let at = line.number("an instant")?;
    let (from, operations) = numbered(line)?;
    let digest = if line.takes('=') { Some(line.number("a digest")?) } else { None };
    let (site, run) = (number(site, what, &word)?, number(run, what, &word)?);
    Ok(Report { site, run, at, from, operations, digest })
}

/// Reads a number and identifiers in brackets.
fn numbered(line: &mut Line) -> Result<(usize, Vec<OperationId>), Reason> {
    line.sign('[', "'['")?;
    let number = line.number("a number of operations")?;
    let mut ids = Vec::new();
    while !line.takes(']') {
        ids.push(id(line)?);
    }
    Ok((number, ids))
}

const ID: &str = "an identifier such as 0.1.5";

fn id(line: &mut Line) -> Result<OperationId, Reason> {
    let word = line.bare(ID)?;
    let [site, run, event] = parts(&word, ID)?;
    Ok(OperationId {
        site: number(site, ID, &word)?,
        run: number(run, ID, &word)?,
        event: number(event, ID, &word)?,
    })
}

fn origin(line: &mut Line) -> Result<Origin, Reason> {
    let word = line.bare(ID)?;
    if word.split('.').count() != 2 {
        let mut line = Line::new(vec![Word::Bare(word)], None);
        return id(&mut line).map(Origin::Broadcast);
    }
    let [site, run] = parts(&word, ID)?;
    Ok(Origin::Local { site: number(site, ID, &word)?, run: number(run, ID, &word)? })
}

/// Splits a word at its points.
fn parts<'w, const N: usize>(word: &'w str, what: &'static str) -> Result<[&'w str; N], Reason> {
    let parts: Vec<&str> = word.split('.').collect();
    parts.try_into().or_else(|_| expected(what, word))
}

fn number<T: FromStr>(part: &str, what: &'static str, word: &str) -> Result<T, Reason> {
    part.parse().or_else(|_| expected(what, word))
}

fn procedure(line: &mut Line) -> Result<Procedure, Reason> {
    const KEY: &str = "a key";
    Ok(match line.bare("a procedure")?.as_str() {
        "nothing" => Procedure::Nothing,
        "read" => Procedure::Read(line.text(KEY)?),
        "read-many" => Procedure::ReadMany(line.texts()),
        "write" => Procedure::Write(line.text(KEY)?, optional(line)?),
        "add" => Procedure::Add(line.text(KEY)?, line.number("a number")?),
        "append" => Procedure::Append(line.text(KEY)?, line.text("an element")?),
        "put-if-absent" => {
            let key = line.text(KEY)?;
            let value = optional(line)?;
            Procedure::PutIfAbsent(key, value.map_or_else(|| expected("a value", "nil"), Ok)?)
        }
        "compare-and-set" => {
            let mut swap = || {
                let key = line.text(KEY)?;
                Ok(Swap { key, expected: optional(line)?, new: optional(line)? })
            };
            Procedure::CompareAndSet([swap()?, swap()?])
        }
        "transfer" => Procedure::Transfer {
            from: line.text(KEY)?,
            to: line.text(KEY)?,
            amount: line.number("an amount")?,
        },
        "commands" => {
            let more = |line: &mut Line| matches!(line.words.peek(), Some(Word::Bare(_)));
            let commands = from_fn(|| more(line).then(|| command(line)));
            Procedure::Commands(commands.collect::<Result<_, _>>()?)
        }
        other => return expected("a procedure", other),
    })
}

/// Reads a command: its name, its key and its arguments.
fn command(line: &mut Line) -> Result<(String, KeyCommand), Reason> {
    let name = line.bare("a command")?;
    let key = line.text("a key")?;
    let elements = |line: &mut Line| {
        line.sign('(', "'('")?;
        let texts = line.texts();
        line.sign(')', "a text or ')'").map(|()| texts)
    };
    let command = match name.as_str() {
        "get" => KeyCommand::Get,
        "set" => KeyCommand::Set(line.text("a text")?),
        "incr-by" => KeyCommand::IncrBy(line.number("a number")?),
        "set-add" => KeyCommand::SetAdd(elements(line)?),
        "set-remove" => KeyCommand::SetRemove(elements(line)?),
        "set-members" => KeyCommand::SetMembers,
        "delete" => KeyCommand::Delete,
        other => return expected("a command", other),
    };
    Ok((key, command))
}

fn outcome(line: &mut Line) -> Result<Outcome, Reason> {
    if line.takes('{') {
        let each = from_fn(|| (!line.takes('}')).then(|| single(line)));
        return each.collect::<Result<_, _>>().map(Outcome::Each);
    }
    single(line)
}

/// Reads the result of a procedure other than `commands`, or that of one command.
fn single(line: &mut Line) -> Result<Outcome, Reason> {
    if line.takes('<') {
        let values = from_fn(|| (!line.takes('>')).then(|| optional(line)));
        return values.collect::<Result<_, _>>().map(Outcome::Values);
    }
    let is = |line: &mut Line, name: &str| {
        line.words.next_if(|word| matches!(word, Word::Bare(word) if word == name)).is_some()
    };
    if is(line, "done") {
        return Ok(Outcome::Done);
    }
    if !is(line, "failed") {
        return optional(line).map(Outcome::Value);
    }
    Ok(Outcome::Failed(match line.bare("a failure")?.as_str() {
        "wrong-type" => Failure::WrongType,
        "not-a-number" => Failure::NotANumber,
        "overflow" => Failure::Overflow,
        "too-little" => Failure::TooLittle,
        "differs" => Failure::Differs(line.text("a key")?),
        other => return expected("a failure", other),
    }))
}

/// Reads a value, or `nil`.
fn optional(line: &mut Line) -> Result<Option<Value>, Reason> {
    const VALUE: &str = "a value";
    match line.words.next() {
        Some(Word::Bare(word)) if word == "nil" => Ok(None),
        Some(Word::Bare(word)) => match word.parse() {
            Ok(number) => Ok(Some(Value::Int(number))),
            Err(_) => expected(VALUE, &word),
        },
        Some(Word::Quoted(text)) => Ok(Some(Value::Text(text))),
        Some(Word::Sign('(')) => {
            let texts = line.texts();
            line.sign(')', "a text or ')'").map(|()| Some(Value::List(texts)))
        }
        other => unexpected(VALUE, other),
    }
}
