//! Parses a history.

use std::str::FromStr;

use super::line::{Line, expected};
use super::words::{Word, split};
use super::{ParseError, Reason};
use crate::history::{
    Answer, FinalRead, History, Interval, Level, Op, Operation, Origin, Status, Transaction,
    Witness,
};

impl FromStr for History {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader::default();
        let mut last = 1;
        for (at, text) in text.lines().enumerate() {
            last = at + 1;
            let result = split(text).map_err(Reason::Words).and_then(|words| reader.line(words));
            result.map_err(|reason| ParseError { line: last, reason })?;
        }
        let reason = if reader.named { Reason::Sites } else { Reason::UnknownFormat };
        reader.sites.ok_or(ParseError { line: last, reason })?;
        Ok(reader.history)
    }
}

#[derive(Default)]
struct Reader {
    named: bool,
    sites: Option<usize>,
    history: History,
}

impl Reader {
    fn line(&mut self, words: Vec<Word>) -> Result<(), Reason> {
        if words.is_empty() {
            return Ok(());
        }
        let mut line = Line::new(words, self.sites);
        if !self.named {
            let name = (line.next_bare(), line.next_bare());
            let is_known = matches!(
                (name.0.as_deref(), name.1.as_deref()),
                (Some("solera-history"), Some("1"))
            );
            self.named = is_known;
            return if is_known { line.end() } else { Err(Reason::UnknownFormat) };
        }
        let what = "'sites', 'destroyed', 'conflict', 't' or 'final'";
        match line.bare(what)?.as_str() {
            "sites" => {
                let sites = line.number("a number of sites")?;
                if self.sites.replace(sites).is_some() {
                    return Err(Reason::Sites);
                }
                self.history.sites = sites;
            }
            "destroyed" => {
                while line.words.peek().is_some() {
                    self.history.destroyed.push(line.site()?);
                }
            }
            "conflict" => {
                let pair = (line.text("a kind")?, line.text("a kind")?);
                self.history.conflicts.push(pair);
            }
            "t" => self.history.transactions.push(line.transaction()?),
            "final" => self.history.finals.push(line.final_read()?),
            other => return Err(Reason::Expected { what, found: other.to_owned() }),
        }
        line.end()
    }
}

impl Line {
    fn transaction(&mut self) -> Result<Transaction, Reason> {
        let session = self.number("a session")?;
        self.sign('@', "'@'")?;
        let site = self.site()?;
        let interval = self.interval()?;
        let status = match self.bare("a status")?.as_str() {
            "committed" => Status::Committed,
            "aborted" => Status::Aborted,
            "unknown" => Status::Unknown,
            other => return expected("'committed', 'aborted' or 'unknown'", other),
        };
        let witness = if self.takes('[') { Some(self.witness()?) } else { None };
        let lost = matches!(self.words.peek(), Some(Word::Bare(word)) if word == "lost");
        if lost {
            self.words.next();
        }
        let mut operations = Vec::new();
        while self.takes('|') {
            operations.push(self.operation()?);
        }
        Ok(Transaction { session, site, status, operations, witness, interval, lost })
    }

    fn interval(&mut self) -> Result<Option<Interval>, Reason> {
        let is_interval = |word: &Word| matches!(word, Word::Bare(word) if word.contains(".."));
        let Some(Word::Bare(word)) = self.words.next_if(is_interval) else { return Ok(None) };
        let what = "two times such as 5..7, or 5..";
        let time = |text: &str| text.parse().or_else(|_| expected(what, &word));
        let (invoked, answered) = word.split_once("..").unwrap_or((&word, ""));
        let invoked = time(invoked)?;
        let answered = if answered.is_empty() { None } else { Some(time(answered)?) };
        if answered.is_some_and(|answered| answered < invoked) {
            return expected("an answer after its request", &word);
        }
        Ok(Some(Interval { invoked, answered }))
    }

    fn witness(&mut self) -> Result<Witness, Reason> {
        let (mut snapshot, mut strong) = (Vec::new(), 0);
        while !self.takes(']') {
            if self.takes('!') {
                strong = self.number("a strong timestamp")?;
                self.sign(']', "']'")?;
                break;
            }
            snapshot.push(self.number("a time or ']'")?);
        }
        if Some(snapshot.len()) != self.sites {
            let missing = if self.sites.is_none() { Some(Reason::Sites) } else { None };
            return Err(missing.unwrap_or(Reason::SnapshotLength(snapshot.len())));
        }
        let mut dot = None;
        if matches!(self.words.peek(), Some(Word::Bare(word)) if word != "lost") {
            let time = self.number("a commit time")?;
            self.sign('@', "'@'")?;
            dot = Some((time, self.origin()?));
        }
        Ok(Witness { snapshot, strong, dot })
    }

