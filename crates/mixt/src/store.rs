//! The interface between mixed transactions and databases (MixT §3.3, Fig. 5 and 11).
//!
//! A database has *spaces*, each of one consistency level; a module's stores are bound to spaces. A
//! [`Connection`] is a session with at most one open transaction. Besides the objects of programs,
//! a space contains *named objects*: a few small values by number, under names that no object of a
//! program has. Witnesses and recovery records are named objects.

use std::pin::Pin;
use std::sync::Arc;

use solera_levels::Level;
use solera_program::ir::Program;
use solera_program::types::StoreId;

use crate::access::{Access, Denial};
pub use crate::location::{Fields, Location, Name};
pub use crate::request::calls::{
    Answer, Begin, Commits, CustomCall, Horizon, List, NameWrite, ObjectCall, StoreError,
};
use crate::request::remote_group::{RemoteGroup, RemoteReplies};

/// Future that a method of a trait object returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A database that mixed transactions can use.
pub trait Database: Send + Sync {
    /// Returns its name, which is the same on all hosts that use it.
    fn name(&self) -> Arc<str>;

    /// Returns the level of a space; `None` if there is no such space.
    fn level(&self, space: &str) -> Option<Level>;

    /// Returns whether one transaction can span two different spaces of it, so that it takes effect
    /// in both at once and reads both as of one time.
    fn spans(&self, one: &str, other: &str) -> bool;

    /// Returns whether its sessions [execute](Connection::execute) whole groups of phases.
    fn executes(&self) -> bool {
        false
    }

    /// Checks that the operations of a space match the custom operations that a store of a program
    /// declares. Hosts check this when they load a module. Without the check, a call that does not
    /// match would fail.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with the mismatch; databases without custom operations refuse any.
    /// Other errors if the database cannot answer now.
    fn check_operations<'a>(
        &'a self,
        program: &'a Program,
        store: StoreId,
        _space: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let operations = &program.stores[usize::from(store.0)].operations;
        let first = operations.first().map(|operation| no_operation(&operation.name));
        Box::pin(std::future::ready(first.map_or(Ok(()), Err)))
    }

    /// Returns the user that its sessions act as, if the database has users.
    fn user(&self) -> Option<Arc<str>> {
        None
    }

    /// Returns whether a session can act for the user of a transaction
    /// ([`connect_as`](Self::connect_as)). Otherwise all sessions act as the [current
    /// user](Self::user) of this object.
    fn distinguishes_users(&self) -> bool {
        false
    }

    /// Returns one of the accesses that a user has no right to make, as far as this host knows now.
    /// Executes nothing.
    fn permits(&self, _user: Option<&str>, _accesses: &[Access]) -> Option<Denial> {
        None
    }

    /// Returns the replica at which all its sessions commit, if it distinguishes replicas.
    fn commit_replica(&self) -> Option<Arc<str>> {
        None
    }

    /// Stores the source of a module whose transactions the host runs, by the module's name. Only
    /// databases that may have to send the module to workers keep it.
    fn learn(&self, _module: &str, _source: &str) {}

    /// Opens a session.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>>;

    /// Opens a session in the name of a user. Each request has the rights that the user has at that
    /// moment. `None` stands for a transaction that names no user; databases that check the rights
    /// of users reject it.
    ///
    /// # Errors
    /// [`StoreError::Denied`] if there is no such user, or this database may not act for that user.
    fn connect_as<'a>(
        &'a self,
        _user: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        self.connect()
    }
}

fn no_operation(name: &str) -> StoreError {
    StoreError::Refused(format!("it has no operation `{name}`"))
}

/// Body of a method that calls the same method of the database within.
macro_rules! inner {
    ($self:ident, $method:ident $(, $argument:ident)*) => {
        D::$method($self $(, $argument)*)
    };
}

impl<D: Database + ?Sized> Database for Arc<D> {
    crate::database_methods!(
        inner: name level spans executes check_operations user commit_replica learn connect
    );

    fn distinguishes_users(&self) -> bool {
        D::distinguishes_users(self)
    }

    fn permits(&self, user: Option<&str>, accesses: &[Access]) -> Option<Denial> {
        D::permits(self, user, accesses)
    }

    fn connect_as<'a>(
        &'a self,
        user: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        D::connect_as(self, user)
    }
}

/// A session with a database, with at most one open transaction. It sees its own commits. Dropping
/// it aborts the open transaction.
///
/// After an error no transaction is open, except after [`StoreError::Missing`],
/// [`StoreError::Refused`], [`StoreError::Denied`] and [`StoreError::WrongData`] of `perform` and
/// `custom`.
pub trait Connection: Send {
    /// Opens a transaction, and reads named objects in it.
    ///
    /// After [`StoreError::OutcomeUnknown`] of a commit it succeeds only when that commit has taken
    /// effect and this transaction sees it, or when it never will take effect. Until then it fails
    /// with [`StoreError::Unavailable`].
    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>>;

