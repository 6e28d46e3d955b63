//! Inputs and outputs of all protocols of a worker: one enum each, with a variant per protocol.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use solera_machine::{Address, Lane, Protocol, Topology, Wire};

use crate::PROTOCOLS;

/// Input of a [`Site`](crate::Site).
pub type Input = solera_machine::Input<Message, Command, JobResult>;
/// Output of a [`Site`](crate::Site).
pub type Output = solera_machine::Output<Message, Response, Event, Job>;

/// Declares an enum with a variant for each protocol. `Debug` shows the content without the
/// variant's name.
macro_rules! of_each_protocol {
    ($(#[$doc:meta])* $name:ident($of:ident) $(, $derived:ident)*) => {
        $(#[$doc])*
        #[allow(clippy::large_enum_variant, reason = "a box for each input would cost more")]
        #[derive(Clone, $($derived),*)]
        pub enum $name {
            /// Variant of UniStore.
            UniStore(solera_unistore::$of),
            /// Variant of `primary`.
            Primary(solera_primary::$of),
            /// Variant of `occult`.
            Occult(solera_occult::$of),
            /// Variant of `reservations`.
            Reservations(solera_reservations::$of),
            /// Variant of `creek`.
            Creek(crate::speculative::$of),
            /// Variant of `trial`.
            Trial(solera_trial::$of),
        }

        impl From<solera_unistore::$of> for $name {
            fn from(it: solera_unistore::$of) -> $name {
                $name::UniStore(it)
            }
        }

        impl From<solera_primary::$of> for $name {
            fn from(it: solera_primary::$of) -> $name {
                $name::Primary(it)
            }
        }

        impl From<solera_occult::$of> for $name {
            fn from(it: solera_occult::$of) -> $name {
                $name::Occult(it)
            }
        }

        impl From<solera_reservations::$of> for $name {
            fn from(it: solera_reservations::$of) -> $name {
                $name::Reservations(it)
            }
        }

        impl From<crate::speculative::$of> for $name {
            fn from(it: crate::speculative::$of) -> $name {
                $name::Creek(it)
            }
        }

        impl From<solera_trial::$of> for $name {
            fn from(it: solera_trial::$of) -> $name {
                $name::Trial(it)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $name::UniStore(it) => it.fmt(f),
                    $name::Primary(it) => it.fmt(f),
                    $name::Occult(it) => it.fmt(f),
                    $name::Reservations(it) => it.fmt(f),
                    $name::Creek(it) => it.fmt(f),
                    $name::Trial(it) => it.fmt(f),
                }
            }
        }
    };
}

of_each_protocol! {
    /// Message between workers.
    Message(Message), PartialEq
}
of_each_protocol! {
    /// Command of a client.
    Command(Command)
}
of_each_protocol! {
    /// Reply to a command.
    Response(Response), PartialEq
}
of_each_protocol! {
    /// Step of a protocol, for checkers of histories.
    Event(Event), PartialEq
}
of_each_protocol! {
    /// Part of a checkpoint.
    Part(Part)
}

impl Command {
    /// Returns the protocol that executes the command.
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Command::UniStore(_) => solera_unistore::PROTOCOL,
            Command::Primary(_) => solera_primary::PROTOCOL,
            Command::Occult(_) => solera_occult::PROTOCOL,
            Command::Reservations(_) => solera_reservations::PROTOCOL,
            Command::Creek(_) => solera_creek::PROTOCOL,
            Command::Trial(_) => solera_trial::PROTOCOL,
        }
    }
}

/// Work that a host runs elsewhere.
#[derive(Debug)]
pub enum Job {
    /// Variant of `creek`.
    Creek(crate::speculative::Job),
    /// Variant of `trial`.
    Trial(solera_trial::Chain),
}

/// Result of a [`Job`].
#[derive(Debug)]
pub enum JobResult {
    /// Variant of `creek`.
    Creek(crate::speculative::Done),
    /// Variant of `trial`.
    Trial(u64),
}

impl From<Infallible> for Job {
    fn from(none: Infallible) -> Job {
        match none {}
    }
}

impl From<crate::speculative::Job> for Job {
    fn from(work: crate::speculative::Job) -> Job {
        Job::Creek(work)
    }
}

impl From<solera_trial::Chain> for Job {
    fn from(work: solera_trial::Chain) -> Job {
        Job::Trial(work)
    }
}

impl solera_machine::Job for Job {
    type Result = JobResult;

    fn run(self) -> JobResult {
        match self {
            Job::Creek(work) => JobResult::Creek(work.run()),
            Job::Trial(work) => JobResult::Trial(work.run()),
        }
    }

    fn cost(&self) -> Duration {
        match self {
            Job::Creek(work) => work.cost(),
            Job::Trial(work) => work.cost(),
        }
    }
}

