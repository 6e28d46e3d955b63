//! Formats values, operations and functions as a program writes them.

use solera_program::builtin::Builtin;
use solera_program::operation::ObjectOp;
use solera_program::types::Object;
use solera_program::value::Value;

/// Syntax of a call to a function of the language.
pub(super) enum Call {
    /// `name(args)`
    Function(&'static str),
    /// `first.name(others)`
    Method(&'static str),
    /// `first[second]`
    Index,
}

/// Returns the syntax of a call to a function of the language.
pub(super) fn call(builtin: Builtin) -> Call {
    use Builtin as B;
    match builtin {
        B::Some => Call::Function("some"),
        B::ToString => Call::Function("string"),
        B::ToInt => Call::Function("int"),
        B::ToFloat => Call::Function("float"),
        B::Min => Call::Function("min"),
        B::Max => Call::Function("max"),
        B::Abs => Call::Function("abs"),
        B::Floor => Call::Function("floor"),
        B::Sqrt => Call::Function("sqrt"),
        B::Index => Call::Index,
        B::IsSome => Call::Method("is_some"),
        B::IsNone => Call::Method("is_none"),
        B::OrElse => Call::Method("or"),
        B::OrFail => Call::Method("or_fail"),
        B::Len => Call::Method("len"),
        B::Get => Call::Method("get"),
        B::Contains => Call::Method("contains"),
        B::Elements => Call::Method("elements"),
        B::Push => Call::Method("push"),
        B::SetAt => Call::Method("set"),
        B::RemoveAt | B::Remove | B::RemoveKey => Call::Method("remove"),
        B::Reversed => Call::Method("reversed"),
        B::Sorted => Call::Method("sorted"),
        B::Slice => Call::Method("slice"),
        B::Join => Call::Method("join"),
        B::Insert => Call::Method("add"),
        B::Union => Call::Method("union"),
        B::Intersection => Call::Method("intersection"),
        B::Difference => Call::Method("difference"),
        B::Put => Call::Method("put"),
        B::Values => Call::Method("values"),
        B::StartsWith => Call::Method("starts_with"),
        B::EndsWith => Call::Method("ends_with"),
        B::Split => Call::Method("split"),
        B::Upper => Call::Method("upper"),
        B::Lower => Call::Method("lower"),
        B::Trim => Call::Method("trim"),
        B::ParseInt => Call::Method("parse_int"),
        B::ParseFloat => Call::Method("parse_float"),
        B::ToBytes => Call::Method("bytes"),
        B::ToText => Call::Method("text"),
    }
}

/// Returns whether a function returns a changed version of its first argument, which the program
/// assigns back.
pub(super) fn changes(builtin: Builtin) -> bool {
    use Builtin as B;
    matches!(
        builtin,
        B::Push | B::SetAt | B::RemoveAt | B::Insert | B::Remove | B::Put | B::RemoveKey
    )
}

/// Returns the name of an operation that is called as a method.
pub(super) fn operation(op: ObjectOp, object: &Object) -> &'static str {
    match op {
        ObjectOp::Exists => "is_valid",
        ObjectOp::Delete => "delete",
        ObjectOp::Get | ObjectOp::GetKey => "get",
        ObjectOp::Put => "set",
        ObjectOp::Increment | ObjectOp::Insert => "add",
        ObjectOp::Value => "value",
        ObjectOp::Remove | ObjectOp::RemoveKey => "remove",
        ObjectOp::Contains | ObjectOp::ContainsKey => "contains",
        ObjectOp::Elements => "elements",
        ObjectOp::PutKey => "put",
        ObjectOp::Entries => "entries",
        ObjectOp::Append if matches!(object, Object::List(_)) => "push",
        ObjectOp::Append => "append",
        ObjectOp::At => "at",
        ObjectOp::Values => "values",
        ObjectOp::Size => "size",
        // These are written with `*` and `->`.
        ObjectOp::Load | ObjectOp::Field(_) | ObjectOp::PutField(_) | ObjectOp::Create => "",
    }
}

/// Formats a value as a literal.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Unit => "()".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::String(text) => format!("{text:?}"),
        Value::Bytes(bytes) => format!("b\"{}\"", bytes.escape_ascii()),
        Value::Option(None) => "none".into(),
        // Programs have no literals of other types.
        other => format!("{other:?}"),
    }
}
