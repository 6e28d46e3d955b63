use solera_ipa::Quorum;

fn main() {
    let count = Quorum::new(5);
    println!("{}", count);
}
