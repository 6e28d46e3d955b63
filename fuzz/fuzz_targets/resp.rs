//! The Redis protocol: no bytes cause a panic in a parser, and the result does not depend on how
//! they are split into pieces.
//!
//! The first byte of the input selects the length of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use solera_commands::lookup;
use solera_resp::{
    ProtocolError, ReplyError, ReplyParser, RequestParser, Value, Writer, encode_command,
};
use solera_session::describe;

fuzz_target!(|input: &[u8]| {
    let Some((piece, bytes)) = input.split_first() else { return };
    let piece = usize::from(*piece).max(1);

    let commands = requests(bytes, bytes.len().max(1));
    assert_eq!(commands, requests(bytes, piece));
    commands.1.iter().for_each(|command| check(command));

    // Compares their debug text, because NaN is not equal to itself.
    let (whole, cut) = (replies(bytes, bytes.len().max(1)), replies(bytes, piece));
    assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
});

type Commands = (Result<(), ProtocolError>, Vec<Vec<Vec<u8>>>);

fn requests(bytes: &[u8], piece: usize) -> Commands {
    let (mut parser, mut buffer, mut commands) = (RequestParser::new(), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&buffer) {
                Ok(None) => break,
                Ok(Some((arguments, used))) => {
                    assert!(used > 0, "a command without bytes would come again and again");
                    commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                    buffer.drain(..used);
                }
                Err(error) => return (Err(error), commands),
            }
        }
    }
    (Ok(()), commands)
}

/// Checks that a command can be encoded and parsed again, and that it can be described.
fn check(command: &[Vec<u8>]) {
    let Some(name) = command.first() else { return };
    let found = lookup(name);
    assert!(found.is_none_or(|found| found.name.as_bytes().eq_ignore_ascii_case(name)));
    let mut encoded = Vec::new();
    encode_command(&mut encoded, command);
    let mut parser = RequestParser::new();
    let parsed = parser.next(&encoded).expect("what is encoded is valid");
    let (arguments, used) = parsed.expect("what is encoded is complete");
    assert_eq!(used, encoded.len());
    assert!(arguments.from(0).eq(command.iter().map(Vec::as_slice)));
    if let Some(found) = found {
        describe(found, &mut Writer::default());
        // The access check looks for keys only if the number of arguments is valid.
        if found.takes(arguments.len()) {
            assert!(found.keys(arguments.from(0)).count() < arguments.len());
        }
    }
}

fn replies(bytes: &[u8], piece: usize) -> (Result<(), ReplyError>, Vec<Value>) {
    let (mut parser, mut buffer, mut values) = (ReplyParser::default(), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&buffer) {
                Ok(None) => break,
                Ok(Some((value, used))) => {
                    values.push(value);
                    buffer.drain(..used);
                }
                Err(error) => return (Err(error), values),
            }
        }
    }
    (Ok(()), values)
}
