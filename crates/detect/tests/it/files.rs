//! Is a machine read right from the files that the kernel shows of it? A made-up one with two sockets and two nodes.

use std::path::{Path, PathBuf};

use memtint_detect::{CacheKind, EdacKind, Machine, MemoryRange};

struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("memtint-detect-{name}-{}", std::process::id())))
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("the temporary directory is writable");
        std::fs::write(path, text).expect("the temporary directory is writable");
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // What is left behind in the temporary directory does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two sockets of two cores of two threads each; threads of a core are neighbours in number; CPU 7 is offline.
fn two_sockets() -> Tree {
    let tree = Tree::new("sockets");
    for cpu in 0..8u32 {
        let at = |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/{name}");
        let (socket, core) = (cpu / 4, cpu / 2 % 2);
        if cpu == 7 {
            tree.file(&at("online"), "0\n");
            continue;
        }
        tree.file(&at("topology/core_id"), &format!("{core}\n"));
        tree.file(&at("topology/physical_package_id"), &format!("{socket}\n"));
        let own = if cpu == 6 { "6".to_owned() } else { format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1) };
        let all = if socket == 0 { "0-3" } else { "4-6" };
        for (index, level, kind, size, sets, shared) in
            [(0, 1, "Data", "32K", 64, own.as_str()), (1, 3, "Unified", "22528K", 32768, all)]
        {
            let at = |name: &str| at(&format!("cache/index{index}/{name}"));
            tree.file(&at("level"), &format!("{level}\n"));
            tree.file(&at("type"), &format!("{kind}\n"));
            tree.file(&at("size"), &format!("{size}\n"));
            tree.file(&at("number_of_sets"), &format!("{sets}\n"));
            tree.file(&at("ways_of_associativity"), "0\n");
            tree.file(&at("coherency_line_size"), "64\n");
            tree.file(&at("shared_cpu_list"), &format!("{shared}\n"));
        }
    }
    tree.file("sys/devices/system/memory/block_size_bytes", "8000000\n");
    for (node, blocks) in [(0, 0..8), (1, 8..16)] {
        let at = |name: String| format!("sys/devices/system/node/node{node}/{name}");
        tree.file(&at("cpulist".to_owned()), if node == 0 { "0-3\n" } else { "4-6\n" });
        tree.file(
            &at("meminfo".to_owned()),
            &format!("Node {node} MemTotal:  1048576 kB\nNode {node} MemFree: 1 kB\n"),
        );
        for block in blocks {
            tree.file(&at(format!("memory{block}/state")), "online\n");
        }
    }
    tree.file("proc/iomem", "00001000-7fffffff : System RAM\n  01000000-01ffffff : Kernel code\n");
    tree.file("sys/class/dmi/id/sys_vendor", "A maker\n");
    tree.file("sys/firmware/acpi/tables/SRAT", "");
    tree.file("sys/firmware/acpi/tables/dynamic/SSDT1", "");
    tree
}

#[test]
fn cores_caches_and_nodes_are_counted_once() {
    let tree = two_sockets();
    let machine = Machine::read_files(&tree.0);
    assert_eq!((machine.cores.online_cpus, machine.cores.cores, machine.cores.sockets), (7, 4, 2));

    let last = machine.last_level_cache().expect("two of them");
    assert_eq!((last.level, last.kind, last.size_bytes), (3, CacheKind::Unified, 22 << 20));
    assert_eq!((last.ways, last.line_bytes, last.sets), (None, Some(64), Some(32768)));
    let instances =
        |level| machine.caches.iter().filter(|cache| cache.level == level).map(|cache| cache.instances).sum();
    assert_eq!((instances(1), instances(3)), (4u32, 2u32));

    let half = 0x4000_0000;
    let range = |start, end, node| MemoryRange { start, end, node };
    assert_eq!(machine.memory, [range(0x1000, half, 0), range(half, 2 * half, 1)]);
    assert_eq!((machine.nodes[1].memory_bytes, machine.nodes[1].cpus.as_str()), (1 << 30, "4-6"));
    assert_eq!(machine.firmware.vendor.as_deref(), Some("A maker"));
    assert_eq!(machine.firmware.acpi_tables, ["SRAT"]);
}

#[test]
fn edac_says_where_modules_are() {
    let tree = Tree::new("edac");
    let mc = "sys/devices/system/edac/mc";
    for (place, text) in [
        ("mc0/mc_name", "F17h"),
        ("mc0/size_mb", "16384"),
        ("mc0/rank1/size", "8192"),
        ("mc0/rank1/dimm_label", "CPU0_A1"),
        ("mc0/rank1/dimm_location", "channel 1 csrow 0"),
        ("mc0/rank1/dimm_mem_type", "Registered-DDR4"),
        ("mc0/rank0/size", "8192"),
        ("mc0/rank2/size", "0"),
        // The older interface beside it counts the same memory again.
        ("mc0/csrow0/size_mb", "16384"),
        ("mc1/mc_name", "F10h"),
        ("mc1/csrow0/size_mb", "2048"),
        ("mc1/csrow0/mem_type", "Unbuffered-DDR3"),
        ("mc1/csrow0/ch0_dimm_label", "mc#1csrow#0channel#0"),
    ] {
        tree.file(&format!("{mc}/{place}"), &format!("{text}\n"));
    }
    let geometry = Machine::read_files(&tree.0).geometry;
    let [first, second] = geometry.controllers.as_slice() else { panic!("{geometry:?}") };
    assert_eq!((first.name.as_str(), first.size_bytes, second.size_bytes), ("F17h", Some(16 << 30), None));
    let numbers: Vec<_> = first.parts.iter().map(|part| (part.kind, part.number, part.size_bytes)).collect();
    assert_eq!(numbers, [(EdacKind::Rank, 0, 8 << 30), (EdacKind::Rank, 1, 8 << 30)]);
    let labelled = &first.parts[1];
    assert_eq!(
        (labelled.label.as_str(), labelled.location.as_str(), labelled.memory.as_str()),
        ("CPU0_A1", "channel 1 csrow 0", "Registered-DDR4")
    );
    assert_eq!((second.parts[0].kind, second.parts[0].size_bytes), (EdacKind::CsRow, 2 << 30));
    assert_eq!(geometry.bank_functions(), None);
}

#[test]
fn modules_say_how_many_banks_there_are() {
    let tree = Tree::new("spd");
    // DDR4: 4 groups of 4 banks, 16 row bits, 10 column bits, 2 ranks, 64 bits wide.
    let mut spd = vec![0u8; 512];
    for (index, value) in [(2, 0x0c), (4, 0x85), (5, 0x21), (12, 0x09), (13, 0x03)] {
        spd[index] = value;
    }
    for place in ["0-0050", "0-0052"] {
        tree.file(&format!("sys/bus/i2c/devices/{place}/name"), "ee1004\n");
        std::fs::write(tree.0.join(format!("sys/bus/i2c/devices/{place}/eeprom")), &spd).expect("it is writable");
    }
    tree.file("sys/bus/i2c/devices/0-0018/name", "jc42\n");
    let geometry = Machine::read_files(&tree.0).geometry;
    let modules: Vec<_> = geometry.modules.iter().map(|module| (module.place.as_str(), module.size_bytes)).collect();
    assert_eq!(modules, [("0-0050", 16 << 30), ("0-0052", 16 << 30)]);
    // Two modules of two ranks of 16 banks.
    assert_eq!(geometry.bank_functions(), Some(6));
}
