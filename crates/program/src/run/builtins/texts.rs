//! Builtins of texts and bytes.

use super::lists::range;
use crate::builtin::Builtin;
use crate::run::args::Args;
use crate::run::failure::{FailureKind, malformed};
use crate::run::slot::{Meter, Slot};
use crate::value::Value;

pub(super) fn evaluate(
    builtin: Builtin,
    args: &Args<'_>,
    meter: &mut Meter,
) -> Result<Slot, FailureKind> {
    match (builtin, args.value(0)) {
        (Builtin::Join, list) => join(list, args.value(1), meter),
        (Builtin::ToString, value) => to_string(value),
        (Builtin::ToText, Value::Bytes(bytes)) => {
            meter.scan(bytes.len())?;
            let text = std::str::from_utf8(bytes).ok();
            Ok(Slot::made(text.map_or(Value::NONE, |text| Value::some(Value::string(text)))))
        }
        (_, Value::String(text)) => {
            meter.scan(text.len())?;
            match args.args.len() {
                1 => of_text(builtin, text),
                _ => of_texts(builtin, text, args.value(1), meter),
            }
        }
        (_, other) => Err(malformed("a method of strings", other)),
    }
}

fn of_text(builtin: Builtin, text: &str) -> Result<Slot, FailureKind> {
    let option = |value: Option<Value>| value.map_or(Value::NONE, Value::some);
    Ok(Slot::made(match builtin {
        Builtin::Upper => Value::string(text.to_ascii_uppercase()),
        Builtin::Lower => Value::string(text.to_ascii_lowercase()),
        Builtin::Trim => Value::string(text.trim()),
        Builtin::ParseInt => option(text.parse().ok().map(Value::Int)),
        Builtin::ParseFloat => option(text.parse().ok().map(super::super::arithmetic::float)),
        _ => Value::Bytes(text.as_bytes().into()),
    }))
}

fn of_texts(
    builtin: Builtin,
    text: &str,
    other: &Value,
    meter: &mut Meter,
) -> Result<Slot, FailureKind> {
    let Value::String(part) = other else {
        return Err(malformed("a search in a string", other));
    };
    meter.scan(part.len())?;
    match builtin {
        Builtin::Contains => Ok(super::truth(text.contains(&**part))),
        Builtin::StartsWith => Ok(super::truth(text.starts_with(&**part))),
        Builtin::EndsWith => Ok(super::truth(text.ends_with(&**part))),
        _ => split(text, part, meter),
    }
}

fn split(text: &str, separator: &str, meter: &mut Meter) -> Result<Slot, FailureKind> {
    if separator.is_empty() {
        return Err(FailureKind::EmptySeparator);
    }
    let mut parts = Vec::new();
    for part in text.split(separator) {
        // Each part is an allocation.
        meter.spend(2)?;
        parts.push(Value::string(part));
    }
    let mut made = Slot::made(Value::list(parts));
    meter.weigh(&mut made)?;
    Ok(made)
}

fn join(list: &Value, separator: &Value, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (Value::List(parts), Value::String(separator)) = (list, separator) else {
        return Err(malformed("`join`", list));
    };
    meter.elements(parts.len())?;
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        let Value::String(part) = part else {
            return Err(malformed("`join`", part));
        };
        // The size is checked before the result grows: a text that occurs many times in the list is
        // stored once there, but many times in the result.
        meter.room(text.len() + separator.len() + part.len())?;
        if index > 0 {
            text.push_str(separator);
        }
        text.push_str(part);
    }
    meter.bytes(text.len())?;
    Ok(Slot::made(Value::string(text)))
}

fn to_string(value: &Value) -> Result<Slot, FailureKind> {
    Ok(Slot::made(match value {
        Value::Bool(truth) => Value::string(truth.to_string()),
        Value::Int(number) => Value::string(number.to_string()),
        // The shortest text that parses to the same number, always with a point or an exponent.
        Value::Float(number) => Value::string(format!("{number:?}")),
        Value::String(_) => value.clone(),
        Value::Handle(handle) => Value::String(handle.key.clone()),
        other => return Err(malformed("`string`", other)),
    }))
}

pub(super) fn slice(args: &Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (Value::Int(from), Value::Int(to)) = (args.value(1), args.value(2)) else {
        return Err(malformed("`slice`", args.value(1)));
    };
    match args.value(0) {
        Value::Bytes(bytes) => {
            let part = &bytes[range(*from, *to, bytes.len())];
            meter.bytes(part.len())?;
            Ok(Slot::made(Value::Bytes(part.into())))
        }
        Value::String(text) => {
            meter.scan(text.len())?;
            // A text has at most as many characters as bytes.
            let chars = range(*from, *to, text.len());
            let byte = |text: &str, chars: usize| {
                text.char_indices().nth(chars).map_or(text.len(), |(byte, _)| byte)
            };
            let rest = &text[byte(text, chars.start)..];
            Ok(Slot::made(Value::string(&rest[..byte(rest, chars.len())])))
        }
        other => Err(malformed("`slice`", other)),
    }
}
