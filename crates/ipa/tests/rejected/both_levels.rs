use solera_ipa::level::{Join, Meet, Por, Quorum};
use solera_ipa::{At, Consistent};

fn publish(text: At<String, Meet<Por, Quorum>>) -> usize {
    text.len()
}

pub fn main() {
    let text: At<String, Join<Por, Quorum>> = Consistent::new("news".to_owned()).weaken();
    assert_eq!(publish(text), 4);
}
