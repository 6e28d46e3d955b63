//! Encoding of values in stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use solera_program::codec::Codec;
use solera_program::ir::{Program, Store, Struct, VERSION};
use solera_program::types::{Object, StoreId, StructId, Type};
use solera_program::value::{Handle, Value};

fn program() -> Program {
    let store = |name: &str| Store {
        name: name.into(),
        level: "causal".into(),
        accepts: vec![solera_levels::Level::Causal],
        atomic: true,
        operations: vec![],
    };
    Program {
        version: VERSION,
        stores: vec![store("mail"), store("audit")],
        structs: vec![Struct {
            name: "User".into(),
            fields: vec![("name".into(), Type::String), ("inbox".into(), inbox())],
        }],
        objects: vec![],
        functions: vec![],
        transactions: vec![],
    }
}

fn inbox() -> Type {
    Type::Handle(Arc::new(Object::Set(Type::String)), StoreId(0))
}

fn list(of: Type) -> Type {
    Type::List(of.into())
}

fn handle(key: &str) -> Value {
    Value::Handle(Handle { store: "mail".into(), key: key.into() })
}

#[track_caller]
fn is(value: Value, ty: Type, bytes: &[u8]) {
    let program = program();
    let codec = Codec::new(&program);
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(shown(&codec.encode(&value, &ty).unwrap()), shown(bytes));
    assert_eq!(codec.decode(bytes, &ty), Ok(value));
}

#[test]
fn values_are_encoded_in_the_documented_form() {
    is(Value::string("a\"ä"), Type::String, "a\"ä".as_bytes());
    is(Value::Bytes(b"\xff\0".as_slice().into()), Type::Bytes, b"\xff\0");
    is(Value::Int(-12), Type::Int, b"-12");
    is(Value::Float(0.1), Type::Float, b"0.1");
    is(Value::Float(1e300), Type::Float, b"1e300");
    is(Value::Float(f64::NAN), Type::Float, b"NaN");
    is(Value::Bool(true), Type::Bool, b"true");
    is(Value::Unit, Type::Unit, b"");
    is(handle("users:7"), inbox(), b"users:7");
    is(Value::NONE, Type::Option(Type::Int.into()), b"null");
    is(Value::some(Value::Int(1)), Type::Option(Type::Int.into()), b"[1]");
    let texts = Value::list([Value::string("a\"\\\n\u{1}"), Value::string("ä")]);
    is(texts, list(Type::String), "[\"a\\\"\\\\\\n\\u0001\",\"ä\"]".as_bytes());
    is(
        Value::list([Value::Bytes(b"\x0f\xa0".as_slice().into())]),
        list(Type::Bytes),
        b"[\"0fa0\"]",
    );
    let floats = [0.5, f64::INFINITY].map(Value::Float);
    is(Value::list(floats), list(Type::Float), b"[0.5,\"inf\"]");
    let set = Value::Set(Arc::new([2, 1].map(Value::Int).into()));
    is(set, Type::Set(Type::Int.into()), b"[1,2]");
    let map = Value::Map(Arc::new(BTreeMap::from([(Value::Int(1), Value::string("a"))])));
    is(map, Type::Map(Type::Int.into(), Type::String.into()), b"[[1,\"a\"]]");
    let user = Value::Struct(Arc::new(vec![Value::string("Ada"), handle("k")]));
    is(user, Type::Struct(StructId(0)), b"{\"name\":\"Ada\",\"inbox\":\"k\"}");
}

#[test]
fn arguments_may_have_spaces_escapes_and_other_orders() {
    let program = program();
    let codec = Codec::new(&program);
    let user = Value::Struct(Arc::new(vec![Value::string("A\u{1f600}"), handle("k")]));
    let written = br#" { "inbox" : "mail:k", "name": "\u0041\uD83D\uDE00" } "#;
    assert_eq!(codec.argument(written, &Type::Struct(StructId(0))), Ok(user));
    assert_eq!(codec.argument(b"mail:k", &inbox()), Ok(handle("k")));
    assert_eq!(codec.argument(b"k", &inbox()), Ok(handle("k")));
    assert_eq!(codec.argument(b"user:k", &inbox()), Ok(handle("user:k")));
    // A stored value is a key, whatever its form.
    assert_eq!(codec.decode(b"mail:k", &inbox()), Ok(handle("mail:k")));
    assert_eq!(codec.result(&handle("k"), &inbox()).unwrap(), b"mail:k");
}

