//! Published nonlinear slice hashes: the table `hashes.toml`, and its evaluation.

use memtint_map::gf2;
use serde::Deserialize;
use std::collections::HashMap;

/// A published hash.
#[derive(Clone)]
pub struct KnownHash {
    /// Short name.
    pub id: String,
    /// Human-readable name.
    pub name: String,
    /// Slices.
    pub slices: u32,
    /// The formula, as text; `None` for a table.
    pub formula: Option<String>,
    /// Output bits that are linear, as masks of address bits.
    pub linear: Vec<u64>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Formula(Expr),
    /// `base[(address / 64) % length ^ permutation]`; bit `i` of the permutation is the parity of mask `i`.
    Table {
        base: Vec<u32>,
        masks: Vec<u64>,
    },
}

impl std::fmt::Debug for KnownHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("KnownHash").field(&self.id).finish()
    }
}

impl KnownHash {
    /// Returns all published hashes.
    ///
    /// # Panics
    /// Never: the table is part of the program, and a test reads it.
    #[must_use]
    pub fn all() -> Vec<KnownHash> {
        parse(include_str!("../../hashes.toml")).expect("the table is checked by a test")
    }

    /// Gives the slice of an address.
    #[must_use]
    pub fn slice(&self, address: u64) -> u32 {
        match &self.kind {
            Kind::Formula(formula) => formula.value(address) as u32,
            Kind::Table { base, masks } => {
                let at = (address >> 6) & (base.len() as u64 - 1);
                base[(at ^ gf2::evaluate(masks, address)) as usize]
            }
        }
    }
}

#[derive(Clone)]
enum Expr {
    /// Parity of the address bits of a mask.
    Chain(u64),
    Not(Box<Expr>),
    Shift(Box<Expr>, u32),
    Both(Op, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy)]
enum Op {
    Or,
    Xor,
    And,
}

