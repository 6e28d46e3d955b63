//! Encoding for databases that keep objects as bytes: values as
//! [`Codec`](solera_program::codec::Codec) writes them, and fields by their names.

use std::sync::Arc;

use solera_program::codec::CodecError;
use solera_program::keys::{Call, CallError};
use solera_program::types::{Object, Type};

use crate::request::calls::{ObjectCall, StoreError};

impl ObjectCall {
    /// Returns the call without the key.
    pub fn on_object(&self) -> Call<'_> {
        Call {
            program: &self.program,
            object: self.object(),
            op: self.op,
            args: &self.args,
            result: &self.result,
        }
    }

    /// Returns the name and the type of a field of the object, as [`Call::field`] does.
    ///
    /// # Errors
    /// If there is no such field.
    pub fn field(&self, index: u16) -> Result<(Vec<u8>, Type), StoreError> {
        self.on_object().field(index).map_err(|error| self.failed(error, ""))
    }

    /// Encodes an argument as databases keep it. A handle may be of [`Type::Unknown`].
    ///
    /// # Errors
    /// If there is no such argument, or it does not have the type.
    pub fn encode(&self, at: usize, ty: &Type) -> Result<Vec<u8>, StoreError> {
        self.on_object().argument(at, ty).map_err(|error| self.failed(error, ""))
    }

    /// Returns the error for a call that failed; `wanted` describes the object.
    pub fn failed(&self, error: CallError, wanted: &str) -> StoreError {
        match error {
            CallError::Impossible => self.impossible(),
            CallError::Argument(error) => StoreError::Refused(error.to_string()),
            CallError::Unreadable(error) => self.unreadable(&error, wanted),
            CallError::Unexpected(outcome) => {
                StoreError::Refused(format!("it answers {outcome:?}"))
            }
        }
    }

    /// Returns the error for bytes that are not a value of the expected type; `wanted` describes
    /// the object.
    pub fn unreadable(&self, error: &CodecError, wanted: &str) -> StoreError {
        let (found, wanted) = match error {
            CodecError::Unexpected { expected, found, .. } => (found.clone(), expected.clone()),
            other => (format!("unreadable data ({other})"), wanted.to_owned()),
        };
        StoreError::WrongData { key: Arc::clone(&self.key), found, wanted }
    }

    /// Returns the error for an operation that the object does not have. The compiler rejects such
    /// calls.
    pub fn impossible(&self) -> StoreError {
        let object = match self.object() {
            Object::Register(_) => "a register",
            Object::Counter => "a counter",
            Object::Set(_) => "a set",
            Object::Map(..) => "a map",
            Object::List(_) => "a list",
            Object::Log(_) => "a log",
            Object::Struct(_) => "a struct",
            Object::RemoteList(_) => "a cell of a RemoteList",
        };
        StoreError::Refused(format!("{object} has no operation {:?}", self.op))
    }
}
