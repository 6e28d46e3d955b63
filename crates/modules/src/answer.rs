//! Conversion of results to replies, and of outcomes to errors.

use solera_mixt::outcome::Why;
use solera_mixt::store::StoreError;
use solera_program::codec::Codec;
use solera_program::ir::Program;
use solera_program::run::{Failure, FailureKind};
use solera_program::span::Position;
use solera_program::types::Type;
use solera_program::value::Value;
use solera_resp::Value as Reply;

/// Converts a result to a reply.
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
        // A handle is returned in the form of an argument.
        (value, ty) => match Codec::new(program).result(value, ty) {
            Ok(bytes) => Reply::Bulk(bytes),
            Err(error) => Reply::Error(format!("ERR the result cannot be returned: {error}")),
        },
    }
}

/// Returns the error reply for a transaction of this source that changed nothing.
pub(crate) fn failure(why: &Why, source: &str) -> String {
    let refused = match why {
        Why::Refused { reason, .. } => Some(&**reason),
        why => why.failure().and_then(refusal),
    };
    let code = match why {
        // Even if the failure is certain, the caller can fix it by changing the program or the
        // limit.
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
    let text = explain(why, source);
    let text = if code == "TOOLARGE" { text.replacen(TOO_LARGE, "", 1) } else { text };
    format!("{code} {text}; nothing was changed")
}

/// Returns the store's error text if the program failed because a store refused something.
fn refusal(failure: &Failure) -> Option<&str> {
    match &failure.kind {
        FailureKind::Refused { reason, .. } => Some(reason),
        _ => None,
    }
}

/// Prefix of a site's error for a value or transaction beyond a limit. It is an error code that
/// callers must see too.
const TOO_LARGE: &str = "TOOLARGE ";

/// Explains why a transaction of this source did not complete. If its program failed, the text
/// names the place and the line.
pub(crate) fn explain(why: &Why, source: &str) -> String {
    let Some(Failure { kind, span, place }) = why.failure() else { return why.to_string() };
    // A failure before the first statement has no place in the source.
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
        let converted = |value: Value, ty: Type| reply(&program, &value, &ty);
        assert_eq!(converted(Value::Unit, Type::Unit), Reply::Simple("OK".into()));
        assert_eq!(converted(Value::Bool(true), Type::Bool), Reply::Boolean(true));
        let option = Type::Option(Arc::new(Type::Int));
        assert_eq!(converted(Value::NONE, option.clone()), Reply::Null);
        assert_eq!(converted(Value::some(Value::Int(3)), option), Reply::Integer(3));
        let list = Type::List(Arc::new(Type::String));
        let one = Reply::Array(vec![Reply::Bulk(b"a".into())]);
        assert_eq!(converted(Value::list([Value::string("a")]), list), one);
        let handle = Value::Handle(Handle { store: "mail".into(), key: "k".into() });
        let object = Arc::new(solera_program::types::Object::Counter);
        let ty = Type::Handle(object, solera_program::types::StoreId(0));
        assert_eq!(converted(handle, ty), Reply::Bulk(b"mail:k".into()));
    }
}
