//! Even shares of a platform for tasks: CPUs in turn, and bank classes or set colors in runs.
//!
//! A first division, not a plan: nothing is weighed.

use memtint_map::Palette;
use memtint_system::TaskEntry;
use memtint_units::{ByteSize, IndexList, IndexSet};

use crate::output::Failure;

/// Largest number of CPUs that Linux has.
pub(super) const CPUS_MAX: u32 = 8192;

/// Gives each task without CPUs a CPU that no task names while there are some, and then one after the other.
pub(super) fn cpus(tasks: &mut [TaskEntry], cpus: &[u32]) {
    let of = |task: &TaskEntry| task.cores.as_ref().and_then(|list| list.resolve(CPUS_MAX).ok());
    let named: Vec<IndexSet> = tasks.iter().filter_map(of).collect();
    let free: Vec<u32> = cpus.iter().copied().filter(|&cpu| !named.iter().any(|set| set.contains(cpu))).collect();
    let mut turns = if free.is_empty() { cpus } else { &free }.iter().cycle();
    for task in tasks.iter_mut().filter(|task| task.cores.is_none()) {
        task.cores = turns.next().map(|&cpu| IndexList::Only(vec![(cpu, cpu)]));
    }
}

/// Colors of one kind.
struct Dimension {
    name: &'static str,
    /// Those that exist, ascending, and how many granules are of each.
    colors: Vec<(u32, u64)>,
    field: fn(&mut TaskEntry) -> &mut Option<IndexList>,
}

impl Dimension {
    fn of(palette: &Palette) -> [Dimension; 2] {
        let existing = |granules: Vec<u64>| (0..).zip(granules).filter(|(_, granules)| *granules > 0).collect();
        [
            Dimension {
                name: "bank classes",
                colors: existing(palette.granules_of_bank_classes()),
                field: |task| &mut task.banks,
            },
            Dimension {
                name: "set colors",
                colors: existing(palette.granules_of_set_colors()),
                field: |task| &mut task.sets,
            },
        ]
    }

    /// Gives run `part` of `parts` that are as even as they can be.
    fn run(&self, part: usize, parts: usize) -> &[(u32, u64)] {
        let all = self.colors.len();
        &self.colors[part * all / parts..(part + 1) * all / parts]
    }
}

/// Gives each task colors that no other task has; where there are too few, tasks with a CPU in common share. Returns what each got, in words. A single
/// task gets half of the colors. Tasks that all name their colors keep them.
///
/// # Errors
/// Tasks of which some name their colors, and a platform with fewer colors than it takes.
pub(super) fn colors(tasks: &mut [TaskEntry], palette: &Palette) -> Result<Vec<Option<String>>, Failure> {
    let names = |task: &TaskEntry| task.banks.is_some() || task.sets.is_some() || task.node.is_some();
    if tasks.iter().all(names) {
        return Ok(vec![None; tasks.len()]);
    }
    if let Some(task) = tasks.iter().find(|task| names(task)) {
        let name = task.name.as_ref().map_or("", |name| name.as_str());
        return Err(Failure::Sentence(format!(
            "task {name:?} names its colors, and others do not; accepted is banks, sets or node for all tasks, or for none"
        )));
    }
    let alone: Vec<usize> = (0..tasks.len()).collect();
    let dimensions = Dimension::of(palette);
    for (owners, shared) in [(alone, false), (by_cpu(tasks), true)] {
        let parts = if tasks.len() == 1 { 2 } else { owners.iter().max().map_or(0, |last| last + 1) };
        let Some(dimension) = dimensions.iter().find(|dimension| dimension.colors.len() >= parts) else { continue };
        let divided = tasks.iter_mut().zip(&owners).map(|(task, &owner)| {
            let run = dimension.run(owner, parts);
            *(dimension.field)(task) = Some(IndexList::Only(ranges(run.iter().map(|(color, _)| *color))));
            let others = shared && owners.iter().filter(|other| **other == owner).count() > 1;
            if others {
                task.shared = Some(true);
            }
            let granules: u64 = run.iter().map(|(_, granules)| granules).sum();
            let size = ByteSize(granules * palette.granule().bytes());
            let with = if others { ", with the other tasks of its CPUs" } else { "" };
            Some(format!("{} of {} {}, {size}{with}", run.len(), dimension.colors.len(), dimension.name))
        });
        return Ok(divided.collect());
    }
    let fewer = if tasks.len() > 1 { ", fewer tasks, or more of them on the same CPUs" } else { "" };
    let [banks, sets] = dimensions.map(|dimension| dimension.colors.len());
    let (id, granule, count) = (palette.platform().id(), palette.granule(), tasks.len());
    Err(Failure::Sentence(format!(
        "platform {id:?} does not divide among this many tasks ({count}): at a granule of {granule} it has bank classes: {banks}, \
         set colors: {sets}; accepted is another --granule or platform{fewer}, or colors in each --task, such as banks=all shared=true"
    )))
}

/// Numbers groups of tasks, without gaps: those of a group have CPUs in common, directly or by way of others. Tasks of unknown CPUs are
/// alone.
fn by_cpu(tasks: &[TaskEntry]) -> Vec<usize> {
    let sets: Vec<Option<IndexSet>> =
        tasks.iter().map(|task| task.cores.as_ref().and_then(|list| list.resolve(CPUS_MAX).ok())).collect();
    let meet = |one: usize, other: usize| match (&sets[one], &sets[other]) {
        (Some(one), Some(other)) => !one.intersection(other).is_empty(),
        _ => false,
    };
    let mut owners: Vec<usize> = (0..tasks.len()).collect();
    for one in 0..tasks.len() {
        for other in (0..one).filter(|&other| meet(one, other)) {
            let (from, to) = (owners[one].max(owners[other]), owners[one].min(owners[other]));
            owners.iter_mut().filter(|owner| **owner == from).for_each(|owner| *owner = to);
        }
    }
    let mut firsts = owners.clone();
    firsts.sort_unstable();
    firsts.dedup();
    owners.iter().map(|owner| firsts.partition_point(|first| first < owner)).collect()
}

