//! The Redis protocol, RESP2 and RESP3, without I/O. Servers parse requests and write replies;
//! clients encode requests and parse replies.

mod inline;
mod integer;
mod protocol_error;
mod reply_parser;
mod request;
mod value;
mod writer;

pub use integer::{parse_integer, write_integer};
pub use protocol_error::ProtocolError;
pub use reply_parser::{Limits, ReplyParser, parse_value};
pub use request::{Arguments, RequestParser, encode_command};
pub use value::{ReplyError, Value};
pub use writer::{Protocol, Writer};
