//! What a database offers to mixed transactions (MixT §3.3, Fig. 5 and 11).
//!
//! A database has *spaces*, each of one consistency level; a module's stores are bound to spaces. A
//! [`Connection`] is a session with at most one open transaction. Besides the objects of programs a
//! space holds *named objects*: a few small values by number, under names that no object of a
//! program has. Witnesses and recovery records are such.

use std::pin::Pin;
use std::sync::Arc;

use solera_levels::Level;
use solera_program::ir::Program;
use solera_program::types::StoreId;

use crate::access::{Access, Denial};
pub use crate::place::{Fields, Name, Place};
pub use crate::request::calls::{
    Answer, Begin, Commits, CustomCall, Horizon, List, NameWrite, ObjectCall, StoreError,
};
use crate::request::shipment::{Shipment, Shipped};

/// What a method of a trait object gives that may have to wait.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A database that mixed transactions can use.
pub trait Database: Send + Sync {
    /// What it promises.
    fn describe(&self) -> Description;

    /// The level of a space; none if there is no such space.
    fn level(&self, space: &str) -> Option<Level>;

    /// Whether its sessions [execute](Connection::execute) whole groups of phases.
    fn executes(&self) -> bool {
        false
    }

    /// Whether the custom operations that a store of a program declares can be what a space has for
    /// them. Hosts ask when they load a module: without it, a call that does not fit is refused.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with what does not fit; databases without custom operations refuse
    /// any. Others if the database cannot be asked now.
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

    /// As which user its sessions act, if it knows users.
    fn user(&self) -> Option<Arc<str>> {
        None
    }

    /// Whether its sessions are to be opened in the name of the user whose transaction it is
    /// ([`connect_as`](Self::connect_as)). Otherwise all of them act as [its user](Self::user),
    /// whatever that is now.
    fn tells_users_apart(&self) -> bool {
        false
    }

    /// What a user may not do of this, as far as it can be told now and without asking anybody
    /// else. Nothing is done.
    fn permits(&self, _user: Option<&str>, _accesses: &[Access]) -> Option<Denial> {
        None
    }

    /// At which of its replicas all its sessions commit, if it has several that are told apart.
    fn whence(&self) -> Option<Arc<str>> {
        None
    }

    /// Takes the source of a module that transactions of the host belong to, by the module's name.
    /// Databases whose workers may have to be taught a module keep it.
    fn learn(&self, _module: &str, _source: &str) {}

    /// Opens a session.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>>;

    /// Opens a session in the name of a user, with the rights that the user has whenever it is
    /// asked for something. None is the user of a transaction that names none, which a database
    /// that tells users apart denies.
    ///
    /// # Errors
    /// [`StoreError::Denied`] if there is no such user, or this may not act for it.
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

impl<D: Database + ?Sized> Database for Arc<D> {
    fn describe(&self) -> Description {
        D::describe(self)
    }

    fn level(&self, space: &str) -> Option<Level> {
        D::level(self, space)
    }

    fn executes(&self) -> bool {
        D::executes(self)
    }

    fn check_operations<'a>(
        &'a self,
        program: &'a Program,
        store: StoreId,
        space: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        D::check_operations(self, program, store, space)
    }

    fn user(&self) -> Option<Arc<str>> {
        D::user(self)
    }

    fn tells_users_apart(&self) -> bool {
        D::tells_users_apart(self)
    }

    fn permits(&self, user: Option<&str>, accesses: &[Access]) -> Option<Denial> {
        D::permits(self, user, accesses)
    }

    fn whence(&self) -> Option<Arc<str>> {
        D::whence(self)
    }

    fn learn(&self, module: &str, source: &str) {
        D::learn(self, module, source);
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        D::connect(self)
    }

    fn connect_as<'a>(
        &'a self,
        user: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        D::connect_as(self, user)
    }
}

/// What a database promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name, the same for all that use it.
    pub name: Arc<str>,
    /// Whether one transaction may use several of its spaces, and takes effect in all of them at
    /// once.
    pub joint: bool,
}

