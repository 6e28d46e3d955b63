//! Encoding of values as bytes, in which stores keep them and other programs read them.
//!
//! The type determines the encoding:
//!
//! | type | bytes |
//! |---|---|
//! | `string` | itself, in UTF-8 |
//! | `bytes` | themselves |
//! | `int` | decimal digits |
//! | `float` | the shortest decimal number that reads as the same float: `0.1`, `1e300`; `NaN`, `inf`, `-inf` |
//! | `bool` | `true`, `false` |
//! | `handle<…> in s` | the key: the type knows the store |
//! | nothing | no bytes |
//! | all others | compact JSON |
//!
//! Within JSON, strings and handles are strings, bytes are strings of hexadecimal digits, floats
//! without a JSON number are the strings above; lists and sets are arrays, maps are arrays of
//! pairs, structs are objects with their fields in the order of the declaration; an option is
//! `null` or an array of one. Sets and maps are in ascending order. Equal values have equal bytes,
//! so that values can be elements of sets in stores that know only bytes.

mod reader;
mod writer;

use std::fmt;

use self::reader::Reader;
use self::writer::Writer;
use crate::ir::Program;
use crate::nesting::MAX_NESTING;
use crate::run::arithmetic::float;
use crate::run::{TypeMismatch, check_type, spell};
use crate::types::{StoreId, Type};
use crate::value::{Handle, Value};

/// Error of decoding bytes as a type, or of encoding a value that does not have the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// The input does not match the type.
    Unexpected {
        /// Description of the expected input.
        expected: String,
        /// Description of the input.
        found: String,
        /// Offset in the input, in bytes.
        offset: usize,
    },
    /// The input is JSON, but no value of the type has this content.
    Invalid {
        /// The problem.
        problem: String,
        /// Offset in the input, in bytes.
        offset: usize,
    },
    /// A handle contains the name of a store other than that of its type.
    OtherStore {
        /// The handle in the input.
        found: String,
        /// The store of the type.
        expected: String,
    },
    /// The value is nested deeper than [`MAX_NESTING`].
    TooDeep,
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::Unexpected { expected, found, offset: 0 } => {
                write!(f, "expected {expected}, found {found}")
            }
            CodecError::Unexpected { expected, found, offset } => {
                write!(f, "expected {expected}, found {found} at byte {}", offset + 1)
            }
            CodecError::Invalid { problem, offset } => {
                write!(f, "{problem} (at byte {})", offset + 1)
            }
            CodecError::OtherStore { found, expected } => {
                write!(f, "{found} is not a handle of `{expected}`")
            }
            CodecError::TooDeep => write!(f, "it is nested more than {MAX_NESTING} deep"),
        }
    }
}

impl std::error::Error for CodecError {}

/// Encodes and decodes values of a verified program's types.
#[derive(Clone, Copy, Debug)]
pub struct Codec<'a> {
    program: &'a Program,
}

/// Use of an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In stores, which keep one form of each value: handles are keys.
    Stored,
    /// In arguments and results of calls: handles have their store, which is optional on decoding,
    /// and an argument may be an object where a map has strings as keys.
    Call,
}

