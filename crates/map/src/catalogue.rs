//! The platform files that come with memtint, embedded at build time from the folder `platforms`.

static CATALOGUE: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

/// Walks the names of the catalogue, sorted.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    CATALOGUE.iter().map(|&(name, _)| name)
}

/// Gives the text of a platform file by its name, `None` when the catalogue has no such name.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    let place = CATALOGUE.binary_search_by_key(&name, |&(known, _)| known).ok()?;
    Some(CATALOGUE[place].1)
}

/// Gives up to five names that share the most parts (between dashes) or characters with the given one.
#[must_use]
pub fn nearest(name: &str) -> Vec<&'static str> {
    let wanted = name.to_ascii_lowercase();
    let pieces: Vec<&str> = wanted.split(['-', '_', ' ', '.']).filter(|piece| !piece.is_empty()).collect();
    let likeness = |known: &str| {
        let common = wanted.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
        pieces.iter().filter(|piece| known.contains(**piece)).map(|piece| piece.len()).sum::<usize>() + common
    };
    let mut ranked: Vec<&'static str> = names().collect();
    ranked.sort_by_key(|known| std::cmp::Reverse(likeness(known)));
    ranked.truncate(5);
    ranked
}
