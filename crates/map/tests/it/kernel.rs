//! Does the kernel see the colors that this crate sees? On every platform of the catalogue, the mapping object that is
//! printed for the kernel is read by the kernel's own C file, taken out of its patches and built for user space with
//! sanitizers, and by the observer of the kernel's tests, which works colors out in a third way.
//!
//! `cargo test -p memtint-map --test it kernel::`. Needs make, gcc and git, and no kernel source.

use memtint_map::kernel::{self, KernelMapError};
use memtint_map::{Granule, Palette, Platform, Selection, catalogue};
use memtint_units::{IndexSet, PAGE_SHIFT, Pfn, Random};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Frames that are looked at on each platform and granule.
const FRAMES: usize = 2000;
/// Mutated mappings that the parser gets.
const MUTATIONS: &str = "100000";

/// What the kernel's form has no words for at 4 KiB, by name and part of the reason.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    ("amd-df2-2ch-hash", "one color at granule 4 KiB"),
    ("amd-f10h-chan-mode2", "one color at granule 4 KiB"),
    ("core-i7-860-bpm", "32 bank classes times 128"),
    ("core2quad-8400-assumed-banks", "32 bank classes times 64"),
    ("haswell-e3-1230", "16 bank classes times 128"),
    ("hsw-ep-chan-hash-edac", "one color at granule 4 KiB"),
    ("lynnfield-i7-860-bpm", "32 bank classes times 128"),
    ("nehalem-w3530", "16 bank classes times 128"),
    ("opteron-6128-tintmalloc", "64 bank classes times 32"),
    ("skl-client-2ch2r-drama", "16 bank classes times 128"),
    ("skl-e3-1220v5-4x4g", "16 bank classes times 128"),
    ("skx-open-3ch1r", "region 0 interleaves 3 channels by a modulus"),
    ("xeon-w3530-palloc", "16 bank classes times 128"),
    ("zen3-ddr4-1r", "one color at granule 4 KiB"),
];

/// Builds the C programs, once, and gives the folder they are in.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-unit");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/unit");
        let build = format!("BUILD={}", folder.display());
        run(Command::new("make").arg("-C").arg(source).args(["--no-print-directory", &build]), "");
        folder
    })
}

/// Runs a command that must succeed.
fn run(command: &mut Command, input: &str) -> String {
    let output = fed(command, input);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{errors}", output.status);
    out.into_owned()
}

/// Runs a command; its input is written by a thread, because it answers while it reads.
fn fed(command: &mut Command, input: &str) -> Output {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        // It may end without reading.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().expect("it was started")
    })
}

fn palette(name: &str, granule: Granule) -> Option<Palette> {
    Palette::new(&Platform::load(name).unwrap(), granule).ok()
}

/// The mapping with sets where the kernel has room for them.
fn mapping(name: &str) -> String {
    let palette = palette(name, Granule::PAGE).expect("the catalogue has palettes at 4 KiB");
    kernel::print(&palette, false).or_else(|_| kernel::print(&palette, true)).unwrap()
}

/// Writes the mapping to a file of its own.
fn file(name: &str, text: &str) -> PathBuf {
    let path = programs().join(name);
    std::fs::write(&path, text).expect("the folder is there");
    path
}

/// Frames inside of regions, at their edges and outside.
fn frames(platform: &Platform) -> Vec<u64> {
    let mut frames = vec![0, (1 << 40) - 1];
    for region in platform.regions() {
        let (first, end) = (region.base.pfn().0, region.end().pfn().0);
        frames.extend([first.saturating_sub(1), first, end - 1, end]);
    }
    let mut random = Random::new(1);
    while frames.len() < FRAMES {
        let region = &platform.regions()[random.bits() as usize % platform.regions().len()];
        frames.push(region.base.pfn().0 + random.bits() % (region.size_bytes >> PAGE_SHIFT));
    }
    frames
}

/// What both programs should print.
fn expected(palette: &Palette, frames: &[u64], banks_only: bool) -> String {
    let set_colors = if banks_only { 1 } else { palette.set_colors() };
    let mut text = format!("{} {set_colors}\n", palette.bank_classes());
    for &frame in frames {
        let _ = match palette.color_of_frame(Pfn(frame)) {
            Some(color) => {
                let set_color = if banks_only { 0 } else { color.set_color };
                writeln!(text, "{} {set_color} {}", color.bank_class, color.node)
            }
            None => writeln!(text, "-"),
        };
    }
    text
}

