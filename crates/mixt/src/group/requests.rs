//! Translates the operations of a phase into requests to its database.

use std::sync::Arc;

use solera_program::run::{CustomCall as CustomStep, RemoteCall};
use solera_program::value::Value;

use super::GroupRun;
use crate::request::Request;
use crate::request::calls::{CustomCall, ObjectCall};
use crate::witness;

impl GroupRun {
    pub(super) fn remote(&self, call: RemoteCall) -> Request {
        let bound = self.job.bindings.of(call.store);
        let space = &bound.place.space;
        Request::Perform(ObjectCall {
            program: Arc::clone(self.job.module.program()),
            space: Arc::clone(space),
            look: bound.atomic().then(|| witness::beside(space, &call.handle.key)),
            key: call.handle.key,
            object: call.object,
            op: call.op,
            args: call.args,
            result: call.result,
        })
    }

    pub(super) fn custom(&self, call: CustomStep) -> Request {
        let bound = self.job.bindings.of(call.store);
        let space = &bound.place.space;
        let program = self.job.module.program();
        let mut call = CustomCall {
            program: Arc::clone(program),
            store: call.store,
            operation: call.operation,
            space: Arc::clone(space),
            args: call.args,
            look: Vec::new(),
        };
        if bound.atomic() {
            let params = call.operation().params.iter().zip(&call.args);
            let held = params.filter(|(param, _)| param.dereferenced);
            let mut look: Vec<_> = held
                .filter_map(|(_, arg)| match arg {
                    Value::Handle(handle) => Some(witness::beside(space, &handle.key)),
                    _ => None,
                })
                .collect();
            // The operation does not declare what else it uses of the store, so all operations that
            // use objects this way share one witness.
            look.push(witness::beside_all(space));
            call.look = look;
        }
        Request::Custom(call)
    }
}
