//! The Redis protocol, RESP2 and RESP3, without I/O: requests in, replies out, and the other way
//! round for clients.

pub mod command;
mod integer;
mod request;
mod value;
mod writer;

pub use command::{Command, CommandId, lookup};
pub use integer::{parse_integer, write_integer};
pub use request::{Arguments, ProtocolError, RequestParser, encode_command};
pub use value::{ReplyError, Value, parse_value};
pub use writer::{Protocol, Writer};
