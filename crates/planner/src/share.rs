//! Even shares of a platform for tasks: CPUs in turn, and bank classes or set colors in runs.
//!
//! A first division, not a plan: it weighs nothing.

use memtint_map::{Granule, Palette};
use memtint_system::TaskEntry;
use memtint_units::{ByteSize, IndexList, IndexSet, Picoseconds};

/// Largest number of CPUs that Linux has.
pub const CPUS_MAX: u32 = 8192;

/// The reason why a platform cannot be divided among tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// Budgets have different periods, but a regulator has only one.
    #[error(
        "task {task:?}: bandwidth.period is {found}; accepted is {accepted}, as of the tasks before it: a regulator has one period"
    )]
    Periods {
        /// A task.
        task: String,
        /// Its period.
        found: Picoseconds,
        /// The period of the tasks before it.
        accepted: Picoseconds,
    },
    /// Some tasks name their colors, and others do not.
    #[error(
        "task {task:?} names its colors, and others do not; accepted is banks, sets or node for all tasks, or for none"
    )]
    Named {
        /// A task that names its colors.
        task: String,
    },
    /// The platform has too few colors.
    #[error(
        "platform {platform:?} does not divide among this many tasks ({tasks}): at a granule of {granule} it has bank classes: {banks}, \
         set colors: {sets}; accepted is another --granule or platform{}, or colors in each --task, such as banks=all shared=true",
        if *.tasks > 1 { ", fewer tasks, or more of them on the same CPUs" } else { "" }
    )]
    Few {
        /// The platform's name.
        platform: String,
        /// How many tasks there are.
        tasks: usize,
        /// The block that is colored.
        granule: Granule,
        /// Bank classes with memory.
        banks: usize,
        /// Set colors with memory.
        sets: usize,
    },
}

/// The colors of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The kind of color: "bank classes" or "set colors".
    pub kind: &'static str,
    /// How many the task has.
    pub colors: usize,
    /// How many there are.
    pub of: usize,
    /// Memory of the task's colors.
    pub size: ByteSize,
    /// Other tasks on the same CPUs have the same colors.
    pub with_others: bool,
}

/// Tasks with CPUs and colors.
#[derive(Clone, Debug)]
pub struct Division {
    /// The tasks.
    pub tasks: Vec<TaskEntry>,
    /// The share of each task, in the same order; `None` where tasks name their colors themselves.
    pub shares: Vec<Option<Share>>,
}

/// Divides CPUs and a platform's colors among tasks.
///
/// Tasks without CPUs get, in turn, the CPUs of `cpus` that no task names, or all of `cpus` if there are none. Each
/// task gets colors that no other task has; where there are too few, tasks with a CPU in common share. A single task
/// gets half of the colors. If all tasks name their colors, they keep them.
///
/// # Errors
/// [`ShareError`] for budgets with different periods, for colors that only some of the tasks name, and for a platform
/// with too few colors.
pub fn divide(mut tasks: Vec<TaskEntry>, cpus: &[u32], palette: &Palette) -> Result<Division, ShareError> {
    give_cpus(&mut tasks, cpus);
    one_period(&tasks)?;
    let shares = give_colors(&mut tasks, palette)?;
    Ok(Division { tasks, shares })
}

fn give_cpus(tasks: &mut [TaskEntry], cpus: &[u32]) {
    let of = |task: &TaskEntry| task.cores.as_ref().and_then(|list| list.resolve(CPUS_MAX).ok());
    let named: Vec<IndexSet> = tasks.iter().filter_map(of).collect();
    let free: Vec<u32> = cpus.iter().copied().filter(|&cpu| !named.iter().any(|set| set.contains(cpu))).collect();
    let mut turns = if free.is_empty() { cpus } else { &free }.iter().cycle();
    for task in tasks.iter_mut().filter(|task| task.cores.is_none()) {
        task.cores = turns.next().map(|&cpu| IndexList::Only(vec![(cpu, cpu)]));
    }
}

/// Refuses budgets with different periods, which no regulator can enforce.
fn one_period(tasks: &[TaskEntry]) -> Result<(), ShareError> {
    let mut budgets = tasks.iter().filter_map(|task| Some((task.name.as_ref()?, task.bandwidth?.period.0)));
    let Some((_, accepted)) = budgets.next() else { return Ok(()) };
    match budgets.find(|&(_, other)| other != accepted) {
        None => Ok(()),
        Some((name, found)) => Err(ShareError::Periods { task: name.as_str().to_owned(), found, accepted }),
    }
}

/// Colors of one kind.
struct Dimension {
    name: &'static str,
    /// Colors that exist, ascending, and the number of granules of each.
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

    /// Returns run `part` of `parts`, which are as even as possible.
    fn run(&self, part: usize, parts: usize) -> &[(u32, u64)] {
        let all = self.colors.len();
        &self.colors[part * all / parts..(part + 1) * all / parts]
    }
}

