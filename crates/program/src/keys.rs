//! Maps objects of programs to keys of Solera's spaces: translates operations on objects to
//! operations on keys, and their outcomes back.
//!
//! | object | key |
//! |---|---|
//! | register | string: the value |
//! | counter | string: the number, as INCRBY keeps it |
//! | set | set of values |
//! | map | hash: values by their keys |
//! | struct | hash: values by the names of the fields |
//! | list, log | hash: values by unique names, whose order is that of the list |
//!
//! [`Codec`] encodes the values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_data::{Op, Operation, Outcome, Type as KeyType, Value as Bytes};

use crate::codec::{Codec, CodecError};
use crate::ir::Program;
use crate::objects::{REMOTE_LIST_NEXT, REMOTE_LIST_VALUE};
use crate::operation::ObjectOp;
use crate::types::{Object, Type};
use crate::value::Value;

/// Field of a struct without fields, so that its key exists.
const NO_FIELDS: &[u8] = b"";

/// A program's call of an operation on an object.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The program, for the structs of its types.
    pub program: &'a Program,
    /// Type of the object.
    pub object: &'a Object,
    /// The operation.
    pub op: ObjectOp,
    /// The arguments.
    pub args: &'a [Value],
    /// Type of the result.
    pub result: &'a Type,
}

/// Error of translating a call to an operation on a key, or an outcome to a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The object has no such operation, or arguments are missing. The compiler rejects such calls.
    Impossible,
    /// An argument is not of the type that the operation takes.
    Argument(CodecError),
    /// The key holds bytes that are not a value of the program's type.
    Unreadable(CodecError),
    /// The operation cannot have this outcome.
    Unexpected(Outcome),
}

/// Returns the type of the key that holds an object.
pub fn type_of(object: &Object) -> KeyType {
    match object {
        Object::Register(_) | Object::Counter => KeyType::String,
        Object::Set(_) => KeyType::Set,
        Object::Map(..)
        | Object::List(_)
        | Object::Log(_)
        | Object::Struct(_)
        | Object::RemoteList(_) => KeyType::Hash,
    }
}

/// Returns the operation on the key; `None` if the object does not have the operation.
pub fn operation_of(object: &Object, op: ObjectOp) -> Option<Operation> {
    Some(match (object, op) {
        (_, ObjectOp::Exists) => Operation::Exists,
        (_, ObjectOp::Delete) => Operation::Delete,
        (Object::Register(_), ObjectOp::Get | ObjectOp::Load)
        | (Object::Counter, ObjectOp::Value) => Operation::Get,
        (Object::Register(_), ObjectOp::Put) => Operation::Set,
        (Object::Counter, ObjectOp::Increment) => Operation::Add,
        (Object::Set(_), ObjectOp::Insert) => Operation::SetAdd,
        (Object::Set(_), ObjectOp::Remove) => Operation::SetRemove,
        (Object::Set(_), ObjectOp::Contains) => Operation::SetContains,
        (Object::Set(_), ObjectOp::Elements) => Operation::SetMembers,
        (Object::Set(_), ObjectOp::Size) => Operation::SetLen,
        (Object::Map(..), ObjectOp::PutKey)
        | (Object::List(_) | Object::Log(_), ObjectOp::Append)
        | (Object::Struct(_) | Object::RemoteList(_), ObjectOp::PutField(_) | ObjectOp::Create) => {
            Operation::HashSet
        }
        (Object::Map(..), ObjectOp::RemoveKey) => Operation::HashDelete,
        (Object::Map(..), ObjectOp::GetKey | ObjectOp::ContainsKey)
        | (Object::Struct(_) | Object::RemoteList(_), ObjectOp::Field(_)) => Operation::HashGet,
        (Object::Map(..), ObjectOp::Entries | ObjectOp::Size)
        | (Object::List(_) | Object::Log(_), ObjectOp::At | ObjectOp::Values | ObjectOp::Size) => {
            Operation::HashGetAll
        }
        _ => return None,
    })
}

/// Returns all operations on the key that an operation on an object needs: one that replaces or
/// removes the key must read its type before.
pub fn operations_of(object: &Object, op: ObjectOp) -> impl Iterator<Item = Operation> {
    let operation = operation_of(object, op);
    let before = operation.filter(|operation| is_blind(*operation)).map(|_| Operation::TypeOf);
    operation.into_iter().chain(before)
}

/// Returns whether an operation replaces or removes a key without checking its type.
pub fn is_blind(operation: Operation) -> bool {
    operation.is_update() && operation.needs().is_none()
}