#[test]
fn an_argument_may_be_an_object_where_a_map_has_strings_as_keys() {
    let program = program();
    let codec = Codec::new(&program);
    let map = |key: Type, of: Type| Type::Map(key.into(), of.into());
    let counts = map(Type::String, Type::Int);
    for written in [r#"{"tea":3,"milk":1}"#, r#" { "t\u0065a" : 3 , "milk" : 1 } "#, "{}"] {
        let pairs = match written {
            "{}" => "[]",
            _ => r#"[["tea",3],["milk",1]]"#,
        };
        let value = codec.argument(pairs.as_bytes(), &counts);
        assert!(value.is_ok());
        assert_eq!(codec.argument(written.as_bytes(), &counts), value);
    }
    let nested = list(map(Type::String, map(Type::String, Type::Int)));
    let pairs = codec.argument(br#"[[["a",[["b",1]]]]]"#, &nested).unwrap();
    assert_eq!(codec.argument(br#"[{"a":{"b":1}}]"#, &nested), Ok(pairs.clone()));
    assert_eq!(codec.argument(br#"[[["a",{"b":1}]]]"#, &nested), Ok(pairs));

    let error = |bytes: &[u8], ty: &Type| codec.argument(bytes, ty).unwrap_err().to_string();
    assert_eq!(error(br#"{"a":1, "a":2}"#, &counts), r#"the key `"a"` is repeated (at byte 9)"#);
    assert_eq!(
        error(br#"{"a" 1}"#, &counts),
        "expected `:` in map<string, int>, found `1}` at byte 6"
    );
    assert_eq!(
        error(br#"{"1":1}"#, &map(Type::Int, Type::Int)),
        "expected map<int, int> as an array of pairs (`[[key, value], …]`), because an object has \
         only strings as keys, found `{\"1\":1}`"
    );
    assert_eq!(
        error(b"5", &counts),
        "expected map<string, int> as a JSON object (`{…}`) or an array of pairs \
         (`[[key, value], …]`), found `5`"
    );
    assert_eq!(
        error(br#"[["a\\b",1],["a\\b",2]]"#, &counts),
        r#"the key `"a\\b"` is repeated (at byte 14)"#
    );
    // Stores keep one form of each value.
    codec.decode(br#"{"tea":3}"#, &counts).unwrap_err();
}

#[test]
fn errors_name_what_was_expected_and_where() {
    let program = program();
    let codec = Codec::new(&program);
    let error = |bytes: &[u8], ty: Type| codec.argument(bytes, &ty).unwrap_err().to_string();
    assert_eq!(error(b"1x", Type::Int), "expected int, found `1x`");
    assert_eq!(error(b"", Type::Int), "expected int, found nothing");
    let no_text = "expected string, found `\u{fffd}`, which is not UTF-8";
    assert_eq!(error(b"\xff", Type::String), no_text);
    assert_eq!(error(b"audit:k", inbox()), "`audit:k` is not a handle of `mail`");
    assert_eq!(error(b"[1,true]", list(Type::Int)), "expected int, found `true]` at byte 4");
    assert_eq!(
        error(b"[1", list(Type::Int)),
        "expected `,` or `]` in list<int>, found the end of the text at byte 3"
    );
    assert_eq!(
        error(b"[1] 2", list(Type::Int)),
        "expected the end of the value, found `2` at byte 5"
    );
    assert_eq!(error(b"[1.5]", list(Type::Int)), "expected int, found `1.5]` at byte 2");
    let twice = error(b"[1,1]", Type::Set(Type::Int.into()));
    assert_eq!(twice, "the element `1` is repeated (at byte 4)");
    let user = Type::Struct(StructId(0));
    let missing = error(b"{\"name\":\"\"}", user.clone());
    assert_eq!(missing, "the field `inbox` of User is missing (at byte 1)");
    let twice = error(b"{\"name\":\"\",\"name\":\"\"}", user.clone());
    assert_eq!(twice, "the field `\"name\"` is repeated (at byte 12)");
    assert_eq!(error(b"{\"nome\":1}", user), "User has no field `\"nome\"` (at byte 2)");
    for broken in
        ["[\"\\x\"]", "[\"\\ud800\"]", "[\"\\ud800\\u0041\"]", "[\"\\u00g0\"]", "[\"", "[\"\\"]
    {
        codec.argument(broken.as_bytes(), &list(Type::String)).unwrap_err();
    }
    let misfit = codec.encode(&Value::Int(1), &Type::String).unwrap_err().to_string();
    assert_eq!(misfit, "expected string, found an integer");
    let other = Value::Handle(Handle { store: "audit".into(), key: "k".into() });
    let misfit = codec.encode(&other, &inbox()).unwrap_err().to_string();
    assert_eq!(misfit, "`audit:k` is not a handle of `mail`");
}

#[test]
fn values_of_recursive_types_are_read_only_up_to_a_depth() {
    let mut program = program();
    let of = Type::Option(Type::Struct(StructId(0)).into());
    program.structs[0].fields = vec![("next".into(), of)];
    let codec = Codec::new(&program);
    let text =
        |depth| format!("{}{{\"next\":null}}{}", "{\"next\":[".repeat(depth), "]}".repeat(depth));
    codec.decode(text(10).as_bytes(), &Type::Struct(StructId(0))).unwrap();
    let deep = codec.decode(text(100_000).as_bytes(), &Type::Struct(StructId(0)));
    assert_eq!(deep.unwrap_err().to_string(), "it is nested more than 64 deep");
}

fn typed() -> impl Strategy<Value = (Type, Value, Value)> {
    let leaf = prop_oneof![
        Just(Type::Unit),
        Just(Type::Bool),
        Just(Type::Int),
        Just(Type::Float),
        Just(Type::String),
        Just(Type::Bytes),
        Just(inbox()),
        Just(Type::Struct(StructId(0))),
    ];
    let ty = leaf.prop_recursive(4, 12, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|of| Type::Option(of.into())),
            inner.clone().prop_map(list),
            inner.clone().prop_map(|of| Type::Set(of.into())),
            (inner.clone(), inner).prop_map(|(key, of)| Type::Map(key.into(), of.into())),
        ]
    });
    ty.prop_flat_map(|ty| (Just(ty.clone()), value(&ty), value(&ty)))
}

fn value(ty: &Type) -> BoxedStrategy<Value> {
    let many = |of: &Type| prop::collection::vec(value(of), 0..4);
    match ty {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Int => any::<i64>().prop_map(Value::Int).boxed(),
        // All NaN values have one encoding.
        Type::Float => any::<f64>().prop_map(Value::Float).boxed(),
        Type::String => any::<String>().prop_map(Value::string).boxed(),
        Type::Bytes => any::<Vec<u8>>().prop_map(|bytes| Value::Bytes(bytes.into())).boxed(),
        Type::Handle(..) => any::<String>().prop_map(|key| handle(&key)).boxed(),
        Type::Option(of) => prop::option::of(value(of))
            .prop_map(|value| value.map_or(Value::NONE, Value::some))
            .boxed(),
        Type::List(of) => many(of).prop_map(Value::list).boxed(),
        Type::Set(of) => {
            many(of).prop_map(|values| Value::Set(Arc::new(BTreeSet::from_iter(values)))).boxed()
        }
        Type::Map(key, of) => prop::collection::vec((value(key), value(of)), 0..4)
            .prop_map(|entries| Value::Map(Arc::new(BTreeMap::from_iter(entries))))
            .boxed(),
        Type::Struct(_) => (any::<String>(), any::<String>())
            .prop_map(|(name, key)| {
                Value::Struct(Arc::new(vec![Value::string(name), handle(&key)]))
            })
            .boxed(),
        Type::Unit | Type::Unknown => Just(Value::Unit).boxed(),
    }
}

proptest! {
    #[test]
    fn values_round_trip_and_have_unique_encodings((ty, one, other) in typed()) {
        let program = program();
        let codec = Codec::new(&program);
        let bytes = codec.encode(&one, &ty).unwrap();
        prop_assert_eq!(codec.decode(&bytes, &ty), Ok(one.clone()));
        prop_assert_eq!(bytes == codec.encode(&other, &ty).unwrap(), one == other);
        let shown = codec.result(&one, &ty).unwrap();
        prop_assert_eq!(codec.argument(&shown, &ty), Ok(one));
    }

    #[test]
    fn no_bytes_panic((ty, _, _) in typed(), bytes in any::<Vec<u8>>(), text in "[\\[\\]{}\",:0-9a-z\\\\]*") {
        let program = program();
        let codec = Codec::new(&program);
        let _ = codec.argument(&bytes, &ty);
        if let Ok(value) = codec.argument(text.as_bytes(), &ty) {
            let canonical = codec.encode(&value, &ty).unwrap();
            prop_assert_eq!(codec.decode(&canonical, &ty), Ok(value));
        }
    }
}
