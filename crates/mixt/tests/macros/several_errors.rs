// Each error refers to its token, and one run reports all: syntax first, then names and types.
mod syntax {
    solera_mixt::mixt! {
        store mail causal;
        transaction one() { var n = 'a'; return; }
    }
}

mod names_and_types {
    solera_mixt::mixt! {
        store mail : causal;
        transaction one(n: handle<counter> in post) { n.add(1); }
        transaction two(n: handle<counter> in mail) { n.add("many"); }
    }
}

fn main() {}