    fn operation(&mut self) -> Result<Operation, Reason> {
        let (level, key) = self.level_and_key()?;
        let name = self.bare("an operation")?;
        let op = self.op(&name)?;
        self.sign('=', "'='")?;
        let answer = if self.takes('?') { None } else { Some(self.answer()?) };
        Ok(Operation { key, op, answer, level })
    }

    fn level_and_key(&mut self) -> Result<(Level, String), Reason> {
        if self.takes('~') {
            return Ok((Level::Eventual, self.text("a key")?));
        }
        if self.takes('!') {
            let level = if self.takes('!') { Level::Linearizable } else { Level::Strong(None) };
            return Ok((level, self.text("a key")?));
        }
        let word = self.text("a key")?;
        if self.takes('!') {
            return Ok((Level::Strong(Some(word)), self.text("a key")?));
        }
        Ok((Level::Causal, word))
    }

    fn op(&mut self, name: &str) -> Result<Op, Reason> {
        Ok(match name {
            "GET" => Op::Get,
            "SET" => Op::Set(self.text("a value")?),
            "SETNX" => Op::SetNew(self.text("a value")?),
            "DEL" => Op::Delete,
            "EXISTS" => Op::Exists,
            "INCRBY" => Op::Add(self.number("a number")?),
            "SADD" => Op::SetAdd(self.texts()),
            "SREM" => Op::SetRemove(self.texts()),
            "SMEMBERS" => Op::Members,
            "SISMEMBER" => Op::Contains(self.text("an element")?),
            "SCARD" => Op::Len,
            "HSET" => Op::FieldSet(self.text("a field")?, self.text("a value")?),
            "HINCRBY" => Op::FieldAdd(self.text("a field")?, self.number("a number")?),
            "HDEL" => Op::FieldRemove(self.texts()),
            "HMGET" => Op::Fields(self.texts()),
            "HGETALL" => Op::Pairs,
            "NEWEST" => Op::Newest(self.number("a number")?),
            other => return expected("an operation", other),
        })
    }

    fn answer(&mut self) -> Result<Answer, Reason> {
        if self.takes('(') {
            return self.values();
        }
        if self.takes('{') {
            let members = self.texts();
            return self.sign('}', "an element or '}'").map(|()| Answer::Members(members));
        }
        if self.takes('<') {
            let mut pairs = Vec::new();
            while !self.takes('>') {
                pairs.push((self.text("a field or '>'")?, self.text("a value")?));
            }
            return Ok(Answer::Pairs(pairs));
        }
        let word = self.bare("an answer")?;
        match word.as_str() {
            "ok" => Ok(Answer::Ok),
            "error" => Ok(Answer::Error),
            number => number.parse().map(Answer::Int).or_else(|_| expected("an answer", number)),
        }
    }

    fn values(&mut self) -> Result<Answer, Reason> {
        let mut values = Vec::new();
        while !self.takes(')') {
            let is_nil = matches!(self.words.peek(), Some(Word::Bare(word)) if word == "nil");
            let value = self.text("a value or ')'")?;
            values.push((!is_nil).then_some(value));
        }
        Ok(Answer::Values(values))
    }

    fn final_read(&mut self) -> Result<FinalRead, Reason> {
        let site = self.site()?;
        let key = self.text("a key")?;
        self.sign('=', "'='")?;
        let answers = [self.answer()?, self.answer()?, self.answer()?];
        Ok(FinalRead { site, key, answers })
    }

    fn origin(&mut self) -> Result<Origin, Reason> {
        let is_strong = |word: &Word| matches!(word, Word::Bare(word) if word == "strong");
        match self.words.next_if(is_strong) {
            Some(_) => Ok(Origin::Strong),
            None => self.site().map(Origin::Site),
        }
    }

    fn site(&mut self) -> Result<usize, Reason> {
        let site = self.number("a site")?;
        match self.sites {
            None => Err(Reason::Sites),
            Some(sites) if site >= sites => Err(Reason::NoSuchSite(site)),
            Some(_) => Ok(site),
        }
    }
}