impl Expr {
    fn value(&self, address: u64) -> u64 {
        match self {
            Expr::Chain(mask) => gf2::parity(address, *mask),
            Expr::Not(inner) => !inner.value(address),
            Expr::Shift(inner, by) => inner.value(address) << by,
            Expr::Both(Op::Or, a, b) => a.value(address) | b.value(address),
            Expr::Both(Op::Xor, a, b) => a.value(address) ^ b.value(address),
            Expr::Both(Op::And, a, b) => match a.value(address) {
                0 => 0,
                some => some & b.value(address),
            },
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    chains: HashMap<String, Vec<u32>>,
    term: Vec<TermRow>,
    hash: Vec<HashRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TermRow {
    name: String,
    formula: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HashRow {
    id: String,
    name: String,
    slices: u32,
    formula: Option<String>,
    #[serde(default)]
    linear: Vec<String>,
    #[serde(default)]
    base: Vec<u32>,
    #[serde(default)]
    masks: Vec<u64>,
}

fn parse(text: &str) -> Result<Vec<KnownHash>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mask = |bits: &Vec<u32>| bits.iter().fold(0, |mask, bit| mask | 1u64 << bit);
    let chains: HashMap<String, u64> = file.chains.iter().map(|(name, bits)| (name.clone(), mask(bits))).collect();
    let mut names: HashMap<String, Expr> =
        chains.iter().map(|(name, &mask)| (name.clone(), Expr::Chain(mask))).collect();
    for term in file.term {
        let expr = Reader::read(&term.formula, &names)?;
        names.insert(term.name, expr);
    }
    let known = |row: HashRow| {
        let kind = match &row.formula {
            Some(formula) => Kind::Formula(Reader::read(formula, &names)?),
            None if row.base.len().is_power_of_two() => Kind::Table { base: row.base, masks: row.masks },
            None => return Err(format!("hash {:?}: neither a formula nor a table of 2^n slices", row.id)),
        };
        let linear = row.linear.iter().map(|name| chains.get(name).copied().ok_or(format!("{name} is no chain")));
        let linear = linear.collect::<Result<_, _>>()?;
        Ok(KnownHash { id: row.id, name: row.name, slices: row.slices, formula: row.formula, linear, kind })
    };
    file.hash.into_iter().map(known).collect()
}

/// Reads a formula, the loosest operator first.
struct Reader<'a> {
    rest: &'a str,
    names: &'a HashMap<String, Expr>,
}

impl<'a> Reader<'a> {
    fn read(text: &'a str, names: &'a HashMap<String, Expr>) -> Result<Expr, String> {
        let mut reader = Reader { rest: text.trim(), names };
        let expr = reader.joined(&[('|', Op::Or), ('^', Op::Xor), ('&', Op::And)])?;
        if reader.rest.is_empty() { Ok(expr) } else { Err(format!("{text:?}: {:?} is left", reader.rest)) }
    }

    fn taken(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest).trim_start();
        rest.is_some()
    }

    fn joined(&mut self, operators: &[(char, Op)]) -> Result<Expr, String> {
        let Some((&(sign, op), tighter)) = operators.split_first() else { return self.shifted() };
        let mut expr = self.joined(tighter)?;
        while self.taken(sign.encode_utf8(&mut [0; 4])) {
            expr = Expr::Both(op, Box::new(expr), Box::new(self.joined(tighter)?));
        }
        Ok(expr)
    }

    fn shifted(&mut self) -> Result<Expr, String> {
        let expr = self.single()?;
        if !self.taken("<<") {
            return Ok(expr);
        }
        let by = self.word().parse().map_err(|_| "a shift by no number".to_owned())?;
        Ok(Expr::Shift(Box::new(expr), by))
    }

    fn single(&mut self) -> Result<Expr, String> {
        if self.taken("~") {
            return Ok(Expr::Not(Box::new(self.single()?)));
        }
        if self.taken("(") {
            let expr = self.joined(&[('|', Op::Or), ('^', Op::Xor), ('&', Op::And)])?;
            return if self.taken(")") { Ok(expr) } else { Err(format!("no \")\" before {:?}", self.rest)) };
        }
        let word = self.word();
        self.names.get(word).cloned().ok_or_else(|| format!("{word:?} is neither a chain nor a term above"))
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtint_units::Random;

    fn known(id: &str) -> KnownHash {
        KnownHash::all().into_iter().find(|hash| hash.id == id).expect(id)
    }

    #[test]
    fn operators_bind_as_in_c() {
        let names: HashMap<String, Expr> =
            [("a", 1), ("b", 2), ("c", 4)].map(|(name, mask)| (name.to_owned(), Expr::Chain(mask))).into();
        let value = |text: &str, address| Reader::read(text, &names).unwrap().value(address);
        for address in 0..8u64 {
            let [a, b, c] = [address & 1, address >> 1 & 1, address >> 2];
            assert_eq!(value("a | b ^ c & a << 1", address), a | b ^ c & (a << 1));
            assert_eq!(value("(a|b) & ~c | c<<3", address), (a | b) & !c | c << 3);
        }
        for wrong in ["a |", "d", "(a", "a b", "a << x"] {
            assert!(Reader::read(wrong, &names).is_err(), "{wrong}");
        }
    }

    /// Two sources of one machine's hash, a formula and a measured table, distinguish the same addresses.
    #[test]
    fn formulas_agree_with_measured_tables() {
        for (formula, table, same) in [
            ("intel-20s", "mccalpin-skx-20s", true),
            ("skx-24s", "mccalpin-skx-24s", true),
            ("intel-24s", "mccalpin-skx-24s", false),
        ] {
            let (formula, table) = (known(formula), known(table));
            let (mut there, mut back) = (HashMap::new(), HashMap::new());
            let mut random = Random::new(1);
            let agree = (0..20_000).all(|_| {
                let address = random.below(1 << 38);
                let (a, b) = (formula.slice(address), table.slice(address));
                *there.entry(a).or_insert(b) == b && *back.entry(b).or_insert(a) == a
            });
            assert_eq!(agree, same, "{}, {}", formula.id, table.id);
        }
    }

    #[test]
    fn every_slice_is_used_and_no_other() {
        for hash in KnownHash::all() {
            let mut random = Random::new(2);
            let mut counts = vec![0u32; hash.slices as usize];
            for _ in 0..1000 * hash.slices {
                counts[hash.slice(random.below(1 << 38)) as usize] += 1;
            }
            // Observed shares are from 0.83 to 1.08.
            assert!(counts.iter().all(|count| (750..1200).contains(count)), "{}: {counts:?}", hash.id);
            for &mask in &hash.linear {
                let addresses: Vec<u64> = (0..500).map(|_| random.below(1 << 38)).collect();
                let is = |bit: u32| {
                    let mut all = addresses.iter();
                    all.all(|&address| hash.slice(address) >> bit & 1 == gf2::parity(address, mask) as u32)
                };
                assert!((0..6).any(is), "{}: {mask:#x}", hash.id);
            }
        }
    }
}
