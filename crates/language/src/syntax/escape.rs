//! Escape sequences in string and bytes literals.

use std::ops::Range;

/// Decodes the text between quotes to bytes: UTF-8, except in a `b"…"`. Calls `bad` with the offset
/// and a message for each invalid escape.
pub(crate) fn unescape(
    body: &str,
    bytes: bool,
    mut bad: impl FnMut(Range<usize>, &'static str),
) -> Vec<u8> {
    let mut meant = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(character) = rest.chars().next() {
        let at = body.len() - rest.len();
        if character != '\\' {
            let length = character.len_utf8();
            if bytes && !character.is_ascii() {
                bad(at..at + length, "bytes outside of ASCII are written as `\\xNN`");
            }
            meant.extend_from_slice(&rest.as_bytes()[..length]);
            rest = &rest[length..];
            continue;
        }
        let (length, escaped) = escape(rest, bytes);
        match escaped {
            Ok(Escaped::Byte(byte)) => meant.push(byte),
            Ok(Escaped::Char(c)) => meant.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(why) => bad(at..at + length, why),
        }
        rest = &rest[length..];
    }
    meant
}

enum Escaped {
    Byte(u8),
    Char(char),
}

/// Decodes the escape at the beginning of a text; returns its length and its meaning.
fn escape(text: &str, bytes: bool) -> (usize, Result<Escaped, &'static str>) {
    let Some(letter) = text[1..].chars().next() else {
        return (1, Err("a backslash needs a letter after it"));
    };
    let simple = |byte| (2, Ok(Escaped::Byte(byte)));
    match letter {
        'n' => simple(b'\n'),
        't' => simple(b'\t'),
        'r' => simple(b'\r'),
        '0' => simple(0),
        '\\' => simple(b'\\'),
        '"' => simple(b'"'),
        'x' if bytes => byte_escape(text),
        'x' => (2, Err("a string has no `\\x`: write `\\u{…}`, or bytes as `b\"…\"`")),
        'u' if bytes => (2, Err("bytes have no `\\u{…}`: write `\\xNN`")),
        'u' => char_escape(text),
        _ => {
            (1 + letter.len_utf8(), Err("the escapes are `\\n \\t \\r \\0 \\\\ \\\"` and `\\u{…}`"))
        }
    }
}

fn byte_escape(text: &str) -> (usize, Result<Escaped, &'static str>) {
    let digits = text.get(2..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
        Some(byte) => (4, Ok(Escaped::Byte(byte))),
        None => (2, Err("`\\x` takes two hexadecimal digits")),
    }
}

fn char_escape(text: &str) -> (usize, Result<Escaped, &'static str>) {
    // An escape has at most six digits.
    let end = text.bytes().take(10).position(|byte| byte == b'}');
    let digits = end.and_then(|end| text[2..end].strip_prefix('{'));
    let Some(digits) = digits else {
        return (2, Err("`\\u` takes a number in braces, as in `\\u{1F600}`"));
    };
    let hexadecimal = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let number = u32::from_str_radix(digits, 16).ok().filter(|_| hexadecimal);
    let meant = number.and_then(char::from_u32).map(Escaped::Char);
    (4 + digits.len(), meant.ok_or("this is not the number of a Unicode character"))
}

/// Quotes a text so that [`unescape`] decodes it.
pub(crate) fn quoted_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            '\r' => quoted += "\\r",
            '\0' => quoted += "\\0",
            '\\' => quoted += "\\\\",
            '"' => quoted += "\\\"",
            // Characters that are invisible or look like others.
            c if c.is_control() => quoted += &c.escape_unicode().to_string(),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Quotes bytes so that [`unescape`] decodes them.
pub(crate) fn quoted_bytes(bytes: &[u8]) -> String {
    let mut quoted = String::from("b\"");
    for &byte in bytes {
        match byte {
            b'\n' => quoted += "\\n",
            b'\\' => quoted += "\\\\",
            b'"' => quoted += "\\\"",
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted += &format!("\\x{byte:02x}"),
        }
    }
    quoted.push('"');
    quoted
}
