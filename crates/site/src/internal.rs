//! Questions of one protocol to another, which the other one takes as commands.

use std::collections::{BTreeMap, VecDeque};

use solera_data::Op;
use solera_machine::{AskId, GuardAnswer, RequestId};
use solera_time::Vector;
use solera_trial::{Answer, Question};
use solera_unistore::{Command, CommandError, Errand, Kind, Response};

/// Requests from here on are the worker's own: hosts number theirs below it.
const FIRST: u64 = 1 << 63;

/// Who has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// `trial` asks UniStore.
    Trial(AskId),
    /// UniStore asks a guard.
    UniStore(AskId),
}

/// An answer for who has asked.
#[derive(Debug)]
pub(crate) enum Answered {
    /// UniStore answers `trial`.
    Trial(AskId, Response),
    /// A guard answers UniStore.
    UniStore(AskId, GuardAnswer),
}

/// The questions that wait for their answers.
#[derive(Debug)]
pub(crate) struct Internal {
    open: BTreeMap<RequestId, Asker>,
    /// UniStore's questions that were not given to the protocols that they are for.
    errands: VecDeque<(AskId, Errand)>,
    /// Answers that were not given to their askers yet.
    answered: VecDeque<Answered>,
    next: u64,
}

impl Internal {
    /// Creates a worker's questions, numbered from `first` on: a former process of the worker used
    /// smaller numbers.
    pub(crate) fn new(first: u64) -> Internal {
        Internal {
            open: BTreeMap::new(),
            errands: VecDeque::new(),
            answered: VecDeque::new(),
            next: FIRST | first,
        }
    }

    /// Returns the request by which another protocol will answer `asker`.
    pub(crate) fn ask(&mut self, asker: Asker) -> RequestId {
        let request = RequestId(self.next);
        self.next += 1;
        self.open.insert(request, asker);
        request
    }

    /// Keeps a question of UniStore for the protocol that it is for.
    pub(crate) fn send(&mut self, ask: AskId, errand: Errand) {
        self.errands.push_back((ask, errand));
    }

    /// Returns the next question of UniStore.
    pub(crate) fn take_errand(&mut self) -> Option<(AskId, Errand)> {
        self.errands.pop_front()
    }

    /// Returns whether a reply answers an open question, and not a client.
    #[inline]
    pub(crate) fn is_answer(&self, request: RequestId) -> bool {
        request.0 >= FIRST && self.open.contains_key(&request)
    }

    /// Keeps a reply of UniStore for the protocol that has asked.
    pub(crate) fn note(&mut self, request: RequestId, response: Response) {
        if let Some(Asker::Trial(ask)) = self.open.remove(&request) {
            self.answered.push_back(Answered::Trial(ask, response));
        }
    }

    /// Keeps a guard's reply for UniStore.
    pub(crate) fn note_guard(&mut self, request: RequestId, answer: GuardAnswer) {
        if let Some(Asker::UniStore(ask)) = self.open.remove(&request) {
            self.answered.push_back(Answered::UniStore(ask, answer));
        }
    }

    /// Returns the next answer, and who has asked.
    pub(crate) fn take_answer(&mut self) -> Option<Answered> {
        self.answered.pop_front()
    }

    /// Returns whether questions or answers wait.
    pub(crate) fn is_busy(&self) -> bool {
        !self.answered.is_empty() || !self.errands.is_empty()
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
