//! Replies.

use crate::integer::write_integer;

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol every connection starts with.
    #[default]
    Resp2,
    /// After `HELLO 3`: maps, sets and nulls are told apart.
    Resp3,
}

/// Appends replies to a connection's output.
#[derive(Debug, Default)]
pub struct Writer {
    /// What is to be sent.
    pub bytes: Vec<u8>,
    /// The protocol to speak.
    pub protocol: Protocol,
}

impl Writer {
    /// `+OK` and the like; `text` has no line breaks.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; `text` begins with its code. Line breaks become spaces.
    pub fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let clean = text.bytes().map(|byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte });
        self.bytes.extend(clean);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A number.
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Nothing.
    pub fn null(&mut self) {
        let null: &[u8] = match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        };
        self.bytes.extend_from_slice(null);
    }

    /// The head of an array; `len` replies follow.
    pub fn array(&mut self, len: usize) {
        self.number(b'*', len as i64);
    }

    /// The head of a set; `len` replies follow.
    pub fn set(&mut self, len: usize) {
        let head = if self.protocol == Protocol::Resp3 { b'~' } else { b'*' };
        self.number(head, len as i64);
    }

    /// The head of a map; `len` keys and values follow, in turns.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len * 2),
            Protocol::Resp3 => self.number(b'%', len as i64),
        }
    }

    fn number(&mut self, head: u8, number: i64) {
        self.bytes.push(head);
        write_integer(&mut self.bytes, number);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, head: u8, text: &[u8]) {
        self.bytes.push(head);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}