/// Runs of consecutive numbers.
fn ranges(numbers: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => all.push((number, number)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use memtint_map::{Granule, Platform};
    use memtint_system::Assignment;

    use super::super::task::read;
    use super::*;

    fn tasks(texts: &[&str]) -> Vec<TaskEntry> {
        texts.iter().map(|text| read(text).unwrap()).collect()
    }

    fn listed(list: &Option<IndexList>) -> String {
        list.as_ref().map_or_else(String::new, ToString::to_string)
    }

    fn palette(name: &str) -> Palette {
        Palette::new(&Platform::load(name).unwrap(), Granule::PAGE).unwrap()
    }

    #[test]
    fn cpus_that_no_task_names_come_first() {
        let given = |texts: &[&str], all: &[u32]| {
            let mut tasks = tasks(texts);
            cpus(&mut tasks, all);
            tasks.iter().map(|task| listed(&task.cores)).collect::<Vec<_>>()
        };
        assert_eq!(given(&["a", "b cores=0-1", "c", "d"], &[0, 1, 2, 3]), ["2", "0-1", "3", "2"]);
        assert_eq!(given(&["a", "b cores=0"], &[0]), ["0", "0"]);
        assert_eq!(given(&["a"], &[]), [""]);
    }

    /// What is divided is accepted by the checks of an assignment, for any number of tasks up to one more than the colors suffice for.
    #[test]
    fn shares_are_disjoint_and_complete() {
        for name in ["skl-e3-1220v5-4x4g", "jetson-nano", "p4080"] {
            let palette = palette(name);
            let classes = palette.occupied_bank_classes() as usize;
            for count in 2..=classes {
                let mut all = tasks(&vec!["x"; count]);
                for (task, number) in all.iter_mut().zip(0..) {
                    task.name = Some(memtint_system::Text::new(format!("t{number}")));
                }
                let told = colors(&mut all, &palette).unwrap();
                assert!(told.iter().all(Option::is_some));
                let lists =
                    all.iter().map(|task| task.banks.as_ref().unwrap().resolve(palette.bank_classes()).unwrap());
                assert_eq!(lists.map(|set| set.iter().count()).sum::<usize>(), classes, "{name}, {count} tasks");
                let mut file = memtint_system::SystemFile { tasks: all, ..Default::default() };
                file.platform = Some(memtint_system::Text::new(name));
                Assignment::of(&file, "f", std::path::Path::new("")).unwrap();
            }
        }
    }

    #[test]
    fn tasks_of_a_cpu_share_where_colors_are_few() {
        let palette = palette("jetson-nano");
        let mut all = tasks(&["a cores=0", "b cores=1", "c cores=0", "d cores=1", "e cores=2"]);
        let sets = palette.set_colors();
        // Set colors suffice for all, bank classes do not.
        assert!((palette.occupied_bank_classes() as usize) < all.len() && sets as usize >= all.len());
        colors(&mut all, &palette).unwrap();
        assert!(all.iter().all(|task| task.banks.is_none() && task.shared.is_none()));
        assert_eq!(listed(&all[4].sets), format!("{}-{}", sets * 4 / 5, sets - 1));

        let few = self::palette("imx8m-4gb-lpddr4");
        let classes = few.occupied_bank_classes();
        let texts: Vec<String> = (0..=classes).map(|number| format!("t{number} cores={}", number % 2)).collect();
        let mut all = tasks(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let told = colors(&mut all, &few).unwrap();
        assert_eq!((listed(&all[0].banks), listed(&all[1].banks)), ("0-3".to_owned(), "4-7".to_owned()));
        assert!(all.iter().all(|task| task.shared == Some(true)));
        assert!(told[2].as_ref().is_some_and(|told| told.ends_with("with the other tasks of its CPUs")), "{told:?}");
    }

    #[test]
    fn tasks_with_cpus_in_common_are_one_group() {
        let grouped = |texts: &[&str]| by_cpu(&tasks(texts));
        assert_eq!(grouped(&["a cores=0", "b cores=1", "c cores=0-1", "d cores=2", "e"]), [0, 0, 0, 1, 2]);
        assert_eq!(grouped(&["a cores=3", "b", "c cores=3", "d"]), [0, 1, 0, 2]);
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let one = palette("amd-df2-2ch-hash");
        let refused = |texts: &[&str]| colors(&mut tasks(texts), &one).unwrap_err().to_string();
        assert!(
            refused(&["a", "b"])
                .contains("tasks (2): at a granule of 4 KiB it has bank classes: 1, set colors: 1; accepted is"),
            "{}",
            refused(&["a", "b"])
        );
        assert!(refused(&["a banks=0", "b"]).starts_with("task \"a\" names its colors, and others do not"));
        assert_eq!(colors(&mut tasks(&["a banks=all shared=true"]), &one).unwrap(), [None]);
        let mut single = tasks(&["a"]);
        colors(&mut single, &palette("skl-e3-1220v5-4x4g")).unwrap();
        assert_eq!(listed(&single[0].banks), "0-7");
    }
}
