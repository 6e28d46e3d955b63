//! What databases share that keep objects as bytes: values as [`Codec`] writes them, and fields by their names.

use std::sync::Arc;

use solera_program::codec::{Codec, CodecError};
use solera_program::objects::{REMOTE_LIST_NEXT, REMOTE_LIST_VALUE};
use solera_program::types::{Object, Type};
use solera_program::value::Value;

use crate::store::{ObjectCall, StoreError};

impl ObjectCall {
    /// The name and the type of a field of what the call is about: a struct, or a cell of a `RemoteList`, whose `next` is
    /// [`Type::Unknown`].
    ///
    /// # Errors
    /// If there is no such field.
    pub fn field(&self, index: u16) -> Result<(Vec<u8>, Type), StoreError> {
        let found = match (self.object(), index) {
            (Object::Struct(id), _) => {
                let fields = &self.program.structs[usize::from(id.0)].fields;
                let field = fields.get(usize::from(index));
                field.map(|(name, ty)| (name.as_bytes().to_vec(), ty.clone()))
            }
            (Object::RemoteList(of), REMOTE_LIST_VALUE) => Some((b"v".to_vec(), of.clone())),
            // The handle is one of the same store, and written as its key.
            (Object::RemoteList(_), REMOTE_LIST_NEXT) => Some((b"next".to_vec(), Type::Unknown)),
            _ => None,
        };
        found.ok_or_else(|| self.impossible())
    }

    /// An argument as it is kept, if it is there. A handle may be of [`Type::Unknown`].
    ///
    /// # Errors
    /// If there is no such argument, or it is not of the type.
    pub fn encode(&self, at: usize, ty: &Type) -> Result<Vec<u8>, StoreError> {
        match self.args.get(at) {
            Some(Value::Handle(handle)) if *ty == Type::Unknown => {
                Ok(handle.key.as_bytes().to_vec())
            }
            Some(value) => {
                let encoded = Codec::new(&self.program).encode(value, ty);
                encoded.map_err(|error| StoreError::Refused(error.to_string()))
            }
            None => Err(self.impossible()),
        }
    }

    /// What is told where bytes are no value of the type that the program takes them for; `wanted` is what the object is
    /// called.
    pub fn unreadable(&self, error: &CodecError, wanted: &str) -> StoreError {
        let (found, wanted) = match error {
            CodecError::Unexpected { expected, found, .. } => (found.clone(), expected.clone()),
            other => (other.to_string(), wanted.to_owned()),
        };
        StoreError::WrongData { key: Arc::clone(&self.key), found, wanted }
    }

    /// What is told where the object does not have the operation. The compiler lets no such call through.
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
