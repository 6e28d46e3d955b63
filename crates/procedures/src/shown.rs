//! Results of calls, as clients see them.

use serde::{Deserialize, Serialize};
use solera_data::Value as Bytes;
use solera_program::codec::Codec;
use solera_program::ir::Program;
use solera_program::types::Type;
use solera_program::value::Value;

/// A result that describes itself: a site that does not know the program can show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Shown {
    /// The transaction has no result.
    Done,
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text, bytes, or a handle in the form of an argument.
    Bytes(Bytes),
    /// A list.
    List(Vec<Shown>),
    /// A set.
    Set(Vec<Shown>),
    /// A map, or the names and values of a struct.
    Map(Vec<(Shown, Shown)>),
}

impl Shown {
    /// Converts a result of a program.
    ///
    /// # Errors
    /// The problem, if the value is not of the type.
    pub(crate) fn of(program: &Program, value: &Value, ty: &Type) -> Result<Shown, String> {
        let one = |value: &Value, ty: &Type| Shown::of(program, value, ty);
        Ok(match (value, ty) {
            (Value::Unit, _) => Shown::Done,
            (Value::Bool(truth), _) => Shown::Bool(*truth),
            (Value::Int(number), _) => Shown::Int(*number),
            (Value::Float(number), _) => Shown::Float(*number),
            (Value::String(text), _) => Shown::Bytes(Bytes::from(text.as_bytes())),
            (Value::Bytes(bytes), _) => Shown::Bytes(Bytes::from(&bytes[..])),
            (Value::Option(None), _) => Shown::Null,
            (Value::Option(Some(value)), Type::Option(of)) => one(value, of)?,
            (Value::List(values), Type::List(of)) => {
                Shown::List(values.iter().map(|value| one(value, of)).collect::<Result<_, _>>()?)
            }
            (Value::Set(values), Type::Set(of)) => {
                Shown::Set(values.iter().map(|value| one(value, of)).collect::<Result<_, _>>()?)
            }
            (Value::Map(pairs), Type::Map(key, of)) => {
                let pair = |(k, v): (&Value, &Value)| Ok::<_, String>((one(k, key)?, one(v, of)?));
                Shown::Map(pairs.iter().map(pair).collect::<Result<_, _>>()?)
            }
            (Value::Struct(values), Type::Struct(id)) => {
                let fields = &program.structs[usize::from(id.0)].fields;
                let field = |((name, ty), value): (&(_, Type), &Value)| {
                    let name: &std::sync::Arc<str> = name;
                    Ok::<_, String>((Shown::Bytes(Bytes::from(name.as_bytes())), one(value, ty)?))
                };
                Shown::Map(fields.iter().zip(&**values).map(field).collect::<Result<_, _>>()?)
            }
            (value, ty) => {
                let bytes = Codec::new(program).result(value, ty);
                Shown::Bytes(Bytes::from(bytes.map_err(|error| error.to_string())?))
            }
        })
    }
}
