//! What statements take, and what they answer.

use solera_mixt::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use crate::failure::cause;

/// The values of a statement's parameters.
pub(crate) type Params<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// What a statement answers.
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    /// How many rows it has given, or changed.
    pub(crate) affected: u64,
}

/// A column of one of our own statements.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| unexpected(&cause(&error)))
}

pub(crate) fn unexpected(what: &dyn std::fmt::Display) -> StoreError {
    StoreError::Refused(format!("its tables hold what Solera has not written: {what}"))
}
