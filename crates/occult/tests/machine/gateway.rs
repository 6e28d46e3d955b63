//! A worker that runs the transactions of its clients, message by message.

use std::sync::Arc;
use std::time::Duration;

use solera_data::{Key, Op, Outcome, Value};
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_membership::Members;
use solera_occult::{
    Body, CausalTimestamp, Command, Config, Executed, Input, Message, Occult, OnStale, Output,
    Response, Scheme, Timing, TransactionId, Unknown,
};
use solera_time::{Monotonic, Physical, SiteId};

const ME: Address = Address { site: SiteId(0), worker: 0 };
/// The home of all keys.
const HOME: Address = Address { site: SiteId(1), worker: 0 };
const SCHEME: Scheme = Scheme::Exact;

struct Gateway {
    worker: Occult,
    millis: u64,
}

impl Gateway {
    fn new() -> Gateway {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1] });
        let home_of = Arc::new([(Vec::new(), Some(HOME.site))]);
        let (timeout, idle) = (Duration::from_millis(500), Duration::from_millis(2_000));
        let timing = Timing { timeout, idle, ..Timing::default() };
        let config = Config { scheme: SCHEME, home_of, timing, ..Config::new(ME, topology, 2) };
        Gateway { worker: Occult::new(config, &Members::new(2)), millis: 1_000 }
    }

    fn now(&self) -> Now {
        let (monotonic, physical) =
            (Monotonic(self.millis * 1_000_000), Physical(self.millis * 1_000));
        Now { monotonic, physical }
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.worker.poll_output()).collect()
    }

    fn give(&mut self, input: Input) -> Vec<Output> {
        self.worker.handle(self.now(), input);
        self.outputs()
    }

    /// Lets time pass, and returns the replies.
    fn wait(&mut self, millis: u64) -> Vec<Response> {
        let mut replies = Vec::new();
        for _ in 0..millis {
            self.millis += 1;
            self.worker.on_deadline(self.now());
            replies.extend(self.outputs().into_iter().filter_map(|output| match output {
                Output::Reply { response, .. } => Some(response),
                _ => None,
            }));
        }
        replies
    }

    /// Begins an update, and returns its identifier at the home.
    fn update(&mut self) -> TransactionId {
        let command = Command::Execute {
            past: CausalTimestamp::new(SCHEME),
            key: Key::from("k"),
            op: Op::Set(Value::from("v")),
            on_stale: OnStale::Home,
        };
        let outputs = self.give(Input::Client { request: RequestId(1), command });
        let tid = outputs.iter().find_map(|output| match output {
            Output::Send { message: Message { body: Body::Execute(execute), .. }, .. } => {
                Some(execute.tid)
            }
            _ => None,
        });
        tid.expect("it goes to the home")
    }

    fn executed(&mut self, tid: TransactionId) {
        let executed = Executed::Committed(vec![Outcome::Ok], CausalTimestamp::new(SCHEME));
        let message = Message { epoch: 0, body: Body::Executed(tid, 1, executed) };
        self.give(Input::Message { from: HOME, generation: 0, message });
    }
}

/// A client that stopped waiting may be dead. The outcome of its update was once kept for ever.
#[test]
fn an_outcome_for_which_nobody_asks_is_forgotten_after_a_while() {
    let mut gateway = Gateway::new();
    let tid = gateway.update();
    let replies = gateway.wait(600);
    let [Response::Unknown(Unknown::Pending(transaction))] = replies.as_slice() else {
        panic!("{replies:?}")
    };
    gateway.wait(3_000);
    gateway.executed(tid);
    gateway.wait(1_000);
    assert_eq!(gateway.worker.open(), 1, "the client may still ask for it");
    gateway.wait(2_000);
    assert_eq!(gateway.worker.open(), 0);
    let command = Command::Await { transaction: *transaction };
    let outputs = gateway.give(Input::Client { request: RequestId(2), command });
    let reply = outputs.iter().find_map(|output| match output {
        Output::Reply { response, .. } => Some(response),
        _ => None,
    });
    assert_eq!(reply, Some(&Response::NoSuchTransaction));
}
