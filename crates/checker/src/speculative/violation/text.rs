//! Texts of violations.

use std::fmt;

use super::{Evidence, HistoryOrder, Link, Malformation, Name, Replica, Violation};
use crate::speculative::history::{Claim, Origin};

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Malformed { operation, reason } => {
                write!(f, "malformed history: {operation} {reason}")
            }
            Violation::UnexpectedReply { operation, kind, after } => {
                write!(f, "unexpected reply: {operation} has a {kind} reply")?;
                match after {
                    Some(after) => write!(f, " after a {after} one"),
                    None => write!(f, " at first"),
                }
            }
            Violation::NeverInvoked { .. }
            | Violation::FromTheFuture { .. }
            | Violation::Twice { .. }
            | Violation::SeesItself { .. }
            | Violation::BeyondFinal { .. } => self.content(f),
            Violation::WrongResult { .. }
            | Violation::WrongStableResult { .. }
            | Violation::StableOrder { .. } => self.results(f),
            Violation::Lost { .. }
            | Violation::SessionForgets { .. }
            | Violation::ReplicaForgets { .. }
            | Violation::ReplicaDrops { .. }
            | Violation::Incomplete { .. }
            | Violation::RevisionDrops { .. }
            | Violation::Gap { .. } => self.forgotten(f),
            Violation::RealTime { .. }
            | Violation::ProgramOrder { .. }
            | Violation::ContextOrder { .. }
            | Violation::Circle { .. }
            | Violation::TentativeOrder { .. } => self.precedence(f),
            Violation::NotAPrefix { .. }
            | Violation::Shrank { .. }
            | Violation::DigestsDiffer { .. }
            | Violation::Ahead { .. }
            | Violation::Behind { .. } => self.replicas(f),
        }
    }
}

