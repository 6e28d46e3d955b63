//! Parameters and answers of statements.

use solera_mixt::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use crate::failure::cause;

/// Values of a statement's parameters.
pub(crate) type Params<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// Answer to a statement.
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    /// Number of rows that it has returned or changed.
    pub(crate) affected: u64,
}

/// Returns a column of one of our own statements.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| unexpected(&cause(&error)))
}

pub(crate) fn unexpected(what: &dyn std::fmt::Display) -> StoreError {
    StoreError::Refused(format!("its tables contain data that Solera has not written: {what}"))
}
