//! Steps of a machine, and their classes of similar cost.

use solera_data::Op;
use solera_host::{Driver, NoLog};
use solera_machine::{Address, Now, RequestId, Wire};
use solera_site::{Command, Input, Message, Output, Site};
use solera_unistore::Command as OfUniStore;

/// Name of the step of encoding and decoding a message.
pub(crate) const WIRE: &str = "wire";

/// Driver of a core's machine.
pub(crate) type Engine = Driver<Site, NoLog>;

/// Input of a machine for one step, or work of its host.
pub(crate) enum MachineStep {
    Message(Address, Message),
    Client(RequestId, Command),
    Deadline,
    /// Encoding and decoding of a message.
    Wire(Box<Message>),
}

/// Description of a step, as far as it is known before the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct About {
    pub(crate) kind: &'static str,
    /// Size of the step: bytes of a message, operations of a committing transaction, or steps since
    /// the last deadline.
    pub(crate) size: u64,
}

/// Class of steps with the same cost in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class<'a> {
    pub(crate) kind: &'a str,
    /// Logarithm of the size: 0 for 0, otherwise one more than the exponent of the largest power of
    /// two within it.
    pub(crate) size: u8,
    /// Twice the logarithm of the number of outputs, plus one if they include a reply: a single
    /// worker answers its work at once; work that involves other workers is answered later.
    pub(crate) outputs: u8,
}

impl About {
    /// Describes a step. `operations` is the number of operations of the client's transaction, and
    /// `since` the number of steps since the last deadline.
    pub(crate) fn step(step: &MachineStep, operations: usize, since: u64) -> About {
        match step {
            MachineStep::Message(_, message) => {
                About { kind: message.name(), size: message.encoded_bytes() as u64 }
            }
            MachineStep::Client(_, command) => {
                let kind = name_of(command);
                let commits = matches!(command, Command::UniStore(OfUniStore::Commit { .. }));
                About { kind, size: if commits { operations as u64 } else { 0 } }
            }
            MachineStep::Deadline => About { kind: "deadline", size: since },
            MachineStep::Wire(message) => {
                About { kind: WIRE, size: message.encoded_bytes() as u64 }
            }
        }
    }

    pub(crate) fn class(self, outputs: &[Output]) -> Class<'static> {
        let replies = outputs.iter().any(|output| matches!(output, Output::Reply { .. }));
        self.with_outputs(outputs.len(), replies)
    }

    /// Returns the class of a step with this number of outputs.
    pub(crate) fn with_outputs(self, outputs: usize, replies: bool) -> Class<'static> {
        let About { kind, size } = self;
        let outputs = 2 * logarithm(outputs as u64) + u8::from(replies);
        Class { kind, size: logarithm(size), outputs }
    }
}

pub(crate) fn logarithm(size: u64) -> u8 {
    (u64::BITS - size.leading_zeros()) as u8
}

/// Returns the name under which a client's command is counted.
fn name_of(command: &Command) -> &'static str {
    match command {
        Command::UniStore(OfUniStore::Operate { op, .. }) => name_of_operation(op),
        Command::UniStore(OfUniStore::Begin { .. }) => "begin",
        Command::UniStore(OfUniStore::Commit { .. }) => "commit",
        Command::UniStore(OfUniStore::Attach { .. }) => "attach",
        Command::UniStore(OfUniStore::Execute { .. }) => "execute",
        Command::Primary(solera_primary::Command::Update { .. }) => "primary update",
        _ => "other command",
    }
}

fn name_of_operation(op: &Op) -> &'static str {
    match op {
        Op::Get => "operate get",
        Op::Set(_) => "operate set",
        Op::Exists => "operate exists",
        Op::IncrBy(_) => "operate incrby",
        Op::SetAdd(_) => "operate sadd",
        Op::SetMembers => "operate smembers",
        Op::HashSet(_) => "operate hset",
        Op::HashGet(_) | Op::HashGetMany(_) => "operate hget",
        Op::HashGetAll => "operate hgetall",
        Op::HashIncrBy(..) => "operate hincrby",
        _ => "operate other",
    }
}

/// Runs a step; appends the machine's outputs to `outputs`.
pub(crate) fn run(engine: &mut Engine, now: Now, step: MachineStep, outputs: &mut Vec<Output>) {
    match step {
        MachineStep::Message(from, message) => {
            engine.handle(now, Input::Message { from, generation: 0, message });
        }
        MachineStep::Client(request, command) => {
            engine.handle(now, Input::Client { request, command });
        }
        MachineStep::Deadline => {
            engine.on_deadline(now, Vec::new);
        }
        MachineStep::Wire(message) => {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let decoded = Message::decode(message.protocol(), &bytes);
            drop(std::hint::black_box(decoded));
            return;
        }
    }
    while let Some(output) = engine.poll() {
        outputs.push(output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_within_a_power_of_two_are_of_one_class() {
        let classes = [0, 1, 2, 3, 4, 7, 8, 1023, 1024].map(logarithm);
        assert_eq!(classes, [0, 1, 2, 2, 3, 3, 4, 10, 11]);
    }
}
