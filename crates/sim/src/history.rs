//! Converts the clients' records and the protocol's trace to a history for the checker.

use std::collections::BTreeMap;

use solera_checker::{
    Answer, History, Interval, Op as Judged, Operation, Origin, Transaction, Witness,
};
use solera_data::{Op, OpError, Outcome, Value};
use solera_levels::Level;
use solera_membership::Gap;
use solera_time::{Timestamp, Vector};
use solera_unistore::{Cause, Event};

use crate::recorded::{Recorded, Status, Step};
use crate::spaces::conflicts;

/// Positions of transactions in the causal order, as the protocol's trace claims them.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: BTreeMap<Cause, Witness>,
    /// The generation of its site that executed each transaction.
    generations: BTreeMap<Cause, u32>,
}

impl Places {
    /// Records an event of a generation of a site.
    pub(crate) fn note(&mut self, generation: u32, event: &Event) {
        if let Event::Snapshot { cause, .. } | Event::Committed { cause: Some(cause), .. } = event {
            self.generations.insert(*cause, generation);
        }
        match event {
            Event::Snapshot { cause, snap_vec, .. } => {
                let witness = witness(snap_vec, None);
                self.places.insert(*cause, witness);
            }
            Event::Committed { cause: Some(cause), dot, snap_vec, .. } => {
                let dot = Some((dot.ts.0, origin(dot.origin)));
                self.places.insert(*cause, witness(snap_vec, dot));
            }
            _ => {}
        }
    }
}

impl Places {
    /// Records that a commit was undone before any client received its outcome.
    pub(crate) fn undo(&mut self, event: &Event) {
        if let Event::Committed { cause: Some(cause), .. } = event {
            self.places.remove(cause);
        }
    }

    /// Records that a strong transaction has committed.
    pub(crate) fn certify(&mut self, cause: Cause, snap_vec: &Vector, ts: Timestamp) -> Witness {
        let witness = witness(snap_vec, Some((ts.0, Origin::Strong)));
        self.places.insert(cause, witness.clone());
        witness
    }

    /// Records that every worker that knew of the commit has lost it.
    pub(crate) fn undo_strong(&mut self, cause: Cause, snap_vec: &Vector) {
        self.places.insert(cause, witness(snap_vec, None));
    }
}

fn witness(snap_vec: &Vector, dot: Option<(u64, Origin)>) -> Witness {
    Witness { snapshot: entries(snap_vec), strong: snap_vec.strong.0, dot }
}

/// Returns the entries of a vector as plain numbers.
pub(crate) fn entries(vector: &Vector) -> Vec<u64> {
    vector.entries().iter().map(|ts| ts.0).collect()
}

/// Converts an origin to the checker's type, which shares no code with the protocol's.
pub(crate) fn origin(origin: solera_time::Origin) -> Origin {
    match origin {
        solera_time::Origin::Site(site) => Origin::Site(site.index()),
        solera_time::Origin::Strong => Origin::Strong,
    }
}

/// Returns the history of a run. A transaction that accessed eventual keys is split: its operations
/// there are judged for convergence only. `uniform` are the final uniform vectors of the surviving
/// sites.
pub(crate) fn history(
    recorded: &[Recorded],
    places: &Places,
    sites: usize,
    mut destroyed: Vec<usize>,
    removed: &BTreeMap<usize, Vec<Gap>>,
    uniform: &[Vec<u64>],
) -> History {
    let (mut transactions, generations): (Vec<Transaction>, Vec<u32>) = recorded
        .iter()
        .flat_map(|recorded| {
            let (eventual, causal): (Vec<&Step>, Vec<&Step>) =
                recorded.steps.iter().partition(|step| step.level == Level::Eventual);
            let witness = recorded.cause.and_then(|cause| places.places.get(&cause)).cloned();
            let causal = Some(transaction(recorded, &causal, witness));
            let eventual = eventual.into_iter().map(|step| transaction(recorded, &[step], None));
            let generation =
                recorded.cause.and_then(|cause| places.generations.get(&cause)).copied();
            let all = causal.into_iter().filter(|t| !t.operations.is_empty()).chain(eventual);
            all.map(move |transaction| (transaction, generation.unwrap_or(0)))
        })
        .unzip();
    let mut origins = sites;
    for (site, gaps) in removed {
        for (generation, gap) in (0..).zip(gaps) {
            let of_generation =
                transactions.iter_mut().zip(&generations).filter(|(_, of)| **of == generation);
            separate(of_generation.map(|(transaction, _)| transaction), origins, *site, gap.cut);
            destroyed.push(origins);
            origins += 1;
        }
    }
    for witness in transactions.iter_mut().filter_map(|transaction| transaction.witness.as_mut()) {
        witness.snapshot.resize(origins, 0);
    }
    for transaction in &mut transactions {
        transaction.lost = is_lost(transaction, &destroyed, uniform);
    }
    History { sites: origins, destroyed, conflicts: conflicts(), transactions, finals: Vec::new() }
}

