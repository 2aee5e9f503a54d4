//! Embeds the files of `standards`.

fn main() {
    memtint_embed::folder("standards", "standards.rs");
}
