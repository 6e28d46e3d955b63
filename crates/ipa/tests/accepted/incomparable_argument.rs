use solera_ipa::level::{self, AtLeast};
use solera_ipa::{At, Causal, PcPsi, Quorum};

fn show<L: AtLeast<level::Causal>>(text: At<String, L>) -> Causal<String> {
    text.weaken()
}

pub fn main() {
    let _: [Causal<String>; 2] = [show(PcPsi::new("a".into())), show(Causal::new("b".into()))];
    let _: Quorum<i64> = Quorum::new(5);
}
