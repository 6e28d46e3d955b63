use solera_ipa::{Causal, Rushed};

fn show(count: Rushed<i64>) -> String {
    match count {
        Rushed::Consistent(count) => count.to_string(),
        Rushed::Quorum(count) => format!("{} by a quorum", count.endorse()),
        weaker => format!("about {}", weaker.weaken().endorse()),
    }
}

pub fn main() {
    assert_eq!(show(Causal::new(5).into()), "about 5");
}
