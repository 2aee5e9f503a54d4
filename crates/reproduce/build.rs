//! Embeds the data files of `figures` and `machines`.

fn main() {
    for folder in ["figures", "machines"] {
        memtint_embed::folder(folder, &format!("{folder}.rs"));
    }
}
