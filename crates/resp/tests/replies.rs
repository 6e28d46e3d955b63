//! Replies: parsing bytes, and parsing what a server writes.

use proptest::prelude::*;
use solera_resp::{Limits, Protocol, ReplyError, ReplyParser, Value, Writer, parse_value};

/// Parses all replies in `bytes`, fed in pieces of the given sizes.
fn parse(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Value>, ReplyError> {
    let mut parser = ReplyParser::default();
    let (mut buffer, mut values, mut fed) = (Vec::new(), Vec::new(), 0);
    let mut pieces = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
    while fed < bytes.len() {
        let piece = pieces.next().unwrap_or(1).clamp(1, bytes.len() - fed);
        buffer.extend_from_slice(&bytes[fed..fed + piece]);
        fed += piece;
        while let Some((value, used)) = parser.next(&buffer)? {
            values.push(value);
            buffer.drain(..used);
        }
    }
    Ok(values)
}

fn bulk(bytes: &[u8]) -> Value {
    Value::Bulk(bytes.to_vec())
}

#[test]
fn every_type_is_read() {
    use Value::{Array, Boolean, Double, Error, Integer, Map, Null, Push, Set, Simple};
    let big = |digits: &str| Value::BigNumber(digits.to_owned());
    let verbatim = Value::Verbatim { format: *b"txt", text: "hi".to_owned() };
    let cases: Vec<(&str, Value)> = vec![
        ("+OK\r\n", Simple("OK".to_owned())),
        ("-ERR no\r\n", Error("ERR no".to_owned())),
        ("!6\r\nERR no\r\n", Error("ERR no".to_owned())),
        (":-7\r\n", Integer(-7)),
        (":+7\r\n", Integer(7)),
        ("$4\r\na\r\nb\r\n", bulk(b"a\r\nb")),
        ("$0\r\n\r\n", bulk(b"")),
        ("$-1\r\n", Null),
        ("*-1\r\n", Null),
        ("_\r\n", Null),
        ("#t\r\n", Boolean(true)),
        ("#f\r\n", Boolean(false)),
        (",1.5\r\n", Double(1.5)),
        (",-1e300\r\n", Double(-1e300)),
        (",inf\r\n", Double(f64::INFINITY)),
        (",-inf\r\n", Double(f64::NEG_INFINITY)),
        ("(-99999999999999999999\r\n", big("-99999999999999999999")),
        ("=6\r\ntxt:hi\r\n", verbatim),
        ("*0\r\n", Array(vec![])),
        ("*2\r\n*1\r\n:1\r\n:2\r\n", Array(vec![Array(vec![Integer(1)]), Integer(2)])),
        ("~1\r\n:1\r\n", Set(vec![Integer(1)])),
        ("%1\r\n+k\r\n:1\r\n", Map(vec![(Simple("k".to_owned()), Integer(1))])),
        ("%0\r\n", Map(vec![])),
        (">1\r\n+m\r\n", Push(vec![Simple("m".to_owned())])),
        ("|1\r\n+ttl\r\n:9\r\n:1\r\n", Integer(1)),
        ("|0\r\n:1\r\n", Integer(1)),
        ("*2\r\n|1\r\n+a\r\n*1\r\n:9\r\n:1\r\n:2\r\n", Array(vec![Integer(1), Integer(2)])),
    ];
    for (bytes, value) in cases {
        for pieces in [[].as_slice(), &[1; 64]] {
            assert_eq!(parse(bytes.as_bytes(), pieces), Ok(vec![value.clone()]), "{bytes:?}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(parse_value(&bytes.as_bytes()[..cut]), Ok(None), "{bytes:?} cut at {cut}");
        }
    }
    assert!(matches!(parse(b",nan\r\n", &[]).unwrap()[..], [Double(number)] if number.is_nan()));
}

#[test]
fn malformed_replies_are_rejected() {
    let deep = "*1\r\n".repeat(33);
    let long = format!("+{}", "x".repeat(64 * 1024 + 1));
    let cases: Vec<(&str, ReplyError)> = vec![
        ("x", ReplyError::UnknownType(b'x')),
        ("\r\n", ReplyError::UnknownType(b'\r')),
        (":1x\r\n", ReplyError::BadNumber),
        (":+-1\r\n", ReplyError::BadNumber),
        (":\r\n", ReplyError::BadNumber),
        ("$-2\r\n", ReplyError::BadNumber),
        ("*-2\r\n", ReplyError::BadNumber),
        ("%-1\r\n", ReplyError::BadNumber),
        (",x\r\n", ReplyError::BadNumber),
        ("(1.5\r\n", ReplyError::BadNumber),
        ("(-\r\n", ReplyError::BadNumber),
        ("#x\r\n", ReplyError::Malformed(b'#')),
        ("_x\r\n", ReplyError::Malformed(b'_')),
        ("=2\r\nhi\r\n", ReplyError::Malformed(b'=')),
        ("+a\rb", ReplyError::MissingLineEnd),
        ("$1\r\nabc", ReplyError::MissingLineEnd),
        ("$536870913\r\n", ReplyError::BulkTooLong),
        ("*9223372036854775807\r\n", ReplyError::TooManyValues),
        ("%9223372036854775807\r\n", ReplyError::TooManyValues),
        (&deep, ReplyError::TooDeep),
        (&long, ReplyError::LineTooLong),
    ];
    for (bytes, error) in cases {
        for pieces in [[].as_slice(), &[1; 200]] {
            assert_eq!(parse(bytes.as_bytes(), pieces), Err(error), "{:.40?}", bytes);
        }
    }
}

#[test]
fn limits_count_the_values_on_all_levels() {
    let bytes = b"*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n";
    let limits = |depth, values| Limits { depth, bulk_bytes: 10, values };
    let parse = |limits| ReplyParser::new(limits).next(bytes);
    assert!(parse(limits(2, 4)).unwrap().is_some());
    assert_eq!(parse(limits(2, 3)), Err(ReplyError::TooManyValues));
    assert_eq!(parse(limits(1, 4)), Err(ReplyError::TooDeep));
}

#[test]
fn limits_hold_for_each_reply_alone() {
    let mut parser = ReplyParser::new(Limits { depth: 1, bulk_bytes: 1, values: 1 });
    for _ in 0..3 {
        assert!(parser.next(b"*1\r\n:1\r\n").unwrap().is_some());
    }
}

/// Generates values that RESP3 can carry and a writer can write. Text has no line breaks.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        "[a-z ]{0,9}".prop_map(Value::Simple),
        "[A-Z]{1,5} [a-z]{0,5}".prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bulk),
        any::<bool>().prop_map(Value::Boolean),
        prop::num::f64::ANY
            .prop_filter("is equal to itself", |n| !n.is_nan())
            .prop_map(Value::Double),
        "\\PC{0,9}".prop_map(|text| Value::Verbatim { format: *b"txt", text }),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let many = prop::collection::vec(inner.clone(), 0..5);
        prop_oneof![
            many.clone().prop_map(Value::Array),
            many.clone().prop_map(Value::Set),
            many.prop_map(Value::Push),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

fn write(writer: &mut Writer, value: &Value) {
    match value {
        Value::Null => writer.null(),
        Value::Simple(text) => writer.simple(text),
        Value::Error(text) => writer.error(text),
        Value::Integer(number) => writer.integer(*number),
        Value::Bulk(bytes) => writer.bulk(bytes),
        Value::Boolean(boolean) => writer.boolean(*boolean),
        Value::Double(number) => writer.double(*number),
        Value::Verbatim { format, text } => writer.verbatim(*format, text),
        Value::BigNumber(_) => unreachable!("servers write none"),
        Value::Array(items) => {
            writer.array(items.len());
            items.iter().for_each(|item| write(writer, item));
        }
        Value::Set(items) => {
            writer.set(items.len());
            items.iter().for_each(|item| write(writer, item));
        }
        Value::Push(items) => {
            writer.push(items.len());
            items.iter().for_each(|item| write(writer, item));
        }
        Value::Map(pairs) => {
            writer.map(pairs.len());
            for (key, value) in pairs {
                write(writer, key);
                write(writer, value);
            }
        }
    }
}

/// Converts a value to the form in which RESP2 carries it.
fn in_resp2(value: &Value) -> Value {
    let all = |items: &[Value]| items.iter().map(in_resp2).collect();
    match value {
        Value::Boolean(boolean) => Value::Integer((*boolean).into()),
        Value::Verbatim { text, .. } => bulk(text.as_bytes()),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => Value::Array(all(items)),
        Value::Map(pairs) => {
            Value::Array(pairs.iter().flat_map(|(k, v)| [in_resp2(k), in_resp2(v)]).collect())
        }
        Value::Double(number) => {
            let mut writer = Writer::new(Protocol::Resp3);
            writer.double(*number);
            bulk(&writer.bytes[1..writer.bytes.len() - 2])
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn replies_survive_writing_and_parsing(
        values in prop::collection::vec(values(), 1..4),
        pieces in prop::collection::vec(1usize..30, 0..40),
    ) {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut writer = Writer::new(protocol);
            values.iter().for_each(|value| write(&mut writer, value));
            let expected = match protocol {
                Protocol::Resp2 => values.iter().map(in_resp2).collect(),
                Protocol::Resp3 => values.clone(),
            };
            prop_assert_eq!(parse(&writer.bytes, &pieces), Ok(expected));
        }
    }

    #[test]
    fn bytes_like_replies_mean_the_same_however_they_arrive(
        words in prop::collection::vec(prop::sample::select(vec![
            "*1\r\n", "*2\r\n", "$3\r\n", "\r\n", "*-1\r\n", "*", "$", "12", "|1\r\n", "|0\r\n",
            "%1\r\n", "~1\r\n", ":1\r\n", "_\r\n", "#t\r\n", "\r", "\n", "=4\r\ntxt:\r\n", ",1\r\n",
            ">1\r\n", "(1\r\n", "-E\r\n", "%0\r\n",
        ]), 0..30),
        pieces in prop::collection::vec(1usize..10, 0..40),
    ) {
        let bytes = words.concat().into_bytes();
        prop_assert_eq!(parse(&bytes, &pieces), parse(&bytes, &[]));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        pieces in prop::collection::vec(1usize..40, 0..40),
    ) {
        let _ = parse(&bytes, &pieces);
    }
}
