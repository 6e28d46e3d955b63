//! Questions of one protocol to another, which receives them as commands.

use std::collections::{BTreeMap, VecDeque};

use solera_data::Op;
use solera_machine::{AskId, GuardAnswer, RequestId};
use solera_time::Vector;
use solera_trial::{Answer, Question};
use solera_unistore::{Command, CommandError, Errand, Kind, Response};

/// First number of the worker's own requests; hosts use smaller ones.
const FIRST: u64 = 1 << 63;

/// Protocol that has asked a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// `trial`, which asks UniStore.
    Trial(AskId),
    /// UniStore, which asks a guard.
    UniStore(AskId),
}

/// An answer, with the protocol that has sent the question.
#[derive(Debug)]
pub(crate) enum Answered {
    /// UniStore's answer to `trial`.
    Trial(AskId, Response),
    /// A guard's answer to UniStore.
    UniStore(AskId, GuardAnswer),
}

/// Open questions and pending answers.
#[derive(Debug)]
pub(crate) struct Internal {
    open: BTreeMap<RequestId, Asker>,
    /// Questions of UniStore that were not passed to their protocols yet.
    errands: VecDeque<(AskId, Errand)>,
    /// Answers that were not passed yet to the protocols that sent the questions.
    answered: VecDeque<Answered>,
    next: u64,
}

impl Internal {
    /// Creates an empty set of questions, numbered from `first` on: earlier processes of the worker
    /// used smaller numbers.
    pub(crate) fn new(first: u64) -> Internal {
        Internal {
            open: BTreeMap::new(),
            errands: VecDeque::new(),
            answered: VecDeque::new(),
            next: FIRST | first,
        }
    }

    /// Returns the identifier of a new request, by which another protocol will answer `asker`.
    pub(crate) fn ask(&mut self, asker: Asker) -> RequestId {
        let request = RequestId(self.next);
        self.next += 1;
        self.open.insert(request, asker);
        request
    }

    /// Queues a question of UniStore for the protocol that it is for.
    pub(crate) fn send(&mut self, ask: AskId, errand: Errand) {
        self.errands.push_back((ask, errand));
    }

    /// Removes and returns the next question of UniStore.
    pub(crate) fn take_errand(&mut self) -> Option<(AskId, Errand)> {
        self.errands.pop_front()
    }

    /// Returns whether a reply answers an open question rather than a client.
    #[inline]
    pub(crate) fn is_answer(&self, request: RequestId) -> bool {
        request.0 >= FIRST && self.open.contains_key(&request)
    }

    /// Queues a reply of UniStore for the protocol that has asked.
    pub(crate) fn note(&mut self, request: RequestId, response: Response) {
        if let Some(Asker::Trial(ask)) = self.open.remove(&request) {
            self.answered.push_back(Answered::Trial(ask, response));
        }
    }

    /// Queues a guard's reply for UniStore.
    pub(crate) fn note_guard(&mut self, request: RequestId, answer: GuardAnswer) {
        if let Some(Asker::UniStore(ask)) = self.open.remove(&request) {
            self.answered.push_back(Answered::UniStore(ask, answer));
        }
    }

    /// Removes and returns the next answer.
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
    // The question has no causal past; unlisted entries of a vector are zero.
    let past = Vector::zero(1);
    Command::ExecuteStrong { past, key, op: Op::IncrBy(amount), kind: Kind::UPDATE }
}

/// Converts UniStore's response to an answer for `trial`.
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
