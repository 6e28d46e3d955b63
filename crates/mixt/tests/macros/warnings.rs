// Warnings do not stop the compiler, unless they are denied.
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
