//! A connection's bytes in two pieces yield the same commands as in one, and never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use solera_resp::RequestParser;

fn commands(pieces: &[&[u8]]) -> (Vec<Vec<Vec<u8>>>, bool) {
    let (mut parser, mut buffer, mut found) = (RequestParser::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&buffer) {
                Ok(None) => break,
                Ok(Some((arguments, used))) => {
                    found.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                    buffer.drain(..used);
                }
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

fuzz_target!(|input: (usize, Vec<u8>)| {
    let (at, bytes) = input;
    let (head, tail) = bytes.split_at(if bytes.is_empty() { 0 } else { at % bytes.len() });
    assert_eq!(commands(&[&bytes]), commands(&[head, tail]));
});
