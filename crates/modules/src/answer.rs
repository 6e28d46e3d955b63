//! Results as replies, and outcomes as errors.

use solera_mixt::outcome::Why;
use solera_mixt::store::StoreError;
use solera_program::codec::Codec;
use solera_program::ir::Program;
use solera_program::run::{Failure, FailureKind};
use solera_program::span::Position;
use solera_program::types::Type;
use solera_program::value::Value;
use solera_resp::Value as Reply;

/// A result as a reply.
pub(crate) fn reply(program: &Program, value: &Value, ty: &Type) -> Reply {
    let one = |value: &Value, ty: &Type| reply(program, value, ty);
    match (value, ty) {
        (Value::Unit, _) => Reply::Simple("OK".to_owned()),
        (Value::Bool(truth), _) => Reply::Boolean(*truth),
        (Value::Int(number), _) => Reply::Integer(*number),
        (Value::Float(number), _) => Reply::Double(*number),
        (Value::String(text), _) => Reply::Bulk(text.as_bytes().to_vec()),
        (Value::Bytes(bytes), _) => Reply::Bulk(bytes.to_vec()),
        (Value::Option(None), _) => Reply::Null,
        (Value::Option(Some(value)), Type::Option(of)) => one(value, of),
        (Value::List(values), Type::List(of)) => {
            Reply::Array(values.iter().map(|value| one(value, of)).collect())
        }
        (Value::Set(values), Type::Set(of)) => {
            Reply::Set(values.iter().map(|value| one(value, of)).collect())
        }
        (Value::Map(pairs), Type::Map(key, of)) => {
            Reply::Map(pairs.iter().map(|(k, v)| (one(k, key), one(v, of))).collect())
        }
        (Value::Struct(values), Type::Struct(id)) => {
            let fields = &program.structs[usize::from(id.0)].fields;
            let pairs = fields.iter().zip(&**values);
            let named = |name: &str| Reply::Bulk(name.as_bytes().to_vec());
            Reply::Map(pairs.map(|((name, ty), value)| (named(name), one(value, ty))).collect())
        }
        // A handle: what it is as an argument.
        (value, ty) => match Codec::new(program).result(value, ty) {
            Ok(bytes) => Reply::Bulk(bytes),
            Err(error) => Reply::Error(format!("ERR the result cannot be told: {error}")),
        },
    }
}

/// What is told of a transaction of this source that has changed nothing.
pub(crate) fn failure(why: &Why, source: &str) -> String {
    let refused = match why {
        Why::Refused { reason, .. } => Some(&**reason),
        why => why.failure().and_then(refusal),
    };
    let code = match why {
        // However certain the values are: mending the program helps.
        _ if refused.is_some_and(|reason| reason.starts_with(TOO_LARGE)) => "TOOLARGE",
        Why::Program(Failure { kind: FailureKind::Time { .. }, .. }) => "TIMEOUT",
        Why::Program(_) | Why::Refused { .. } | Why::Denied { .. } | Why::GivenUp { .. } => {
            "FAILED"
        }
        Why::Contention { .. } => "ABORTED",
        Why::Unavailable { .. } | Why::Blocked { .. } | Why::Taken | Why::Late => "UNAVAILABLE",
        Why::Uncertified { error: StoreError::Unavailable(_), .. } => "UNAVAILABLE",
        Why::Uncertified { .. } => "FAILED",
        Why::Unknown { .. } | Why::Completed => "UNKNOWN",
    };
    let told = told(why, source);
    let told = if code == "TOOLARGE" { told.replacen(TOO_LARGE, "", 1) } else { told };
    format!("{code} {told}; nothing was changed")
}

/// What a store said with which a program failed, if it did with that.
fn refusal(failure: &Failure) -> Option<&str> {
    match &failure.kind {
        FailureKind::Refused { reason, .. } => Some(reason),
        _ => None,
    }
}

/// What a site's refusal begins with of what is beyond a limit: a code that callers are to see,
/// too.
const TOO_LARGE: &str = "TOOLARGE ";

/// Why a transaction of this source did not come to its end: where its program failed with the
/// line.
pub(crate) fn told(why: &Why, source: &str) -> String {
    let Some(Failure { kind, span, place }) = why.failure() else { return why.to_string() };
    // What fails before it begins has no place in the source.
    let line = match span.start < span.end {
        true => format!(", line {}", Position::of(source, span.start).line),
        false => String::new(),
    };
    let caveat = why.caveat().map_or(String::new(), |caveat| format!("; {caveat}"));
    format!("{kind} ({place}{line}){caveat}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use solera_program::value::Handle;

    use super::*;

    #[test]
    fn results_are_replies_of_their_kind() {
        let compiled = solera_language::compile::compile("store mail : causal;");
        let program = compiled.program.unwrap();
        let told = |value: Value, ty: Type| reply(&program, &value, &ty);
        assert_eq!(told(Value::Unit, Type::Unit), Reply::Simple("OK".into()));
        assert_eq!(told(Value::Bool(true), Type::Bool), Reply::Boolean(true));
        let option = Type::Option(Arc::new(Type::Int));
        assert_eq!(told(Value::NONE, option.clone()), Reply::Null);
        assert_eq!(told(Value::some(Value::Int(3)), option), Reply::Integer(3));
        let list = Type::List(Arc::new(Type::String));
        let one = Reply::Array(vec![Reply::Bulk(b"a".into())]);
        assert_eq!(told(Value::list([Value::string("a")]), list), one);
        let handle = Value::Handle(Handle { store: "mail".into(), key: "k".into() });
        let object = Arc::new(solera_program::types::Object::Counter);
        let ty = Type::Handle(object, solera_program::types::StoreId(0));
        assert_eq!(told(handle, ty), Reply::Bulk(b"mail:k".into()));
    }
}
