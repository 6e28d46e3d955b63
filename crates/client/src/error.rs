use std::fmt;

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The connection could not be made, or broke. Whether the last command took effect is unknown.
    Connection(std::io::Error),
    /// The other side does not speak RESP.
    Protocol(String),
    /// The server refused; the code is its first word, such as `WRONGTYPE`, `TIMEOUT` or `LOST`.
    Server {
        /// The error's code.
        code: String,
        /// What the server says.
        message: String,
    },
    /// The reply is of another type than the command promises.
    UnexpectedReply(String),
    /// The cluster in this process could not start.
    Start(String),
}

impl Error {
    /// The server's error code, if the server refused.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Server { code, .. } => Some(code),
            _ => None,
        }
    }

    /// The error that an error reply stands for.
    pub fn server(text: &str) -> Self {
        let (code, message) = text.split_once(' ').unwrap_or((text, ""));
        Error::Server { code: code.to_owned(), message: message.to_owned() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Connection(error) => write!(f, "the connection failed: {error}"),
            Error::Protocol(reason) => write!(f, "the server does not speak RESP: {reason}"),
            Error::Server { code, message } => write!(f, "{code} {message}"),
            Error::UnexpectedReply(reply) => write!(f, "unexpected reply: {reply}"),
            Error::Start(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Connection(error)
    }
}