impl Message {
    /// Returns the variant's name within its protocol, as the cost tables name steps.
    pub fn name(&self) -> &'static str {
        match self {
            Message::UniStore(message) => message.name(),
            Message::Primary(message) => message.name(),
            Message::Occult(message) => message.name(),
            Message::Reservations(message) => message.name(),
            Message::Creek(message) => message.name(),
            Message::Trial(message) => message.name(),
        }
    }
}

impl Wire for Message {
    const PROTOCOLS: &'static [Protocol] = PROTOCOLS;
    type Shape = Topology;

    fn protocol(&self) -> Protocol {
        match self {
            Message::UniStore(message) => message.protocol(),
            Message::Primary(message) => message.protocol(),
            Message::Occult(message) => message.protocol(),
            Message::Reservations(message) => message.protocol(),
            Message::Creek(message) => message.protocol(),
            Message::Trial(message) => message.protocol(),
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Message::UniStore(message) => message.lane(),
            Message::Primary(message) => message.lane(),
            Message::Occult(message) => message.lane(),
            Message::Reservations(message) => message.lane(),
            Message::Creek(message) => message.lane(),
            Message::Trial(message) => message.lane(),
        }
    }

    fn weight(&self) -> u64 {
        match self {
            Message::UniStore(message) => message.weight(),
            Message::Primary(message) => message.weight(),
            Message::Occult(message) => message.weight(),
            Message::Reservations(message) => message.weight(),
            Message::Creek(message) => message.weight(),
            Message::Trial(message) => message.weight(),
        }
    }

    fn encoded_bytes(&self) -> usize {
        match self {
            Message::UniStore(message) => message.encoded_bytes(),
            Message::Primary(message) => message.encoded_bytes(),
            Message::Occult(message) => message.encoded_bytes(),
            Message::Reservations(message) => message.encoded_bytes(),
            Message::Creek(message) => message.encoded_bytes(),
            Message::Trial(message) => message.encoded_bytes(),
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Message::UniStore(message) => message.encode(bytes),
            Message::Primary(message) => message.encode(bytes),
            Message::Occult(message) => message.encode(bytes),
            Message::Reservations(message) => message.encode(bytes),
            Message::Creek(message) => message.encode(bytes),
            Message::Trial(message) => message.encode(bytes),
        }
    }

    fn decode(protocol: Protocol, bytes: &[u8]) -> Option<(Message, &[u8])> {
        fn of<M: Wire + Into<Message>>(
            protocol: Protocol,
            bytes: &[u8],
        ) -> Option<(Message, &[u8])> {
            let (message, rest) = M::decode(protocol, bytes)?;
            Some((message.into(), rest))
        }
        match protocol {
            solera_unistore::PROTOCOL => of::<solera_unistore::Message>(protocol, bytes),
            solera_primary::PROTOCOL => of::<solera_primary::Message>(protocol, bytes),
            solera_occult::PROTOCOL => of::<solera_occult::Message>(protocol, bytes),
            solera_reservations::PROTOCOL => of::<solera_reservations::Message>(protocol, bytes),
            solera_creek::PROTOCOL => of::<crate::speculative::Message>(protocol, bytes),
            solera_trial::PROTOCOL => of::<solera_trial::Message>(protocol, bytes),
            _ => None,
        }
    }

    fn validate(&self, from: Address, to: Address, topology: &Topology) -> bool {
        match self {
            Message::UniStore(message) => Wire::validate(message, from, to, topology),
            Message::Primary(message) => message.validate(from, to, topology),
            Message::Occult(message) => message.validate(from, to, topology),
            Message::Reservations(message) => Wire::validate(message, from, to, topology),
            Message::Creek(message) => message.validate(from, to, topology),
            Message::Trial(message) => message.validate(from, to, topology),
        }
    }

    fn split(&mut self) -> Option<Message> {
        match self {
            Message::UniStore(message) => message.split().map(Message::UniStore),
            Message::Primary(message) => message.split().map(Message::Primary),
            Message::Occult(message) => message.split().map(Message::Occult),
            Message::Reservations(message) => message.split().map(Message::Reservations),
            Message::Creek(message) => message.split().map(Message::Creek),
            Message::Trial(message) => message.split().map(Message::Trial),
        }
    }

    fn too_large(self) -> Option<Message> {
        match self {
            Message::UniStore(message) => message.too_large().map(Message::UniStore),
            Message::Primary(message) => message.too_large().map(Message::Primary),
            Message::Occult(message) => message.too_large().map(Message::Occult),
            Message::Reservations(message) => message.too_large().map(Message::Reservations),
            Message::Creek(message) => message.too_large().map(Message::Creek),
            Message::Trial(message) => message.too_large().map(Message::Trial),
        }
    }
}
