// The contest of the paper: a weak read decides a strong write.
mod contest {
    solera_mixt::mixt! {
        store directory : linearizable;
        store mail : causal;

        transaction deliver(
            inbox: handle<set<string>> in mail,
            winner: handle<register<string>> in directory,
        ) {
            // A guess.
            if inbox.size() >= 1_000_000 {
                winner.set("A");
            }
        }
    }
}

fn main() {}
