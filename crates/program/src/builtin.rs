//! Built-in functions and methods of values. None of them has effects.

use serde::{Deserialize, Serialize};

use crate::types::Type;

/// A built-in function. Arguments are in the order of the call; the first argument of a method is
/// its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Builtin {
    /// `some(x)`
    Some,
    /// `x.is_some()`
    IsSome,
    /// `x.is_none()`
    IsNone,
    /// `x.or(y)`: the value of the option, or `y`.
    OrElse,
    /// `x.or_fail()`: the value of the option; fails if there is none.
    OrFail,
    /// `x.len()`: elements, entries, characters or bytes.
    Len,
    /// `xs[i]`, `m[k]`; fails if there is no such element.
    Index,
    /// `xs.get(i)`, `m.get(k)`: the value, if there is one.
    Get,
    /// `xs.contains(x)`, `m.contains(k)`, `text.contains(part)`
    Contains,
    /// The elements of a list or set, or the keys of a map, as a list, for `for`.
    Elements,
    /// `xs.push(x)`: the list with one more element.
    Push,
    /// `xs.set(i, x)` and `xs[i] = x`: the list with another value at an index; fails if the index
    /// is out of range.
    SetAt,
    /// `xs.remove(i)`: the list without the value at an index; fails if the index is out of range.
    RemoveAt,
    /// `xs.reversed()`
    Reversed,
    /// `xs.sorted()`
    Sorted,
    /// `xs.slice(from, to)`, of lists, texts (in characters) and bytes; the range is clamped.
    Slice,
    /// `xs.join(separator)`, of a list of texts
    Join,
    /// `s.add(x)`: the set with an element.
    Insert,
    /// `s.remove(x)`: the set without an element.
    Remove,
    /// `s.union(t)`
    Union,
    /// `s.intersection(t)`
    Intersection,
    /// `s.difference(t)`
    Difference,
    /// `m.put(k, v)` and `m[k] = v`: the map with an entry.
    Put,
    /// `m.remove(k)`: the map without a key.
    RemoveKey,
    /// `m.values()`: as a list, in the order of the keys.
    Values,
    /// `text.starts_with(part)`
    StartsWith,
    /// `text.ends_with(part)`
    EndsWith,
    /// `text.split(separator)`; an empty separator fails.
    Split,
    /// `text.upper()`, for ASCII letters.
    Upper,
    /// `text.lower()`, for ASCII letters.
    Lower,
    /// `text.trim()`
    Trim,
    /// `string(x)` of a number, `bool`, text, or handle (its key).
    ToString,
    /// `text.parse_int()`: an option.
    ParseInt,
    /// `text.parse_float()`: an option.
    ParseFloat,
    /// `text.bytes()`
    ToBytes,
    /// `bytes.text()`: `none` unless they are UTF-8.
    ToText,
    /// `int(x)` of a float: rounds towards zero; fails on overflow.
    ToInt,
    /// `float(n)`
    ToFloat,
    /// `min(a, b)`
    Min,
    /// `max(a, b)`
    Max,
    /// `abs(x)`
    Abs,
    /// `floor(x)`
    Floor,
    /// `sqrt(x)`
    Sqrt,
}

impl Builtin {
    /// Returns whether it fails for some arguments.
    pub fn can_fail(self) -> bool {
        use Builtin as B;
        matches!(self, B::OrFail | B::Index | B::SetAt | B::RemoveAt | B::Split | B::ToInt | B::Abs)
    }
}

/// Types of the arguments of a builtin, without its receiver, and of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The function.
    pub builtin: Builtin,
    /// The types of its arguments, without the receiver.
    pub params: Vec<Type>,
    /// Type of its result; the receiver's type if it changes its receiver.
    pub result: Type,
    /// Whether a call changes its receiver: `xs.push(x)` is `xs = push(xs, x)`.
    pub changes: bool,
}