/// A session with a database, with at most one open transaction. What it has committed, it sees. If
/// it is dropped, the open transaction is aborted.
///
/// After an error the open transaction is gone, except after [`StoreError::Missing`],
/// [`StoreError::Refused`], [`StoreError::Denied`] and [`StoreError::WrongData`] of `perform` and
/// `custom`.
pub trait Connection: Send {
    /// Opens a transaction, and reads named objects in it.
    ///
    /// After [`StoreError::OutcomeUnknown`] of a commit it answers only when that commit has taken
    /// effect and is seen by this transaction, or never will take effect; until then it fails with
    /// [`StoreError::Unavailable`].
    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>>;

    /// An operation on an object, within the open transaction.
    fn perform<'a>(&'a mut self, call: &'a ObjectCall)
    -> BoxFuture<'a, Result<Answer, StoreError>>;

    /// A custom operation, within the open transaction. Databases that have none refuse.
    fn custom<'a>(&'a mut self, call: &'a CustomCall) -> BoxFuture<'a, Result<Answer, StoreError>> {
        Box::pin(std::future::ready(Err(no_operation(&call.operation().name))))
    }

    /// Writes named objects and commits. In an atomic space they take effect together with the
    /// transaction.
    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Has a worker next to the database run a group of phases in a transaction of its own, which
    /// this session then has seen. No transaction is open before.
    ///
    /// [`StoreError::OutcomeUnknown`] means that the answer was lost; what holds for `begin` after
    /// such a commit holds then for `begin` and `execute`. After any other error nothing was begun,
    /// and single requests may do.
    fn execute<'a>(
        &'a mut self,
        _shipment: &'a Shipment,
    ) -> BoxFuture<'a, Result<Shipped, StoreError>> {
        Box::pin(async { Err(StoreError::Refused("it does not run phases".to_owned())) })
    }

    /// Gives the open transaction up, after the database has certified what it has read: all of it
    /// was so at one point of the order of commits, and what had committed before the transaction
    /// began came before that point. Nothing that the transaction wrote takes effect. A database
    /// that promises no such order has nothing to certify.
    ///
    /// [`StoreError::Conflict`] means that what was read may not have been so,
    /// [`StoreError::Unavailable`] that the database cannot tell now, and any other error that it
    /// cannot tell at all. [`StoreError::OutcomeUnknown`] is no answer. Nothing is open afterwards,
    /// whatever is answered.
    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Gives the open transaction up, if there is one.
    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The keys of a space's named objects that begin so, in ascending order after one of them,
    /// outside of any transaction; at most `limit`.
    fn list<'a>(&'a mut self, list: &'a List) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>>;

    /// Whether this session sees, from now on, what others have committed. It may wait a moment for
    /// that. Databases of which every session sees what has committed always say so.
    fn sees<'a>(&'a mut self, _commits: &'a Commits) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async { Ok(true) })
    }

    /// Whether the next transaction may as well be another user's: none is open, of none it is
    /// unknown whether it has committed, and the connection is not known to have broken.
    fn reusable(&mut self) -> bool {
        false
    }

    /// How far commits are seen (MixT §7.1). None if the database does not say.
    fn horizon(&mut self) -> BoxFuture<'_, Result<Option<Horizon>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// One whose answers are not those that are given where nothing is said.
    struct Odd;

    impl Database for Odd {
        fn describe(&self) -> Description {
            Description { name: "odd".into(), joint: true }
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

    /// What is ready at once.
    fn now<T>(mut future: BoxFuture<'_, T>) -> T {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it is not ready"),
        }
    }

    #[test]
    fn a_shared_database_answers_as_itself() {
        let shared = Arc::new(Odd);
        // As a host holds it.
        let shared: &dyn Database = &shared;
        assert!(shared.executes());
        let program = solera_language::compile::compile("store s : causal;").program.unwrap();
        let checked = now(shared.check_operations(&program, StoreId(0), "here"));
        assert_eq!(checked, Err(StoreError::Refused("here".to_owned())));
        assert!(shared.describe().joint && shared.level("here") == Some(Level::Causal));
        assert!(matches!(now(shared.connect()), Err(StoreError::Missing)));
    }
}
