//! Writing of replies. No I/O.

use solera_resp::{Value, Writer};

/// Writes a value as a reply.
pub(super) fn write(writer: &mut Writer, value: &Value) {
    let all = |writer: &mut Writer, values: &[Value]| {
        values.iter().for_each(|value| write(writer, value));
    };
    match value {
        Value::Null => writer.null(),
        Value::Simple(text) => writer.simple(text),
        Value::Error(text) => writer.error(text),
        Value::Integer(number) => writer.integer(*number),
        Value::Bulk(bytes) => writer.bulk(bytes),
        Value::Array(values) => {
            writer.array(values.len());
            all(writer, values);
        }
        Value::Set(values) => {
            writer.set(values.len());
            all(writer, values);
        }
        Value::Push(values) => {
            writer.push(values.len());
            all(writer, values);
        }
        Value::Map(pairs) => {
            writer.map(pairs.len());
            for (key, value) in pairs {
                write(writer, key);
                write(writer, value);
            }
        }
        Value::Double(number) => writer.double(*number),
        Value::Boolean(value) => writer.boolean(*value),
        Value::BigNumber(digits) => writer.bulk(digits.as_bytes()),
        Value::Verbatim { format, text } => writer.verbatim(*format, text),
    }
}

/// Returns the reply of a text.
pub(super) fn bulk(text: impl Into<Vec<u8>>) -> Value {
    Value::Bulk(text.into())
}

/// Returns the reply `OK`.
pub(super) fn ok() -> Value {
    Value::Simple("OK".to_owned())
}
