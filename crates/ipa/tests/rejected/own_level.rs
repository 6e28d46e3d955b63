use solera_ipa::level::{LevelMarker, Linearizable};
use solera_levels::Level;

#[derive(Clone, Copy)]
enum Mine {}

impl LevelMarker for Mine {
    const LEVEL: Level = Level::Linearizable;
}

pub fn main() {
    let _: Option<Mine> = None;
    assert_eq!(Linearizable::LEVEL, Level::Linearizable);
}
