//! The key spaces that clients use, and which of their operations conflict.
//!
//! | keys | level |
//! |---|---|
//! | `t`, `s`, `h`, `u`, `m` | causal: text, sets, hashes, sets of unique elements, all of them mixed; in strong transactions `GET` and `SMEMBERS` conflict as WATCH does |
//! | `e` | eventual |
//! | `p` | por: numbers; withdrawing and setting are strong, other operations are not |
//! | `q` | por: sets; every update is strong |
//! | `l`, `v` | linearizable: text, sets of unique elements |

use solera_checker::Level as Promise;
use solera_data::{Key, Op};
use solera_levels::Level;
use solera_time::Vector;
use solera_unistore::{Command, Kind};

use crate::recorded::Step;

/// First letters of the keys that clients use.
pub(crate) const LETTERS: [&str; 10] = ["t", "s", "h", "u", "m", "e", "p", "q", "l", "v"];

const WITHDRAW: &str = "withdraw";
const SET: &str = "set";
/// Kinds of operations of strong transactions at keys of causal spaces: watching and changing.
const LOOK: &str = "look";
const CHANGE: &str = "change";

/// Returns the pairs of kinds of strong operations that conflict, in the spaces that declare them.
pub(crate) fn conflicts() -> Vec<(String, String)> {
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    vec![pair(WITHDRAW, WITHDRAW), pair(SET, "*"), pair(LOOK, CHANGE)]
}

/// Kind of operations that conflict with nothing.
const WEAK: Kind = Kind { number: 61, conflicts: 0 };

/// Returns an operation at a key of some space, in a strong transaction or not.
pub(crate) fn step(key: Key, op: Op, strong: bool) -> Step {
    let letter = key.as_bytes().first().copied().unwrap_or_default();
    let level = match letter {
        b'e' => Level::Eventual,
        b'p' | b'q' => Level::Por,
        b'l' | b'v' => Level::Linearizable,
        _ => Level::Causal,
    };
    let (kind, promise) = match (letter, &op) {
        (b'l' | b'v', op) => (default_kind(op), Promise::Linearizable),
        (b'e', _) => (WEAK, Promise::Eventual),
        (b'p', Op::IncrBy(..0)) if strong => {
            (Kind { number: 0, conflicts: 1 }, Promise::Strong(Some(WITHDRAW.to_owned())))
        }
        // It conflicts with the two strong kinds.
        (b'p', Op::Set(_)) if strong => {
            (Kind { number: 1, conflicts: 0b11 }, Promise::Strong(Some(SET.to_owned())))
        }
        (b'q', op) if strong => (default_kind(op), Promise::Strong(None)),
        (b't' | b's' | b'h' | b'u' | b'm', Op::Get | Op::SetMembers) if strong => {
            (Kind { number: 2, conflicts: 1 << 3 }, Promise::Strong(Some(LOOK.to_owned())))
        }
        (b't' | b's' | b'h' | b'u' | b'm', op) if strong && op.is_update() => {
            (Kind { number: 3, conflicts: 1 << 2 }, Promise::Strong(Some(CHANGE.to_owned())))
        }
        _ => (WEAK, Promise::Causal),
    };
    Step { key, level, kind, promise, op, answer: None }
}

/// Returns a read at a weaker level than that of its key's space: causal or eventual.
pub(crate) fn read_at(level: Level, step: Step) -> Step {
    let promise = if level == Level::Eventual { Promise::Eventual } else { Promise::Causal };
    Step { level, kind: WEAK, promise, ..step }
}

fn default_kind(op: &Op) -> Kind {
    if op.is_update() { Kind::UPDATE } else { Kind::READ }
}

/// Returns the command that executes one operation by itself. `cancellable`: whether it is a read
/// that the client may cancel.
pub(crate) fn command(past: Vector, step: &Step, cancellable: bool) -> Command {
    let Step { key, level, kind, op, .. } = step.clone();
    let strong = match step.promise {
        // Reads of a por space may be certified, but need not be.
        Promise::Strong(_) => op.is_update(),
        Promise::Linearizable => true,
        Promise::Eventual | Promise::Causal => false,
    };
    match strong {
        true if cancellable => Command::ReadStrong { past, key, op, kind },
        true => Command::ExecuteStrong { past, key, op, kind },
        false => Command::Execute { past, level, key, op },
    }
}
