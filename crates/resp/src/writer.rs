//! Encoding of replies.

use crate::integer::write_integer;

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol of every new connection.
    #[default]
    Resp2,
    /// The protocol after `HELLO 3`, which distinguishes maps, sets and nulls.
    Resp3,
}

/// Appends replies to a connection's output.
#[derive(Debug, Default)]
pub struct Writer {
    /// Output to send.
    pub bytes: Vec<u8>,
    /// Protocol of the output.
    pub protocol: Protocol,
}

impl Writer {
    /// Creates a writer without output.
    pub fn new(protocol: Protocol) -> Self {
        Writer { bytes: Vec::new(), protocol }
    }

    /// Appends a simple string such as `+OK`. Line breaks become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// Appends an error; `text` begins with its code. Line breaks become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    /// Appends an integer.
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// Appends a bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends a null.
    pub fn null(&mut self) {
        let null: &[u8] = match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        };
        self.bytes.extend_from_slice(null);
    }

    /// Appends a null in place of an array, as EXEC returns when it is aborted.
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.bytes.extend_from_slice(b"*-1\r\n"),
            Protocol::Resp3 => self.null(),
        }
    }

    /// Appends a boolean; one or zero in RESP2.
    pub fn boolean(&mut self, value: bool) {
        let boolean: &[u8] = match (self.protocol, value) {
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
        };
        self.bytes.extend_from_slice(boolean);
    }

    /// Appends a floating-point number, with the fewest digits that are read back as the same
    /// number; a bulk string in RESP2.
    pub fn double(&mut self, number: f64) {
        let text = decimal(number);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => self.line(b',', &text),
        }
    }

    /// Appends text for users, in a format of three letters such as `txt` or `mkd`; a bulk string
    /// in RESP2.
    pub fn verbatim(&mut self, format: [u8; 3], text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.number(b'=', text.len() as i64 + 4);
                self.bytes.extend_from_slice(&format);
                self.bytes.push(b':');
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Appends the head of an array; `len` replies follow.
    pub fn array(&mut self, len: usize) {
        self.number(b'*', len as i64);
    }

    /// Appends the head of a set; `len` replies follow.
    pub fn set(&mut self, len: usize) {
        let head = if self.protocol == Protocol::Resp3 { b'~' } else { b'*' };
        self.number(head, len as i64);
    }

    /// Appends the head of a map; `len` pairs of a key and a value follow.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len * 2),
            Protocol::Resp3 => self.number(b'%', len as i64),
        }
    }

    /// Appends the head of a push message, or of an array in RESP2; `len` replies follow.
    pub fn push(&mut self, len: usize) {
        let head = if self.protocol == Protocol::Resp3 { b'>' } else { b'*' };
        self.number(head, len as i64);
    }

    fn number(&mut self, head: u8, number: i64) {
        self.bytes.push(head);
        write_integer(&mut self.bytes, number);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, head: u8, text: &str) {
        self.bytes.push(head);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        // A line break would make the rest of the text look like another reply.
        for byte in &mut self.bytes[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Formats a number as Redis does: `inf`, `-inf`, `nan`, and exponents for very large and small
/// numbers.
fn decimal(number: f64) -> String {
    let magnitude = number.abs();
    if number.is_nan() {
        "nan".to_owned()
    } else if magnitude == 0.0 || magnitude.is_infinite() || (1e-5..1e17).contains(&magnitude) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut Writer)) -> [String; 2] {
        [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut writer = Writer::new(protocol);
            write(&mut writer);
            String::from_utf8(writer.bytes).unwrap()
        })
    }

    #[test]
    fn replies_are_written_in_either_protocol() {
        type Case = (fn(&mut Writer), &'static str, &'static str);
        let cases: &[Case] = &[
            (|w| w.simple("OK"), "+OK\r\n", "+OK\r\n"),
            (|w| w.error("ERR no"), "-ERR no\r\n", "-ERR no\r\n"),
            (|w| w.integer(-42), ":-42\r\n", ":-42\r\n"),
            (|w| w.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (|w| w.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|w| w.null(), "$-1\r\n", "_\r\n"),
            (|w| w.null_array(), "*-1\r\n", "_\r\n"),
            (|w| w.array(2), "*2\r\n", "*2\r\n"),
            (|w| w.set(2), "*2\r\n", "~2\r\n"),
            (|w| w.map(2), "*4\r\n", "%2\r\n"),
            (|w| w.push(2), "*2\r\n", ">2\r\n"),
            (|w| w.boolean(true), ":1\r\n", "#t\r\n"),
            (|w| w.boolean(false), ":0\r\n", "#f\r\n"),
            (|w| w.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|w| w.double(10.0), "$2\r\n10\r\n", ",10\r\n"),
            (|w| w.double(1e300), "$5\r\n1e300\r\n", ",1e300\r\n"),
            (|w| w.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
            (|w| w.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
            (|w| w.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n"),
            (|w| w.verbatim(*b"txt", "hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(both(write), [*resp2, *resp3]);
        }
    }

    #[test]
    fn text_cannot_break_out_of_its_line() {
        assert_eq!(both(|w| w.error("ERR a\r\n+OK"))[0], "-ERR a  +OK\r\n");
        assert_eq!(both(|w| w.simple("a\r\n+OK"))[0], "+a  +OK\r\n");
    }
}
