//! State of a transaction that a session begins at its database only with the first operation.

use crate::request::calls::StoreError;

/// State of a session's transaction. `D` is the data with which the session begins the transaction,
/// `O` the data about a transaction that was begun.
#[derive(Debug)]
pub enum State<D, O> {
    /// There is no transaction.
    Closed,
    /// The caller has begun the transaction; the first operation will begin it at the database.
    Due(D),
    /// The transaction has ended at the database, together with its only operation.
    Over,
    /// It was begun at the database.
    Open(O),
    /// It was aborted because an operation was refused, with this error.
    Spoiled(StoreError),
}

impl<D, O> State<D, O> {
    /// Returns the error of an operation while no transaction is open.
    pub fn not_open(&self) -> StoreError {
        match self {
            State::Spoiled(error) => error.clone(),
            _ => StoreError::Refused("no transaction is open".to_owned()),
        }
    }

    /// Records that an error has ended the transaction, which the caller has already ended at the
    /// database. If the error is permanent, later operations of the transaction fail with the same
    /// error.
    pub fn fail(&mut self, error: &StoreError) {
        *self = match error {
            StoreError::Denied(_) | StoreError::Refused(_) | StoreError::WrongData { .. } => {
                State::Spoiled(error.clone())
            }
            _ => State::Closed,
        };
    }

    /// Checks that the reads of the transaction can be certified, and ends a spoiled one.
    ///
    /// # Errors
    /// The transaction is spoiled, or there is none.
    pub fn check_certifiable(&mut self) -> Result<(), StoreError> {
        if let State::Closed = self {
            return Err(self.not_open());
        }
        if let State::Spoiled(_) = self {
            *self = State::Closed;
            let text = "the transaction has ended with the operation that was refused";
            return Err(StoreError::Refused(text.to_owned()));
        }
        Ok(())
    }
}
