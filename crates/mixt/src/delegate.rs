//! Macros for databases and connections whose methods all do the same: pass the call on to another
//! database or connection, or box the future of an `async` method of the same name.
//!
//! Each macro takes the names of the methods to implement, after the name of a macro that makes the
//! body. It is called with `self`, the name of the method and the arguments.

/// Implements methods of [`Connection`](crate::store::Connection).
#[macro_export]
macro_rules! connection_methods {
    ($body:ident: $($method:ident)*) => {
        $($crate::connection_methods!(@$method $body);)*
    };
    (@begin $body:ident) => {
        fn begin<'a>(
            &'a mut self,
            begin: &'a $crate::store::Begin,
        ) -> $crate::store::BoxFuture<'a, Result<Vec<$crate::store::Fields>, $crate::store::StoreError>> {
            $body!(self, begin, begin)
        }
    };
    (@perform $body:ident) => {
        fn perform<'a>(
            &'a mut self,
            call: &'a $crate::store::ObjectCall,
        ) -> $crate::store::BoxFuture<'a, Result<$crate::store::Answer, $crate::store::StoreError>> {
            $body!(self, perform, call)
        }
    };
    (@custom $body:ident) => {
        fn custom<'a>(
            &'a mut self,
            call: &'a $crate::store::CustomCall,
        ) -> $crate::store::BoxFuture<'a, Result<$crate::store::Answer, $crate::store::StoreError>> {
            $body!(self, custom, call)
        }
    };
    (@commit $body:ident) => {
        fn commit<'a>(
            &'a mut self,
            writes: &'a [$crate::store::NameWrite],
        ) -> $crate::store::BoxFuture<'a, Result<(), $crate::store::StoreError>> {
            $body!(self, commit, writes)
        }
    };
    (@execute $body:ident) => {
        fn execute<'a>(
            &'a mut self,
            group: &'a $crate::remote_group::RemoteGroup,
        ) -> $crate::store::BoxFuture<
            'a,
            Result<$crate::remote_group::RemoteReplies, $crate::store::StoreError>,
        > {
            $body!(self, execute, group)
        }
    };
    (@certify $body:ident) => {
        fn certify(
            &mut self,
        ) -> $crate::store::BoxFuture<'_, Result<(), $crate::store::StoreError>> {
            $body!(self, certify)
        }
    };
    (@abort $body:ident) => {
        fn abort(
            &mut self,
        ) -> $crate::store::BoxFuture<'_, Result<(), $crate::store::StoreError>> {
            $body!(self, abort)
        }
    };
    (@list $body:ident) => {
        fn list<'a>(
            &'a mut self,
            list: &'a $crate::store::List,
        ) -> $crate::store::BoxFuture<'a, Result<Vec<std::sync::Arc<str>>, $crate::store::StoreError>> {
            $body!(self, list, list)
        }
    };
    (@sees $body:ident) => {
        fn sees<'a>(
            &'a mut self,
            commits: &'a $crate::store::Commits,
        ) -> $crate::store::BoxFuture<'a, Result<bool, $crate::store::StoreError>> {
            $body!(self, sees, commits)
        }
    };
    (@horizon $body:ident) => {
        fn horizon(
            &mut self,
        ) -> $crate::store::BoxFuture<
            '_,
            Result<Option<$crate::store::Horizon>, $crate::store::StoreError>,
        > {
            $body!(self, horizon)
        }
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
    (@describe $body:ident) => {
        fn describe(&self) -> $crate::store::Description {
            $body!(self, describe)
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
    (@whence $body:ident) => {
        fn whence(&self) -> Option<std::sync::Arc<str>> {
            $body!(self, whence)
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
