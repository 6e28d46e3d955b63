//! Questions that a node asks another node of its site over their link, and the answers.

use std::time::Duration;

use postcard::ser_flavors::Size;
use serde::{Deserialize, Serialize};
use solera_membership::Change;
use solera_session::{
    Ask, AskBound, Bound, FromSpeculative, Page, SitesReport, ToPrimary, ToSpeculative,
};
use solera_time::SiteId;
use solera_unistore::AtRisk;

use crate::status::WorkerSample;

/// Longest answer to a question, in bytes. Answers are shown to users.
const MAX_ANSWER: usize = 64 << 20;

/// A question to another node of the site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Requests a worker's sample.
    Sample { worker: u8, detailed: bool },
    /// Requests the number of keys of a worker.
    CountKeys { worker: u8 },
    /// Requests the transactions of a worker that the loss of sites could still undo, with at most
    /// `keys` keys.
    AtRisk { worker: u8, keys: u64 },
    /// Requests the next page of a worker's partition.
    Scan { worker: u8, ask: Box<Ask> },
    /// Requests the root's report about the sites, after applying `change`.
    Sites { change: Option<(SiteId, Change)> },
    /// Requests the reply of `primary` to a command at a worker.
    Primary { worker: u8, asked: Box<ToPrimary> },
    /// Requests the reply of Occult to a command at a worker.
    Occult { worker: u8, command: Box<solera_occult::Command> },
    /// Requests the interval or the holders of a counter of a worker.
    Bound { worker: u8, asked: Box<AskBound> },
    /// Sends a request to the machine of the speculative space at a worker.
    Speculative { worker: u8, asked: Box<ToSpeculative> },
}

impl Question {
    /// Returns the timeout of the answer.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            // The protocols answer after five seconds at the latest.
            Question::Primary { .. }
            | Question::Occult { .. }
            | Question::Bound { .. }
            | Question::Speculative { .. } => Duration::from_secs(6),
            _ => Duration::from_secs(2),
        }
    }
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Sample(Box<WorkerSample>),
    Keys(u64),
    AtRisk(AtRisk),
    /// `None` while the worker cannot read the page yet.
    Scan(Option<Page>),
    Sites(Box<SitesReport>),
    /// The worker does not exist, or is stopping.
    Nothing,
    Primary(Box<solera_primary::Response>),
    Occult(Box<solera_occult::Response>),
    Bound(Box<Bound>),
    Speculative(Box<FromSpeculative>),
}

/// Returns the body of a frame with an answer. An answer that is too long becomes
/// [`Answer::Nothing`].
pub(crate) fn encode_answer(answer: &Answer) -> Vec<u8> {
    let size = postcard::serialize_with_flavor(answer, Size::default());
    let size = size.expect("answers have a serialised form");
    let answer = if size <= MAX_ANSWER { answer } else { &Answer::Nothing };
    postcard::to_stdvec(answer).expect("answers have a serialised form")
}

#[cfg(test)]
mod tests {
    use Bound::Cannot;
    use data_encoding::HEXLOWER;
    use solera_creek::{
        Command as SpeculativeCommand, OperationId, Past as SpeculativePast,
        Response as SpeculativeResponse, Tentative,
    };
    use solera_data::{Key, Op, Outcome, Value};
    use solera_machine::PartitionId;
    use solera_primary::{Command, Done, Failure, Past, Position, Response, Update};
    use solera_procedures::{Procedure, Returned};
    use solera_reservations::{Cannot as Reason, Expiry, Holder, Tokens};
    use solera_session::{CallLevel, FinalAnswer, FinalStep, LogEntry, What};
    use solera_time::SiteId;

    use super::*;

    #[test]
    fn requests_to_the_speculative_space_and_their_answers_are_read_back() {
        let id = OperationId { site: SiteId(1), run: 2, event: 300 };
        let steps = vec![(Key::from(&b"k"[..]), Op::IncrBy(-1))];
        let operation = Procedure::of_steps(steps);
        let level = CallLevel::Strong;
        let command =
            SpeculativeCommand::Invoke { operation: operation.clone(), level, track: false };
        let within = Duration::from_secs(4);
        for asked in [
            ToSpeculative::Run { command, within },
            ToSpeculative::Run { command: SpeculativeCommand::Await { id }, within },
            ToSpeculative::State,
            ToSpeculative::Log { from: 1, count: 10 },
            ToSpeculative::Export(FinalStep::Page { id: 7, number: 1 }),
        ] {
            let question = Question::Speculative { worker: 0, asked: Box::new(asked) };
            let bytes = postcard::to_stdvec(&question).unwrap();
            assert_eq!(bytes[0], 8, "variants keep their numbers");
            assert_eq!(postcard::from_bytes::<Question>(&bytes).unwrap(), question);
        }
        let returned = Returned::Outcomes(vec![Ok(Outcome::Int(7))]);
        let response = SpeculativeResponse::Stable { id, position: 5, response: returned };
        let past = [id].into_iter().collect();
        let entry = LogEntry { position: 5, id, strong: true, operation: Some(operation.clone()) };
        let operation = Some(operation);
        let page = (Key::from(&b"k"[..]), Outcome::Bulk(Value::from(&b"v"[..])));
        let (of_revised, of_past) = (Returned::Outcomes(vec![Ok(Outcome::Int(8))]), [id]);
        let cause = Some(OperationId { site: SiteId(2), run: 1, event: 9 });
        let revised = Tentative { id: Some(id), response: of_revised, claim: None, cause };
        let revised = FromSpeculative::Responded {
            response: Box::new(SpeculativeResponse::Revised(revised)),
            past: of_past.into_iter().collect(),
            operation: None,
        };
        let bytes = encode_answer(&Answer::Speculative(Box::new(revised.clone())));
        // The response ends with the cause; the past and the absent operation follow.
        let encoded = postcard::to_stdvec(&cause).unwrap();
        let after =
            postcard::to_stdvec(&(of_past.into_iter().collect::<SpeculativePast>(), 0)).unwrap();
        assert!(bytes.ends_with(&[encoded, after].concat()), "{bytes:?}");
        for answer in [
            revised,
            FromSpeculative::Responded { response: Box::new(response), past, operation },
            FromSpeculative::TimedOut,
            FromSpeculative::Log(vec![entry], 1),
            FromSpeculative::Exported(FinalAnswer::Page(vec![page], true)),
        ] {
            let bytes = encode_answer(&Answer::Speculative(Box::new(answer.clone())));
            let read = postcard::from_bytes::<Answer>(&bytes).unwrap();
            assert_eq!(read, Answer::Speculative(Box::new(answer)));
        }
    }

