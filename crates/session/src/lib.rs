//! Sessions of clients: what they may do, what they have seen, their transactions, and what each
//! command means.
//!
//! A session is open at a worker, of which it needs what [`Context`] names. Commands of clients
//! come as byte strings and replies leave as RESP; connections are the server's. Server-side code
//! sends [`Command`]s and gets [`Answer`]s.

mod batch;
mod client;
mod commands;
mod context;
mod identity;
mod lent;
mod plan;
mod run;
mod scan;
mod session;
mod token;
mod typed;

pub use batch::{Answer, Answers, Batch, Command, Sendable};
pub use client::{Client, ClientInfo, Ends};
pub use commands::{
    Abort, Attach, AttachHorizon, AttachUntil, Begin, Commit, Horizon, OnKey, Outcome, TakeToken,
    Txid, Watch, describe,
};
pub use context::{Context, PeerTimeout, Single, SitesReport, ToPrimary, Unreachable};
pub use identity::{Identity, Refused, hash_password, verify};
pub use lent::{Lent, is_reserved};
pub use scan::{Ask, Cursor, Page, Scans};
pub use session::{Next, Session};
pub use token::{Token, TokenError};
pub use typed::Typed;
