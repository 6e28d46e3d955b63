//! Calls of custom operations.

use std::sync::Arc;

use solera_mixt::store::{Answer, CustomCall, StoreError};
use solera_program::value::Value;

use super::{Open, PostgresSession, State, seen};
use crate::custom;
use crate::failure::RequestError;
use crate::names::Wanted;
use crate::objects::check_key;
use crate::schema::Sql;

/// Prevents a query from writing: a subtransaction can become read-only within a transaction that
/// may write.
const GUARD: [&str; 2] = ["SAVEPOINT solera_query", "SET LOCAL transaction_read_only = on"];
const UNGUARD: &str = "RELEASE SAVEPOINT solera_query";

impl PostgresSession {
    pub(super) async fn custom(&mut self, call: &CustomCall) -> Result<Answer, StoreError> {
        self.check_open()?;
        self.check_space(&call.space)?;
        self.start().await?;
        let operation = call.operation();
        let only_reads = matches!(self.state, State::Open(Open { number: None }));
        let link = self.open_link()?;
        let bound = link.custom(&call.space, &operation.name);
        let (plan, statement) = match custom::check(&call.program, operation, bound) {
            Ok(found) => found,
            Err(problem) => return Err(self.mismatch(call, problem)),
        };
        let args = self.dereference(call).await?;
        let params = plan.encode(&call.program, operation, &args)?;
        let looks = Wanted::new(&call.look);
        let shared = Arc::clone(&self.shared);
        let link = self.open_link()?;
        let prepared = async {
            let mut statements = Vec::new();
            let guarded = !operation.mutates && !only_reads;
            if guarded {
                for sql in GUARD {
                    statements.push((link.statement(sql).await?, vec![]));
                }
            }
            let at = statements.len();
            statements.push((statement, params.iter().map(|param| param as _).collect()));
            if guarded {
                statements.push((link.statement(UNGUARD).await?, vec![]));
            }
            if !looks.is_empty() {
                statements.push((link.statement(&shared.sql.read_names).await?, looks.params()));
            }
            let sent = link.pipeline(statements).await;
            sent.map(|answers| (at, answers)).map_err(|(_, failure)| failure)
        };
        let (at, answers) = match prepared.await {
            Ok(answers) => answers,
            Err(failure) => return Err(self.fail_custom(call, &failure).await),
        };
        // The statement may have changed something although its answer is rejected, so the program
        // must not continue.
        match plan.decode(&call.program, &answers[at]) {
            Ok(value) => Ok(Answer { value: Some(value), seen: seen(&looks, &answers)? }),
            Err(why) => {
                let text = format!("the operation `{}`: {why}", operation.name);
                let error = StoreError::Refused(text);
                self.spoil(&error).await;
                Err(error)
            }
        }
    }

    /// Returns the error for an operation whose statement does not match.
    fn mismatch(&mut self, call: &CustomCall, problem: custom::Problem) -> StoreError {
        let refused = match &problem {
            custom::Problem::Unprepared(error) => {
                let error = error.clone();
                // A new connection prepares the statement again, as a missing table may exist by
                // then.
                self.lose();
                error
            }
            _ => StoreError::Refused(String::new()),
        };
        let store = call.program.stores[usize::from(call.store.0)].name.to_string();
        let operation = call.operation().name.to_string();
        let described = custom::CheckError::Operation { store, operation, problem };
        refused.refused_with(|_| described.to_string())
    }

    async fn fail_custom(&mut self, call: &CustomCall, failure: &RequestError) -> StoreError {
        let operation = call.operation();
        if failure.is_outdated() {
            // A new connection prepares the statement again and checks it.
            self.lose();
            let text = format!(
                "the result of the operation `{}` has changed with its tables: {failure}",
                operation.name
            );
            return StoreError::Unavailable(text);
        }
        if failure.is_read_only() && !operation.mutates {
            let text = format!(
                "the query `{}` writes, so it must be declared as an operation: {failure}",
                operation.name
            );
            let error = StoreError::Refused(text);
            self.spoil(&error).await;
            return error;
        }
        let error = self.fail(failure).await;
        let error = error.refused_with(|why| format!("the operation `{}`: {why}", operation.name));
        if let State::Spoiled(kept) = &mut self.state {
            *kept = error.clone();
        }
        error
    }

    /// Returns the arguments, with the values of objects in place of the handles of dereferenced
    /// parameters.
    async fn dereference(&mut self, call: &CustomCall) -> Result<Vec<Value>, StoreError> {
        let params = &call.operation().params;
        let mut args = call.args.clone();
        let places = params.iter().zip(&mut args).filter(|(param, _)| param.dereferenced);
        let mut wanted = Vec::new();
        for (param, arg) in places {
            let Value::Handle(handle) = &*arg else {
                return Err(StoreError::Refused(format!("`{}` is not a handle", param.name)));
            };
            check_key(&handle.key)?;
            let key = handle.key.to_string();
            wanted.push((param, arg, key));
        }
        if wanted.is_empty() {
            return Ok(args);
        }
        let shared = Arc::clone(&self.shared);
        let (sql, space): (&Sql, &str) = (&shared.sql, &call.space);
        let statements = wanted.iter().flat_map(|(.., key)| {
            [
                (&*sql.object, vec![&space as _, key as _]),
                (&*sql.items, vec![&space as _, key as _]),
            ]
        });
        let answers = match self.open_link()?.send(statements.collect()).await {
            Ok(answers) => answers,
            Err((_, failure)) => return Err(self.fail(&failure).await),
        };
        for ((param, arg, key), found) in wanted.into_iter().zip(answers.chunks(2)) {
            *arg = custom::held(&call.program, param, &key.into(), found)?;
        }
        Ok(args)
    }
}
