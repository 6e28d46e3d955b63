// Warnings do not stop the compiler, unless it is told so.
#![deny(deprecated)]

mod late {
    solera_mixt::mixt! {
        store mail : causal;
        transaction one(n: handle<counter> in mail) -> int {
            return 1;
            n.add(1);
        }
    }
}

fn main() {}