/// Both programs give the frames of the palette's regions the colors that this crate gives; `None` when the kernel has no
/// words for the palette.
fn compare(name: &str, palette: &Palette, banks_only: bool) -> Option<()> {
    let text = kernel::print(palette, banks_only).ok()?;
    let mapping = file(&format!("{name}.map"), &text);
    let frames = frames(palette.platform());
    let input: String = frames.iter().map(|frame| format!("{frame}\n")).collect();
    let expected = expected(palette, &frames, banks_only);
    for program in ["kernel_colors", "colors"] {
        let found = run(Command::new(programs().join(program)).arg(&mapping), &input);
        let differs = found.lines().zip(expected.lines()).position(|(a, b)| a != b);
        assert!(found == expected, "{program} {}: line {differs:?}", mapping.display());
    }
    Some(())
}

#[test]
fn the_kernel_and_the_observer_see_the_same_colors() {
    let mut compared = 0;
    for name in catalogue::names() {
        for granule in ["4K", "16K", "64K", "2M"] {
            let Some(palette) = palette(name, granule.parse().unwrap()) else { continue };
            for banks_only in [false, true] {
                compared += compare(&format!("{name}-{granule}-{banks_only}"), &palette, banks_only).iter().count();
            }
        }
    }
    assert!(compared > 200, "{compared} mappings are few");
}

/// The lists that name a selection's colors to the kernel hold what the selection holds, frame by frame: banks, sets, and
/// nodes, for which the kernel has no list.
#[test]
fn a_selection_has_the_same_frames_in_the_kernels_words() {
    let (mut in_color, mut others, mut nodes_compared) = (0, 0, 0);
    for name in catalogue::names() {
        let Some(palette) = palette(name, Granule::PAGE) else { continue };
        let (classes, sets) = (palette.bank_classes(), palette.set_colors());
        let set =
            |indices: &dyn Fn(&u32) -> bool, limit| IndexSet::from_indices((0..limit).filter(indices), limit).unwrap();
        let frames = frames(palette.platform());
        let colors = frames.iter().filter_map(|&frame| palette.color_of_frame(Pfn(frame)));
        let nodes: Vec<u32> = BTreeSet::from_iter(colors.map(|color| color.node)).into_iter().collect();
        for choice in 0..6u32 {
            let banks = (choice & 1 == 0).then(|| set(&|class| *class == 0 || class % 3 != choice % 3, classes));
            let sets = (choice & 2 == 0).then(|| set(&|color| *color == 0 || color % 5 > choice, sets));
            let node = (choice >= 2)
                .then(|| IndexSet::from_indices([nodes[choice as usize % nodes.len()]], u32::MAX).unwrap());
            nodes_compared += usize::from(node.is_some() && nodes.len() > 1);
            let selection = Selection { banks, sets, node };
            let Ok(matcher) = selection.compile(&palette) else { continue };
            let lists = kernel::colors(&palette, &selection);
            let listed = |list: &Option<String>, limit| {
                list.as_ref().map_or(IndexSet::all(limit), |list| IndexSet::parse(list, limit).unwrap())
            };
            let (banks, sets) = (listed(&lists.banks, classes), listed(&lists.sets, palette.set_colors()));
            for &frame in &frames {
                let Some(color) = palette.color_of_frame(Pfn(frame)) else { continue };
                let listed = banks.contains(color.bank_class) && sets.contains(color.set_color);
                assert_eq!(listed, matcher.matches(Pfn(frame)), "{name}, {selection:?}, {lists:?}, frame {frame:#x}");
                if listed { in_color += 1 } else { others += 1 }
            }
        }
    }
    assert!(in_color > 10_000 && others > 10_000 && nodes_compared > 0, "{in_color} {others} {nodes_compared}");
}

/// Dense functions, as no machine of the catalogue has them: each uses half of the bits, those inside a page as well.
#[test]
fn so_they_do_for_functions_without_a_pattern() {
    let mut random = Random::new(2);
    let mut compared = 0;
    while compared < 40 {
        let functions = 3 + random.bits() % 6;
        let bits =
            |mask: u64| (6..26).filter(|bit| mask >> bit & 1 == 1).map(|bit| bit.to_string()).collect::<Vec<_>>();
        let functions: Vec<String> = (0..functions)
            .map(|_| format!("{{ role = \"unknown\", bits = [{}] }}", bits(random.bits()).join(", ")))
            .collect();
        let text = format!(
            "schema = 1\nid = \"p\"\nname = \"p\"\n[dram]\nstandard = \"DDR4\"\naddress_bits = 26\nfunctions = [{}]\nsource \
             = \"test\"\n[[region]]\nbase = 0\nsize = \"64 MiB\"\nsource = \"test\"\n",
            functions.join(", ")
        );
        // They may depend on each other, or leave one color.
        let Ok(platform) = Platform::parse(&text, "p") else { continue };
        let palette = Palette::new(&platform, Granule::PAGE).unwrap();
        compared += compare(&format!("random-{compared}"), &palette, false).iter().count();
    }
}

