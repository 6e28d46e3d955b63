//! Writes of strings in an open transaction, which buffers them. No I/O.

use solera_resp::{Value, parse_integer};

use super::replies::{bulk, ok};
use crate::commands::Call;
use crate::error::Error;

/// Effect of a command on a string: its reply, and the new value unless it changes nothing. The
/// new value is `None` if the key is removed.
pub(super) type Effect = (Value, Option<Option<Vec<u8>>>);

/// Executes a command that writes a string, on its present value.
pub(super) fn execute(call: &Call, present: Option<Vec<u8>>) -> Result<Effect, Error> {
    let value = || present.clone().map_or(Value::Null, Value::Bulk);
    let word = |at: usize| call.words.get(at).cloned().unwrap_or_default();
    let name = String::from_utf8_lossy(&call.words[0]).into_owned();
    let by = |sign: i64| {
        let number = parse_integer(&word(1)).and_then(|number| number.checked_mul(sign));
        number.ok_or_else(not_an_integer)
    };
    match name.as_str() {
        "SET" => set(call, present),
        "SETNX" if present.is_some() => Ok((Value::Integer(0), None)),
        "SETNX" => Ok((Value::Integer(1), Some(Some(word(1))))),
        "GETSET" => Ok((value(), Some(Some(word(1))))),
        "GETDEL" => Ok((value(), present.is_some().then_some(None))),
        "DEL" | "UNLINK" => {
            let removed = present.is_some();
            Ok((Value::Integer(removed.into()), removed.then_some(None)))
        }
        "APPEND" => {
            let all = [present.unwrap_or_default(), word(1)].concat();
            Ok((Value::Integer(all.len() as i64), Some(Some(all))))
        }
        "INCR" => add(present, 1),
        "DECR" => add(present, -1),
        "INCRBY" => add(present, by(1)?),
        "DECRBY" => add(present, by(-1)?),
        _ => Err(Error::Refused(format!(
            "{name} cannot be used after SOLERA.BEGIN: the transaction buffers writes of strings \
             only (use MULTI and EXEC)"
        ))),
    }
}

fn set(call: &Call, present: Option<Vec<u8>>) -> Result<Effect, Error> {
    let mut condition = true;
    let mut old = false;
    for option in &call.words[2..] {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => condition &= present.is_none(),
            b"XX" => condition &= present.is_some(),
            b"GET" => old = true,
            option => {
                return Err(Error::Refused(format!(
                    "SET with {} cannot be used after SOLERA.BEGIN",
                    String::from_utf8_lossy(option)
                )));
            }
        }
    }
    let reply = match (old, condition) {
        (true, _) => present.map_or(Value::Null, Value::Bulk),
        (false, true) => ok(),
        (false, false) => Value::Null,
    };
    Ok((reply, condition.then(|| call.words.get(1).cloned())))
}

fn add(present: Option<Vec<u8>>, by: i64) -> Result<Effect, Error> {
    let number = present.map_or(Some(0), |text| parse_integer(&text)).ok_or_else(not_an_integer)?;
    let sum = number.checked_add(by);
    let sum =
        sum.ok_or_else(|| Error::Refused("increment or decrement would overflow".to_owned()))?;
    let Value::Bulk(digits) = bulk(sum.to_string()) else { return Err(not_an_integer()) };
    Ok((Value::Integer(sum), Some(Some(digits))))
}

fn not_an_integer() -> Error {
    Error::Refused("value is not an integer or out of range".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &str, present: Option<&str>) -> Result<Effect, Error> {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        execute(&Call::new(&words).unwrap(), present.map(|text| text.as_bytes().to_vec()))
    }

    #[test]
    fn strings_change_as_in_redis() {
        let to = |text: &str| Some(Some(text.as_bytes().to_vec()));
        assert_eq!(run("SET k 1", None), Ok((ok(), to("1"))));
        assert_eq!(run("SET k 1 NX", Some("0")), Ok((Value::Null, None)));
        assert_eq!(run("SET k 1 XX GET", Some("0")), Ok((bulk("0"), to("1"))));
        assert_eq!(run("INCRBY k 5", Some("-2")), Ok((Value::Integer(3), to("3"))));
        assert_eq!(run("DECR k", None), Ok((Value::Integer(-1), to("-1"))));
        assert_eq!(run("APPEND k b", Some("a")), Ok((Value::Integer(2), to("ab"))));
        assert_eq!(run("DEL k", Some("a")), Ok((Value::Integer(1), Some(None))));
        assert_eq!(run("DEL k", None), Ok((Value::Integer(0), None)));
        assert_eq!(run("GETDEL k", Some("a")), Ok((bulk("a"), Some(None))));
        assert_eq!(run("SETNX k 1", None), Ok((Value::Integer(1), to("1"))));
    }

    #[test]
    fn what_cannot_be_buffered_is_refused() {
        let refused = ["INCR k", "HSET k a 1", "SET k 1 EX 5", "DECRBY k -9223372036854775808"];
        for words in refused {
            assert!(matches!(run(words, Some("x")), Err(Error::Refused(_))), "{words}");
        }
        assert!(run("INCR k", Some("9223372036854775807")).is_err());
    }
}
