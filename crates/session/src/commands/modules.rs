//! SOLERA.MODULE, SOLERA.CALL and SOLERA.PHASE, which are carried out above this crate.

use solera_resp::{Arguments, Value, Writer};

use crate::context::Context;
use crate::lent::Lent;
use crate::session::Session;

/// The subcommands of SOLERA.MODULE, as access is given to them.
#[cfg(test)]
pub(crate) const SUBCOMMANDS: [&str; 6] = ["load", "drop", "list", "source", "check", "help"];

/// Hands the command over and waits for its answer. What was done the session has seen.
pub(crate) async fn run<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    if session.in_transaction() {
        return session.fail("ERR modules cannot be used inside a transaction");
    }
    let lent = Lent::new(session.identity.user(), session.pasts);
    let request = arguments.from(0).map(<[u8]>::to_vec).collect();
    let Some(answer) = session.worker.run_modules(lent.clone(), request) else {
        return session.fail("ERR this server runs no modules");
    };
    match answer.await {
        Ok(Value::Error(text)) => session.fail(text),
        Ok(value) => write(&mut session.out, &value),
        Err(_) => session.fail_unanswered(),
    }
    session.pasts.join(&lent.pasts());
}

/// Appends a value. Kinds that modules do not answer with are told as texts.
fn write(out: &mut Writer, value: &Value) {
    match value {
        Value::Null => out.null(),
        Value::Simple(text) => out.simple(text),
        Value::Error(text) => out.error(text),
        Value::Integer(number) => out.integer(*number),
        Value::Bulk(bytes) => out.bulk(bytes),
        Value::Boolean(truth) => out.boolean(*truth),
        Value::Double(number) => out.double(*number),
        Value::Array(items) | Value::Push(items) => {
            out.array(items.len());
            items.iter().for_each(|item| write(out, item));
        }
        Value::Set(items) => {
            out.set(items.len());
            items.iter().for_each(|item| write(out, item));
        }
        Value::Map(pairs) => {
            out.map(pairs.len());
            for (key, value) in pairs {
                write(out, key);
                write(out, value);
            }
        }
        Value::BigNumber(text) | Value::Verbatim { text, .. } => out.bulk(text.as_bytes()),
    }
}
