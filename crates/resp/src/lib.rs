//! The Redis protocol, RESP2 and RESP3, without I/O: requests in, replies out, and the other way
//! round for clients.

mod access;
pub mod command;
mod commands;
mod inline;
mod integer;
mod introspection;
mod protocol_error;
mod reply_parser;
mod request;
mod similar;
mod value;
mod writer;

pub use access::{CATEGORIES, Unit};
pub use command::{Command, CommandId, lookup};
pub use integer::{parse_integer, write_integer};
pub use protocol_error::ProtocolError;
pub use reply_parser::{Limits, ReplyParser, parse_value};
pub use request::{Arguments, RequestParser, encode_command};
pub use similar::similar;
pub use value::{ReplyError, Value};
pub use writer::{Protocol, Writer};