    /// Nodes of one version must be able to read one another: variants keep their order, and new
    /// ones are added at the end.
    #[test]
    fn the_encoding_of_commands_and_replies_of_primary_is_stable() {
        let key = || Key::from(&b"k"[..]);
        let update = |update| Command::Update { key: key(), update };
        let mut past = Past::default();
        past.note(PartitionId(300), Position { epoch: 2, index: 130 });
        let value = || Value::from(&b"v"[..]);
        let commands = [
            Command::Read { key: key() },
            update(Update::Set(value())),
            update(Update::Append(value())),
            update(Update::IncrBy(-1)),
            update(Update::Delete),
            Command::Attach { past: past.clone() },
            Command::Barrier { past },
        ];
        let asked = commands.map(|command| {
            let asked = Box::new(ToPrimary { command, takes_accepted: true });
            let question = Question::Primary { worker: 3, asked };
            let bytes = postcard::to_stdvec(&question).unwrap();
            assert_eq!(postcard::from_bytes::<Question>(&bytes).unwrap(), question);
            HEXLOWER.encode(&bytes)
        });
        let position = Position { epoch: 2, index: 130 };
        let done = Done { position, number: Some(-3) };
        let responses = [
            Response::Value { value: Some(value()), position },
            Response::Accepted(done),
            Response::Applied(Done { number: None, ..done }),
            Response::Attached,
            Response::Stored,
            Response::Failed(Failure::Busy),
        ];
        let answers = responses.map(|response| {
            let answer = Answer::Primary(Box::new(response));
            let bytes = encode_answer(&answer);
            assert_eq!(postcard::from_bytes::<Answer>(&bytes).unwrap(), answer);
            HEXLOWER.encode(&bytes)
        });
        let expected = [
            "050300016b01",
            "050301016b00017601",
            "050301016b01017601",
            "050301016b020101",
            "050301016b0301",
            "05030201ac0202820101",
            "05030301ac0202820101",
        ];
        assert_eq!(asked, expected);
        let expected =
            ["0600010176028201", "06010282010105", "060202820100", "0603", "0604", "060505"];
        assert_eq!(answers, expected);
    }

    #[test]
    fn the_encoding_of_answers_about_bounds_is_stable() {
        let (what, within) = (What::Holders, Duration::from_millis(2500));
        let asked = AskBound { key: Key::from(&b"k"[..]), what, within };
        let question = Question::Bound { worker: 3, asked: Box::new(asked) };
        let bytes = postcard::to_stdvec(&question).unwrap();
        assert_eq!(postcard::from_bytes::<Question>(&bytes).unwrap(), question);
        assert_eq!(HEXLOWER.encode(&bytes), "0703016b010280cab5ee01");
        let (site, tokens) = (SiteId(2), Tokens { increments: 3, decrements: 130 });
        let expiry = Expiry { lease: Some(Duration::from_millis(5)), unused: None };
        let holders = vec![
            Holder::Tokens { site, tokens, answers: true, expiry },
            Holder::Rights { site, rights: Some(4), age: Duration::from_millis(5) },
        ];
        let all = [
            Bound::Interval(-3, 130),
            Bound::Holders(holders),
            Cannot(Reason::NoPolicy),
            Cannot(Reason::Nothing),
            Cannot(Reason::TooMany { most: 5 }),
            Cannot(Reason::NoTokens),
            Cannot(Reason::AtFloor),
            Cannot(Reason::NotReader { readers: vec![SiteId(1)] }),
            Cannot(Reason::Behind),
            Cannot(Reason::NoLease),
            Cannot(Reason::TooWide { least: 1, greatest: 2 }),
            Cannot(Reason::SoldOut { left: 6 }),
            Cannot(Reason::Uncounted),
        ];
        let answers = all.map(|answer| {
            let answer = Answer::Bound(Box::new(answer));
            let bytes = encode_answer(&answer);
            assert_eq!(postcard::from_bytes::<Answer>(&bytes).unwrap(), answer);
            HEXLOWER.encode(&bytes)
        });
        let expected = [
            "0800058402",
            "0801020002038201010100c096b102000102010400c096b102",
            "080200",
            "080201",
            "08020205",
            "080203",
            "080204",
            "0802050101",
            "080206",
            "080207",
            "0802080204",
            "08020906",
            "08020a",
        ];
        assert_eq!(answers, expected);
    }

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
