//! Sessions, which run transactions that are functions.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use solera_program::value::Value;

use super::FromValue;
use super::error::{Error, Ticket};
use super::program::Program;
use crate::binding::{BindError, Module, Modules};
use crate::bound::Bindings;
use crate::collect::Collector;
use crate::coordinator::{Coordinator, TransactionId};
use crate::executor::{Clock, Connections, run};
use crate::location::Location;
use crate::outcome::{Contradiction, Limits, Outcome};
use crate::recovered::Recovered;
use crate::recovery;
use crate::request::calls::StoreError;
use crate::store::Database;

/// Services that transactions need besides databases.
pub trait Host: Clock {
    /// Returns an unpredictable number that is never returned again.
    fn random(&self) -> u64;

    /// Returns the name of a module in records: the same on all hosts that complete transactions of
    /// this source, and different for any other source.
    fn module_name(&self, source: &str) -> String;
}

impl<H: Host + ?Sized> Host for Arc<H> {
    fn random(&self) -> u64 {
        H::random(self)
    }

    fn module_name(&self, source: &str) -> String {
        H::module_name(self, source)
    }
}

/// A space of a database to which a store is bound.
#[derive(Clone)]
pub struct Space {
    database: Arc<dyn Database>,
    name: Arc<str>,
}

impl Space {
    /// Creates a reference to the space of this name.
    pub fn new(database: &(impl Database + Clone + 'static), name: &str) -> Space {
        Space { database: Arc::new(database.clone()), name: name.into() }
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.database.name(), self.name)
    }
}

/// Runs the transactions of a program, one at a time. A session sees its own writes.
pub struct TypedSession<P> {
    module: Module,
    bindings: Bindings,
    databases: Vec<Arc<dyn Database>>,
    connections: Connections,
    host: Arc<dyn Host>,
    limits: Limits,
    /// Modules whose transactions it can complete: its own, and those of inline transactions.
    modules: Arc<Modules>,
    collector: Collector,
    program: PhantomData<fn() -> P>,
}

impl<P: Program> TypedSession<P> {
    /// Binds the stores to `spaces`, in the order of the program.
    ///
    /// # Errors
    /// If a space is missing, or weaker than its store.
    pub fn bind(
        spaces: Vec<Space>,
        host: impl Host + 'static,
    ) -> Result<TypedSession<P>, BindError> {
        let program = P::compiled();
        let stores = program.stores.iter().zip(&spaces).enumerate();
        let bind: Vec<(&str, usize, &str)> =
            stores.map(|(index, (store, space))| (&*store.name, index, &*space.name)).collect();
        let databases: Vec<_> = spaces.iter().map(|space| Arc::clone(&space.database)).collect();
        let bindings = Bindings::new(program, &databases, &bind)?;
        let module = module::<P>(&host);
        let modules = Arc::new(Modules::from([(Arc::clone(module.name()), module.clone())]));
        let limits = Limits::default();
        Ok(TypedSession {
            module,
            bindings,
            connections: Connections::new(databases.iter().cloned()),
            databases,
            host: Arc::new(host),
            limits,
            modules,
            collector: Collector::new(limits),
            program: PhantomData,
        })
    }

    /// Replaces [the default limits](Limits::default).
    ///
    /// # Errors
    /// If the times [contradict each other](Limits::check).
    pub fn with_limits(self, limits: Limits) -> Result<TypedSession<P>, Contradiction> {
        limits.check()?;
        Ok(TypedSession { limits, collector: Collector::new(limits), ..self })
    }

    /// Creates another session with connections of its own, to run transactions in parallel.
    #[must_use]
    pub fn another(&self) -> TypedSession<P> {
        TypedSession {
            module: self.module.clone(),
            bindings: self.bindings.clone(),
            databases: self.databases.clone(),
            connections: Connections::new(self.databases.iter().cloned()),
            host: Arc::clone(&self.host),
            limits: self.limits,
            modules: Arc::clone(&self.modules),
            collector: Collector::new(self.limits),
            program: PhantomData,
        }
    }

    /// Runs a transaction, by its number in the program. Generated functions call this method.
    ///
    /// # Panics
    /// If the transaction does not return an `R`.
    ///
    /// # Errors
    /// See [`Error`].
    #[doc(hidden)]
    pub async fn call<R: FromValue>(
        &mut self,
        transaction: usize,
        args: Vec<Value>,
    ) -> Result<R, Error> {
        self.start(self.module.clone(), transaction, args).await
    }