/// Returns the method of a name for a type of receiver.
#[expect(clippy::too_many_lines, reason = "a table, by type and name")]
pub fn method(receiver: &Type, name: &str) -> Option<Signature> {
    use Builtin as B;
    let string = || Type::String;
    let option = |of: &Type| Type::Option(of.clone().into());
    let list = |of: &Type| Type::List(of.clone().into());
    let gives = |builtin, params, result| Some((builtin, params, result, false));
    let changes = |builtin, params| Some((builtin, params, receiver.clone(), true));
    let found = match receiver {
        Type::Option(of) => match name {
            "is_some" => gives(B::IsSome, vec![], Type::Bool),
            "is_none" => gives(B::IsNone, vec![], Type::Bool),
            "or" => gives(B::OrElse, vec![(**of).clone()], (**of).clone()),
            "or_fail" => gives(B::OrFail, vec![], (**of).clone()),
            _ => None,
        },
        Type::List(of) => match name {
            "len" => gives(B::Len, vec![], Type::Int),
            "get" => gives(B::Get, vec![Type::Int], option(of)),
            "contains" => gives(B::Contains, vec![(**of).clone()], Type::Bool),
            "push" => changes(B::Push, vec![(**of).clone()]),
            "set" => changes(B::SetAt, vec![Type::Int, (**of).clone()]),
            "remove" => changes(B::RemoveAt, vec![Type::Int]),
            "reversed" => gives(B::Reversed, vec![], receiver.clone()),
            "sorted" if of.is_key() => gives(B::Sorted, vec![], receiver.clone()),
            "slice" => gives(B::Slice, vec![Type::Int, Type::Int], receiver.clone()),
            "join" if **of == Type::String => gives(B::Join, vec![string()], string()),
            _ => None,
        },
        Type::Set(of) => match name {
            "len" => gives(B::Len, vec![], Type::Int),
            "contains" => gives(B::Contains, vec![(**of).clone()], Type::Bool),
            "add" => changes(B::Insert, vec![(**of).clone()]),
            "remove" => changes(B::Remove, vec![(**of).clone()]),
            "union" => gives(B::Union, vec![receiver.clone()], receiver.clone()),
            "intersection" => gives(B::Intersection, vec![receiver.clone()], receiver.clone()),
            "difference" => gives(B::Difference, vec![receiver.clone()], receiver.clone()),
            "elements" => gives(B::Elements, vec![], list(of)),
            _ => None,
        },
        Type::Map(key, value) => match name {
            "len" => gives(B::Len, vec![], Type::Int),
            "get" => gives(B::Get, vec![(**key).clone()], option(value)),
            "contains" => gives(B::Contains, vec![(**key).clone()], Type::Bool),
            "put" => changes(B::Put, vec![(**key).clone(), (**value).clone()]),
            "remove" => changes(B::RemoveKey, vec![(**key).clone()]),
            "keys" => gives(B::Elements, vec![], list(key)),
            "values" => gives(B::Values, vec![], list(value)),
            _ => None,
        },
        Type::String => match name {
            "len" => gives(B::Len, vec![], Type::Int),
            "contains" => gives(B::Contains, vec![string()], Type::Bool),
            "starts_with" => gives(B::StartsWith, vec![string()], Type::Bool),
            "ends_with" => gives(B::EndsWith, vec![string()], Type::Bool),
            "split" => gives(B::Split, vec![string()], list(&Type::String)),
            "slice" => gives(B::Slice, vec![Type::Int, Type::Int], string()),
            "upper" => gives(B::Upper, vec![], string()),
            "lower" => gives(B::Lower, vec![], string()),
            "trim" => gives(B::Trim, vec![], string()),
            "parse_int" => gives(B::ParseInt, vec![], option(&Type::Int)),
            "parse_float" => gives(B::ParseFloat, vec![], option(&Type::Float)),
            "bytes" => gives(B::ToBytes, vec![], Type::Bytes),
            _ => None,
        },
        Type::Bytes => match name {
            "len" => gives(B::Len, vec![], Type::Int),
            "slice" => gives(B::Slice, vec![Type::Int, Type::Int], Type::Bytes),
            "text" => gives(B::ToText, vec![], option(&Type::String)),
            _ => None,
        },
        _ => None,
    };
    found.map(|(builtin, params, result, changes)| Signature { builtin, params, result, changes })
}

/// Returns the names of the methods of a type, for error messages.
pub fn method_names(receiver: &Type) -> &'static [&'static str] {
    match receiver {
        Type::Option(_) => &["is_some", "is_none", "or", "or_fail"],
        Type::List(_) => &[
            "len", "get", "contains", "push", "set", "remove", "reversed", "sorted", "slice",
            "join",
        ],
        Type::Set(_) => {
            &["len", "contains", "add", "remove", "union", "intersection", "difference", "elements"]
        }
        Type::Map(..) => &["len", "get", "contains", "put", "remove", "keys", "values"],
        Type::String => &[
            "len",
            "contains",
            "starts_with",
            "ends_with",
            "split",
            "slice",
            "upper",
            "lower",
            "trim",
            "parse_int",
            "parse_float",
            "bytes",
        ],
        Type::Bytes => &["len", "slice", "text"],
        _ => &[],
    }
}

/// Names of the functions.
pub const FUNCTIONS: [&str; 9] =
    ["some", "string", "int", "float", "min", "max", "abs", "floor", "sqrt"];

/// Returns the built-in function of a name and the type of its result; `None` if it does not accept
/// arguments of these types.
pub fn function(name: &str, args: &[Type]) -> Option<(Builtin, Type)> {
    let number = |ty: &Type| matches!(ty, Type::Int | Type::Float);
    match (name, args) {
        ("some", [of]) => Some((Builtin::Some, Type::Option(of.clone().into()))),
        ("string", [Type::Int | Type::Float | Type::Bool | Type::String | Type::Handle(..)]) => {
            Some((Builtin::ToString, Type::String))
        }
        ("int", [Type::Float]) => Some((Builtin::ToInt, Type::Int)),
        ("float", [Type::Int]) => Some((Builtin::ToFloat, Type::Float)),
        ("min", [one, other]) if one == other && number(one) => Some((Builtin::Min, one.clone())),
        ("max", [one, other]) if one == other && number(one) => Some((Builtin::Max, one.clone())),
        ("abs", [of]) if number(of) => Some((Builtin::Abs, of.clone())),
        ("floor", [Type::Float]) => Some((Builtin::Floor, Type::Float)),
        ("sqrt", [Type::Float]) => Some((Builtin::Sqrt, Type::Float)),
        _ => None,
    }
}
