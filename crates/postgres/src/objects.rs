//! Operations on objects of programs: their statements, and the decoding of the answers.
//!
//! The first statement of an operation returns the kind of the object. The following ones change
//! nothing if it is another kind, so all can be sent at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_mixt::store::{ObjectCall, StoreError};
use solera_program::codec::{Codec, CodecError};
use solera_program::ir::Program;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, Type};
use solera_program::value::Value;
use tokio_postgres::Row;

use crate::schema::Sql;
use crate::statement::{Params, Rows, get};

/// Maximum length of a key, in bytes. An index entry may have 2704 bytes, which include the space.
const MAX_KEY: usize = 1024;
/// Maximum number of bytes that the name of a witness adds to a key.
const NAME_PREFIX: usize = 64;

/// An operation with its encoded arguments.
pub(crate) struct Request<'a> {
    call: &'a ObjectCall,
    space: &'a str,
    key: &'a str,
    kind: &'static str,
    /// Elements, keys of entries, or names of fields; `values` has their values.
    items: Vec<Vec<u8>>,
    values: Vec<Option<Vec<u8>>>,
    number: i64,
}

impl<'a> Request<'a> {
    pub(crate) fn new(call: &'a ObjectCall) -> Result<Request<'a>, StoreError> {
        check_key(&call.key)?;
        let mut request = Request {
            call,
            space: &call.space,
            key: &call.key,
            kind: kind(call.object()),
            items: Vec::new(),
            values: Vec::new(),
            number: 0,
        };
        request.encode()?;
        Ok(request)
    }

    fn encode(&mut self) -> Result<(), StoreError> {
        let call = self.call;
        let arg = |at: usize, ty: &Type| call.encode(at, ty);
        match (call.object(), call.op) {
            (Object::Register(of) | Object::List(of), ObjectOp::Put | ObjectOp::Append)
            | (Object::Log(of), ObjectOp::Append) => self.values.push(Some(arg(0, of)?)),
            (Object::Set(of), ObjectOp::Insert) => {
                self.items.push(arg(0, of)?);
                self.values.push(None);
            }
            (Object::Set(of), ObjectOp::Remove | ObjectOp::Contains) => {
                self.items.push(arg(0, of)?);
            }
            (Object::Map(key, of), ObjectOp::PutKey) => {
                self.items.push(arg(0, key)?);
                self.values.push(Some(arg(1, of)?));
            }
            (
                Object::Map(key, _),
                ObjectOp::GetKey | ObjectOp::ContainsKey | ObjectOp::RemoveKey,
            ) => self.items.push(arg(0, key)?),
            (Object::Counter, ObjectOp::Increment)
            | (Object::List(_) | Object::Log(_), ObjectOp::At) => match call.args.first() {
                Some(Value::Int(number)) => self.number = *number,
                _ => return Err(call.impossible()),
            },
            (Object::Struct(_) | Object::RemoteList(_), ObjectOp::Field(index)) => {
                self.items.push(call.field(index)?.0);
            }
            (Object::Struct(_) | Object::RemoteList(_), ObjectOp::PutField(index)) => {
                let (name, ty) = call.field(index)?;
                self.items.push(name);
                self.values.push(Some(arg(0, &ty)?));
            }
            (Object::Struct(_) | Object::RemoteList(_), ObjectOp::Create) => {
                for at in 0..call.args.len() {
                    let index = u16::try_from(at).map_err(|_| call.impossible())?;
                    let (name, ty) = call.field(index)?;
                    self.items.push(name);
                    self.values.push(Some(arg(at, &ty)?));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the statements. The first one returns the kind of the object.
    pub(crate) fn statements<'s>(
        &'s self,
        sql: &'s Sql,
    ) -> Result<Vec<(&'s str, Params<'s>)>, StoreError> {
        let object: Params<'s> = vec![&self.space, &self.key];
        let with = |more: Params<'s>| object.iter().copied().chain(more).collect::<Params<'s>>();
        let item = || self.items.first().ok_or_else(|| self.call.impossible());
        let value = || self.values.first().ok_or_else(|| self.call.impossible());
        let kind = || -> &'s (dyn tokio_postgres::types::ToSql + Sync) { &self.kind };
        let there = || (&*sql.object, object.clone());
        let ensure = || (&*sql.ensure, with(vec![kind()]));
        let put = || (&*sql.put_items, with(vec![kind(), &self.items, &self.values]));
        Ok(match self.call.op {
            ObjectOp::Exists | ObjectOp::Get | ObjectOp::Load | ObjectOp::Value => vec![there()],
            ObjectOp::Contains | ObjectOp::GetKey | ObjectOp::ContainsKey | ObjectOp::Field(_) => {
                vec![(&sql.item, with(vec![item()?]))]
            }
            ObjectOp::At => vec![(&sql.place, with(vec![&self.number]))],
            ObjectOp::Elements | ObjectOp::Entries | ObjectOp::Values => {
                vec![(&sql.items, object)]
            }
            ObjectOp::Size => vec![(&sql.size, object)],
            ObjectOp::Put => vec![there(), (&sql.put_value, with(vec![kind(), value()?]))],
            ObjectOp::Increment => {
                vec![there(), (&sql.add_number, with(vec![kind(), &self.number]))]
            }
            ObjectOp::Insert | ObjectOp::PutKey | ObjectOp::PutField(_) | ObjectOp::Create => {
                vec![there(), ensure(), put()]
            }
            ObjectOp::Append => {
                vec![there(), ensure(), (&sql.append, with(vec![kind(), value()?]))]
            }
            ObjectOp::Remove | ObjectOp::RemoveKey => {
                vec![there(), (&sql.remove_item, with(vec![kind(), item()?]))]
            }
            ObjectOp::Delete => vec![
                there(),
                (&sql.delete_items, with(vec![kind()])),
                (&sql.delete_object, with(vec![kind()])),
            ],
        })
    }

    /// Decodes the answer to the first statement. Returns `None` if the operation needs an object
    /// and there is none.
    pub(crate) fn answer(&self, answer: &Rows) -> Result<Option<Value>, StoreError> {
        let (call, rows) = (self.call, &answer.rows);
        let first = rows.first();
        if let Some(row) = first {
            let found: &str = get(row, 0)?;
            if found != self.kind {
                let (found, wanted) = (describe(found), describe(self.kind));
                return Err(StoreError::WrongData { key: Arc::clone(&call.key), found, wanted });
            }
        }
        if call.op.mutates() {
            return Ok(Some(Value::Unit));
        }
        let decode = |bytes: &[u8], ty: &Type| {
            Codec::new(&call.program).decode(bytes, ty).map_err(|error| wrong(call, &error))
        };
        Ok(Some(match (call.object(), call.op) {
            (_, ObjectOp::Exists) => Value::Bool(first.is_some()),
            (Object::Register(of), ObjectOp::Get) => match first {
                Some(row) => Value::some(decode(get(row, 2)?, of)?),
                None => Value::NONE,
            },
            (Object::Register(of), ObjectOp::Load) => match first {
                Some(row) => decode(get(row, 2)?, of)?,
                None => return Ok(None),
            },
            (Object::Counter, ObjectOp::Value) | (_, ObjectOp::Size) => {
                Value::Int(first.map(|row| get(row, 1)).transpose()?.unwrap_or(0))
            }
            (_, ObjectOp::Contains | ObjectOp::ContainsKey) => {
                Value::Bool(first.map(|row| get(row, 1)).transpose()?.unwrap_or(false))
            }
            (
                Object::Map(_, of) | Object::List(of) | Object::Log(of),
                ObjectOp::GetKey | ObjectOp::At,
            ) => match found_item(first)? {
                Some(bytes) => Value::some(decode(bytes, of)?),
                None => Value::NONE,
            },
            (_, ObjectOp::Field(_)) => match found_item(first)? {
                Some(bytes) => decode(bytes, &call.result)?,
                None => return Ok(None),
            },
            (object, ObjectOp::Elements | ObjectOp::Entries | ObjectOp::Values) => {
                let items = Items { program: &call.program, rows };
                items.read(object).map_err(|error| error.of(&call.key))?
            }
            _ => return Err(call.impossible()),
        }))
    }
}

/// All items of an object.
pub(crate) struct Items<'a> {
    pub(crate) program: &'a Program,
    pub(crate) rows: &'a [Row],
}

/// Reason why items do not form an object.
pub(crate) enum ItemError {
    Codec(CodecError),
    Store(StoreError),
}

impl From<CodecError> for ItemError {
    fn from(error: CodecError) -> ItemError {
        ItemError::Codec(error)
    }
}

impl From<StoreError> for ItemError {
    fn from(error: StoreError) -> ItemError {
        ItemError::Store(error)
    }
}

impl ItemError {
    /// Returns the error for the object with this key.
    pub(crate) fn of(self, key: &Arc<str>) -> StoreError {
        match self {
            ItemError::Store(error) => error,
            ItemError::Codec(error) => {
                let (found, wanted) = match error {
                    CodecError::Unexpected { found, expected, .. } => (found, expected),
                    other => (
                        format!("unreadable data ({other})"),
                        "a value of the declared type".to_owned(),
                    ),
                };
                StoreError::WrongData { key: Arc::clone(key), found, wanted }
            }
        }
    }
}

impl Items<'_> {
    /// Decodes a set, map, list or struct.
    pub(crate) fn read(&self, object: &Object) -> Result<Value, ItemError> {
        let codec = Codec::new(self.program);
        // An object without items has one row, which marks that.
        let mut found = Vec::new();
        for row in self.rows {
            if get::<bool>(row, 1)? {
                found.push((get::<Option<&[u8]>>(row, 2)?, get::<Option<&[u8]>>(row, 3)?));
            }
        }
        let bytes = |bytes: Option<&'_ [u8]>| bytes.map(<[u8]>::to_vec).unwrap_or_default();
        let mut pairs = found.into_iter().map(|(item, value)| (bytes(item), bytes(value)));
        Ok(match object {
            Object::Set(of) => {
                let items = pairs.map(|(item, _)| codec.decode(&item, of));
                Value::Set(Arc::new(items.collect::<Result<BTreeSet<_>, _>>()?))
            }
            Object::Map(key, of) => {
                let one = |(item, value): (Vec<u8>, Vec<u8>)| {
                    Ok::<_, CodecError>((codec.decode(&item, key)?, codec.decode(&value, of)?))
                };
                Value::Map(Arc::new(pairs.map(one).collect::<Result<BTreeMap<_, _>, _>>()?))
            }
            Object::List(of) | Object::Log(of) => {
                let values = pairs.map(|(_, value)| codec.decode(&value, of));
                Value::List(Arc::new(values.collect::<Result<Vec<_>, _>>()?))
            }
            Object::Struct(id) => {
                let fields = &self.program.structs[usize::from(id.0)].fields;
                let by_name: BTreeMap<Vec<u8>, Vec<u8>> = pairs.by_ref().collect();
                let mut values = Vec::with_capacity(fields.len());
                for (name, ty) in fields {
                    let value = by_name.get(name.as_bytes()).ok_or(StoreError::Missing)?;
                    values.push(codec.decode(value, ty)?);
                }
                Value::Struct(Arc::new(values))
            }
            Object::Register(_) | Object::Counter | Object::RemoteList(_) => {
                return Err(StoreError::Missing.into());
            }
        })
    }
}

fn found_item(row: Option<&Row>) -> Result<Option<&[u8]>, StoreError> {
    match row {
        Some(row) if get(row, 1)? => get(row, 2),
        _ => Ok(None),
    }
}

/// Returns the name of a kind of object in the tables.
pub(crate) fn kind(object: &Object) -> &'static str {
    match object {
        Object::Register(_) => "register",
        Object::Counter => "counter",
        Object::Set(_) => "set",
        Object::Map(..) => "map",
        Object::List(_) | Object::Log(_) => "list",
        Object::Struct(_) | Object::RemoteList(_) => "struct",
    }
}

/// Returns the name of a kind of object for messages.
pub(crate) fn describe(kind: &str) -> String {
    format!("a {kind}")
}

/// Checks that a text can be the key of an object.
pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    check(key, MAX_KEY)
}

/// Checks that a text can be the key of a named object.
pub(crate) fn check_name(key: &str) -> Result<(), StoreError> {
    check(key, MAX_KEY + NAME_PREFIX)
}

fn check(key: &str, most: usize) -> Result<(), StoreError> {
    let why = if key.len() > most {
        format!("a key has at most {most} bytes, not {}", key.len())
    } else if key.contains('\0') {
        format!("`{}` cannot be a key: it holds a zero byte", key.escape_debug())
    } else {
        return Ok(());
    };
    Err(StoreError::Refused(why))
}

fn wrong(call: &ObjectCall, error: &CodecError) -> StoreError {
    ItemError::Codec(error.clone()).of(&call.key)
}
