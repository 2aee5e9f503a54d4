//! Embeds the platform files of `/platforms`, to which the link beside this file leads: a package has its files inside.

fn main() {
    memtint_embed::folder("platforms", "catalogue.rs");
}
