//! Reads named objects at the beginning of transactions and along with operations, and writes them
//! at commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use solera_mixt::store::{Fields, List, Name, NameWrite, StoreError};

use crate::objects::check_name;
use crate::schema::Sql;
use crate::statement::{Params, get, unexpected};

/// Maximum number of bytes that a commit may write. A PostgreSQL message is limited to 1 GiB.
const MAX_WRITES: usize = 256 << 20;

/// Names to read, as parameters of the statement.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    spaces: Vec<&'a str>,
    keys: Vec<&'a str>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(names: impl IntoIterator<Item = &'a Name>) -> Wanted<'a> {
        let (spaces, keys) = names.into_iter().map(|name| (&*name.space, &*name.key)).unzip();
        Wanted { spaces, keys }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn params(&self) -> Params<'_> {
        vec![&self.spaces, &self.keys]
    }

    /// Decodes the fields of each name, in order.
    pub(crate) fn read(&self, rows: &[tokio_postgres::Row]) -> Result<Vec<Fields>, StoreError> {
        let mut all = vec![Fields::new(); self.keys.len()];
        for row in rows {
            let (place, field, value): (i64, i64, &[u8]) =
                (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            let fields = usize::try_from(place - 1).ok().and_then(|place| all.get_mut(place));
            fields.ok_or_else(|| unexpected(&place))?.insert(field.cast_unsigned(), value.into());
        }
        Ok(all)
    }
}

/// Writes of named objects, as parameters of the statements. Contains the last write of each field.
#[derive(Debug, Default)]
pub(crate) struct Writes<'a> {
    new: Columns<'a>,
    set: Columns<'a>,
    removed: Columns<'a>,
}

/// Rows, stored as one vector per column.
#[derive(Debug, Default)]
struct Columns<'a> {
    spaces: Vec<&'a str>,
    keys: Vec<&'a str>,
    fields: Vec<i64>,
    values: Vec<&'a [u8]>,
}

impl<'a> Writes<'a> {
    pub(crate) fn new(writes: &'a [NameWrite]) -> Result<Writes<'a>, StoreError> {
        // Writes are in ascending order, so that transactions that write the same names do not
        // deadlock.
        let mut last = BTreeMap::new();
        for write in writes {
            let (name, field) = match write {
                NameWrite::Set { name, field, .. } | NameWrite::Remove { name, field } => {
                    (name, *field)
                }
            };
            check_name(&name.key)?;
            last.insert((name, field), write);
        }
        let mut all = Writes::default();
        let mut bytes = 0;
        for ((name, field), write) in last {
            let (columns, value) = match write {
                NameWrite::Set { value, new: true, .. } => (&mut all.new, Some(value)),
                NameWrite::Set { value, new: false, .. } => (&mut all.set, Some(value)),
                NameWrite::Remove { .. } => (&mut all.removed, None),
            };
            columns.spaces.push(&name.space);
            columns.keys.push(&name.key);
            columns.fields.push(field.cast_signed());
            columns.values.extend(value.map(|value| &**value));
            bytes += name.space.len() + name.key.len() + value.map_or(0, |value| value.len());
        }
        // The commit is pipelined with the writes. Without this check, it could be sent without
        // them.
        if bytes > MAX_WRITES {
            let text =
                format!("{bytes} bytes of records and witnesses are too many for one commit");
            return Err(StoreError::Refused(text));
        }
        Ok(all)
    }

    /// Returns the statements that are needed.
    pub(crate) fn statements<'s>(&'s self, sql: &'s Sql) -> Vec<(&'s str, Params<'s>)> {
        let mut statements = Vec::new();
        if !self.removed.keys.is_empty() {
            let Columns { spaces, keys, fields, .. } = &self.removed;
            statements.push((&*sql.remove_names, vec![spaces as _, keys as _, fields as _]));
        }
        for (sql, columns) in [(&sql.new_names, &self.new), (&sql.set_names, &self.set)] {
            let Columns { spaces, keys, fields, values } = columns;
            if !keys.is_empty() {
                statements.push((sql, vec![spaces as _, keys as _, fields as _, values as _]));
            }
        }
        statements
    }
}

/// Decodes the keys that the statement has listed.
pub(crate) fn listed(rows: &[tokio_postgres::Row]) -> Result<Vec<Arc<str>>, StoreError> {
    rows.iter().map(|row| get::<&str>(row, 0).map(Arc::from)).collect()
}

/// Returns the maximum number of keys to list.
pub(crate) fn limit(list: &List) -> i64 {
    i64::try_from(list.limit).unwrap_or(i64::MAX)
}
