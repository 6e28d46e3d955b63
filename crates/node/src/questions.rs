//! What a node asks another of its site over their link, and the answers.

use postcard::ser_flavors::Size;
use serde::{Deserialize, Serialize};
use solera_membership::Change;
use solera_session::{Ask, Page, SitesTold};
use solera_time::SiteId;
use solera_unistore::AtRisk;

use crate::status::WorkerSample;

/// The longest answer to a question. Answers are for people.
const MAX_ANSWER: usize = 64 << 20;

/// What a node asks another of its site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// What a worker tells about itself; whether in detail.
    Sample { worker: u8, detailed: bool },
    /// How many keys a worker has.
    CountKeys { worker: u8 },
    /// What the loss of sites could still undo at a worker, with at most so many keys.
    AtRisk { worker: u8, keys: u64 },
    /// The next page of a partition that a worker has.
    Scan { worker: u8, ask: Box<Ask> },
    /// What the root knows of the sites, after it has changed what is asked for.
    Sites { change: Option<(SiteId, Change)> },
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Sample(Box<WorkerSample>),
    Keys(u64),
    AtRisk(AtRisk),
    /// Nothing where the worker cannot tell yet.
    Scan(Option<Page>),
    Sites(Box<SitesTold>),
    /// There is no such worker, or it is stopping.
    Nothing,
}

/// The body of a frame that carries an answer. One that is too long becomes [`Answer::Nothing`].
pub(crate) fn encode_answer(answer: &Answer) -> Vec<u8> {
    let size = postcard::serialize_with_flavor(answer, Size::default());
    let size = size.expect("answers have a serialised form");
    let answer = if size <= MAX_ANSWER { answer } else { &Answer::Nothing };
    postcard::to_stdvec(answer).expect("answers have a serialised form")
}

#[cfg(test)]
mod tests {
    use solera_data::Key;

    use super::*;

    #[test]
    fn an_answer_that_is_too_long_becomes_none() {
        for (size, nothing) in [(10, false), (MAX_ANSWER, true)] {
            let keys = vec![Key::from(vec![b'x'; size].as_slice())];
            let answer = Answer::AtRisk(AtRisk { transactions: 1, keys });
            let read: Answer = postcard::from_bytes(&encode_answer(&answer)).unwrap();
            assert_eq!(read == Answer::Nothing, nothing);
        }
    }
}
