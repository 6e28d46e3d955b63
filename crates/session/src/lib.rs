//! Sessions of clients: rights, pasts, transactions, and the implementation of each command.
//!
//! A session is open at a worker, which it uses through [`Context`]. It receives commands of
//! clients as byte strings and writes replies as RESP; the server owns the connections. Server-side
//! code sends [`Command`]s and receives [`Answer`]s.

mod batch;
mod client;
mod commands;
mod context;
mod counts;
mod delegation;
mod finals;
mod identity;
mod plan;
mod returned;
mod run;
mod scan;
mod session;
mod ticket;
mod token;
mod typed;

pub use batch::{Answer, Answers, Batch, Command, Sendable};
pub use client::{Client, ClientInfo, Ends};
pub use commands::{
    Abort, Attach, AttachHorizon, AttachUntil, Begin, Commit, Horizon, OnKey, Outcome, Speculate,
    TakeToken, Txid, Watch, describe,
};
pub use context::{
    AskBound, Bound, Context, FromSpeculative, LogEntry, PeerTimeout, SPECULATIVE_WORKER, Single,
    SitesReport, SpeculativeState, ToPrimary, ToSpeculative, Unreachable, What,
};
pub use counts::{Attempts, INTERVAL_FAILURES, READ_LEVELS, ReadCounts};
pub use delegation::Delegation;
pub use finals::{FinalAnswer, FinalExports, FinalState, FinalStep};
pub use identity::{Identity, Refused, hash_password, verify};
pub use scan::{Ask, Cursor, Page, Scans};
pub use session::{ClientSession, Next, TransactionKind, scheme};
pub use solera_creek::Level as CallLevel;
pub use token::{Token, TokenError};
pub use typed::Typed;