#[test]
fn what_the_kernel_cannot_express_is_refused_by_name() {
    let mut refused = Vec::new();
    for name in catalogue::names() {
        let palette = palette(name, Granule::PAGE).expect("the catalogue has palettes at 4 KiB");
        let Err(error) = kernel::print(&palette, false) else { continue };
        assert!(error.to_string().contains(&format!("platform {name:?}")), "{error}");
        refused.push((name, error.to_string()));
    }
    let names = |list: Vec<&str>| list.join(" ");
    assert_eq!(
        names(refused.iter().map(|(name, _)| *name).collect()),
        names(REFUSED.iter().map(|(name, _)| *name).collect()),
        "{refused:#?}"
    );
    for ((name, error), (_, reason)) in refused.iter().zip(REFUSED) {
        assert!(error.contains(reason), "{name}: {error}");
    }
}

#[test]
fn pieces_that_the_kernel_cannot_shift_are_refused() {
    let platform = |base: &str, dram_base: &str, extra: &str| {
        let text = format!(
            "schema = 1\nid = \"p\"\nname = \"p\"\n[dram]\nstandard = \"DDR4\"\naddress_bits = 34\nfunctions = [{{ role = \
             \"bank\", bits = [13, 17] }}]\nsource = \"test\"\n[[region]]\nbase = {base}\nsize = \"4 MiB\"\ndram_base = \
             {dram_base}\nsource = \"test\"\n{extra}"
        );
        Palette::new(&Platform::parse(&text, "p").unwrap(), Granule::PAGE).unwrap()
    };
    let printed = |base, dram_base| kernel::print(&platform(base, dram_base, ""), false);
    assert!(printed("0x100000000", "0x80000000").unwrap().contains("\noffset 0x80000000\nbank 0x22000\n"));
    assert!(printed("0", "0x80000000").unwrap().contains("\noffset -0x80000000\nbank 0x22000\n"));
    assert!(!printed("0x80000000", "0x80000000").unwrap().contains("offset"));
    for (base, dram_base) in [("0x1000", "0"), ("0x100000000", "0x80200000")] {
        assert!(matches!(printed(base, dram_base), Err(KernelMapError::Offset { region: 0, .. })));
    }
    let piece = |number: u64| {
        let base = (number + 1) << 24;
        format!("[[region]]\nbase = {base}\nsize = \"4 MiB\"\nsource = \"test\"\n")
    };
    let pieces = |count: u64| platform("0", "0", &(0..count - 1).map(piece).collect::<String>());
    assert!(kernel::print(&pieces(32), false).is_ok());
    assert!(matches!(kernel::print(&pieces(33), false), Err(KernelMapError::TooManyRegions { found: 33, .. })));
}

/// Regions that start and end within blocks; the catalogue has none.
const ODD: &str = "memtint-map 1\ngranule 8192\nregion 0x3000-0x7fe1000 node 1\nbank 0x22000\nbank 0x44040\nset 0x8000\nregion \
                   0x7fe2000-0x9001000 node 0\nbank 0x22000\nbank 0x44040\nset 0x8000\nend\n";

#[test]
fn blocks_and_choices_agree_with_their_frames() {
    let names = ["opteron-6128-tintmalloc", "skl-e3-1220v5-4x4g", "zen3-ddr4-2r-full", "jetson-nano"];
    let known = names.into_iter().map(|name| (name, mapping(name)));
    for (name, text) in known.chain([("odd", ODD.to_owned())]) {
        let mapping = file(&format!("laws-{name}.map"), &text);
        run(Command::new(programs().join("laws")).arg(mapping), "");
    }
}

#[test]
fn wrong_mappings_are_refused_with_line_and_reason() {
    run(&mut Command::new(programs().join("refusals")), "");
}

#[test]
fn the_kernels_parser_survives_nonsense() {
    let mappings: Vec<PathBuf> = ["rpi4-2g", "skl-e3-1220v5-4x4g", "zen3-ddr4-2r-full", "imx8m-4gb-lpddr4"]
        .into_iter()
        .map(|name| {
            let text = mapping(name);
            file(&format!("nonsense-{name}.map"), &text)
        })
        .collect();
    let seed = std::env::var("MEMTINT_SEED").unwrap_or_else(|_| "24301".to_owned());
    let said = run(Command::new(programs().join("mutate")).args([&seed, MUTATIONS]).args(mappings), "");
    let counts: Vec<u64> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(counts.iter().all(|&count| count > 1000), "both answers are heard often: {said}");
}
