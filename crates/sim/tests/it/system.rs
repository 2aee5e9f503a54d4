//! Does a system file become the machine and the tasks that it describes?

use std::path::Path;

use memtint_sim::Scenario;
use memtint_sim::scenario::Time;
use memtint_units::Picoseconds;

const SYSTEM: &str = include_str!("../../../../examples/crs-machine.toml");

fn scenario(text: &str) -> Result<Scenario, String> {
    Scenario::parse(text, Path::new("test.toml")).map_err(|error| error.to_string())
}

fn changed(from: &str, to: &str) -> String {
    assert!(SYSTEM.contains(from), "{from}");
    SYSTEM.replacen(from, to, 1)
}

#[test]
fn servers_colors_and_memory_become_locks_budgets_and_instances() {
    let scenario = scenario(SYSTEM).unwrap();
    let spec = scenario.spec();
    let timetable = spec.timetable.as_ref().unwrap();
    let windows: Vec<(&str, Time)> = timetable.window.iter().map(|window| (&*window.ranks, window.start)).collect();
    let ms = |count: u64| Time(Picoseconds(count * 1_000_000_000));
    assert_eq!(windows, [("0-3", ms(32)), ("4-7", ms(0))]);
    assert_eq!((timetable.period, spec.density_gbit), (ms(64), Some(8)));
    let server = |at: usize| (spec.servers[at].ranks.as_deref(), spec.servers[at].budget);
    let us = |count: u64| Time(Picoseconds(count * 1_000_000));
    assert_eq!((server(0), server(1)), ((Some("0-3"), us(200)), (Some("4-7"), us(500))));
    let names: Vec<&str> = spec.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(names, ["gyro", "motor", "route", "camera", "gyro.2", "motor.2"]);
    let second = &spec.tasks[4];
    let place = (second.copy_of.as_deref(), second.server.as_deref(), second.ranks.as_deref());
    assert_eq!(place, (Some("gyro"), Some("S2"), Some("4-7")));
    assert_eq!((spec.tasks[0].copy, spec.tasks[2].copy), (us(20), us(0)), "of tasks with two instances only");
    // What is written is the same again, with other names for the colors.
    let written = scenario.to_system().unwrap().to_text();
    let again = self::scenario(&written).unwrap();
    assert_eq!(again.spec(), scenario.spec(), "{written}");
}

#[test]
fn servers_of_one_color_are_written_with_one() {
    let third = "[[server]]\nname = \"S3\"\ncolor = \"c1\"\nperiod = \"500 us\"\nbudget = \"1 us\"\n";
    let scenario = scenario(&format!("{SYSTEM}\n{third}")).unwrap();
    let written = scenario.to_system().unwrap();
    let colors: Vec<_> = written.servers.iter().map(|server| server.color.as_ref().unwrap().as_str()).collect();
    assert_eq!((written.colors.len(), colors), (2, vec!["S1", "S2", "S1"]));
    assert_eq!(self::scenario(&written.to_text()).unwrap().spec(), scenario.spec());
}

/// A budget of a task holds for both of its instances.
#[test]
fn second_instances_are_in_the_groups_of_the_first() {
    let members = |text: &str| {
        let scenario = scenario(text).unwrap();
        scenario.spec().groups[0].tasks.iter().map(|task| task.as_str().to_owned()).collect::<Vec<_>>()
    };
    let group = "\n[[group]]\nname = \"g\"\ntasks = [\"gyro\"]\nmb_per_s = 10\n";
    let given = "bandwidth = { guaranteed_mb_per_s = 1000 }\nsystem = {";
    let text = changed("system = {", given);
    assert_eq!(members(&format!("{text}{group}")), ["gyro", "gyro.2"]);
    let budget = "name = \"gyro\"\nbandwidth = { budget = \"64 KiB\", period = \"1 ms\" }\n";
    assert_eq!(members(&text.replacen("name = \"gyro\"\n", budget, 1)), ["gyro", "gyro.2"]);
}

#[test]
fn policies_of_servers_become_priorities() {
    let order = |policy: &str| {
        let text = SYSTEM.replace("name = \"S1\"\n", &format!("name = \"S1\"\nscheduling = \"{policy}\"\n"));
        let scenario = scenario(&text)?;
        Ok::<Vec<u32>, String>(scenario.spec().tasks.iter().map(|task| task.priority).collect())
    };
    // Those of S2 have deadlines.
    assert_eq!(order("edf").unwrap(), [0; 6]);
    assert_eq!(order("rm").unwrap(), [1, 2, 4, 0, 0, 0]);
    assert_eq!(order("dm").unwrap(), [1, 2, 4, 0, 0, 0]);
    assert!(order("fp").unwrap_err().contains("task \"gyro\": priority is missing"));
}

#[test]
fn what_a_simulation_cannot_do_is_refused() {
    let cases = [
        (changed("ranks = 8\n", "ranks = 16\n"), "memory.ranks is 16; accepted is 8, as of each channel"),
        (changed("density = 8\n", "t_rfc = \"350 ns\"\n"), "memory.t_rfc is 350 ns; accepted is density"),
        (
            changed("[simulation]\n", "[simulation]\ndensity_gbit = 4\n"),
            "memory.density is 8; accepted is 4, which is simulation.density_gbit",
        ),
        (
            changed("color = \"c1\"\n", "color = \"c3\"\n"),
            "server \"S1\": color is \"c3\"; accepted is the name of a table",
        ),
        (
            changed("name = \"c2\"\nranks = \"4-7\"", "name = \"c2\"\nranks = \"3-7\""),
            "color \"c2\": ranks is 3; accepted is ranks that no other color has",
        ),
        (changed("name = \"c2\"\n", "name = \"c1\"\n"), "color \"c1\": name is used twice"),
        (changed("budget = \"200 us\"\n", ""), "server \"S1\": missing: budget"),
        (changed("server = \"S1\"\n", "server = \"S3\"\n"), "task \"gyro\": server is S3; accepted is S1, S2"),
        (changed("references = 700\n", ""), "task \"gyro\": references is missing"),
        (
            SYSTEM.to_owned() + "[[task]]\nname = \"c\"\ncopy_of = \"gyro\"\nreferences = 5\n",
            "task \"c\": references is given beside copy_of; accepted is none, as that of task \"gyro\" is meant",
        ),
        (
            SYSTEM.to_owned() + "[[task]]\nname = \"c\"\ncopy_of = \"gyro\"\nprogram = \"refresh/lms\"\n",
            "task \"c\": workload is not that of copy_of",
        ),
        (
            SYSTEM.to_owned()
                + "[simulation.table]\ncycle = \"1 ms\"\ncore = 4294967295\nslot = [{ task = \"gyro\", start = \"0 ms\", length = \"1 ms\" }]\n",
            "simulation.table is given",
        ),
        (changed("mhz = 1000", "mhz = 0"), "simulation.cores.mhz is 0; accepted is 1 to 20000"),
    ];
    for (text, expected) in cases {
        let error = scenario(&text).map(|_| ()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
