//! Which backend keeps a program in its colors: the kernel or the runtime.

use memtint_live::{Floor, KernelFloor, KernelOptions};
use memtint_map::{KernelMapError, Palette, Selection, kernel};
use memtint_units::{ByteSize, PAGE_SIZE};

/// Smallest memory limit of a search; with less, a single pass is impossible.
const SEARCH_MIN: ByteSize = ByteSize(16 << 20);

/// Which backend is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// The kernel where it can, else the runtime.
    #[default]
    Auto,
    /// The kernel.
    Kernel,
    /// The runtime.
    User,
}

/// Options of the runtime backend only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeOptions {
    /// Memory to have in place before the program begins.
    pub prefault: ByteSize,
    /// Most memory that a search for frames holds at a time, 16 MiB or more; `None` for a tenth of this machine's.
    pub search_memory: Option<ByteSize>,
    /// Leave the processes that the program starts uncolored.
    pub no_children: bool,
    /// Copy every writable private file mapping into color.
    pub copy_files: bool,
}

/// Why no backend can be chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// This machine's kernel does not color.
    #[error("--floor kernel: {reason}")]
    NoKernel {
        /// Why.
        reason: String,
    },
    /// The kernel cannot express the platform's mapping.
    #[error(transparent)]
    Mapping(#[from] KernelMapError),
    /// An option of the runtime, for the kernel.
    #[error("{option} has no meaning on the kernel floor, which this machine has; leave it out, or say --floor user")]
    RuntimeOnly {
        /// The option.
        option: &'static str,
    },
    /// A search would hold too little memory.
    #[error("--search-memory is {found}, accepted is {SEARCH_MIN} or more")]
    SearchMemory {
        /// The memory.
        found: ByteSize,
    },
}

/// The chosen backend.
pub struct Chosen {
    /// What `memtint-live` takes.
    pub floor: Floor,
    /// Why the kernel is not used, where [`Preference::Auto`] found one that cannot enforce the selection.
    pub not_kernel: Option<String>,
}

/// Chooses the backend of a program. `kernel` is that of this machine.
///
/// # Errors
/// [`BackendError`] for a search with too little memory, for options of the runtime where the kernel is chosen, and with
/// [`Preference::Kernel`] for a kernel that does not color, or cannot express the mapping.
pub fn choose(
    wanted: Preference,
    options: &RuntimeOptions,
    palette: &Palette,
    selection: &Selection,
    kernel: &KernelFloor,
) -> Result<Chosen, BackendError> {
    let user = Floor::User {
        prefault_bytes: options.prefault.bytes(),
        children: !options.no_children,
        copy_files: options.copy_files,
        search_bytes: options.search_bytes()?,
    };
    let must = match wanted {
        Preference::User => return Ok(Chosen { floor: user, not_kernel: None }),
        Preference::Auto => false,
        Preference::Kernel => true,
    };
    if let Some(reason) = kernel.absence() {
        let absent = BackendError::NoKernel { reason };
        return if must { Err(absent) } else { Ok(Chosen { floor: user, not_kernel: None }) };
    }
    let mappings = match mappings(palette, selection) {
        Ok(mappings) => mappings,
        Err(error) if must => return Err(error.into()),
        Err(error) => return Ok(Chosen { floor: user, not_kernel: Some(error.to_string()) }),
    };
    if let Some(option) = options.given() {
        return Err(BackendError::RuntimeOnly { option });
    }
    let platform = palette.platform().id().to_owned();
    let kernel::KernelColors { banks, sets } = kernel::colors(palette, selection);
    let asked = KernelOptions { floor: kernel.clone(), platform, mappings, banks, sets };
    match asked.check_length() {
        Err(error) if !must => Ok(Chosen { floor: user, not_kernel: Some(error.to_string()) }),
        _ => Ok(Chosen { floor: Floor::Kernel(asked), not_kernel: None }),
    }
}

impl RuntimeOptions {
    /// The first option that is given.
    fn given(&self) -> Option<&'static str> {
        let all = [
            ("--prefault", self.prefault.bytes() > 0),
            ("--search-memory", self.search_memory.is_some()),
            ("--no-children", self.no_children),
            ("--copy-files", self.copy_files),
        ];
        all.into_iter().find(|&(_, given)| given).map(|(option, _)| option)
    }

    /// Most bytes that a search holds.
    fn search_bytes(&self) -> Result<u64, BackendError> {
        match self.search_memory {
            Some(found) if found < SEARCH_MIN => Err(BackendError::SearchMemory { found }),
            Some(size) => Ok(size.bytes()),
            None => Ok((memtint_live::machine_pages() * PAGE_SIZE / 10).max(SEARCH_MIN.bytes())),
        }
    }
}