fn give_colors(tasks: &mut [TaskEntry], palette: &Palette) -> Result<Vec<Option<Share>>, ShareError> {
    let names = |task: &TaskEntry| task.banks.is_some() || task.sets.is_some() || task.node.is_some();
    if tasks.iter().all(names) {
        return Ok(vec![None; tasks.len()]);
    }
    if let Some(task) = tasks.iter().find(|task| names(task)) {
        return Err(ShareError::Named { task: task.name.as_ref().map_or("", |name| name.as_str()).to_owned() });
    }
    let alone: Vec<usize> = (0..tasks.len()).collect();
    let dimensions = Dimension::of(palette);
    for (owners, shared) in [(alone, false), (by_cpu(tasks), true)] {
        let parts = if tasks.len() == 1 { 2 } else { owners.iter().max().map_or(0, |last| last + 1) };
        let Some(dimension) = dimensions.iter().find(|dimension| dimension.colors.len() >= parts) else { continue };
        let divided = tasks.iter_mut().zip(&owners).map(|(task, &owner)| {
            let run = dimension.run(owner, parts);
            *(dimension.field)(task) = Some(IndexList::Only(ranges(run.iter().map(|(color, _)| *color))));
            let with_others = shared && owners.iter().filter(|other| **other == owner).count() > 1;
            if with_others {
                task.shared = Some(true);
            }
            let granules: u64 = run.iter().map(|(_, granules)| granules).sum();
            let size = ByteSize(granules * palette.granule().bytes());
            Some(Share { kind: dimension.name, colors: run.len(), of: dimension.colors.len(), size, with_others })
        });
        return Ok(divided.collect());
    }
    let [banks, sets] = dimensions.map(|dimension| dimension.colors.len());
    let (platform, granule) = (palette.platform().id().to_owned(), palette.granule());
    Err(ShareError::Few { platform, tasks: tasks.len(), granule, banks, sets })
}

/// Numbers groups of tasks, without gaps. Tasks of a group have CPUs in common, directly or through other tasks. A task
/// of unknown CPUs forms its own group.
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

    use super::*;

    /// Tasks of texts such as `a cores=0`.
    fn tasks(texts: &[&str]) -> Vec<TaskEntry> {
        let task = |text: &&str| {
            let mut words = text.split(' ');
            let name = words.next().unwrap();
            let fields: Vec<(&str, &str)> = words.map(|word| word.split_once('=').unwrap()).collect();
            TaskEntry::of_texts("test", name, &fields, &[]).unwrap()
        };
        texts.iter().map(task).collect()
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
            give_cpus(&mut tasks, all);
            tasks.iter().map(|task| listed(&task.cores)).collect::<Vec<_>>()
        };
        assert_eq!(given(&["a", "b cores=0-1", "c", "d"], &[0, 1, 2, 3]), ["2", "0-1", "3", "2"]);
        assert_eq!(given(&["a", "b cores=0"], &[0]), ["0", "0"]);
        assert_eq!(given(&["a"], &[]), [""]);
    }

    /// The checks of an assignment accept every division, for any number of tasks up to one more than the colors
    /// suffice for.
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
                let told = give_colors(&mut all, &palette).unwrap();
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
        give_colors(&mut all, &palette).unwrap();
        assert!(all.iter().all(|task| task.banks.is_none() && task.shared.is_none()));
        assert_eq!(listed(&all[4].sets), format!("{}-{}", sets * 4 / 5, sets - 1));

        let few = self::palette("imx8m-4gb-lpddr4");
        let classes = few.occupied_bank_classes();
        let texts: Vec<String> = (0..=classes).map(|number| format!("t{number} cores={}", number % 2)).collect();
        let mut all = tasks(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let told = give_colors(&mut all, &few).unwrap();
        assert_eq!((listed(&all[0].banks), listed(&all[1].banks)), ("0-3".to_owned(), "4-7".to_owned()));
        assert!(all.iter().all(|task| task.shared == Some(true)));
        assert!(told[2].is_some_and(|share| share.with_others), "{told:?}");
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
        let refused = |texts: &[&str]| give_colors(&mut tasks(texts), &one).unwrap_err().to_string();
        assert!(
            refused(&["a", "b"])
                .contains("tasks (2): at a granule of 4 KiB it has bank classes: 1, set colors: 1; accepted is"),
            "{}",
            refused(&["a", "b"])
        );
        assert!(refused(&["a banks=0", "b"]).starts_with("task \"a\" names its colors, and others do not"));
        assert_eq!(give_colors(&mut tasks(&["a banks=all shared=true"]), &one).unwrap(), [None]);
        let mut single = tasks(&["a"]);
        give_colors(&mut single, &palette("skl-e3-1220v5-4x4g")).unwrap();
        assert_eq!(listed(&single[0].banks), "0-7");
    }

    #[test]
    fn budgets_have_one_period() {
        let divided = |texts: &[&str]| divide(tasks(texts), &[0, 1], &palette("skl-e3-1220v5-4x4g"));
        assert!(divided(&["a bandwidth=1MiB/1ms", "b", "c bandwidth=2MiB/1ms"]).is_ok());
        let error = divided(&["a bandwidth=1MiB/1ms", "b bandwidth=1MiB/2ms"]).unwrap_err().to_string();
        assert!(
            error.starts_with("task \"b\": bandwidth.period is 2 ms; accepted is 1 ms, as of the tasks before it"),
            "{error}"
        );
    }
}
