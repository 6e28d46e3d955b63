//! Mismatches between custom operations and their statements.

use std::fmt;

use solera_mixt::store::StoreError;

/// Reason why a space cannot be a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The module declares no such store.
    #[error("the module declares no store `{0}`")]
    NoStore(String),
    /// The server could not be reached, or the objects that the statements use do not exist.
    #[error("{0}")]
    Unreachable(StoreError),
    /// The statement of a custom operation does not match its declaration.
    #[error("the operation `{operation}` of the store `{store}`: {problem}")]
    Operation {
        /// The store.
        store: String,
        /// The operation.
        operation: String,
        /// The mismatch.
        problem: Problem,
    },
}

/// Mismatch between the declaration of an operation and its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The space has no statement for it.
    NotBound,
    /// The server does not prepare the statement.
    Unprepared(StoreError),
    /// The statement of a query can only write.
    Writes {
        /// The word with which it begins.
        word: String,
    },
    /// The numbers of parameters differ.
    Params {
        /// Number of declared parameters.
        declared: usize,
        /// Number of parameters of the statement.
        taken: usize,
    },
    /// The types of a parameter differ.
    Param {
        /// Its name.
        name: String,
        /// Its declared type.
        declared: String,
        /// Its type in SQL.
        taken: String,
    },
    /// The statement returns no columns, and the result needs some.
    NoColumns {
        /// The declared result.
        declared: String,
    },
    /// The number of columns is wrong.
    Columns {
        /// The declared result.
        declared: String,
        /// Number of columns that it needs.
        needed: usize,
        /// Number of columns of the statement.
        found: usize,
    },
    /// A field of a struct has no column.
    NoColumn {
        /// The declared result.
        declared: String,
        /// The field.
        field: String,
    },
    /// The types of a column differ.
    Column {
        /// Its name.
        name: String,
        /// The declared type.
        declared: String,
        /// Its type in SQL.
        found: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotBound => write!(f, "its space has no statement for it"),
            Problem::Unprepared(error) => write!(f, "its statement cannot be prepared: {error}"),
            Problem::Writes { word } => write!(
                f,
                "it is declared as a query, but its statement begins with `{word}` and writes: declare it as an \
                 operation"
            ),
            Problem::Params { declared, taken } => {
                write!(f, "{declared} parameters are declared, but the statement has {taken}")
            }
            Problem::Param { name, declared, taken } => write!(
                f,
                "the parameter `{name}` is declared {declared}, but the statement takes {taken}; a cast of the \
                 parameter may help, as in `$1::text::uuid`"
            ),
            Problem::NoColumns { declared } => write!(
                f,
                "its result is declared {declared}, but the statement returns no columns: add a RETURNING clause"
            ),
            Problem::Columns { declared, needed, found } => write!(
                f,
                "its result is declared {declared}, which needs {needed} columns, but the statement returns {found}"
            ),
            Problem::NoColumn { declared, field } => write!(
                f,
                "its result is declared {declared}, but the statement returns no column `{field}`"
            ),
            Problem::Column { name, declared, found } => write!(
                f,
                "the column `{name}` is {found}, but declared {declared}; a cast may help, as in `{name}::int8`"
            ),
        }
    }
}

/// Checks that a statement reads or writes data, and does not change the transaction or the
/// session.
///
/// # Errors
/// The word with which the statement begins.
pub(crate) fn statement_kind(sql: &str) -> Result<(), String> {
    let (word, rest) = first_word(sql);
    let kinds = ["select", "with", "insert", "update", "delete", "merge", "values", "table"];
    if kinds.iter().any(|kind| word.eq_ignore_ascii_case(kind)) {
        return Ok(());
    }
    Err(if word.is_empty() { rest.chars().take(10).collect() } else { word.to_owned() })
}

/// Returns the word with which a statement begins, if the statement can only write. Others may
/// write, too, which becomes clear when they run.
pub(crate) fn writing_word(sql: &str) -> Option<String> {
    let (word, _) = first_word(sql);
    let kinds = ["insert", "update", "delete", "merge"];
    kinds.iter().any(|kind| word.eq_ignore_ascii_case(kind)).then(|| word.to_owned())
}

/// Returns the word with which a statement begins, and the rest including that word.
fn first_word(sql: &str) -> (&str, &str) {
    let mut rest = sql.trim_start();
    loop {
        let after = if rest.starts_with("--") {
            rest.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            // The end of a nested comment counts as that of the outer one, so a valid statement may
            // be rejected.
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else if let Some(after) = rest.strip_prefix('(') {
            after
        } else {
            break;
        };
        rest = after.trim_start();
    }
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    (&rest[..end], rest)
}

#[cfg(test)]
mod tests {
    use super::statement_kind;

    #[test]
    fn statements_that_end_transactions_are_no_operations() {
        let good = [
            "SELECT 1",
            " -- why\n /* and how */ (select 1)",
            "WITH a AS (SELECT 1) UPDATE t SET x = 1",
            "table t",
        ];
        for sql in good {
            assert_eq!(statement_kind(sql), Ok(()), "{sql}");
        }
        let bad = [
            ("COMMIT", "COMMIT"),
            ("/* select */ rollback", "rollback"),
            ("-- select", ""),
            ("set role x", "set"),
            ("", ""),
            ("/* select", ""),
            ("; select 1", "; select 1"),
        ];
        for (sql, word) in bad {
            assert_eq!(statement_kind(sql), Err(word.to_owned()), "{sql}");
        }
    }
}
