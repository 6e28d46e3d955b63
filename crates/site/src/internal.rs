//! Questions of one protocol to another, which receives them as commands.

use std::collections::{BTreeMap, VecDeque};

use solera_data::{Key, Op, Outcome, RESERVED, Value};
use solera_machine::{AskId, GuardAnswer, RequestId, codec};
use solera_occult::Move;
use solera_reservations::Version;
use solera_time::Vector;
use solera_trial::{Answer, Question};
use solera_unistore::{Command, CommandError, Errand, Kind, Response};

/// First number of the worker's own requests; hosts use smaller ones.
const FIRST: u64 = 1 << 63;

/// Protocol that has asked a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// `trial`, which asks UniStore.
    Trial(AskId),
    /// `occult`, which has proposed a move with this number to UniStore.
    Proposal(AskId, u64, Move),
    /// `reservations`, which has submitted a change of its record.
    Change(AskId),
    /// `reservations`, which has written the end of an epoch.
    End(AskId),
    /// `reservations`, which has written a gift of rights.
    Gift(AskId),
    /// `occult`, whose proposal has found another move under this number.
    OtherMove(AskId, Move),
    /// UniStore, which asks a guard.
    UniStore(AskId),
}

/// An answer, with the protocol that has sent the question.
#[derive(Debug)]
pub(crate) enum Answered {
    /// UniStore's answer to `trial`.
    Trial(AskId, Response),
    /// UniStore's answer to `occult`.
    Occult(AskId, solera_occult::Answer),
    /// UniStore's answer to `reservations`.
    Reservations(AskId, solera_reservations::Answer),
    /// `occult` needs the move that UniStore has under this number, instead of its proposal.
    FindMove(AskId, u64, Move),
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
        let answered = match self.open.remove(&request) {
            Some(Asker::Trial(ask)) => Answered::Trial(ask, response),
            Some(Asker::Proposal(ask, number, next)) => match executed(response) {
                Ok(Outcome::Int(0)) => Answered::FindMove(ask, number, next),
                Ok(_) => Answered::Occult(ask, solera_occult::Answer::Agreed),
                Err(reason) => Answered::Occult(ask, solera_occult::Answer::Failed(reason)),
            },
            Some(Asker::OtherMove(ask, next)) => Answered::Occult(ask, found_move(response, &next)),
            Some(Asker::Change(ask)) => Answered::Reservations(ask, decided(response)),
            Some(Asker::End(ask)) => {
                Answered::Reservations(ask, solera_reservations::Answer::Ended)
            }
            Some(Asker::Gift(ask)) => match response {
                Response::Executed { outcome: Ok(_), .. }
                | Response::Failed(
                    CommandError::Unavailable { tid: Some(_), .. }
                    | CommandError::Unconfirmed { .. },
                ) => Answered::Reservations(ask, solera_reservations::Answer::Unknown),
                _ => Answered::Reservations(ask, solera_reservations::Answer::NotGiven),
            },
            Some(Asker::UniStore(_)) | None => return,
        };
        self.answered.push_back(answered);
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

/// Returns the key under which the move of homes with a number is stored.
fn key_of_move(number: u64) -> Key {
    Key::from(format!("{RESERVED}homes:{number}").as_str())
}

/// Returns the command that stores a move of homes, unless another one has its number.
pub(crate) fn propose(number: u64, next: &Move) -> Command {
    let mut bytes = Vec::new();
    codec::append(next, &mut bytes);
    let (past, key) = (Vector::zero(1), key_of_move(number));
    let op = Op::SetNew(Value::from(bytes.as_slice()));
    Command::ExecuteStrong { past, key, op, kind: Kind::UPDATE }
}

/// Returns the command that reads the move of homes with a number.
pub(crate) fn find_move(number: u64) -> Command {
    let (past, key) = (Vector::zero(1), key_of_move(number));
    Command::ExecuteStrong { past, key, op: Op::Get, kind: Kind::READ }
}

/// Returns the outcome of a strong operation, or the reason why it has none.
fn executed(response: Response) -> Result<Outcome, String> {
    match response {
        Response::Executed { outcome: Ok(outcome), .. } => Ok(outcome),
        Response::Executed { outcome: Err(error), .. } => Err(error.to_string()),
        Response::Failed(error) => Err(error.to_string()),
        other => Err(format!("an unexpected reply: {other:?}")),
    }
}

/// Returns the answer to a proposal that has found another move, or its own from an earlier attempt
/// whose outcome was unknown.
fn found_move(response: Response, proposed: &Move) -> solera_occult::Answer {
    let bytes = match executed(response) {
        Ok(Outcome::Bulk(bytes)) => bytes,
        Ok(_) => return solera_occult::Answer::Failed("the list of moves has a gap".to_owned()),
        Err(reason) => return solera_occult::Answer::Failed(reason),
    };
    match codec::take::<Move>(&bytes) {
        Some((found, [])) if found == *proposed => solera_occult::Answer::Agreed,
        Some((found, [])) => solera_occult::Answer::Other(found),
        _ => solera_occult::Answer::Failed("the list of moves is damaged".to_owned()),
    }
}

/// Returns the version of a change of the record of `reservations`.
fn decided(response: Response) -> solera_reservations::Answer {
    match response {
        Response::Executed { outcome: Ok(_), pasts } => {
            solera_reservations::Answer::Decided(Version(pasts.causal.strong.0))
        }
        _ => solera_reservations::Answer::Unknown,
    }
}

/// Converts UniStore's response to an answer for `trial`.
pub(crate) fn answer_of(response: Response) -> Answer {
    match response {
        Response::Executed { outcome: Ok(Outcome::Int(value)), .. } => Answer::Value(value),
        Response::Executed { outcome: Err(error), .. } => Answer::Refused(error.to_string()),
        Response::Failed(error @ CommandError::Unavailable { tid: Some(_), .. }) => {
            Answer::Unknown(error.to_string())
        }
        Response::Failed(error) => Answer::Refused(error.to_string()),
        other => Answer::Unknown(format!("an unexpected reply: {other:?}")),
    }
}
