use solera_ipa::Inconsistent;

pub fn main() {
    let name = Inconsistent::new("Ann".to_owned());
    assert_eq!(name.len(), 3);
}
