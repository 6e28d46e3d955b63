//! Counted requests and transactions, as a client sends them.

use std::fmt;
use std::str::FromStr;

use solera_resp::encode_command;

/// Spaces of the cluster that serves the requests, in the format of `solera.toml`.
pub(super) const SPACES: &str = r#"[[space]]
name = "strong"
prefix = "strong:"
level = "linearizable"
[[space]]
name = "weak"
prefix = "weak:"
level = "causal"
"#;

/// Module of the called transaction.
const MODULE: &str = include_str!("../papers/mixt/counters.mixt");

const VALUE: [u8; 100] = [b'v'; 100];

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `PING` that an echo answers instead of a server. Its count is the client's share of the
    /// other counts.
    Client,
    /// `PING`, which touches no data.
    Ping,
    /// Ten pipelined `PING`s.
    Pings,
    /// `GET` of 100 bytes.
    Get,
    /// `SET` of 100 bytes.
    Set,
    /// `INCR`.
    Incr,
    /// `MSET` of ten values of 100 bytes.
    Mset,
    /// `MULTI`, five `SET`s of 100 bytes, and `EXEC`, sent together.
    Multi,
    /// `SET` of 100 bytes in a linearizable space.
    StrongSet,
    /// `SOLERA.CALL` of a transaction that increments a linearizable and a causal counter.
    Call,
}

/// Transactions of a server under load: a `SOLERA.BEGIN`, a batch of `GET`s or `SET`s, a
/// `SOLERA.COMMIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) operations: u64,
    /// Whether the operations are `SET`s of 100 bytes.
    pub(crate) writes: bool,
}

/// Commands as bytes, and the number of their replies.
#[derive(Default)]
pub(super) struct Commands {
    pub(super) bytes: Vec<u8>,
    pub(super) replies: usize,
}

impl Commands {
    fn push(&mut self, words: &[&[u8]]) {
        encode_command(&mut self.bytes, words);
        self.replies += 1;
    }
}

impl Kind {
    /// All kinds, in the order of the table.
    pub const ALL: [Kind; 10] = [
        Kind::Client,
        Kind::Ping,
        Kind::Pings,
        Kind::Get,
        Kind::Set,
        Kind::Incr,
        Kind::Mset,
        Kind::Multi,
        Kind::StrongSet,
        Kind::Call,
    ];

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Client => "client alone",
            Kind::Ping => "PING",
            Kind::Pings => "ten PINGs together",
            Kind::Get => "GET",
            Kind::Set => "SET",
            Kind::Incr => "INCR",
            Kind::Mset => "MSET of ten",
            Kind::Multi => "MULTI of five",
            Kind::StrongSet => "strong SET",
            Kind::Call => "module call",
        }
    }

    /// Returns whether replies wait for a tick of the protocol, even at a single site.
    pub(super) fn waits_for_ticks(self) -> bool {
        matches!(self, Kind::StrongSet | Kind::Call)
    }

    /// Returns how much the number of system calls may differ between runs of the same program.
    pub(super) fn stray_calls(self) -> f64 {
        match self {
            // While such a request waits, ticks follow the system's clock.
            Kind::StrongSet => 4.0,
            // A thread wakes another one only if that one is asleep.
            Kind::Call => f64::INFINITY,
            _ => 0.1,
        }
    }

    /// Returns the number of requests of the smaller of two runs; the larger one sends three times
    /// as many.
    pub(super) fn times(self) -> u64 {
        match self {
            Kind::Call => 300,
            _ => 2000,
        }
    }

    /// Returns the commands that create the data of the requests.
    pub(super) fn set_up(self) -> Commands {
        let mut commands = Commands::default();
        match self {
            Kind::Client | Kind::Ping | Kind::Pings => {}
            Kind::Call => commands.push(&[b"SOLERA.MODULE", b"LOAD", b"m", MODULE.as_bytes()]),
            Kind::Incr => {
                (0..self.keys()).for_each(|n| commands.push(&[b"SET", &self.key(n), b"1"]))
            }
            _ => (0..self.keys()).for_each(|n| commands.push(&[b"SET", &self.key(n), &VALUE])),
        }
        commands
    }

    /// Returns the request of this number.
    pub(super) fn request(self, number: u64) -> Commands {
        let mut commands = Commands::default();
        let key = |turn: u64| self.key(number * 7919 + turn);
        match self {
            Kind::Client | Kind::Ping => commands.push(&[b"PING"]),
            Kind::Pings => (0..10).for_each(|_| commands.push(&[b"PING"])),
            Kind::Get => commands.push(&[b"GET", &key(0)]),
            Kind::Set | Kind::StrongSet => commands.push(&[b"SET", &key(0), &VALUE]),
            Kind::Incr => commands.push(&[b"INCR", &key(0)]),
            Kind::Mset => {
                let keys: Vec<Vec<u8>> = (0..10).map(key).collect();
                let pairs = keys.iter().flat_map(|key| [key.as_slice(), &VALUE]);
                let words: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
                commands.push(&words);
            }
            Kind::Multi => {
                commands.push(&[b"MULTI"]);
                (0..5).for_each(|turn| commands.push(&[b"SET", &key(turn), &VALUE]));
                commands.push(&[b"EXEC"]);
            }
            Kind::Call => {
                let name = format!("c{}", number % 10);
                commands.push(&[b"SOLERA.CALL", b"m.add_both", name.as_bytes(), name.as_bytes()]);
            }
        }
        commands
    }

    /// Returns a transaction on keys of [`Kind::Get`], as consecutive batches.
    pub(super) fn transaction(number: u64, load: Load) -> [Commands; 3] {
        let mut commands: [Commands; 3] = Default::default();
        commands[0].push(&[b"SOLERA.BEGIN"]);
        for turn in 0..load.operations {
            let key = Kind::Get.key(number * 7919 + turn * 101);
            match load.writes {
                true => commands[1].push(&[b"SET", &key, &VALUE]),
                false => commands[1].push(&[b"GET", &key]),
            }
        }
        commands[2].push(&[b"SOLERA.COMMIT"]);
        commands
    }

    /// Returns the number of keys that requests choose from; all exist before the first request.
    fn keys(self) -> u64 {
        if self.waits_for_ticks() { 100 } else { 1000 }
    }

    fn key(self, number: u64) -> Vec<u8> {
        let space = if self == Kind::StrongSet { "strong:" } else { "" };
        format!("{space}key:{}", number % self.keys()).into_bytes()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let names = || Kind::ALL.map(Kind::name).join(", ");
        found.ok_or_else(|| {
            format!("'{name}' is none of the requests that are counted: {}", names())
        })
    }
}
