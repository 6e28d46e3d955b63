//! What Rust says of programs that are wrong, or used wrongly. `TRYBUILD=overwrite` writes the
//! messages anew.

#[test]
fn messages_are_as_they_were() {
    trybuild::TestCases::new().compile_fail("tests/macros/*.rs");
}
