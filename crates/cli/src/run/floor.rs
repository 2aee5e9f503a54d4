//! What keeps a program in its colors: the kernel or the runtime.

use memtint_live::{Floor, KernelFloor, KernelOptions};
use memtint_map::{KernelMapError, Palette, Selection, kernel};
use memtint_units::{ByteSize, PAGE_SIZE};

use super::{FloorChoice, RunArguments};
use crate::output::Failure;

/// Decides what keeps the program in its colors.
pub(super) fn floor(
    arguments: &RunArguments,
    palette: &Palette,
    selection: &Selection,
    kernel: &KernelFloor,
) -> Result<Floor, Failure> {
    let search_bytes = search_bytes(arguments)?;
    let user = Floor::User {
        prefault_bytes: arguments.prefault.bytes(),
        children: !arguments.no_children,
        copy_files: arguments.copy_files,
        search_bytes,
    };
    let must = match arguments.floor {
        FloorChoice::User => return Ok(user),
        FloorChoice::Auto => false,
        FloorChoice::Kernel => true,
    };
    if let Some(reason) = kernel.absence() {
        let failure = Failure::Sentence(format!("--floor kernel: {reason}"));
        return if must { Err(failure) } else { Ok(user) };
    }
    let mappings = match mappings(palette, selection) {
        Ok(mappings) => mappings,
        Err(error) if must => return Err(error.into()),
        Err(error) => {
            eprintln!("memtint: not on the kernel floor: {error}");
            return Ok(user);
        }
    };
    let unfit = [
        ("--prefault", arguments.prefault.bytes() > 0),
        ("--search-memory", arguments.search_memory.is_some()),
        ("--no-children", arguments.no_children),
        ("--copy-files", arguments.copy_files),
    ];
    if let Some((option, _)) = unfit.iter().find(|(_, given)| *given) {
        let sentence = format!(
            "{option} has no meaning on the kernel floor, which this machine has; leave it out, or say --floor user"
        );
        return Err(Failure::Sentence(sentence));
    }
    let platform = palette.platform().id().to_owned();
    let kernel::KernelColors { banks, sets } = kernel::colors(palette, selection);
    let asked = KernelOptions { floor: kernel.clone(), platform, mappings, banks, sets };
    match asked.check_length() {
        Err(error) if !must => {
            eprintln!("memtint: not on the kernel floor: {error}");
            Ok(user)
        }
        _ => Ok(Floor::Kernel(asked)),
    }
}

/// Most bytes that a search holds.
fn search_bytes(arguments: &RunArguments) -> Result<u64, Failure> {
    /// Less is too little for a single look.
    const MIN: u64 = 16 << 20;
    match arguments.search_memory {
        Some(size) if size.bytes() < MIN => {
            let sentence = format!("--search-memory is {size}, accepted is {} or more", ByteSize(MIN));
            Err(Failure::Sentence(sentence))
        }
        Some(size) => Ok(size.bytes()),
        None => Ok((memtint_live::machine_pages() * PAGE_SIZE / 10).max(MIN)),
    }
}

