// Errors of a transaction among Rust code refer to its tokens.
mod groups {
    solera_mixt::mixt! {
        store directory : linearizable;
        store mail : causal;
    }
}

use solera_mixt::typed::{Counter, Handle, TypedSession};

async fn run(
    on: &mut TypedSession<groups::Program>,
    a: Handle<Counter, groups::stores::mail>,
    b: Handle<Counter, groups::stores::directory>,
) {
    let _ = groups::transaction!(on, |
        a: handle<counter> in mail,
        b: handle<counter> in directory,
    | {
        if a.value() > 3 { b.add(1); }
    });
    let _ = groups::transaction!(on, |a: handle<counter> in mail| -> string { return a.value(); });
    let _ = groups::transaction!(on, a: int, { });
}

fn main() {}