/// The mappings that the kernel may use: with the cache if the kernel has room for it, and without it if the selection
/// has no set colors. Classes have the same numbers in both.
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

    use memtint_map::{Granule, Platform};
    use memtint_units::IndexSet;

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

    const AUTO: RuntimeOptions =
        RuntimeOptions { prefault: ByteSize(0), search_memory: None, no_children: false, copy_files: false };

    /// The backend of bank classes and set colors, in list syntax, of a platform.
    fn floor_of(
        platform: &str,
        colors: [Option<&str>; 2],
        (wanted, options): (Preference, RuntimeOptions),
        kernel: &KernelFloor,
    ) -> Result<Floor, String> {
        let palette = Palette::new(&Platform::load(platform).unwrap(), Granule::PAGE).unwrap();
        let list = |list: Option<&str>, limit| list.map(|list| IndexSet::parse(list, limit).unwrap());
        let (banks, sets) = (list(colors[0], palette.bank_classes()), list(colors[1], palette.set_colors()));
        let selection = Selection { banks, sets, ..Selection::default() };
        choose(wanted, &options, &palette, &selection, kernel)
            .map(|chosen| chosen.floor)
            .map_err(|error| error.to_string())
    }

    /// 16 classes, and with its cache more colors than the kernel has room for.
    const SKYLAKE: &str = "skl-e3-1220v5-4x4g";

    #[test]
    fn without_a_kernel_floor_it_is_the_runtime() {
        let nowhere = KernelFloor::at("/nonexistent/memtint".into(), None);
        let given = RuntimeOptions { prefault: ByteSize(1 << 20), no_children: true, ..AUTO };
        let auto = floor_of(SKYLAKE, [Some("0-3"), None], (Preference::Auto, given), &nowhere);
        assert!(matches!(auto, Ok(Floor::User { prefault_bytes: 1_048_576, children: false, .. })));
        let error = floor_of(SKYLAKE, [Some("0"), None], (Preference::Kernel, AUTO), &nowhere).err().unwrap();
        assert!(error.contains("--floor kernel") && error.contains("/nonexistent/memtint/map"), "{error}");
    }

    #[test]
    fn with_a_kernel_floor_it_is_the_kernel_unless_asked_otherwise() {
        let here = Stand::new("is-the-kernel");
        for wanted in [Preference::Auto, Preference::Kernel] {
            let floor = floor_of(SKYLAKE, [Some("0-3,8"), None], (wanted, AUTO), &here.floor());
            let Ok(Floor::Kernel(asked)) = floor else { panic!("{wanted:?}") };
            assert_eq!((asked.banks.as_deref(), asked.sets), (Some("0-3,8"), None));
            assert_eq!(asked.mappings.len(), 1, "with the cache there are too many colors");
        }
        let user = floor_of(
            SKYLAKE,
            [Some("0"), None],
            (Preference::User, RuntimeOptions { prefault: ByteSize(4096), ..AUTO }),
            &here.floor(),
        );
        assert!(matches!(user, Ok(Floor::User { prefault_bytes: 4096, children: true, .. })));
    }

    #[test]
    fn what_the_kernel_has_no_words_for_is_for_the_runtime() {
        let here = Stand::new("no-words");
        let sets = [Some("0-3"), Some("0-15")];
        assert!(matches!(floor_of(SKYLAKE, sets, (Preference::Auto, AUTO), &here.floor()), Ok(Floor::User { .. })));
        let error = floor_of(SKYLAKE, sets, (Preference::Kernel, AUTO), &here.floor()).err().unwrap();
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
        let of = |wanted| floor_of(platform, [Some(&list), None], (wanted, AUTO), &here.floor());
        assert!(matches!(of(Preference::Auto), Ok(Floor::User { .. })));
        let must = of(Preference::Kernel);
        assert!(matches!(must, Ok(Floor::Kernel(_))), "a cgroup takes it, perhaps");
    }

    #[test]
    fn options_of_the_runtime_are_refused_by_name_on_the_kernel_floor() {
        let here = Stand::new("refused");
        let given = [
            ("--prefault", RuntimeOptions { prefault: ByteSize(1 << 20), ..AUTO }),
            ("--search-memory", RuntimeOptions { search_memory: Some(ByteSize(1 << 30)), ..AUTO }),
            ("--no-children", RuntimeOptions { no_children: true, ..AUTO }),
            ("--copy-files", RuntimeOptions { copy_files: true, ..AUTO }),
        ];
        for (option, options) in given {
            let asked = (Preference::Auto, options);
            let error = floor_of(SKYLAKE, [Some("0"), None], asked, &here.floor()).err().unwrap();
            assert!(error.contains(option) && error.contains("--floor user"), "{error}");
        }
    }

    #[test]
    fn a_search_needs_memory() {
        let little = RuntimeOptions { search_memory: Some(ByteSize(1 << 20)), ..AUTO };
        let error = floor_of(SKYLAKE, [Some("0"), None], (Preference::User, little), &Stand::new("little").floor());
        assert_eq!(error.err().as_deref(), Some("--search-memory is 1 MiB, accepted is 16 MiB or more"));
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
        let mappings = |colors| match floor_of(platform, colors, (Preference::Auto, AUTO), &here.floor()) {
            Ok(Floor::Kernel(asked)) => asked.mappings.len(),
            _ => panic!("{platform}"),
        };
        assert_eq!((mappings([Some("0"), None]), mappings([None, Some("0")])), (2, 1));
    }
}