    /// Executes an operation on an object, within the open transaction.
    fn perform<'a>(&'a mut self, call: &'a ObjectCall)
    -> BoxFuture<'a, Result<Answer, StoreError>>;

    /// Executes a custom operation, within the open transaction. Databases that have none refuse
    /// it.
    fn custom<'a>(&'a mut self, call: &'a CustomCall) -> BoxFuture<'a, Result<Answer, StoreError>> {
        Box::pin(std::future::ready(Err(no_operation(&call.operation().name))))
    }

    /// Writes named objects and commits. In an atomic space the writes take effect together with
    /// the transaction.
    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Runs a group of phases on a worker next to the database, in a transaction of its own.
    /// Afterwards this session has seen that transaction. No transaction may be open before.
    ///
    /// [`StoreError::OutcomeUnknown`] means that the answer was lost. The condition of `begin`
    /// after such a commit then applies to `begin` and `execute`. After any other error nothing was
    /// begun, and single requests may succeed.
    fn execute<'a>(
        &'a mut self,
        _remote_group: &'a RemoteGroup,
    ) -> BoxFuture<'a, Result<RemoteReplies, StoreError>> {
        Box::pin(async { Err(StoreError::Refused("it does not run phases".to_owned())) })
    }

    /// Aborts the open transaction, after the database has certified its reads. Certified reads
    /// were all current at one point in the order of commits, and that point follows every commit
    /// from before the transaction began. Nothing that the transaction wrote takes effect. A
    /// database without such an order has nothing to certify, except at level pcpsi: there,
    /// certified reads belong to one snapshot, which may be old.
    ///
    /// [`StoreError::Conflict`] means that the reads may not have been current,
    /// [`StoreError::Unavailable`] that the database cannot decide now, and any other error that it
    /// can never decide. It never returns [`StoreError::OutcomeUnknown`]. No transaction is open
    /// afterwards, whatever the answer.
    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Aborts the open transaction, if there is one.
    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns keys of a space's named objects with a prefix, in ascending order after one of them,
    /// outside any transaction; at most `limit`.
    fn list<'a>(&'a mut self, list: &'a List) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>>;

    /// Returns whether this session sees, from now on, commits of others. It may wait a moment for
    /// them. Databases in which every session sees all commits always return `true`.
    fn sees<'a>(&'a mut self, _commits: &'a Commits) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async { Ok(true) })
    }

    /// Returns whether another user's transaction may use this session next: no transaction is
    /// open, no commit has an unknown outcome, and the connection is not known to have broken.
    fn reusable(&mut self) -> bool {
        false
    }

    /// Returns the times up to which commits are visible (MixT §7.1); `None` if the database does
    /// not report that.
    fn horizon(&mut self) -> BoxFuture<'_, Result<Option<Horizon>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A database whose answers differ from the defaults of the trait.
    struct Odd;

    impl Database for Odd {
        fn name(&self) -> Arc<str> {
            "odd".into()
        }

        fn spans(&self, one: &str, other: &str) -> bool {
            one != other
        }

        fn level(&self, _space: &str) -> Option<Level> {
            Some(Level::Causal)
        }

        fn executes(&self) -> bool {
            true
        }

        fn check_operations<'a>(
            &'a self,
            _program: &'a Program,
            _store: StoreId,
            space: &'a str,
        ) -> BoxFuture<'a, Result<(), StoreError>> {
            Box::pin(std::future::ready(Err(StoreError::Refused(space.to_owned()))))
        }

        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
            Box::pin(std::future::ready(Err(StoreError::Missing)))
        }
    }

    /// Returns the result of a future that is ready at once.
    fn now<T>(mut future: BoxFuture<'_, T>) -> T {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it is not ready"),
        }
    }

    #[test]
    fn a_shared_database_answers_as_itself() {
        let shared = Arc::new(Odd);
        // A host holds it this way.
        let shared: &dyn Database = &shared;
        assert!(shared.executes());
        let program = solera_language::compile::compile("store s : causal;").program.unwrap();
        let checked = now(shared.check_operations(&program, StoreId(0), "here"));
        assert_eq!(checked, Err(StoreError::Refused("here".to_owned())));
        assert!(shared.spans("here", "there") && shared.level("here") == Some(Level::Causal));
        assert!(matches!(now(shared.connect()), Err(StoreError::Missing)));
    }
}