/// Describes an object and the type that it is stored as.
pub fn describe(object: &Object) -> &'static str {
    match object {
        Object::Register(_) => "a register (string)",
        Object::Counter => "a counter (string)",
        Object::Set(_) => "a set",
        Object::Map(..) => "a map (hash)",
        Object::List(_) => "a list (hash)",
        Object::Log(_) => "a log (hash)",
        Object::Struct(_) => "a struct (hash)",
        Object::RemoteList(_) => "a cell of a RemoteList (hash)",
    }
}

impl Call<'_> {
    /// Returns the operation on the object's key. `name` generates the field name of an element
    /// appended to a list: a unique name that is greater than those of the previous elements.
    ///
    /// # Errors
    /// [`CallError::Impossible`] and [`CallError::Argument`].
    pub fn on_key(&self, name: impl FnOnce() -> Vec<u8>) -> Result<Op, CallError> {
        let arg = |at: usize, ty: &Type| Ok(Bytes::from(self.argument(at, ty)?));
        Ok(match operation_of(self.object, self.op).ok_or(CallError::Impossible)? {
            Operation::Exists => Op::Exists,
            Operation::Delete => Op::Delete,
            Operation::Get => Op::Get,
            Operation::SetMembers => Op::SetMembers,
            Operation::SetLen => Op::SetLen,
            Operation::HashGetAll => Op::HashGetAll,
            Operation::Add => match self.args {
                [Value::Int(by)] => Op::IncrBy(*by),
                _ => return Err(CallError::Impossible),
            },
            operation => match (operation, self.object) {
                (Operation::Set, Object::Register(of)) => Op::Set(arg(0, of)?),
                (Operation::SetAdd, Object::Set(of)) => Op::SetAdd(vec![arg(0, of)?]),
                (Operation::SetRemove, Object::Set(of)) => Op::SetRemove(vec![arg(0, of)?]),
                (Operation::SetContains, Object::Set(of)) => Op::SetContains(arg(0, of)?),
                (Operation::HashSet, Object::Map(k, v)) => {
                    Op::HashSet(vec![(arg(0, k)?, arg(1, v)?)])
                }
                (Operation::HashDelete, Object::Map(k, _)) => Op::HashDelete(vec![arg(0, k)?]),
                (Operation::HashGet, Object::Map(k, _)) => Op::HashGet(arg(0, k)?),
                (Operation::HashSet, Object::List(of) | Object::Log(of)) => {
                    Op::HashSet(vec![(name().into(), arg(0, of)?)])
                }
                (Operation::HashGet | Operation::HashSet, _) => self.on_fields()?,
                _ => return Err(CallError::Impossible),
            },
        })
    }

    /// Returns the operation on the key of an object with individually accessible fields.
    fn on_fields(&self) -> Result<Op, CallError> {
        let pair = |index: u16, at: usize| {
            let (name, ty) = self.field(index)?;
            Ok((Bytes::from(name), Bytes::from(self.argument(at, &ty)?)))
        };
        Ok(match self.op {
            ObjectOp::Field(index) => Op::HashGet(self.field(index)?.0.into()),
            ObjectOp::PutField(index) => Op::HashSet(vec![pair(index, 0)?]),
            ObjectOp::Create if self.args.is_empty() => {
                Op::HashSet(vec![(NO_FIELDS.into(), Bytes::from(NO_FIELDS))])
            }
            ObjectOp::Create => {
                let pairs = (0..).zip(0..self.args.len()).map(|(index, at)| pair(index, at));
                Op::HashSet(pairs.collect::<Result<_, CallError>>()?)
            }
            _ => return Err(CallError::Impossible),
        })
    }

    /// Returns the name and type of a field of the object: a struct, or a cell of a `RemoteList`,
    /// whose `next` is [`Type::Unknown`].
    ///
    /// # Errors
    /// [`CallError::Impossible`] if there is no such field.
    pub fn field(&self, index: u16) -> Result<(Vec<u8>, Type), CallError> {
        let found = match (self.object, index) {
            (Object::Struct(id), _) => {
                let fields = &self.program.structs[usize::from(id.0)].fields;
                let field = fields.get(usize::from(index));
                field.map(|(name, ty)| (name.as_bytes().to_vec(), ty.clone()))
            }
            (Object::RemoteList(of), REMOTE_LIST_VALUE) => Some((b"v".to_vec(), of.clone())),
            // The handle refers to the same store, and is encoded as its key.
            (Object::RemoteList(_), REMOTE_LIST_NEXT) => Some((b"next".to_vec(), Type::Unknown)),
            _ => None,
        };
        found.ok_or(CallError::Impossible)
    }

    /// Encodes an argument. A handle may be of [`Type::Unknown`].
    ///
    /// # Errors
    /// [`CallError::Impossible`] if there is no such argument, [`CallError::Argument`] if it is not
    /// of the type.
    pub fn argument(&self, at: usize, ty: &Type) -> Result<Vec<u8>, CallError> {
        match self.args.get(at) {
            Some(Value::Handle(handle)) if *ty == Type::Unknown => {
                Ok(handle.key.as_bytes().to_vec())
            }
            Some(value) => Codec::new(self.program).encode(value, ty).map_err(CallError::Argument),
            None => Err(CallError::Impossible),
        }
    }

    /// Converts the outcome of the operation on the key to a result. `None` if the object does not
    /// exist and the operation requires it.
    ///
    /// # Errors
    /// [`CallError::Unreadable`], [`CallError::Unexpected`] and [`CallError::Impossible`].
    pub fn answer(&self, outcome: Outcome) -> Result<Option<Value>, CallError> {
        if self.op.mutates() {
            return Ok(Some(Value::Unit));
        }
        let decode = |bytes: &Bytes, ty: &Type| self.decode(bytes, ty);
        Ok(Some(match (self.object, self.op, outcome) {
            (_, ObjectOp::Exists | ObjectOp::Contains, Outcome::Int(found)) => {
                Value::Bool(found > 0)
            }
            (_, ObjectOp::Load | ObjectOp::Field(_), Outcome::Nil) => return Ok(None),
            (_, ObjectOp::Load | ObjectOp::Field(_), Outcome::Bulk(bytes)) => {
                decode(&bytes, self.result)?
            }
            (_, ObjectOp::Get | ObjectOp::GetKey, Outcome::Nil) => Value::NONE,
            (Object::Register(of), ObjectOp::Get, Outcome::Bulk(bytes))
            | (Object::Map(_, of), ObjectOp::GetKey, Outcome::Bulk(bytes)) => {
                Value::some(decode(&bytes, of)?)
            }
            (_, ObjectOp::Value, Outcome::Nil) => Value::Int(0),
            (_, ObjectOp::Value, Outcome::Bulk(bytes)) => decode(&bytes, &Type::Int)?,
            (_, ObjectOp::ContainsKey, outcome) => Value::Bool(outcome != Outcome::Nil),
            (Object::Set(_), ObjectOp::Size, Outcome::Int(size)) => Value::Int(size),
            (_, ObjectOp::Size, Outcome::Pairs(pairs)) => {
                Value::Int(i64::try_from(pairs.len()).unwrap_or(i64::MAX))
            }
            (Object::Set(of), ObjectOp::Elements, Outcome::Members(members)) => {
                let members = members.iter().map(|member| decode(member, of));
                Value::Set(Arc::new(members.collect::<Result<BTreeSet<_>, _>>()?))
            }
            (Object::Map(k, v), ObjectOp::Entries, Outcome::Pairs(pairs)) => {
                let pairs =
                    pairs.iter().map(|(key, value)| Ok((decode(key, k)?, decode(value, v)?)));
                Value::Map(Arc::new(pairs.collect::<Result<BTreeMap<_, _>, CallError>>()?))
            }
            (Object::List(of) | Object::Log(of), _, Outcome::Pairs(pairs)) => {
                self.listed(of, pairs)?
            }
            (_, _, other) => return Err(CallError::Unexpected(other)),
        }))
    }

    /// Computes the result for a list or log from its elements and their names.
    fn listed(&self, of: &Type, mut pairs: Vec<(Bytes, Bytes)>) -> Result<Value, CallError> {
        pairs.sort();
        match (self.op, self.args) {
            (ObjectOp::Values, _) => {
                let values = pairs.iter().map(|(_, value)| self.decode(value, of));
                Ok(Value::List(Arc::new(values.collect::<Result<_, _>>()?)))
            }
            (ObjectOp::At, [Value::Int(place)]) => {
                let found = usize::try_from(*place).ok().and_then(|place| pairs.get(place));
                let value = found.map(|(_, value)| self.decode(value, of)).transpose()?;
                Ok(value.map_or(Value::NONE, Value::some))
            }
            _ => Err(CallError::Impossible),
        }
    }

    fn decode(&self, bytes: &Bytes, ty: &Type) -> Result<Value, CallError> {
        let decoded = Codec::new(self.program).decode(bytes.as_bytes(), ty);
        decoded.map_err(CallError::Unreadable)
    }
}
