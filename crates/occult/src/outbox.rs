//! Messages and replies that are to be sent.

use std::collections::VecDeque;

use solera_machine::{Address, RarePath, RequestId};

use crate::command::Response;
use crate::message::{Body, Event};
use crate::record::Record;

/// Outputs of one worker, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    outputs: VecDeque<Out>,
}

/// An output.
#[derive(Debug)]
pub(crate) enum Out {
    /// Later outputs must not leave before this record is durable.
    Record(Box<Record>),
    Send(Address, Body),
    Reply(RequestId, Response),
    Trace(Event),
}

impl Outbox {
    pub(crate) fn send(&mut self, to: Address, body: Body) {
        self.outputs.push_back(Out::Send(to, body));
    }

    pub(crate) fn record(&mut self, record: Record) {
        self.outputs.push_back(Out::Record(Box::new(record)));
    }

    pub(crate) fn reply(&mut self, request: RequestId, response: Response) {
        self.outputs.push_back(Out::Reply(request, response));
    }

    pub(crate) fn trace(&mut self, event: Event) {
        self.outputs.push_back(Out::Trace(event));
    }

    pub(crate) fn rare(&mut self, path: RarePath) {
        self.trace(Event::Rare(path));
    }

    pub(crate) fn pop(&mut self) -> Option<Out> {
        self.outputs.pop_front()
    }
}
