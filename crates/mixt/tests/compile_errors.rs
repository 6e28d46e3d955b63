//! Compares the compiler's messages for wrong programs, and for wrong uses of programs, with the
//! recorded ones. `TRYBUILD=overwrite` records them again.

#[test]
fn messages_are_as_recorded() {
    trybuild::TestCases::new().compile_fail("tests/macros/*.rs");
}