    /// Runs the first transaction of another program with the same declarations: an inline
    /// transaction among Rust code.
    ///
    /// # Panics
    /// If the transaction does not return an `R`.
    ///
    /// # Errors
    /// See [`Error`]; also fails if the session belongs to another program.
    #[doc(hidden)]
    pub async fn inline<I: Program, R: FromValue>(&mut self, args: Vec<Value>) -> Result<R, Error> {
        let (own, inline) = (P::compiled(), I::compiled());
        if own.stores != inline.stores || own.structs != inline.structs {
            let (by, reason) = (Arc::clone(self.module.name()), "it declares other stores");
            return Err(Error::Refused { by, reason: reason.to_owned() });
        }
        let module = module::<I>(&*self.host);
        if !self.modules.contains_key(module.name()) {
            Arc::make_mut(&mut self.modules).insert(Arc::clone(module.name()), module.clone());
        }
        self.start(module, 0, args).await
    }

    /// Resumes an incomplete transaction, and returns its result.
    ///
    /// # Errors
    /// See [`Error`]; also fails if the session does not have the module.
    pub async fn resume(&mut self, ticket: Ticket) -> Result<Value, Error> {
        let by = Arc::clone(&ticket.record.module);
        let modules = Arc::clone(&self.modules);
        let now_ms = self.host.now_ms();
        let resumed = Coordinator::resume(*ticket.record, modules, self.limits, now_ms);
        let coordinator =
            resumed.map_err(|error| Error::Refused { by, reason: error.to_string() })?;
        self.finish(coordinator).await
    }

    /// Completes incomplete transactions of other sessions in the stores' spaces, and removes the
    /// garbage of complete ones. Call it from time to time, for example every few seconds, in at
    /// least one session. Spaces of a Solera cluster that has loaded the module do not need it.
    ///
    /// # Errors
    /// The first error of a database. The next call repeats the steps that failed.
    pub async fn upkeep(&mut self) -> Result<Vec<Recovered>, StoreError> {
        let mut found = Vec::new();
        for place in self.places() {
            let known = (&self.modules, self.limits);
            let (connections, host) = (&mut self.connections, &*self.host);
            let mut one =
                recovery::recover(&place, connections, known, &self.collector, host).await?;
            self.collector.take(&mut one, self.host.now_ms());
            found.push(one);
        }
        self.collector.collect(&mut self.connections, self.host.now_ms()).await?;
        Ok(found)
    }

    /// Returns the spaces to which its stores are bound, each once.
    fn places(&self) -> Vec<Location> {
        let stores = 0..self.module.program().stores.len();
        let ids = stores.filter_map(|id| u8::try_from(id).ok());
        let place = |id| self.bindings.of(solera_program::types::StoreId(id)).place.clone();
        let mut places: Vec<_> = ids.map(place).collect();
        places.sort();
        places.dedup();
        places
    }

    async fn start<R: FromValue>(
        &mut self,
        module: Module,
        transaction: usize,
        args: Vec<Value>,
    ) -> Result<R, Error> {
        let id = TransactionId::new(self.host.random());
        let known = (Arc::clone(&self.modules), self.limits);
        let (bindings, now_ms) = (self.bindings.clone(), self.host.now_ms());
        let coordinator =
            Coordinator::new((module, transaction), args, bindings, id, known, now_ms);
        let value = self.finish(coordinator.map_err(Error::because)?).await?;
        Ok(R::from_value(&value).expect("a transaction returns a value of its type"))
    }

    async fn finish(&mut self, mut coordinator: Coordinator) -> Result<Value, Error> {
        let outcome = run(&mut coordinator, &mut self.connections, &*self.host).await;
        self.collector.add(coordinator.garbage(), self.host.now_ms());
        match outcome {
            Outcome::Done { result, .. } => Ok(result),
            Outcome::Failed(why) => Err(Error::because(why)),
            Outcome::Incomplete { ticket: None, .. } => Err(Error::Unknown(outcome.to_string())),
            Outcome::Incomplete { ticket: Some(ref record), .. } => {
                Err(Error::Incomplete(Ticket::new(record.clone(), outcome.to_string())))
            }
        }
    }
}

impl<P> fmt::Debug for TypedSession<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TypedSession { module, bindings, .. } = self;
        f.debug_struct("TypedSession")
            .field("module", module.name())
            .field("stores", bindings)
            .finish()
    }
}

fn module<P: Program>(host: &dyn Host) -> Module {
    let module = Module::new(&host.module_name(P::SOURCE), Arc::clone(P::compiled()));
    module.expect("the compiler makes programs that the interpreter may run")
}