/// The mapping with the cache, if the kernel has room for it, and the one without, where no set colors are asked for:
/// classes have the same numbers in both.
fn mappings(palette: &Palette, selection: &Selection) -> Result<Vec<String>, KernelMapError> {
    let whole = kernel::print(palette, false);
    if selection.sets.is_some() {
        return whole.map(|text| vec![text]);
    }
    match (whole, kernel::print(palette, true)) {
        (Ok(whole), Ok(banks)) if whole != banks => Ok(vec![whole, banks]),
        (Ok(text), _) | (Err(_), Ok(text)) => Ok(vec![text]),
        (Err(error), Err(_)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser as _;
    use memtint_map::{Granule, Platform};

    use super::*;

    /// A folder that stands in for memtint's in debugfs, with nothing loaded.
    struct Stand(PathBuf);

    impl Stand {
        fn new(name: &str) -> Stand {
            let folder = std::env::temp_dir().join(format!("memtint-floor-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("map"), "none\n").unwrap();
            Stand(folder)
        }

        fn floor(&self) -> KernelFloor {
            KernelFloor::at(self.0.clone(), None)
        }
    }

    impl Drop for Stand {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// What `memtint run OPTIONS -- true` does on a platform of the catalogue.
    fn floor_of(platform: &str, options: &[&str], kernel: &KernelFloor) -> Result<Floor, String> {
        let line = [&["run", "--platform", platform], options, &["--", "true"]].concat();
        let arguments = Line::try_parse_from(line).unwrap().run;
        let choice = arguments.choice.resolve().unwrap();
        floor(&arguments, &choice.palette, &choice.selection.unwrap(), kernel).map_err(|failure| failure.to_string())
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArguments,
    }

    /// 16 classes, and with its cache more colors than the kernel has room for.
    const SKYLAKE: &str = "skl-e3-1220v5-4x4g";

    #[test]
    fn without_a_kernel_floor_it_is_the_runtime() {
        let nowhere = KernelFloor::at("/nonexistent/memtint".into(), None);
        let auto = floor_of(SKYLAKE, &["--banks", "0-3", "--prefault", "1M", "--no-children"], &nowhere);
        assert!(matches!(auto, Ok(Floor::User { prefault_bytes: 1_048_576, children: false, .. })));
        let error = floor_of(SKYLAKE, &["--banks", "0", "--floor", "kernel"], &nowhere).err().unwrap();
        assert!(error.contains("--floor kernel") && error.contains("/nonexistent/memtint/map"), "{error}");
    }

    #[test]
    fn with_a_kernel_floor_it_is_the_kernel_unless_asked_otherwise() {
        let here = Stand::new("is-the-kernel");
        for options in [&["--banks", "0-3,8"][..], &["--banks", "0-3,8", "--floor", "kernel"]] {
            let Ok(Floor::Kernel(asked)) = floor_of(SKYLAKE, options, &here.floor()) else { panic!("{options:?}") };
            assert_eq!((asked.banks.as_deref(), asked.sets), (Some("0-3,8"), None));
            assert_eq!(asked.mappings.len(), 1, "with the cache there are too many colors");
        }
        let user = floor_of(SKYLAKE, &["--banks", "0", "--floor", "user", "--prefault", "4K"], &here.floor());
        assert!(matches!(user, Ok(Floor::User { prefault_bytes: 4096, children: true, .. })));
    }

    #[test]
    fn what_the_kernel_has_no_words_for_is_for_the_runtime() {
        let here = Stand::new("no-words");
        let sets = ["--banks", "0-3", "--sets", "0-15"];
        assert!(matches!(floor_of(SKYLAKE, &sets, &here.floor()), Ok(Floor::User { .. })));
        let error = floor_of(SKYLAKE, &[&sets[..], &["--floor", "kernel"]].concat(), &here.floor()).err().unwrap();
        assert!(error.contains("16 bank classes times 128 set colors"), "{error}");
    }

    #[test]
    fn a_list_too_long_for_the_kernel_is_for_the_runtime() {
        let here = Stand::new("too-long");
        // 512 classes, and every other one of them.
        let functions: String = (13..22).map(|bit| format!("{{ role = \"bank\", bits = [{bit}] }}, ")).collect();
        let text = format!(
            "schema = 1\nid = \"wide\"\nname = \"Wide\"\nuarch = \"none\"\n[dram]\nstandard = \"DDR4\"\naddress_bits = 32\n\
             functions = [{functions}]\ncomplete = false\nsource_kind = \"synthetic\"\nsource = \"a test\"\n\
             [[region]]\nbase = 0\nsize = \"4 GiB\"\nsource = \"a test\"\n"
        );
        let platform = here.0.join("wide.toml");
        std::fs::write(&platform, text).unwrap();
        let (platform, list) = (platform.to_str().unwrap(), (0..512).step_by(2).map(|class| class.to_string()));
        let list = list.collect::<Vec<_>>().join(",");
        assert!(matches!(floor_of(platform, &["--banks", &list], &here.floor()), Ok(Floor::User { .. })));
        let must = floor_of(platform, &["--banks", &list, "--floor", "kernel"], &here.floor());
        assert!(matches!(must, Ok(Floor::Kernel(_))), "a cgroup takes it, perhaps");
    }

    #[test]
    fn options_of_the_runtime_are_refused_by_name_on_the_kernel_floor() {
        let here = Stand::new("refused");
        for option in [&["--prefault", "1M"][..], &["--search-memory", "1G"], &["--no-children"]] {
            let error = floor_of(SKYLAKE, &[&["--banks", "0"][..], option].concat(), &here.floor()).err().unwrap();
            assert!(error.contains(option[0]) && error.contains("--floor user"), "{error}");
        }
    }

    #[test]
    fn classes_may_be_those_of_a_mapping_with_the_cache_or_without() {
        let platform = memtint_map::catalogue::names().find(|name| {
            let palette = Palette::new(&Platform::load(name).unwrap(), Granule::PAGE);
            palette.is_ok_and(|palette| {
                palette.set_colors() > 1 && [false, true].iter().all(|&banks| kernel::print(&palette, banks).is_ok())
            })
        });
        let platform = platform.expect("the catalogue has one with few enough colors");
        let here = Stand::new("cache-or-not");
        let mappings = |options: &[&str]| match floor_of(platform, options, &here.floor()) {
            Ok(Floor::Kernel(asked)) => asked.mappings.len(),
            _ => panic!("{platform}"),
        };
        assert_eq!((mappings(&["--banks", "0"]), mappings(&["--sets", "0"])), (2, 1));
    }
}
