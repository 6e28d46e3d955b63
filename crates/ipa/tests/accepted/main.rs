//! The accepted twins of the rejected programs of `compile_errors`. They are modules of one
//! program, which takes less time than a program for each.

#![expect(unreachable_pub, reason = "each program looks like its rejected twin")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

macro_rules! programs {
    ($($name:ident)*) => {
        $(mod $name;)*

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        #[test]
        fn they_run() {
            $($name::main();)*
        }
    };
}

programs! {
    answer_as_bool
    answer_compared
    answer_without_perhaps
    both_levels
    call_method
    compare
    dereference
    incomparable_argument
    interval_equality
    interval_of_floats
    interval_operator
    interval_order
    missing_arm
    mixed
    own_level
    print
    private_value
    rushed_as_value
    strengthen
    take_out
    unused
    weak_argument
    weaker_into
}

#[test]
fn none_is_left_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accepted");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<String> = files.map(|name| name.into_string().unwrap()).collect();
    let named = NAMES.iter().chain(&["main"]).map(|name| format!("{name}.rs"));
    assert_eq!(files, named.collect());
}
