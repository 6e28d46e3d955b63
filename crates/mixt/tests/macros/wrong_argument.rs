// Handles of other objects and stores are other types, and so are numbers.
mod groups {
    solera_mixt::mixt! {
        store directory : linearizable;
        store mail : causal;
        struct User { name: string }

        transaction join(group: handle<list<string>> in directory, user: handle<User> in mail, n: int) {
            group.push(string(n));
            user->name = "Ann";
        }
    }
}

use groups::stores::directory;
use solera_mixt::typed::{Handle, List, TypedSession};

async fn run(on: &mut TypedSession<groups::Program>, group: Handle<List<String>, directory>) {
    let _ = groups::join(on, &group, &group, "1").await;
    let _ = groups::transaction!(on, |user: handle<User> in mail = group| {
        user->name = "Ann";
    });
}

fn main() {}