impl<'a> Codec<'a> {
    /// Creates a codec for values of a program.
    pub fn new(program: &'a Program) -> Codec<'a> {
        Codec { program }
    }

    /// Encodes a value for a store.
    ///
    /// # Errors
    /// Fails if the value does not have the type.
    pub fn encode(&self, value: &Value, ty: &Type) -> Result<Vec<u8>, CodecError> {
        self.write(value, ty, Form::Stored)
    }

    /// Decodes a value from a store.
    ///
    /// # Errors
    /// Fails if the bytes are not a value of the type.
    pub fn decode(&self, bytes: &[u8], ty: &Type) -> Result<Value, CodecError> {
        self.read(bytes, ty, Form::Stored)
    }

    /// Decodes an argument of a call. The encoding is that of [`encode`](Self::encode), but a
    /// handle may have its store before its key, as in `mail:inbox`, and a map with strings as keys
    /// may be a JSON object.
    ///
    /// # Errors
    /// Fails if the bytes are not a value of the type, or if a handle names another store of the
    /// program.
    pub fn argument(&self, bytes: &[u8], ty: &Type) -> Result<Value, CodecError> {
        self.read(bytes, ty, Form::Call)
    }

    /// Encodes a result of a call: handles have their store before their key, so that a later call
    /// accepts it as an argument.
    ///
    /// # Errors
    /// Fails if the value does not have the type.
    pub fn result(&self, value: &Value, ty: &Type) -> Result<Vec<u8>, CodecError> {
        self.write(value, ty, Form::Call)
    }

    fn write(&self, value: &Value, ty: &Type, form: Form) -> Result<Vec<u8>, CodecError> {
        check_type(self.program, value, ty).map_err(mismatch)?;
        let mut writer = Writer { program: self.program, form, out: Vec::new() };
        match value {
            Value::Unit => {}
            Value::String(text) => writer.out.extend_from_slice(text.as_bytes()),
            Value::Bytes(bytes) => writer.out.extend_from_slice(bytes),
            Value::Float(number) => writer.out.extend_from_slice(writer::float(*number).as_bytes()),
            Value::Handle(handle) => {
                let text = writer.handle(handle).into_owned();
                writer.out.extend_from_slice(text.as_bytes());
            }
            value => writer.json(value, ty),
        }
        Ok(writer.out)
    }

    fn read(&self, bytes: &[u8], ty: &Type, form: Form) -> Result<Value, CodecError> {
        let unexpected = || CodecError::Unexpected {
            expected: spell(self.program, ty),
            found: excerpt(bytes),
            offset: 0,
        };
        if *ty == Type::Bytes {
            return Ok(Value::Bytes(bytes.into()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| CodecError::Unexpected {
            expected: spell(self.program, ty),
            found: format!("{}, which is not UTF-8", excerpt(bytes)),
            offset: 0,
        })?;
        match ty {
            Type::Unit if text.is_empty() => Ok(Value::Unit),
            Type::Unit => Err(unexpected()),
            Type::Bool => text.parse().map(Value::Bool).map_err(|_| unexpected()),
            Type::Int => text.parse().map(Value::Int).map_err(|_| unexpected()),
            Type::Float => text.parse().map(float).map_err(|_| unexpected()),
            Type::String => Ok(Value::string(text)),
            Type::Handle(_, store) => self.handle(text, *store, form),
            _ => Reader::new(self, text, form).whole(ty),
        }
    }

    /// Decodes a handle of a store.
    fn handle(&self, text: &str, store: StoreId, form: Form) -> Result<Value, CodecError> {
        let expected = &self.program.stores[usize::from(store.0)].name;
        let key = match (form, text.split_once(':')) {
            (Form::Call, Some((prefix, key))) if *prefix == **expected => key,
            (Form::Call, Some((prefix, _))) if self.is_store(prefix) => {
                let (found, expected) = (excerpt(text.as_bytes()), expected.to_string());
                return Err(CodecError::OtherStore { found, expected });
            }
            // The text is a key that contains a colon.
            _ => text,
        };
        Ok(Value::Handle(Handle { store: expected.clone(), key: key.into() }))
    }

    fn is_store(&self, name: &str) -> bool {
        self.program.stores.iter().any(|store| *store.name == *name)
    }
}

fn mismatch(mismatch: TypeMismatch) -> CodecError {
    match mismatch {
        TypeMismatch::Kind { expected, found } => {
            CodecError::Unexpected { expected, found: found.to_owned(), offset: 0 }
        }
        TypeMismatch::Store { handle, expected } => CodecError::OtherStore {
            found: excerpt(handle.to_string().as_bytes()),
            expected: expected.to_string(),
        },
        TypeMismatch::TooDeep => CodecError::TooDeep,
    }
}

/// Returns the beginning of the input, for an error message.
fn excerpt(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]);
    let more = if bytes.len() > MOST { "…" } else { "" };
    let mut text = String::new();
    for c in shown.chars() {
        // Quotes and backslashes are shown as they are in the input.
        if c.is_control() { text.extend(c.escape_debug()) } else { text.push(c) }
    }
    format!("`{text}{more}`")
}
