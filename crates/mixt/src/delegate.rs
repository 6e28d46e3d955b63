//! Macros for databases and connections whose methods all have the same kind of body: one that
//! passes the call on to another database or connection, or one that boxes the future of an `async`
//! method of the same name.
//!
//! Each macro takes the name of a second macro, and the names of the methods to implement. The
//! second macro generates the body of a method. Its arguments are `self`, the name of the method,
//! and the method's arguments.

/// Implements methods of [`Connection`](crate::store::Connection).
#[macro_export]
macro_rules! connection_methods {
    ($body:ident: $($method:ident)*) => {
        $($crate::connection_methods!(@$method $body);)*
    };
    (@method $body:ident $name:ident($argument:ident: $of:ty) -> $answer:ty) => {
        fn $name<'a>(
            &'a mut self,
            $argument: &'a $of,
        ) -> $crate::store::BoxFuture<'a, Result<$answer, $crate::store::StoreError>> {
            $body!(self, $name, $argument)
        }
    };
    (@method $body:ident $name:ident() -> $answer:ty) => {
        fn $name(
            &mut self,
        ) -> $crate::store::BoxFuture<'_, Result<$answer, $crate::store::StoreError>> {
            $body!(self, $name)
        }
    };
    (@begin $body:ident) => {
        $crate::connection_methods!(@method $body begin(begin: $crate::store::Begin) -> Vec<$crate::store::Fields>);
    };
    (@perform $body:ident) => {
        $crate::connection_methods!(@method $body perform(call: $crate::store::ObjectCall) -> $crate::store::Answer);
    };
    (@custom $body:ident) => {
        $crate::connection_methods!(@method $body custom(call: $crate::store::CustomCall) -> $crate::store::Answer);
    };
    (@commit $body:ident) => {
        $crate::connection_methods!(@method $body commit(writes: [$crate::store::NameWrite]) -> ());
    };
    (@execute $body:ident) => {
        $crate::connection_methods!(@method $body execute(group: $crate::remote_group::RemoteGroup) -> $crate::remote_group::RemoteReplies);
    };
    (@certify $body:ident) => {
        $crate::connection_methods!(@method $body certify() -> ());
    };
    (@abort $body:ident) => {
        $crate::connection_methods!(@method $body abort() -> ());
    };
    (@list $body:ident) => {
        $crate::connection_methods!(@method $body list(list: $crate::store::List) -> Vec<std::sync::Arc<str>>);
    };
    (@sees $body:ident) => {
        $crate::connection_methods!(@method $body sees(commits: $crate::store::Commits) -> bool);
    };
    (@horizon $body:ident) => {
        $crate::connection_methods!(@method $body horizon() -> Option<$crate::store::Horizon>);
    };
}

/// Body of a method that boxes the future of the type's own method of the same name. The type must
/// have one: otherwise the method of the trait would call itself.
#[macro_export]
macro_rules! boxed {
    ($self:ident, $method:ident $(, $argument:ident)?) => {
        Box::pin(Self::$method($self $(, $argument)?))
    };
}

/// Implements methods of [`Database`](crate::store::Database).
#[macro_export]
macro_rules! database_methods {
    ($body:ident: $($method:ident)*) => {
        $($crate::database_methods!(@$method $body);)*
    };
    (@name $body:ident) => {
        fn name(&self) -> std::sync::Arc<str> {
            $body!(self, name)
        }
    };
    (@spans $body:ident) => {
        fn spans(&self, one: &str, other: &str) -> bool {
            $body!(self, spans, one, other)
        }
    };
    (@level $body:ident) => {
        fn level(&self, space: &str) -> Option<$crate::__macros::Level> {
            $body!(self, level, space)
        }
    };
    (@executes $body:ident) => {
        fn executes(&self) -> bool {
            $body!(self, executes)
        }
    };
    (@check_operations $body:ident) => {
        fn check_operations<'a>(
            &'a self,
            program: &'a $crate::__macros::ir::Program,
            store: $crate::__macros::StoreId,
            space: &'a str,
        ) -> $crate::store::BoxFuture<'a, Result<(), $crate::store::StoreError>> {
            $body!(self, check_operations, program, store, space)
        }
    };
    (@user $body:ident) => {
        fn user(&self) -> Option<std::sync::Arc<str>> {
            $body!(self, user)
        }
    };
    (@commit_replica $body:ident) => {
        fn commit_replica(&self) -> Option<std::sync::Arc<str>> {
            $body!(self, commit_replica)
        }
    };
    (@learn $body:ident) => {
        fn learn(&self, module: &str, source: &str) {
            $body!(self, learn, module, source)
        }
    };
    (@connect $body:ident) => {
        fn connect(
            &self,
        ) -> $crate::store::BoxFuture<
            '_,
            Result<Box<dyn $crate::store::Connection>, $crate::store::StoreError>,
        > {
            $body!(self, connect)
        }
    };
}