impl Violation {
    fn content(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::NeverInvoked { id, order } => {
                write!(f, "never invoked: {order} contains {id}")
            }
            Violation::FromTheFuture { operation, order, at } => {
                write!(
                    f,
                    "from the future: at {at}, {order} contains {operation}, invoked at {}",
                    operation.invoked
                )
            }
            Violation::Twice { operation, order } => {
                write!(f, "twice: {order} contains {operation} twice")
            }
            Violation::SeesItself { operation, kind } => {
                write!(f, "sees itself: the {kind} reply to {operation} stands for an order ")?;
                write!(f, "in which the operation precedes itself")
            }
            Violation::BeyondFinal { operation, kind, committed, length } => {
                write!(f, "beyond the final order: the {kind} reply to {operation} stands for ")?;
                write!(f, "{committed} committed operations, but the final order has {length}")
            }
            _ => Ok(()),
        }
    }

    fn results(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::WrongResult { operation, kind, order, expected, found } => {
                write!(f, "wrong result: the {kind} reply to {operation} is '{found}', ")?;
                write!(f, "but after {order} it is '{expected}'")
            }
            Violation::WrongStableResult { operation, position, expected, found } => {
                write!(f, "wrong stable result: the stable reply to {operation} is '{found}', ")?;
                write!(f, "but at position {position} of the final order it is '{expected}'")
            }
            Violation::StableOrder { operation, position, order } => {
                write!(f, "order of a stable reply: the stable reply to {operation} stands for ")?;
                write!(f, "{order}, but its position in the final order is {position}")
            }
            _ => Ok(()),
        }
    }

    fn forgotten(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Lost { operation, reason } => {
                write!(f, "lost: the final order lacks {operation}, {reason}")
            }
            Violation::SessionForgets { operation, missing, seen_by } => {
                write!(f, "session forgets: the order of {operation} lacks {missing}, ")?;
                match seen_by {
                    Some(by) => write!(f, "which {by} had seen"),
                    None => write!(f, "which had been answered before"),
                }
            }
            Violation::ReplicaForgets { operation, committed, known } => {
                write!(f, "replica forgets: the order of {operation} has {committed} committed ")?;
                write!(f, "operations, but its replica had committed {known} before")
            }
            Violation::ReplicaDrops { operation, missing, seen_by } => {
                write!(f, "replica forgets: the order of {operation} lacks {missing}, ")?;
                match seen_by {
                    Some(by) => write!(f, "which {by} had seen at the same replica"),
                    None => write!(f, "which the same replica had answered before"),
                }
            }
            Violation::Incomplete { operation, known, missing } => {
                write!(f, "incomplete context: the order of {operation} has {known}, ")?;
                write!(f, "but lacks {missing}, which that one saw")
            }
            Violation::RevisionDrops { operation, missing } => {
                write!(f, "revision forgets: the order of a revised reply to {operation} lacks ")?;
                write!(f, "{missing}, which the reply before it saw")
            }
            Violation::Gap { operation, missing, next } => {
                write!(f, "gap: the order of {operation} lacks {missing}, ")?;
                write!(f, "which precedes {next} in their run")
            }
            _ => Ok(()),
        }
    }

    fn precedence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::RealTime { earlier, later } => {
                write!(
                    f,
                    "real time: {earlier} had its stable reply before {later} was invoked, "
                )?;
                write!(f, "but follows it in the final order")
            }
            Violation::ProgramOrder { earlier, later, session, missing } => {
                let order = if *session { "session order" } else { "order of a run" };
                write!(f, "{order}: {earlier} was invoked before {later}, but ")?;
                lacks_or_follows(f, *missing)
            }
            Violation::ContextOrder { operation, seen, missing } => {
                write!(f, "context: {operation} saw {seen}, but ")?;
                lacks_or_follows(f, *missing)
            }
            Violation::Circle { links } => {
                write!(f, "circle: ")?;
                for (place, (name, link)) in links.iter().enumerate() {
                    let next = &links[(place + 1) % links.len()].0;
                    let comma = if place > 0 { "; " } else { "" };
                    match link {
                        Link::Saw => write!(f, "{comma}{name} saw {next}")?,
                        Link::Follows => write!(f, "{comma}{name} follows {next}")?,
                    }
                }
                Ok(())
            }
            Violation::TentativeOrder { operations } => {
                write!(f, "tentative order: each precedes the next in some order: ")?;
                for name in operations {
                    write!(f, "{name}; ")?;
                }
                write!(f, "and the last precedes the first")
            }
            _ => Ok(()),
        }
    }

    fn replicas(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::NotAPrefix { replica, position, found, expected } => {
                write!(f, "no prefix: {replica} has {found} at position {position}, ")?;
                match expected {
                    Some(expected) => write!(f, "but the final order has {expected}"),
                    None => write!(f, "where the final order ends"),
                }
            }
            Violation::Shrank { replica, from, to } => {
                write!(f, "shrank: {replica} has {to} committed operations after {from}")
            }
            Violation::DigestsDiffer { length, first, second } => {
                write!(f, "digests differ: {first} and {second} have different states after ")?;
                write!(f, "{length} operations")
            }
            Violation::Ahead { replica, length, expected } => {
                write!(f, "ahead: {replica} has {length} committed operations, ")?;
                write!(f, "but the final order has {expected}")
            }
            Violation::Behind { replica, length, expected } => {
                write!(f, "behind: {replica} has {length} of {expected} committed operations ")?;
                write!(f, "in its last report")
            }
            _ => Ok(()),
        }
    }
}

fn lacks_or_follows(f: &mut fmt::Formatter<'_>, missing: bool) -> fmt::Result {
    match missing {
        true => write!(f, "the final order lacks the former and has the latter"),
        false => write!(f, "the final order exchanges them"),
    }
}

impl fmt::Display for Malformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformation::RepeatedId => "has the identifier of another operation",
            Malformation::NotARead => "was not broadcast, but is no weak read",
            Malformation::InvokedBeforeEarlier => {
                "was invoked before an earlier one of its session"
            }
            Malformation::AnsweredTooEarly => "has a reply before its invocation or earlier reply",
        })
    }
}

impl fmt::Display for HistoryOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HistoryOrder::Final => write!(f, "the final order"),
            HistoryOrder::Reply(name, kind) => write!(f, "the order of the {kind} reply to {name}"),
            HistoryOrder::Committed(replica) => write!(f, "the committed list of {replica}"),
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Stable => write!(f, "which has a stable reply"),
            Evidence::Acknowledged => write!(f, "which has a reply of a surviving site"),
            Evidence::Seen(name) => write!(f, "which {name} saw at a surviving site"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Broadcast(id) => write!(f, "operation {id}")?,
            Origin::Local { site, .. } => write!(f, "the read at site {site} at {}", self.invoked)?,
        }
        match self.session {
            Some(session) => write!(f, " of session {session}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "site {} in run {} at {}", self.site, self.run, self.at)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} committed operations", self.committed)?;
        for (place, id) in self.tentative.iter().enumerate() {
            write!(f, "{} {id}", if place == 0 { " and then" } else { "," })?;
        }
        Ok(())
    }
}