/// Returns whether a transaction of a destroyed site is within no surviving site's uniform
/// snapshot.
fn is_lost(transaction: &Transaction, destroyed: &[usize], uniform: &[Vec<u64>]) -> bool {
    let Some((time, Origin::Site(site))) = transaction.dot() else { return false };
    destroyed.contains(&site)
        && uniform.iter().all(|uniform| uniform.get(site).is_none_or(|uniform| *uniform < time))
}

/// Moves the lost transactions of a generation of a site to an origin of their own. Only that
/// generation's own transactions observe this origin: other sites have vectors beyond the gap,
/// because they know that no more transactions of the generation will arrive, but they have not
/// observed the lost ones. The vectors' entries for the site itself stay unchanged. Sites learn at
/// different times where the gap ends and the next generation begins, which makes no difference,
/// because the gap contains no transactions any more.
fn separate<'a>(
    of_generation: impl Iterator<Item = &'a mut Transaction>,
    origin: usize,
    site: usize,
    cut: Timestamp,
) {
    for transaction in of_generation {
        let Some(witness) = transaction.witness.as_mut().filter(|_| transaction.site == site)
        else {
            continue;
        };
        witness.snapshot.resize(origin + 1, 0);
        let own = witness.snapshot[site];
        if own > cut.0 {
            witness.snapshot[origin] = own;
            transaction.site = origin;
        }
        if let Some((time, Origin::Site(_))) = witness.dot
            && time > cut.0
        {
            witness.dot = Some((time, Origin::Site(origin)));
            transaction.site = origin;
        }
    }
}

fn transaction(recorded: &Recorded, steps: &[&Step], witness: Option<Witness>) -> Transaction {
    Transaction {
        session: recorded.session,
        site: recorded.site,
        status: match recorded.status {
            Status::Committed => solera_checker::Status::Committed,
            Status::Aborted => solera_checker::Status::Aborted,
            Status::Unknown => solera_checker::Status::Unknown,
        },
        operations: steps.iter().flat_map(|step| operations(step)).collect(),
        witness,
        interval: Some(Interval { invoked: recorded.invoked, answered: recorded.answered }),
        lost: false,
    }
}

fn operations(step: &Step) -> Vec<Operation> {
    let operation = |op, answer| Operation {
        key: step.key.to_string(),
        op,
        answer,
        level: step.promise.clone(),
    };
    vec![operation(op(&step.op), step.answer.as_ref().map(answer))]
}

fn op(op: &Op) -> Judged {
    let texts = |values: &[Value]| values.iter().map(text).collect::<Vec<_>>();
    match op {
        Op::Get | Op::Type => Judged::Get,
        Op::Set(value) => Judged::Set(text(value)),
        Op::Delete => Judged::Delete,
        Op::Exists => Judged::Exists,
        Op::IncrBy(by) => Judged::Add(*by),
        Op::SetAdd(elements) => Judged::SetAdd(texts(elements)),
        Op::SetRemove(elements) => Judged::SetRemove(texts(elements)),
        Op::SetMembers => Judged::Members,
        Op::SetContains(element) => Judged::Contains(text(element)),
        Op::SetLen => Judged::Len,
        Op::HashSet(pairs) => {
            let (field, value) = pairs.first().expect("clients set one field at a time");
            Judged::FieldSet(text(field), text(value))
        }
        Op::HashGet(field) => Judged::Fields(vec![text(field)]),
        Op::HashGetMany(fields) => Judged::Fields(texts(fields)),
        Op::HashGetAll => Judged::Pairs,
        Op::HashNewest(most) => Judged::Newest(*most),
        Op::HashDelete(fields) => Judged::FieldRemove(texts(fields)),
        Op::HashIncrBy(field, by) => Judged::FieldAdd(text(field), *by),
        Op::SetNew(_) | Op::Digest => unreachable!("clients do nothing of the kind"),
    }
}

/// Converts an answer to the checker's type.
pub(crate) fn answer(answer: &Result<Outcome, OpError>) -> Answer {
    match answer {
        Err(_) => Answer::Error,
        Ok(Outcome::Ok) => Answer::Ok,
        Ok(Outcome::Nil) => Answer::Values(vec![None]),
        Ok(Outcome::Int(number)) => Answer::Int(*number),
        Ok(Outcome::Bulk(value)) => Answer::Values(vec![Some(text(value))]),
        Ok(Outcome::Type(kind)) => Answer::Values(vec![kind.map(|kind| kind.name().to_owned())]),
        Ok(Outcome::Values(values)) => {
            Answer::Values(values.iter().map(|value| value.as_ref().map(text)).collect())
        }
        Ok(Outcome::Members(members)) => Answer::Members(members.iter().map(text).collect()),
        Ok(Outcome::Pairs(pairs)) => {
            Answer::Pairs(pairs.iter().map(|(field, value)| (text(field), text(value))).collect())
        }
    }
}

fn text(value: &Value) -> String {
    value.to_string()
}
