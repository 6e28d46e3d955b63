//! Questions of one protocol to another, which the other one takes as commands.

use std::collections::{BTreeMap, VecDeque};

use solera_data::Op;
use solera_machine::{AskId, RequestId};
use solera_time::Vector;
use solera_trial::{Answer, Question};
use solera_unistore::{Command, CommandError, Kind, Response};

/// Requests from here on are the worker's own: hosts number theirs below it.
const FIRST: u64 = 1 << 63;

/// Who has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// `trial`.
    Trial(AskId),
}

/// The questions that wait for their answers.
#[derive(Debug)]
pub(crate) struct Internal {
    open: BTreeMap<RequestId, Asker>,
    /// Answers that were not given to their askers yet.
    answered: VecDeque<(Asker, Response)>,
    next: u64,
}

impl Internal {
    /// Creates a worker's questions, numbered from `first` on: a former process of the worker used smaller numbers.
    pub(crate) fn new(first: u64) -> Internal {
        Internal { open: BTreeMap::new(), answered: VecDeque::new(), next: FIRST | first }
    }

    /// Returns the request by which another protocol will answer `asker`.
    pub(crate) fn ask(&mut self, asker: Asker) -> RequestId {
        let request = RequestId(self.next);
        self.next += 1;
        self.open.insert(request, asker);
        request
    }

    /// Returns whether a reply answers an open question, and not a client.
    #[inline]
    pub(crate) fn is_answer(&self, request: RequestId) -> bool {
        request.0 >= FIRST && self.open.contains_key(&request)
    }

    /// Keeps a reply for who has asked.
    pub(crate) fn note(&mut self, request: RequestId, response: Response) {
        let asker = self.open.remove(&request);
        self.answered.extend(asker.zip(Some(response)));
    }

    /// Returns the next answer, and who has asked.
    pub(crate) fn take_answer(&mut self) -> Option<(Asker, Response)> {
        self.answered.pop_front()
    }

    /// Returns whether answers wait.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }
}

/// Returns the command by which UniStore answers a question of `trial`.
pub(crate) fn command_of(question: Question) -> Command {
    let Question::Add { key, amount } = question;
    // A vector's unlisted entries are zero: the question has no past.
    let past = Vector::zero(1);
    Command::ExecuteStrong { past, key, op: Op::IncrBy(amount), kind: Kind::UPDATE }
}

/// Returns what UniStore's response tells `trial`.
pub(crate) fn answer_of(response: Response) -> Answer {
    match response {
        Response::Executed { outcome: Ok(solera_data::Outcome::Int(value)), .. } => {
            Answer::Value(value)
        }
        Response::Executed { outcome: Err(error), .. } => Answer::Refused(error.to_string()),
        Response::Failed(error @ CommandError::Unavailable { tid: Some(_) }) => {
            Answer::Unknown(error.to_string())
        }
        Response::Failed(error) => Answer::Refused(error.to_string()),
        other => Answer::Unknown(format!("an unexpected reply: {other:?}")),
    }
}
