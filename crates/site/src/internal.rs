//! Questions of one protocol to another, which the other one takes as commands.

use std::collections::BTreeMap;

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
#[derive(Debug, Default)]
pub(crate) struct Internal {
    open: BTreeMap<RequestId, Asker>,
    asked: u64,
}

impl Internal {
    /// Returns the request by which another protocol will answer `asker`.
    pub(crate) fn ask(&mut self, asker: Asker) -> RequestId {
        let request = RequestId(FIRST + self.asked);
        self.asked += 1;
        self.open.insert(request, asker);
        request
    }

    /// Returns whether nobody waits for an answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns whether a reply answers a question, and not a client.
    pub(crate) fn answers(request: RequestId) -> bool {
        request.0 >= FIRST
    }

    /// Returns who has asked, once the last reply is there. Nobody has if the question was answered before.
    pub(crate) fn take(&mut self, request: RequestId) -> Option<Asker> {
        self.open.remove(&request)
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
