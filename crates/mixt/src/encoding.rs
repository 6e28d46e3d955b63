//! What databases share that keep objects as bytes: values as
//! [`Codec`](solera_program::codec::Codec) writes them, and fields by their names.

use std::sync::Arc;

use solera_program::codec::CodecError;
use solera_program::keys::{Call, CallError};
use solera_program::types::{Object, Type};

use crate::request::calls::{ObjectCall, StoreError};

impl ObjectCall {
    /// What is called, apart from the key.
    pub fn on_object(&self) -> Call<'_> {
        Call {
            program: &self.program,
            object: self.object(),
            op: self.op,
            args: &self.args,
            result: &self.result,
        }
    }

    /// The name and the type of a field of what the call is about, as [`Call::field`] tells them.
    ///
    /// # Errors
    /// If there is no such field.
    pub fn field(&self, index: u16) -> Result<(Vec<u8>, Type), StoreError> {
        self.on_object().field(index).map_err(|error| self.failed(error, ""))
    }

    /// An argument as it is kept, if it is there. A handle may be of [`Type::Unknown`].
    ///
    /// # Errors
    /// If there is no such argument, or it is not of the type.
    pub fn encode(&self, at: usize, ty: &Type) -> Result<Vec<u8>, StoreError> {
        self.on_object().argument(at, ty).map_err(|error| self.failed(error, ""))
    }

    /// What is told where a call cannot be done; `wanted` is what the object is called.
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

    /// What is told where bytes are no value of the type that the program takes them for; `wanted`
    /// is what the object is called.
    pub fn unreadable(&self, error: &CodecError, wanted: &str) -> StoreError {
        let (found, wanted) = match error {
            CodecError::Unexpected { expected, found, .. } => (found.clone(), expected.clone()),
            other => (other.to_string(), wanted.to_owned()),
        };
        StoreError::WrongData { key: Arc::clone(&self.key), found, wanted }
    }

    /// What is told where the object does not have the operation. The compiler lets no such call
    /// through.
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
        StoreError::Refused(format!("{:?} cannot be done with {object}", self.op))
    }
}
