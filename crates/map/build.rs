//! Embeds the platform files of `/platforms`.

fn main() {
    memtint_embed::folder("../../platforms", "catalogue.rs");
}
